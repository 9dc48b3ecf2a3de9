"""Files as instruments and programs write them: relatives of exports that chemists keep."""

import numpy as np
import pytest

from geonode.errors import SpectraError
from geonode.reading.files import Choices, read_spectra
from tests.reading.tables import (
    AXIS,
    LEVELS,
    NAMES,
    SPECTRA,
    assert_refused,
    assert_series,
    cary,
    inspect_file,
    read_table,
    tall,
    text,
    wide,
)


def one(above, below="", mark="\t", point="."):
    """One spectrum in two columns below a preamble."""
    rows = [[f"{at:g}", f"{value:g}"] for at, value in zip(AXIS, SPECTRA[1], strict=True)]
    return above + text(rows, mark, point) + below


OCEAN = "SpectraSuite Data File\n++++++\nDate: Mon Jan 14 17:36:35 GMT 2008\nUser: x\n"
OCEAN += "Integration Time (usec): 20000 (USB4A00000)\nNumber of Pixels in Processed Spectrum: 4\n"
JASCO = "TITLE\t\nDATA TYPE\tULTRAVIOLET SPECTRUM\nORIGIN\tJASCO\nXUNITS\tNANOMETERS\n"
JASCO += "YUNITS\tABSORBANCE\nFIRSTX\t400\nNPOINTS\t4\nXYDATA\n"
AVANTES = "Integration time [ms]: 20.000\nAveraging Nr. of scans: 1\nSmoothing Nr. of pixels: 0\n"
INSTRUMENTS = {
    "SpectraSuite": (one(OCEAN + ">>>>>Begin Processed<<<<<\n", ">>>>>End<<<<<\n"), "1"),
    "OceanView": (one("Data from A\n\nXAxis mode: Wavelengths\n>>>>>Begin Data<<<<<\n"), "1"),
    "OOIBase, decimal commas": (one("OOIBase32 Version 2\n\n>>>>>Begin<<<<<\n", point=","), "1"),
    "words of two columns above": (one("Spectral Data\n"), "1"),
    "a key above": (one("Operator\tx\nPixels\t4\n"), "1"),
    "LabSpec": (one("#Title=\tx\n#AxisUnit[0]=\tCnt\n#AxisUnit[1]=\t1/cm\n"), "cm-1"),
    "Renishaw": (one("#Wave\t\t#Intensity\n", mark="\t\t"), "1"),
    "WITec": (one("[SpectrumHeader]\nTitle = P\nXDataKind = nm\n\n[SpectrumData]\n"), "nm"),
    "units of a laser": (one("Laser unit = nm\nYUNITS: nm\n"), "1"),
    "two units": (one("Unit: nm\nUnit: cm-1\n"), "1"),
    "RRUFF": (one("##NAMES=Quartz\n##LOCALITY=x, y\n", "##END=\n\n", mark=", "), "1"),
    "PerkinElmer": (one("PE UV\nx.sp\n#HDR\n-1\n#GR\nnm\nA\n1.0\n0.0\n400\n-10\n4\n#DATA\n"), "nm"),
    "Shimadzu": (one('"s1 - RawData"\n"Wavelength nm.","Abs."\n', mark=","), "nm"),
    "Jasco": (one(JASCO, "\n##### Extended Information\n[Comments]\nSample name\tx\n"), "nm"),
    "Edinburgh": (one("Labels,x,\nXAxis,Wavelength(nm),\nYAxis,Counts,\n\n", mark=","), "nm"),
    "Avantes": (one(AVANTES + "Wave   ;Absorbance\n[nm]   ;[A.U.]\n\n", mark=";  "), "nm"),
    "CRAIC": (one("Sample,x\nDate,1/2/2020\n\nWavelength (nm),Abs\n", mark=","), "nm"),
    "bare": (one(""), "1"),
    "bare, decimal commas": (one("", point=","), "1"),
    "bare, descending, blanks": (one("", mark="  ").splitlines(keepends=True)[::-1], "1"),
    "blanks for a tab": (one("Spectral Data\n").replace("400\t", "400 "), "1"),
    "a sentence above blanks": (one("5 scans averaged\n", mark="  "), "1"),
    "many lines of words above": (one("Key, 5\n" * 2500), "1"),
    "foreign words": (one("Wellenlänge;Extinktion\n", mark=";"), "1"),
    "UTF-16": (one("Wavelength (nm)\tAbs\n").encode("utf-16"), "nm"),
}


@pytest.mark.parametrize(("content", "unit"), INSTRUMENTS.values(), ids=INSTRUMENTS)
def test_two_columns_of_numbers_are_axis_and_signal(file, content, unit):
    content = "".join(content) if isinstance(content, list) else content
    found = read_spectra(file(content, "a.DAT"))
    np.testing.assert_array_equal(found.axis, AXIS)
    np.testing.assert_array_equal(found.values, SPECTRA[1:2])
    assert found.axis_unit == unit


ROWS = tall("conc")[1:]
HEADER = tall()[0][1:]


def samples(*columns, axis=HEADER):
    """Samples in rows, below headers of columns about them."""
    head, *cells = zip(*columns, strict=True)
    return text([[*head, *axis], *([*one, *row[1:]] for one, row in zip(cells, ROWS, strict=True))])


INDEX = ["", *"0123"]
CONC, NAMED = ["conc_ppb", *NAMES], ["Sample", *"abcd"]
TABLES = {
    "pandas": (samples(INDEX, CONC), "ppb", None),
    "pandas, read again": (samples(["Unnamed: 0", *"0123"], ["name", *"wxyz"], CONC), "ppb", None),
    "names and groups": (samples(NAMED, ["Group", *"kkll"], CONC), "ppb", None),
    "several amounts": (samples(["y_fat", *"5678"], ["y_salt (ppb)", *NAMES]), "ppb", "salt"),
    "several amounts, no marks": (samples(NAMED, ["fat", *"5678"], ["salt", *NAMES]), None, "SALT"),
    "no header above names": (samples(["", *"abcd"], CONC), "ppb", None),
    "R": (samples(["", *"1234"], CONC, axis=[f"X{at}" for at in HEADER]), "ppb", None),
    "prefixes": (samples(CONC, axis=[f"WL{at}" for at in HEADER]), "ppb", None),
    "a column of units": (samples(["Conc", *NAMES], ["Unit", *["ppb"] * 4]), "ppb", None),
    "temperatures": (samples(NAMED, ["Temperature (°C)", *"5678"], ["fat", *NAMES]), None, None),
    "an uncertainty": (samples(CONC, ["Uncertainty (ppb)", *"5678"]), "ppb", None),
    "humidities": (samples(NAMED, ["Humidity (%)", *"5678"], CONC), "ppb", None),
    "temperatures asked for": (samples(NAMED, ["Temperature", *NAMES]), None, "temperature"),
    "amount that counts": (samples(["octane", *"0123"]), None, "octane"),
}

BEHIND = [[*HEADER, "Sample", "conc_ppb"]]
BEHIND += [[*row[1:], name, row[0]] for row, name in zip(ROWS, "abcd", strict=True)]
TABLES |= {
    "columns behind": (text(BEHIND), "ppb", None),
    "a column behind": (text([[*row[:4], row[5]] for row in BEHIND]), "ppb", None),
}


@pytest.mark.parametrize(("content", "unit", "target"), TABLES.values(), ids=TABLES)
def test_samples_in_rows_are_read(file, content, unit, target):
    found = read_table(file(content), target=target)
    levels = [0, 1, 2, 3] if target == "octane" else LEVELS
    np.testing.assert_array_equal(found.concentrations, levels)
    np.testing.assert_array_equal(found.spectra, SPECTRA)
    np.testing.assert_array_equal(found.axis, AXIS)
    assert found.concentration_unit == unit


def test_repeated_names_are_scans_and_samples_without_an_amount_are_left_out(file):
    rows = samples(["Sample", *"aabc"], ["y_fat", "0", "0", "5", "7"]).splitlines()
    rows += ["d,9,1,2,3,4", "e,,1,2,3,4"]
    inspection = inspect_file(file("\n".join(rows)))
    assert [len(scans) for scans in inspection.table.scans] == [2, 1, 1, 1]
    np.testing.assert_array_equal(inspection.table.scans[0], SPECTRA[:2])
    assert "spectra without a fat are unknowns: e" in inspection.text()
    twice = cary(["0 ppb", "0 ppb", "10 ppb", "10 ppb"])
    assert_refused("found 2 concentrations", read_table, file(twice))


@pytest.mark.parametrize("name", ["Index", "No", "Sample", "#", "Unnamed: 0", "", "Batch"])
@pytest.mark.parametrize("first", [0, 1])
def test_row_numbers_are_no_concentrations(file, name, first):
    few = samples([name, *map(str, range(first, first + 4))])
    many = text([[name, *HEADER], *([str(first + row), *"1234"] for row in range(60))])
    for content in (few, many):
        assert_refused(r"name of a sample|expected a header|not show", read_table, file(content))


def values_below(*columns):
    """One row a value, below headers of columns about the samples."""
    heads, *samples = zip(*columns, strict=True)
    rows = zip(samples, ROWS, strict=True)
    values = [[*about, *cell] for about, row in rows for cell in zip(HEADER, row[1:], strict=True)]
    return text([[*heads, "nm", "Abs"], *values])


ABOUT = ["Sample ID", "Date", "Time (s)", "Integration time (ms)", "Dilution", "Col", "Unnamed: 1"]


@pytest.mark.parametrize("name", [*ABOUT, ""])
def test_numbers_about_samples_are_no_concentrations(file, name):
    numbers = [name, "7", "3", "8", "9"]
    names = text([NAMED, [name or "Run", *numbers[1:]], ["nm", *["A"] * 4], *wide()[1:]])
    for table in (samples(NAMED, numbers), values_below(NAMED, numbers), names):
        assert_refused(r"found 'a', exp|expected those of|number samples", read_table, file(table))


def test_units_beside_concentrations_are_theirs(file):
    columns = ["Conc", *NAMES], ["Unit", "ppm", "ppm", "ppb", "ppm"]
    for table in (samples(*columns), values_below(*columns)):
        assert_refused(r"found concentrations in pp\w and in pp\w", read_table, file(table))


def test_a_column_that_is_not_called_concentration_is_named(file, caplog):
    read_table(file(samples(NAMED, ["fat", *NAMES])))
    assert "column 'fat' is interpreted as the concentrations" in caplog.text


FOOTER = "\n" + "".join(f"{name},\nCollection Time: 1/2/2020\nRate,600.0\n" for name in NAMES)
WELLS = "Software Version\t3.1\n\nRead 1:Spectrum\n"
WELLS += text(wide(["A1", "A2", "A3", "A4"], "Wavelength"), "\t")


def test_cary_names_may_be_numbers_that_a_footer_repeats(file):
    assert_series(read_table(file(cary(NAMES) + FOOTER)))
    axes, spectra = (AXIS, *[AXIS] * 4), [SPECTRA[0] + 9, *SPECTRA]
    for marked in ("Baseline 100%T", "baseline"):
        inspection = inspect_file(file(cary([marked, *NAMES], axes, spectra) + FOOTER))
        assert_series(inspection.table)
        assert f"baselines: {marked}" in inspection.text()


def test_plates_are_read_where_wells_are_spectra(file):
    results = "\n\nResults\n\t1\t2\t3\nA\t0.1\t0.2\t0.3\tMax\nB\t0.1\t0.2\t0.3\tMax\n"
    path = file(WELLS + results, "a.txt")
    assert read_spectra(path).names == ["A1", "A2", "A3", "A4"]
    levels = file("well,conc\n" + "".join(f"A{n + 1},{x}\n" for n, x in enumerate(NAMES)), "b.csv")
    found = read_table(path, concentrations=levels)
    assert_series(found, axis_unit="1")
    with pytest.raises(SpectraError, match="a plate of wells at one wavelength"):
        read_spectra(file(",1,2,3,4\nA,1,2,3,4\nB,1,2,3,4\nC,1,2,3,4\n"))
    two = WELLS + "\n\nRead 2:Spectrum\n" + WELLS.split("\n", 3)[3]
    assert_refused(r"row 9: found a blank row above.*one block o", read_spectra, file(two, "a.txt"))
    with pytest.raises(SpectraError, match="found 'OVRFLW', expected a measured number: the detec"):
        read_spectra(file(WELLS.replace("0.6", "OVRFLW"), "a.txt"))


ASKED = {
    "several amounts": (samples(["y_a", *NAMES], ["y_b", *NAMES]), "'a', 'b'; choose one by spect"),
    "pixel, nm, counts": ("1,400,5\n2,401,6\n3,402,7\n", "with 3 columns nothing else shows which"),
    "a damaged first row": ("40o,1\n410,2\n420,3\n430,4\n", "row 1: found '40o 1' right above"),
    "X1 to X4": (text([["id", "X1", "X2", "X3", "X4"], *ROWS]), "'X1'|name of a sample|on the axi"),
    "a date": ("nm,0,2024-05-01,2-Mar,9\n1,1,1,1,1\n2,2,2,2,2\n3,3,3,3,3\n", "date"),
}


@pytest.mark.parametrize(("content", "message"), ASKED.values(), ids=ASKED)
def test_what_cannot_be_decided_is_asked(file, content, message):
    assert_refused(message, read_table, file(content))


def test_a_target_is_one_of_the_amounts_there(file):
    table = samples(["y_a", *NAMES], ["y_b", *NAMES])
    assert_refused("no amount called 'c', expected one of 'a'", read_table, file(table), target="c")
    with pytest.raises(SpectraError, match="one column a spectrum, which has no column of amounts"):
        read_table(file("nm,1,2,3\n4,1,1,1\n5,1,1,1\n6,1,1,1\n"), target="c")
    levels = "name,fat,salt (ppb)\na,7,0\nb,7,10\nc,7,20\nd,7,60\n"
    choices = Choices(concentrations=file(levels, "b.csv"), target="salt")
    assert_series(read_table(file(samples(NAMED)), choices=choices), "ppb", "1")


def test_the_layout_is_said_with_its_runners_up(file):
    said = inspect_file(file(text(tall()))).text()
    assert "layout: one row a spectrum: the first header, 'concentration_ppb', is about sam" in said
    assert "not one column a spectrum: the first header" in said
    assert "not two columns a spectrum: no row of the header names an axis" in said


def test_a_folder_says_what_it_leaves_out(tmp_path, caplog):
    for name in NAMES:
        (tmp_path / f"{name} ppb.TXT").write_text(one(""))
    (tmp_path / "notes.docx").touch()
    (tmp_path / "levels.csv").write_text("a,b\n")
    assert len(read_table(tmp_path).scans) == 4
    said = "the 4 files .txt are read; left out are levels.csv, notes.docx: if they are spe"
    assert said in caplog.text
    for name in NAMES[1:]:
        (tmp_path / f"{name}.csv").write_text(one(""))
    assert_refused(r"as many files \.\w+ as \.\w+", read_table, tmp_path)


def test_one_of_several_signals_in_each_file_is_chosen(tmp_path):
    head = AVANTES + "Wave;Sample;Dark;Absorbance\n[nm];[counts];[counts];[A.U.]\n\n"
    for name, values in zip(NAMES, SPECTRA, strict=True):
        rows = [f"{at:g};7;{at + 1:g};{v:g}\n" for at, v in zip(AXIS, values, strict=True)]
        (tmp_path / f"{name} ppb.txt").write_text(head + "".join(rows))
    assert_refused(r"'Sample', 'Dark', 'Absorbance', .* by spectra.target", read_table, tmp_path)
    found = read_table(tmp_path, target="ABSORBANCE")
    np.testing.assert_array_equal(found.spectra, SPECTRA)
    assert_refused("found 0 spectra called 'x' among 'Sample'", read_table, tmp_path, target="x")


def test_words_beside_samples_and_wells_are_left_out_or_named(file):
    rows = [["conc_ppb", *HEADER, "remark"], *([*row, "a word"] for row in ROWS)]
    between = text([[*row[:3], row[-1], *row[3:-1]] for row in rows])
    message = r"row 1, column 4: found 'remark' on the axis, between 410 and 420, .* move a column"
    assert_refused(message, read_table, file(between))
    found = inspect_file(file(text(rows)))
    assert_series(found.table, "ppb", "1")
    assert found.sheet.understood.skipped == ("columns remark",)
    conc = ["Conc (ppb)", *NAMES]
    wells = values_below(["Well", *"ABCD"], ["Type", "M0", "M1", "M2", "M3"], conc)
    assert_series(read_table(file(wells)), "ppb")
    assert "column 'Type'" in inspect_file(file(wells)).text()
    numbers = file(wells.replace(",M", ","))
    assert_series(read_table(numbers), "ppb")
    assert "columns Type" in inspect_file(numbers).text()
    found = read_table(numbers, target="type")
    np.testing.assert_array_equal(found.concentrations, [0, 1, 2, 3])
