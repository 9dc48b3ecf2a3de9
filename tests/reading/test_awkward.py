"""Files of text as instruments and people write them: read right, or refused with the reason."""

import csv
import io

import numpy as np
import pytest

from geonode.errors import SpectraError
from geonode.reading.files import read_spectra
from geonode.reading.formats.delimited import DELIMITERS
from geonode.reading.sheet import MOST_COLUMNS
from tests.reading.tables import (
    AXIS,
    LEVELS,
    NAMES,
    PLAIN,
    PPB,
    SPECTRA,
    above,
    assert_refused,
    assert_series,
    cary,
    inspect_file,
    long,
    read_table,
    tall,
    text,
    wide,
)

TABS = text(wide(), "\t")
COMMAS = text(wide(), ";", ",")
ABOVE = "Instrument: UV-2600\nDate: 22.11.2026 10:15:00\nScan range (nm): 400 - 430\n"
BELOW = "\nEnd of data\nLamp: D2\n"
COUNTED = "\n".join(f"{n},{line}" for n, line in enumerate(PLAIN.splitlines()))

READ = {
    # bytes
    "as it is": PLAIN,
    "byte order mark": PLAIN.encode("utf-8-sig"),
    "two of them": (b"\xef\xbb\xbf" + text(tall("conc")).encode("utf-8-sig"), None, "1"),
    "UTF-16 of Excel's Unicode text": TABS.encode("utf-16"),
    "UTF-16, the other order": b"\xfe\xff" + TABS.encode("utf-16-be"),
    "Latin-1 with a micro sign": (text(wide([f"{n} µM" for n in NAMES])).encode("latin-1"), "µM"),
    "Windows-1252 above": ("Prüfer: Jörg\n\n" + PLAIN).encode("cp1252"),
    "Windows": PLAIN.replace("\n", "\r\n"),
    "old Macintosh": PLAIN.replace("\n", "\r"),
    "Windows, twice": PLAIN.replace("\n", "\r\r\n"),
    "no last line end": PLAIN.rstrip("\n"),
    # cells
    "blank rows below": PLAIN + "\n  \n,,,,\n\n",
    "blanks": PLAIN.replace(",", " , ").replace("\n", " \n "),
    "runs of blanks": text(wide(), "   \t "),
    "minus signs": PLAIN.replace("1.0", "1E−0").replace("0.1", "1e−1"),
    "quotes": PLAIN.replace("wavelength_nm,0", '"wavelength_nm", "0"'),
    "lines within a quoted cell": (
        text(wide([f'"{name}\n\nppb"' for name in NAMES], '"axis\r\n(nm)"')),
        "ppb",
    ),
    "a mark of inches above": 'cell,"5\nlamp,6" long\n' + PLAIN,
    "numbers": PLAIN.replace("0.1,0.2", "+.1,2E-1").replace("1.0", "1.000000e+00"),
    "columns in another order": text([[row[0], *row[:0:-1]] for row in wide()]),
    "rows upside down": text([wide()[0], *wide()[:0:-1]]),
    "commas at the end of every line": PLAIN.replace("\n", ",\n"),
    "an empty column before": (
        text([["", *row] for row in above(["nm", *NAMES], ["", *["ppb"] * 4])]),
        "ppb",
    ),
    "a column that counts rows": COUNTED.replace("0,", ",", 1),
    # rows above and below
    "text above": ABOVE + PLAIN,
    "text above, an empty line between": ABOVE + "\n" + PLAIN,
    "text above of as many words as columns": "a text of five words\n" + TABS,
    "numbers above": "Wavelength range (nm),400,430\n" + PLAIN,
    "text below": PLAIN + BELOW,
    "text above and below, decimal commas": ABOVE + COMMAS + BELOW,
    "comments within": PLAIN.replace("\n420,", "\n# lamp changed\n420,"),
    "a commented header": "# " + PLAIN,
    # several rows of header
    "names above units": (text(above(["Wavelength", *NAMES], ["nm", *["ppb"] * 4])), "ppb"),
    "units in brackets": (text(above(["λ", *NAMES], ["(nm)", *["(mg/L)"] * 4]), "\t"), "mg/L"),
    "levels above per cent": text(above(["wavelength_nm", *NAMES], ["nm", *["%"] * 4])),
    "levels above the signal": text(above(["wavelength_nm", *NAMES], ["nm", *["Abs"] * 4])),
    "samples above concentrations": (
        text(above(["Sample", *"ABCD"], ["Conc. (ppb)", *NAMES], ["nm", *["Abs"] * 4])),
        "ppb",
    ),
    **{
        f"concentrations {where} names, commas at the end": (text(rows).replace("\n", end), "ppb")
        for where, rows in (
            ("below", above(["nm", *"ABCD"], ["Conc (ppb)", *NAMES])),
            ("above", above(["Conc (ppb)", *NAMES], ["nm", *"ABCD"])),
        )
        for end in (",\n", ",,\n")
    },
    "numbers of samples": text(above(["Sample", *"1234"], ["wavelength_nm", *NAMES])),
    "levels with a unit above times": (text(above(["nm", *PPB], ["Time (s)", *"1234"])), "ppb"),
    "samples that are levels above times": (
        text(above(["Sample", *PPB], ["Laser", *"1234"], ["nm", *["Abs"] * 4])),
        "ppb",
    ),
    "a row of scans": (text(above(["nm", *PPB], ["Replicate", *"1234"])), "ppb"),
    "the unit above levels": (text(above(["nm", *["Conc. (ppb)"] * 4], ["", *NAMES])), "ppb"),
    "a unit with a factor": (
        text(above(["Conc. (10^-6 M)", *NAMES], ["nm", *"ABCD"])),
        "10^-6 M",
    ),
    "a unit with a factor alone": (
        text(above(["Conc. (×10⁻⁶ M)", *NAMES], ["nm", *["Abs"] * 4])),
        "×10⁻⁶ M",
    ),
    "a factor above every spectrum": text(above(["nm", *["10^-6 M"] * 4], ["", *NAMES])),
    "a unit in the corner": (text(above(["µM", *NAMES], ["wavelength", *"ABCD"])), "µM", "1"),
    "per cent of something else": (
        text(above(["Conc (ppb)", *NAMES], ["RSD (%)", *"5678"], ["nm", *["Abs"] * 4])),
        "ppb",
    ),
    # concentrations in names
    "substance and concentration": (text(wide([f"As_{name}ppb" for name in NAMES])), "ppb"),
    "in brackets": (text(wide([f"As ({name} mg/L)" for name in NAMES])), "mg/L"),
    "with decimal commas": (text(wide([f"2,4-D {n},0 ppb" for n in NAMES]), ";", ","), "ppb"),
    "to the minus first": (text(wide([f"{name} mg mL⁻¹" for name in NAMES])), "mg mL⁻¹"),
    "with points": (text(wide([f"{name} mg.L-1" for name in NAMES])), "mg.L-1"),
    "per 100": (text(wide([f"{name} g/100 mL" for name in NAMES])), "g/100 mL"),
    "before the substance": (text(wide([f"{name} ppb As" for name in NAMES])), "ppb"),
    "of numbered standards": (text(wide([f"Std {n} ({n}0 ppb)" for n in "0126"])), "ppb"),
    # layouts
    "unknown corner": (text(wide(PPB, "pixel")), "ppb", "1"),
    "no corner above units": (text(wide(PPB, "")), "ppb", "1"),
    "no axis below a name": (text(wide([f"{n} nM" for n in NAMES], "Sample")), "nM", "1"),
    "levels in the corner": (text(wide(PPB, "Concentration")), "ppb", "1"),
    "both corners": (text(wide(corner="nm \\ conc (ppb)")), "ppb"),
    "rows": (text(tall()), "ppb", "1"),
    "rows with units": text(tall("conc.", axis=[f"{at:g} nm" for at in AXIS])),
    "rows, a unit for a corner": (text(tall("ppb")), "ppb", "1"),
    "rows, a unit with a factor": (text(tall("dye (10^-6 M)")), "10^-6 M", "1"),
    "rows, units for both": (text(tall("As", PPB, [f"{at:g} nm" for at in AXIS])), "ppb"),
    "rows, the axis for a corner": (text(tall("λ (nm)", [f"As {n} ppb" for n in NAMES])), "ppb"),
    "rows, units below": (text([tall("conc")[0], ["ppb", *["nm"] * 4], *tall()[1:]]), "ppb"),
    "rows, a unit below": (
        text([["id", *tall("c")[0]], ["", "ppb"], *(["s", *row] for row in tall()[1:])]),
        "ppb",
        "1",
    ),
    "rows, both corners": (text(tall("conc_ppb \\ shift_cm1")), "ppb", "cm-1"),
    "samples that are levels": (text(tall("sample", PPB)), "ppb", "1"),
    "long": text(long()),
    "long, other order": (
        text(long(["conc_ppb", "raman shift (cm-1)", "counts"], order=(2, 1, 0))),
        "ppb",
        "cm-1",
    ),
    "long, per cent of the signal": text(long(["conc", "nm", "Transmittance (%)"])),
    "long, units in cells": (text(long(names=PPB)), "ppb"),
    "Cary": (cary(PPB), "ppb"),
    "Cary, filled up to the right": cary(NAMES).replace(",\n", ",,,\n"),
    "Cary with text below": (cary(PPB) + "\nCollection Time: 9/22/2026\nScan rate,600\n", "ppb"),
    "Cary, whose samples are numbers": cary(NAMES),
    "R, rows counted": text(
        [wide()[0], *([f'"{n}"', *row] for n, row in enumerate(wide()[1:], 1))], " "
    ),
    "an axis beside every spectrum": ",".join(f"Wavelength (nm),{name}" for name in NAMES)
    + cary(NAMES, end="").partition("Abs")[2].replace(",Wavelength (nm),Abs", ""),
}


@pytest.mark.parametrize("found", READ.values(), ids=READ)
def test_the_series_is_read(file, found):
    content, *units = found if isinstance(found, tuple) else (found,)
    assert_series(read_table(file(content)), *units)


@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("delimiter", DELIMITERS)
def test_every_dialect_is_found(file, delimiter, decimal):
    if delimiter == decimal:
        return
    for suffix, quoting in ((".csv", csv.QUOTE_MINIMAL), (".TSV", csv.QUOTE_ALL)):
        for rows in (wide(["0.5", *NAMES[1:]]), tall("conc", ["0.5", *NAMES[1:]]), long()):
            written = io.StringIO()
            writer = csv.writer(written, delimiter=delimiter, quoting=quoting)
            writer.writerows([cell.replace(".", decimal) for cell in row] for row in rows)
            table = read_table(file(written.getvalue(), f"series{suffix}"))
            np.testing.assert_array_equal(table.spectra, SPECTRA)
            np.testing.assert_array_equal(table.axis, AXIS)
            assert table.concentrations.tolist() in ([0.5, 10, 20, 60], LEVELS.tolist())


@pytest.mark.parametrize("below", [[], [["", *"abababab"]], [["", *"12345678"]]])
def test_a_concentration_above_several_columns_is_that_of_all(file, below):
    head, spectra = (
        ["nm", *f"{' ppb,,'.join(NAMES)} ppb,".split(",")],
        np.repeat(SPECTRA, 2, axis=0),
    )
    found = read_table(file(text(above(head, *below, spectra=spectra)) + "\n"))
    np.testing.assert_array_equal(found.scans, spectra.reshape(4, 2, -1))
    named = read_spectra(file(text(above(head, ["", *"abcdefgh"], spectra=spectra))))
    assert named.names == [*"abcdefgh"]


MANY = [f"E_{at / 100:.2f}" for at in range(-90, -80)]
SAMPLES = [["40", "0.1"], ["0", "0.2"], ["10", "0.3"], ["10", "0.4"], ["5", "0.5"]]
NUMBERED = {
    "a word and numbers": (["conc_ppb"], MANY, -0.9),
    "with a unit": (["conc_ppb"], [f"A{at}nm" for at in range(400, 410)], 400),
    "counted, beside a substance": (["Brix"], [f"wl{n}" for n in range(1, 5)], 1),
    "counted, as R does": (["Brix"], [f"X{n}" for n in range(1, 11)], 1),
    "a column of text": (["id", "conc", "file"], MANY, -0.9),
}


@pytest.mark.parametrize(("about", "headers", "first"), NUMBERED.values(), ids=NUMBERED)
@pytest.mark.parametrize(("mark", "point"), [(",", "."), (";", ","), ("\t", ".")])
def test_headers_that_number_an_axis_stand_above_rows(file, about, headers, first, mark, point):
    rows = [
        [*(["s", at, f"{at}.x"] if "file" in about else [at]), *[value] * len(headers)]
        for at, value in SAMPLES
    ]
    path = file(text([[*about, *headers], *rows], mark, point))
    table, said = read_table(path), inspect_file(path).to_json()
    assert (table.concentrations.tolist(), table.axis[0]) == ([0, 5, 10, 40], first)
    assert table.scans[2][:, 0].tolist() == [0.3, 0.4]
    assert ("which counts" in str(said["doubts"])) == (first == 1)
    assert ("file" in str(said["skipped"])) == ("file" in about)


def test_numbered_names_beside_what_may_be_an_axis_are_names(file):
    names = [f"Point {n}" for n in range(1, 12)]
    rows = [["x", *names], *([at, *["1"] * 11] for at in ("400", "410", "430"))]
    assert read_spectra(file(text(rows))).names == names


LABELS = {
    "the axis alone above": [["Wavelength (nm)"], ["", *"ABCD"]],
    "labels of some columns above": [["", "Std", "x", "Blank"], ["nm", *"ABCD"]],
    "labels of some columns below": [["nm", *"ABCD"], ["", "Std"]],
    "keys below": [["nm", *"ABCD"], ["rate (mV/s)", "160.5"], ["scans", "1"]],
}


@pytest.mark.parametrize("head", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize(("mark", "point"), [(",", "."), (";", ","), ("\t", ".")])
def test_labels_and_keys_stand_around_a_header(file, head, mark, point):
    found = read_spectra(file(text(above(*([*row, *[""] * 5][:5] for row in head)), mark, point)))
    assert (found.names, found.axis_unit) == ([*"ABCD"], "nm")
    np.testing.assert_array_equal(found.values, SPECTRA)
    body = [["", "", *row[:3]] for row in wide()[1:]]
    beside = [["index", "0", "nm", *"AB"], ["low (V)", "-1.5", "", "", ""], *body]
    np.testing.assert_array_equal(read_spectra(file(text(beside, mark, point))).values, SPECTRA[:2])


def matrix(corner, across, down, values):
    rows = np.column_stack([down, values]).astype(str).tolist()
    return text([[corner, *map(str, across)], *rows])


@pytest.mark.parametrize("corner", ["F1", "nm", "Ex/Em"])
def test_excitation_wavelengths_are_no_levels_and_even_levels_are(file, corner):
    across, down = np.arange(240, 290, 5), np.arange(300, 420, 2)
    band = np.exp(-(((across - 262) / 12) ** 2) - ((down[:, None] - 350) / 20) ** 2)
    for content in (matrix(corner, across, down, band), matrix("F1", down, across, band.T)):
        assert_refused(r"240 to 285 in even steps .* conc.* or excitati", read_table, file(content))
    units = matrix(corner, [f"{level} ppb" for level in across], down, band)
    np.testing.assert_array_equal(read_table(file(units)).concentrations, across)
    for levels in (across, np.arange(0, 301, 50), np.arange(100, 1001, 100)):
        content = matrix("nm", levels, down, np.outer(np.ones(60), 5 - levels / 400))
        np.testing.assert_array_equal(read_table(file(content)).concentrations, levels)


def groups(cell, mark=";", names=NAMES, axis=("400", "410", "420"), corner="wavelength_nm"):
    """A table whose cells all are the same."""
    return text([[corner, *names], *([at, *[cell] * len(names)] for at in axis)], mark)


def plain(*changes):
    """The plain table with texts in place of others."""
    content = PLAIN
    for old, new in zip(changes[::2], changes[1::2], strict=True):
        assert old in content
        content = content.replace(old, new)
    return content


TURNED = text(zip(*(line.split(",") for line in cary(PPB, end="").splitlines()), strict=True))
REFUSED = [
    # bytes
    ("", "found an empty file, expected a header"),
    (PLAIN.encode("utf-16-le"), "binary data"),
    (PLAIN.encode("cp037"), "expected"),
    (PLAIN.encode() + b"\xc3", "not UTF-8"),
    ("##TITLE=5 ppb\n##JCAMP-DX=4.24\n##YFACTOR=0.1\n1 2\n3 4\n5 6\n", "JCAMP-DX, .* ending .jdx"),
    (f"{PLAIN}# µ".encode() + b"\xb5\n", "partly of UTF-8"),
    # header
    ("nothing\n", "row 1: found one cell, 'nothing', expected several"),
    ("wavelength_nm,0,10,20,60\n", "found 0 wavelengths, expected at least 3"),
    (PLAIN.split("\n", 1)[1], "row 1: found '400', expected a header"),
    (plain("wavelength_nm", ""), "row 1: found '', expected a header"),
    ("nm" + ",1" * MOST_COLUMNS + "\n", f"found {MOST_COLUMNS + 1} columns, expected at most"),
    (text(wide(["0", "10", "wavelength_nm", "60"])), "row 1, column 4: found a second axis"),
    # rows
    ("\n".join(PLAIN.split("\n")[:3]), "found 2 wavelengths, expected at least 3"),
    (plain("0.7,0.8", "0.7"), "row 3: found 4 cells, expected 5"),
    (text([NAMES, *wide()[1:]], " "), "row 2: found 5 cells, expected 4 .* as R writes tables"),
    (plain("0.8", "0.8,9"), "row 3: found 6 cells, expected 5"),
    (plain("420,", "\n420,"), "row 4: found a blank row above data"),
    (PLAIN + "\nmean,1,2,3,4\n", "a blank row above data"),
    (PLAIN + "\n" + TABS, "row 6: found a blank row above data"),
    (ABOVE + PLAIN[:-5], "row 8: found 4 cells, expected 5"),
    (plain("0.7", '"0"7'), "row 3, column '20': found '\"0\"7'"),
    # axis
    (plain("410", "nan"), "row 3, column 'wavelength_nm': found 'nan'"),
    (plain("410", ""), "row 3, column 'wavelength_nm': found ''"),
    (plain("420", "410"), "row 4: found 410 .*again, first in row 3"),
    (plain("420", "405"), "row 4: found 405 .*after 410, expected it to asc"),
    (text([wide()[0], *wide(axis=[9, 8, 8.5, 7])[1:]]), "row 4: .* expected it to descend"),
    (text(tall(axis=["400", "x", "420", "430"])), "column 3: found 'x' on the axis, between 400"),
    (text(tall(axis=["400", "430", "420", "440"])), "column 4: found 420 on the axis after"),
    (text(tall(axis=["400 nm", "410 um", "1", "2"])), "column 3: found units nm and um on one"),
    # levels
    (plain("20,60", "high,60"), "row 1, column 4: found 'high', expected a concentration"),
    (plain("20,60", "-20,60"), "row 1, column 4: found '-20'.*negative"),
    (plain("20,60", '"1,000",60'), "row 1, column 4: found '1,000', expected a concentration"),
    (plain("20,60", "1e999,60"), "row 1, column 4: found '1e999'.*finite"),
    (plain("20,60", "10.0,60"), r"column 3 \('10'\) and row 1, column 4 \('10.0'\) are the same"),
    (plain("20,60", "20__r2,60"), "row 1, column 4: found '20__r2' but no '20'"),
    (plain("0,10,20,60", "0,0__r2,20,20__r2"), "found 2 concentrations, expected 3 to 20000"),
    (text([["nm", *map(str, range(51))], *(["1", *["1"] * 51],) * 3]), "row 3: found 1 on the"),
    (plain("10,20,60", "10 ppb,20,60 ppm"), "row 1, column 5: found concentrations in ppm and in"),
    (text(tall(names=["0", "10 ppm", "20", "60"])), "row 3, column 1: .* in ppm and in ppb"),
    (text(tall("sample")), "row 2, column 1: found '0' as name of a sample, expected a c"),
    (text(wide(["As_0ppb", "As_5ppb", "Pb_5ppb", "As_9ppb"])), "'Pb_5ppb' .* of two substances"),
    (text([["conc", *NAMES], *wide()[1:]]), "found 'conc' above 400 to 430 and .*, of which eithe"),
    # several rows of header
    (text(above(["Sample", *NAMES], ["nm", *["Abs"] * 4])), "row 1: .* which may number samples"),
    (text(above(wide()[0], ["", *"1234"])), "rows 1 and 2: found two rows .* second"),
    (text(above(["Conc. (ppm)", *NAMES], ["nm", *["ppb"] * 4])), "in ppm and in ppb"),
    (text(above(["Wavelength", *NAMES], ["nm", "ppb", "ppm", "ppb", "ppb"])), "in ppm and in ppb"),
    (
        text(above(["", "0 ppb", "", "", "9 ppb"], ["nm", *"1234"])),
        "row 1: found concentrations above 2 of 4 columns, expected one above every",
    ),
    # what is there twice
    (text([*tall("id", PPB), *tall("id", PPB)]), "row 6: found the header of row 1 again"),
    (TURNED, "row 3, column 1: found the axis again as 'row 3', and beside every other"),
    # pairs and long tables
    (cary(["Empty", *PPB[1:]]), "'Empty', expected a concentration.*spectra.con"),
    (cary("1234"), "row 1, column 1: found '1' as name of a sample, expected a concentration"),
    (text(above(["", *"1234"], ["nm", *"ABCD"])), "row 1: found '' beside 1, .* number samples"),
    (cary(PPB).replace("410,0.6", ",0.6"), "row 4: found a value of '10 ppb' without its wavel"),
    (text([*long(), ["10", "410", "0"]]), "found 10 at 410 again, first in row .* replicate"),
    ("conc,nm,A,B\n1,2,3,4\n", "row 1: found the columns 'conc', 'nm', 'A', 'B', expected those o"),
    (text([*long(), ["10", "", "0"]]), "row 18, column 'wavelength_nm': found no number"),
    # marks that may be of thousands or of decimals, by the part that is not settled
    (groups("0,5", names=["0", "1.000", "2.000", "5.000"]), "'5.000' .* point .*is 5.000 or 50"),
    (groups("0,5", axis=["1.000", "1.010", "1.020"]), "'1.020' .* its point .* 1.020 or 1020;"),
    (groups("0,5", names=[f"Cu_{n}.000ppb" for n in "1235"]), "'5.000' .* 5.000 or 5000"),
    (groups("1", names=[f"Cu ({n},000 ppb)" for n in "1235"]), "'5,000' .* 5.000 or 5000"),
    (groups("1", names=[f"Cu_ppb_{n},000" for n in "1235"]), "'5,000' .* 5.000 or 5000"),
    (groups("1.234"), "'1.234' .* its point .*: it is 1.234 or 1234;"),
    (groups("1.234.567"), "'1.234.567' .* its point"),
    (groups("1,234", names=[*NAMES, "2,4-D"]), "'1,234' .* its comma .*: it is 1.234 or 1234;"),
    ("nm 0,5\n400 1,5\n410 2,5\n420 3,5\n", "two ways to read .* comma and delimiter blanks"),
    # columns that pandas has renamed
    (groups("1", names=["0", "10", "10.1", "20"]), "'10.1' beside '10': a level of its own, or wh"),
    (groups("1", names=["0", "10", "20", "10.1", "20.1"]), "'10.1' .* set spectra.replicates"),
    # which way a table runs
    (text(wide(corner="x")), "row 1, column 1: found 'x', which does not show whether"),
    # numbers that stand for none
    (plain("0.7", '"3,619.0"'), "found '3,619.0', .* point, without marks of thousands"),
    (plain("0.7", "n.d."), "found 'n.d.', expected a number .*; empty the cell if nothing was"),
    (plain("0.7", ">4.0"), "found '>4.0', .* the detector was at its end"),
    (plain("0.7", "1e101"), r"expected finite numbers of at most 1e\+30"),
]


@pytest.mark.parametrize(("content", "message"), REFUSED, ids=[one[1][:50] for one in REFUSED])
def test_what_is_wrong_or_may_mean_two_things_is_refused(file, content, message):
    path = file(content)
    with pytest.raises(SpectraError, match=message) as caught:
        read_table(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


CELLS = ["abc", "<0.5", "0.5*", "$1", "12:30", "2024-01-01", "1_000", "0x1F", "1/2", "#N/A", "True"]
CELLS += ["inf", "-inf", "1e999", "0.5 0.6", "--1", "1e", "٣", "10%", "1.2.3", "0.5nm", "½"]
CELLS += ["7,", "1 000", "'0.5", "=A1", "０.5", "−", "1e2.5", "", "nan", "9" * 400, "1," * 9]


@pytest.mark.parametrize(("mark", "point"), [(",", "."), (";", ","), ("\t", ".")])
def test_a_cell_that_is_no_number_is_refused_with_its_row(file, mark, point):
    for cell in CELLS:
        rows = wide()
        rows[2][3] = f'"{cell}"' if mark in cell else cell
        for missing in ("refuse", "mask") if cell not in ("", "nan") else ("refuse",):
            # Of commas among points, the first.
            with pytest.raises(SpectraError, match=r"row [23]"):
                read_table(file(text(rows, mark).replace(".", point)), missing=missing)


SETTLED = {
    "one number below one": (groups("0.123", "\t"), 0.123),
    "four digits before": (groups("1234.567"), 1234.567),
    "four decimals": (groups("1.2345"), 1.2345),
    "commas between the cells": (groups("1.234", ","), 1.234),
    "commas and blanks between two cells": (groups("7", ", ", ["0 ppb"]), 7),
    "both marks": (groups("0,125", names=["0,5", "10,25", "20,125", "30"]), 0.125),
    "no marks": (groups("1234"), 1234),
    "an axis that cannot be of thousands": (groups("0,5", axis=["400.5", "401.5", "402.5"]), 0.5),
}


@pytest.mark.parametrize(("content", "value"), SETTLED.values(), ids=SETTLED)
def test_a_mark_that_is_settled_is_read(file, content, value):
    found = read_spectra(file(content)).values
    np.testing.assert_array_equal(found, np.full((len(found), 3), value))


def test_rows_that_look_commented_are_said(file, caplog):
    for content in (text(tall("sample", ["a", "#2", "c", "d"])), PLAIN.replace("410", "#410")):
        read_spectra(file(content))
        assert "rows 3 are left out as comments, as they begin with #" in caplog.text
        caplog.clear()
    read_spectra(file("# a, b, c, d, e\n" + PLAIN + "# lamp\n"))
    assert "#" not in caplog.text


def test_an_axis_each_that_is_not_called_so_is_refused(file):
    names, columns = ["a", "b_x", "b"], np.stack([SPECTRA[0], AXIS, SPECTRA[1]])
    with pytest.raises(SpectraError, match="row 1, column 3: found the axis again as 'b_x'"):
        read_spectra(file(text(wide(names, "a_x", spectra=columns))))


def test_a_decimal_comma_may_come_late_and_stays_in_names(file):
    rows = "".join(f"{axis};1;2;3;4\n" for axis in range(400, 450))
    table = read_table(file(f"nm;0;1;2;3\n{rows}450;1;2,5;3;4\n"))
    assert table.spectra[1, -1] == 2.5
    one = read_spectra(file("nm;a\n400;-,5\n" + "".join(f"{at};,5\n" for at in (410, 420, 430))))
    assert one.values.tolist() == [[-0.5, 0.5, 0.5, 0.5]]  # with commas, a damaged row
    names = ["2,4-D", "2,4,5-T", "1,1'-biphenyl", "x,y"]
    for cell in ("0,5", "0.5"):
        found = read_spectra(file(groups(cell, names=names)))
        assert (found.names, found.values[0, 0]) == (names, 0.5)
    assert read_spectra(file(groups("0,5", names=["2,4-D", "0,5 ppb"]))).names[1] == "0.5 ppb"
    with pytest.raises(SpectraError, match=r"found '0\.5', expected a number with a decimal comma"):
        read_spectra(file(groups("0.5", names=["2,4-D", "0,5 ppb"])))


@pytest.mark.parametrize(
    ("levels", "axis", "corner"),
    [
        ([0, 10, 20, 30], np.arange(400, 800, 10), "wavelength"),
        ([0, 50, 100, 500], np.arange(300, 800, 12), "raman_shift_cm1"),
        ([0, 1, 2, 5], np.linspace(0.4, 0.8, 9), "wavelength_um"),
        ([0, 10, 20, 30], np.arange(700, 399, -20), "wavelength_nm"),
    ],
)
def test_levels_below_an_axis_are_asked_about(file, levels, axis, corner):
    rows = [[corner, *map(str, axis)], *([str(n), *["0.5"] * len(axis)] for n in levels)]
    assert_refused(r"row 1, column 1: .* write concentration in the", read_table, file(text(rows)))
    rows[0][0] = "concentration"
    np.testing.assert_array_equal(read_table(file(text(rows))).concentrations, levels)


@pytest.mark.parametrize(
    ("names", "axis"),
    [
        ([100, 300, 600, 900], [200, 201, 202, 203]),
        ([0, 10, 20, 30, 40], [450, 520, 650]),
        (range(100, 1000, 100), range(400, 420)),
        ([0, 0.1, 0.2, 0.3], [1, 2, 3]),  # which pandas would not make
        ([1.1, 2, 3.1, 4], [1, 2, 3]),
    ],
)
def test_levels_that_could_be_an_axis_or_scans_are_levels(file, names, axis):
    found = read_table(file(groups("1", ",", [str(n) for n in names], [str(at) for at in axis])))
    np.testing.assert_array_equal(found.concentrations, names)
    np.testing.assert_array_equal(found.axis, axis)


def test_bare_numbers_are_told_apart_by_the_longer_side(file):
    values = np.random.default_rng(0).normal(size=(4, 51))
    rows = [["x", *range(51)], *([5 * level, *row] for level, row in enumerate(values.tolist()))]
    turned = [["x", *range(4)], *([at, *row] for at, row in enumerate(values.T.tolist()))]
    for table in (rows, turned):
        found = read_table(file(text([list(map(str, row)) for row in table])))
        np.testing.assert_array_equal(found.spectra, values)
