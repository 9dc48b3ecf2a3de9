"""Spectra as SPC files of GRAMS (Galactic Industries), read by the package spc-io.

The package reads the new format with the least significant byte first, which instruments have
written since 1996. The old one (0x4D) is made a new one first, by the description in SPC.H of the
SPC software development kit (Galactic Industries, 1997): its header contains that of the first
spectrum, and the halves of its 32-bit integers are swapped. Numbers scaled by an exponent that the
file and the spectrum disagree about are refused. A file of one spectrum names it like the file; one
of several names each by its place along z, such as a time, which is no concentration.
"""

import io
import logging
import struct
from pathlib import Path

import numpy as np

from geonode.errors import SpectraError
from geonode.reading.refusals import LARGEST_BINARY, errors_explained, require_at_most
from geonode.reading.sheet import Sheet, Understood
from geonode.spectra.arrays import require_values
from geonode.spectra.common_axis import on_common_axis
from geonode.storage.seal import require_file

MOST_SPC_SPECTRA = 10_000
"""Spectra of a file."""

FLOATS = -0x80
"""Exponent that marks floating-point numbers."""

SPC_AXES = {
    "XNMETR": ("wavelength", "nm"),
    "XUMETR": ("wavelength", "um"),
    "XWAVEN": ("wavenumber", "cm-1"),
    "XRAMANS": ("raman_shift", "cm-1"),
    "XEV": ("photon_energy", "eV"),
}
"""Name and unit of the axis, by its type."""

SIGNALS = {
    "YABSRB": "absorbance",
    "YCOUNT": "counts",
    "YINTENS": "intensity",
    "YTRANS": "transmittance",
    "YREFLEC": "reflectance",
    "YEMISN": "emission",
}
"""Quantity that was measured, by the type in the file."""

_HEADER, _OLD_HEADER, _OF_ONE = 512, 224, 32  # bytes: of files, and before each spectrum


def read_spc(path: Path) -> Sheet:
    """Spectra of a file.

    Raises:
        SpectraError: it is damaged, of the other byte order, or too large.
        OSError: it cannot be read.
    """
    from spc_io import SPC  # noqa: PLC0415 - few files need it
    from spc_io.low_level import SpcRaw  # noqa: PLC0415

    require_at_most(LARGEST_BINARY, require_file(path).stat().st_size)
    content = path.read_bytes()
    if content[1:2] == b"\x4d":
        content = _renewed(content)
    _require_header(content)
    logging.getLogger("spc_io").setLevel(logging.ERROR)
    with errors_explained("SPC file"):
        raw = SpcRaw.from_bytes_io(io.BytesIO(content))
        found = SPC.from_spc_raw(raw)
        axes = [np.asarray(one.xarray, float) for one in found]
        values = [np.asarray(one.yarray, float) for one in found]
        of_file, exponents = raw.main_header.fexp, [one.header.subexp for one in raw.subs]
        kind, signal = str(found.xtype), str(found.ytype)
        along = [one.z for one in found]
    for number, of_one in enumerate(exponents, start=1):
        if FLOATS not in (of_file, of_one) and of_file != of_one:
            raise SpectraError(
                f"spectrum {number}: found exponents {of_file} and {of_one} of its numbers, "
                "expected one; save it with floating-point numbers, or as JCAMP-DX"
            )
    places = [f"spectrum {number}" for number in range(1, len(axes) + 1)]
    names = [place if z is None else f"{z:g}" for place, z in zip(places, along, strict=True)]
    if any(not np.isfinite(one).all() for one in (*axes, *values)):
        raise SpectraError("found NaN or infinity, expected finite numbers")
    axis, spectra, notes = on_common_axis(axes, values, places)
    axis_name, axis_unit = SPC_AXES.get(kind, ("axis", "1"))
    return Sheet(
        names=names if len(names) > 1 else [path.stem],
        axis=axis,
        axis_name=axis_name,
        axis_unit=axis_unit,
        values=spectra,
        name_places=places,
        axis_places=[f"point {number}" for number in range(1, len(axis) + 1)],
        understood=Understood(f"SPC, axis {kind}, signal {signal}", notes=notes),
        of_samples=True,
        signal=SIGNALS.get(signal),
    )


def _require_header(content: bytes) -> None:
    """Refuse what is no such file, or claims more spectra than it has bytes for."""
    if len(content) < _HEADER or content[1] not in (0x4B, 0x4C):
        raise SpectraError("found no header of an SPC file, expected one of GRAMS")
    if content[1] == 0x4C:
        raise SpectraError(
            "found an SPC file of the byte order (0x4C), which spc-io does not read; save it in "
            "the other one, or as JCAMP-DX"
        )
    points, spectra = (int.from_bytes(content[at : at + 4], "little") for at in (4, 24))
    own_axes = 0x40 & content[0]  # each spectrum has its own axis, and its points stand elsewhere
    if not 1 <= spectra <= MOST_SPC_SPECTRA or (
        not own_axes and 2 * points * spectra > len(content)
    ):
        raise SpectraError(
            f"found {len(content)} bytes of {spectra} spectra of {points} points, expected as many "
            "as are there; export the file again"
        )
    if not own_axes:
        require_values(points * spectra)


def _renewed(content: bytes) -> bytes:
    """A file of the old format in the new one."""
    head, rest = content[:_OLD_HEADER].ljust(_OLD_HEADER, b"\0"), content[_OLD_HEADER:]
    flags, _, exponent, points, first, last, x, y, year = struct.unpack("<BBhfffBBH", head[:20])
    is_short, is_multiple = bool(flags & 0x01), bool(flags & 0x04)
    is_known = not flags & 0xC0 and -0x80 < exponent < 0x80 and 1 <= points < 2**24
    size = _OF_ONE + (2 if is_short else 4) * int(points) if is_known else len(content)
    count = min(len(rest) // size, MOST_SPC_SPECTRA + 1 if is_multiple else 1)
    if not count or points != int(points) or rest[count * size :].strip(b"\0\x1a"):
        raise SpectraError(
            f"found {len(content)} bytes of spectra of {points:g} points, flags {flags:#x}, "
            f"exponent {exponent} in an SPC file of the old format, expected integers on an even "
            "axis, as many as are there; save it in the new format, or as JCAMP-DX"
        )
    has_labels = year >> 12 == 15  # in place of the types of its axes
    kinds = (0, y, 0) if has_labels else (x, y, year >> 12)
    about = flags & ~0x20, 0x4B, 0, exponent, int(points), first, last, count, *kinds
    parts = [struct.pack("<BBBbIddIBBB", *about).ljust(_HEADER, b"\0")]
    for start in range(0, count * size, size):
        one, numbers = rest[start : start + _OF_ONE], rest[start + _OF_ONE : start + size]
        words = np.frombuffer(numbers, "<u2")
        of_one = one[1:2] if is_multiple else struct.pack("<b", exponent)
        swapped = words if is_short else words.reshape(-1, 2)[:, ::-1]
        parts += [one[:1] + of_one + one[2:], swapped.tobytes()]
    return b"".join(parts)
