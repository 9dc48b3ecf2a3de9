"""SPC files, as bytes that are packed from the description of the format (SPC.H, Galactic 1997)."""

import struct
import warnings

import numpy as np
import pytest

from geonode.errors import SpectraError
from geonode.reading.files import read_spectra
from tests.reading.tables import NAMES, SPECTRA, assert_series, read_table


def spc(values, exponent=-128, of_one=-128):
    header = struct.pack("<BBBbIddI", 0, 0x4B, 0, exponent, len(values), 400, 430, 1)
    header += struct.pack("<BBB", 3, 2, 0)
    one = struct.pack("<BbHfffIIf", 0, of_one, 0, 0.0, 0.0, 0.0, 0, 0, 0.0)
    kinds = "f" if -128 in (exponent, of_one) else "i"
    scale = 1 if kinds == "f" else 2.0 ** (32 - exponent)
    numbers = (v if kinds == "f" else round(v * scale) for v in values)
    body = struct.pack(f"<{len(values)}{kinds}", *numbers)
    return header.ljust(512, b"\0") + one.ljust(32, b"\0") + body


def old_spc(spectra, exponent=2, flags=0, points=None, ends=(400, 430)):
    points = points or len(spectra[0])
    head = struct.pack("<BBhfffBB", flags, 0x4D, exponent, points, *ends, 3, 2).ljust(224, b"\0")
    for at, values in enumerate(spectra):
        head += struct.pack("<BbHff", 0, exponent, at, 5 + at, 6 + at).ljust(32, b"\0")
        for value in values:
            high, low = divmod(round(value * 2 ** (32 - exponent)), 2**16)
            head += struct.pack("<h", high) + (b"" if flags & 1 else struct.pack("<H", low))
    return head


def test_spc_files_of_the_old_format_are_read(tmp_path, file):
    for name, values in zip(NAMES, SPECTRA, strict=True):
        (tmp_path / f"As_{name}ppb.spc").write_bytes(old_spc([values[::-1]], ends=(430, 400)))
    assert_series(read_table(tmp_path), "ppb", rtol=1e-8)
    several = read_spectra(file(old_spc(-SPECTRA, flags=4) + b"\0" * 9, "several.spc"))
    assert several.names == ["5", "6", "7", "8"]
    np.testing.assert_allclose(several.values, -SPECTRA, rtol=1e-8)
    short = read_spectra(file(old_spc(-SPECTRA[:1], flags=1), "short.spc"))
    np.testing.assert_allclose(short.values, -SPECTRA[:1], atol=2**-14)


@pytest.mark.parametrize("exponent", [-128, 2])
def test_spc_files_are_read(tmp_path, exponent):
    for name, values in zip(NAMES, SPECTRA, strict=True):
        content = spc(values, exponent=exponent, of_one=exponent)
        (tmp_path / f"As_{name}ppb.spc").write_bytes(content)
    assert_series(read_table(tmp_path), "ppb", rtol=1e-6)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (old_spc(SPECTRA[:1])[:-1], "bytes of spectra of 4 points.*old format.* as are there"),
        (old_spc(SPECTRA[:2]), "old format"),  # of one, by its flags
        (old_spc(SPECTRA[:1], flags=0x80), "flags 0x80"),
        (old_spc(SPECTRA[:1], points=np.nan), "spectra of nan points"),
        (spc(SPECTRA[0])[:-9], "found no SPC file|bytes of 1 spectra"),
        (spc(SPECTRA[0], exponent=3, of_one=1), "exponents 3 and 1"),
        (b"no SPC", "found no header of an SPC file"),
        (spc([*SPECTRA[0][:-1], np.nan]), "found NaN or infinity"),
    ],
)
def test_spc_files_that_are_not_read_are_refused(file, content, message):
    with pytest.raises(SpectraError, match=message), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read_spectra(file(content, "a.spc"))


HEADER = [  # OSPCHDR: format, value
    *(("B", 0), ("B", 0x4D), ("h", 2), ("f", 3.0), ("f", 420.0), ("f", 400.0)),  # flags to ends
    *(("B", 3), ("B", 2), ("H", 0x07C9), ("B", 5), ("B", 17), ("B", 9), ("B", 30)),  # types, date
    *(("8s", b"4 cm-1"), ("H", 1), ("H", 16), ("28x", None)),  # resolution, peak, scans, spare
    *(("130s", b"gold, 10 ppb"), ("30s", b"")),  # memo, labels of axes
    *(("B", 0), ("b", 2), ("H", 0), ("3f", (0.0, 0.0, 0.0))),  # SUBHDR of the only spectrum
    *(("I", 0), ("I", 0), ("f", 0.0), ("4x", None)),
]
NUMBERS = bytes.fromhex("0010 0000  00F0 0000  0020 0200")
"""Upper half first, each lower byte first."""


def test_an_old_file_is_read_byte_by_byte_as_the_description_has_it(file):
    """Integers 0x10000000, -0x10000000 and 0x20000002, times 2^(2 - 32)."""
    values = [(one, () if at is None else at) for one, at in HEADER]
    packed = [(one, at if isinstance(at, tuple) else (at,)) for one, at in values]
    content = b"".join(struct.pack(f"<{one}", *at) for one, at in packed)
    assert len(content) == 256
    found = read_spectra(file(content + NUMBERS, "gold.spc"))
    np.testing.assert_array_equal(found.axis, [400, 410, 420])
    np.testing.assert_array_equal(found.values, [[0.5 + 2**-29, -0.25, 0.25]])
    assert (found.names, found.axis_unit, found.quantity) == (["gold"], "nm", "absorbance")
