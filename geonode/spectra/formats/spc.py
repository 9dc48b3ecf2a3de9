"""Spectra as SPC files of GRAMS (Galactic Industries), read by the package spc-io.

The package reads the new format with the least significant byte first, which instruments write
since 1996; the old one (0x4D) is refused, and so are numbers scaled by an exponent that the file
and the spectrum do not agree about. A file of one spectrum calls it by the name of the file; of
several, by their place along z, such as a time, which is no concentration.
"""

import io
import logging
from pathlib import Path
from typing import Any

import numpy as np

from geonode.errors import SpectraError
from geonode.spectra.common_axis import on_common_axis
from geonode.spectra.sheet import Sheet, Understood, require_values
from geonode.storage.seal import require_file

LARGEST_FILE = 2**27
"""Bytes."""

MOST_SPECTRA = 10_000
"""Of a file."""

FLOATS = -0x80
"""Exponent that says that numbers are of floating point."""

AXES = {
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

_HEADER = 512  # bytes


def read_spc(path: Path) -> Sheet:
    """Spectra of a file.

    Raises:
        SpectraError: it is damaged, of the old format, or larger than a file of spectra.
        OSError: it cannot be read.
    """
    from spc_io import SPC  # noqa: PLC0415 - few files need it
    from spc_io.low_level import SpcRaw  # noqa: PLC0415

    if require_file(path).stat().st_size > LARGEST_FILE:
        raise SpectraError(f"found more than {LARGEST_FILE} bytes, expected a smaller file")
    content = path.read_bytes()
    _check(content)
    logging.getLogger("spc_io").setLevel(logging.ERROR)
    try:
        raw = SpcRaw.from_bytes_io(io.BytesIO(content))
        _refuse_exponents(raw)
        found = SPC.from_spc_raw(raw)
        axes = [np.asarray(one.xarray, float) for one in found]
        values = [np.asarray(one.yarray, float) for one in found]
        kind, signal = str(found.xtype), str(found.ytype)
        along = [one.z for one in found]
    except SpectraError:
        raise
    except Exception as error:  # of a damaged part, whatever it is
        raise SpectraError(f"found no SPC file that can be read ({error!r:.80})") from error
    places = [f"spectrum {number}" for number in range(1, len(axes) + 1)]
    names = [place if z is None else f"{z:g}" for place, z in zip(places, along, strict=True)]
    if any(not np.isfinite(one).all() for one in (*axes, *values)):
        raise SpectraError("found NaN or infinity, expected finite numbers")
    axis, spectra, notes = on_common_axis(axes, values, places)
    axis_name, axis_unit = AXES.get(kind, ("axis", "1"))
    return Sheet(
        names=names if len(names) > 1 else [path.stem],
        axis=axis,
        axis_name=axis_name,
        axis_unit=axis_unit,
        values=spectra,
        name_places=places,
        axis_places=[f"point {number}" for number in range(1, len(axis) + 1)],
        understood=Understood(f"SPC, axis {kind}, signal {signal}", notes=notes),
        names_are="other",
        signal=SIGNALS.get(signal),
    )


def _check(content: bytes) -> None:
    """Refuse what says of itself that it is no such file, or larger than it is."""
    if len(content) < _HEADER or content[1] not in (0x4B, 0x4C, 0x4D):
        raise SpectraError("found no header of an SPC file, expected one of GRAMS")
    if content[1] != 0x4B:
        said = "old format (0x4D)" if content[1] == 0x4D else "byte order (0x4C)"
        raise SpectraError(
            f"found an SPC file of the {said}, which spc-io does not read; save it in the new "
            "format, or as JCAMP-DX"
        )
    points, spectra = (int.from_bytes(content[at : at + 4], "little") for at in (4, 24))
    each = 0x40 & content[0]  # every spectrum has an axis of its own, and the points elsewhere
    if not 1 <= spectra <= MOST_SPECTRA or (not each and 2 * points * spectra > len(content)):
        raise SpectraError(
            f"found {len(content)} bytes of {spectra} spectra of {points} points, expected as many "
            "as are there; export the file again"
        )
    require_values(points * spectra if not each else 0)


def _refuse_exponents(raw: Any) -> None:
    """Refuse whole numbers whose exponent is not the same in the file and in the spectrum."""
    of_file = int(raw.main_header.fexp)
    for number, one in enumerate(raw.subs, start=1):
        of_one = int(one.header.subexp)
        if FLOATS not in (of_file, of_one) and of_file != of_one:
            raise SpectraError(
                f"spectrum {number}: found exponents {of_file} and {of_one} of its numbers, "
                "expected one; save it with floating-point numbers, or as JCAMP-DX"
            )
