"""What a reader is asked for, and files of every kind but awkward text."""

import unicodedata

import numpy as np
import pytest

from geonode.errors import SpectraError
from geonode.reading.files import Choices, read_spectra
from geonode.spectra.table import to_csv
from tests.reading.tables import (
    AXIS,
    LEVELS,
    NAMES,
    PLAIN,
    PPB,
    SPECTRA,
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

# windows, gaps, scans


@pytest.mark.parametrize("cell", ["", "nan", " "])
@pytest.mark.parametrize("rows", [wide(), tall("conc"), long()])
def test_a_gap_is_refused_or_its_wavelength_is_masked(file, rows, cell):
    path = file(text([[cell if found == "0.6" else found for found in row] for row in rows]))
    for read in (read_table, read_spectra):
        assert_refused(r"(row|column|wavele).*'10': found an empty or", read, path)
        found = read(path, missing="mask")
        np.testing.assert_array_equal(found.axis, [400, 420, 430])
        np.testing.assert_array_equal(found.masked, [410])
    table = read_table(path, missing="mask")
    np.testing.assert_array_equal(table.spectra, SPECTRA[:, [0, 2, 3]])


def test_a_window_includes_its_ends_and_gaps_outside_do_not_matter(file):
    table = read_table(file(PLAIN.replace("0.2", "")), window=(410.0, 430.0))
    np.testing.assert_array_equal(table.axis, [410, 420, 430])
    np.testing.assert_array_equal(table.spectra, SPECTRA[:, 1:])
    assert table.masked.size == 0
    message = r"window \[405, 420\] keeps 2 wavelengths.*axis runs from 400 to 430"
    assert_refused(message, read_table, file(PLAIN), window=(405.0, 420.0))
    holes = PLAIN.replace("0.1", "").replace("0.6", "").replace("1.1", "")
    assert_refused("missing cells leave 1 of 4 wavelength", read_table, file(holes), missing="mask")


THIRD = repr(0.1 + 0.2)  # 0.30000000000000004
SCANS = {  # names of columns, and their places by level in the order of its scans
    "order of marks": (
        ["30__r10", "0", "30", "10.0__r2", "10", "30__r2", "20"],
        {0: [1], 10: [4, 3], 20: [6], 30: [2, 5, 0]},
    ),
    "behind a unit": (
        ["As_0ppb", "As_5ppb_1", "As_5ppb_2", "As_7ppb"],
        {0: [0], 5: [1, 2], 7: [3]},
    ),
    "renamed": (["0 ppb", "5 ppb", "5 ppb.1", "7 ppb"], {0: [0], 5: [1, 2], 7: [3]}),
    "decimal commas": (
        ["0", '"0,5"', '"As_1,25 ppb"', '"10,5 ppb"'],
        {0: [0], 0.5: [1], 1.25: [2], 10.5: [3]},
    ),
    "words": (["5", "0 (1)", "0 rep2", "9"], {0: [1, 2], 5: [0], 9: [3]}),
    "counted from the second": (["5", "0", "0__r1", "9"], {0: [1, 2], 5: [0], 9: [3]}),
    "rounding, units": (
        [f"As_{level}ppb" for level in ("0", "0.3", "0.5", THIRD, "0.7")],
        {0: [0], 0.3: [1, 3], 0.5: [2], 0.7: [4]},
    ),
    "rounding, marks": (
        ["0.3", "0.3__r2", THIRD, f"{THIRD}__r2", "0", "0.5"],
        {0: [4], 0.3: [0, 1, 2, 3], 0.5: [5]},
    ),
    "marks": (["0", "20", "20.1", "5", "40"], {0: [0], 5: [3], 20: [1, 2], 40: [4]}),
    "levels": (["0", "20", "20.1", "5"], {0: [0], 5: [3], 20: [1], 20.1: [2]}),
}


def counted(names):
    """A table of columns that hold their places."""
    return text([["nm", *names], *([str(at), *map(str, range(len(names)))] for at in (1, 2, 3))])


@pytest.mark.parametrize("name", SCANS)
def test_scans_belong_to_their_level_in_the_order_of_their_marks(file, name):
    names, scans = SCANS[name]
    chosen = name if name in ("marks", "levels") else "ask"
    found = inspect_file(file(counted(names)), replicates=chosen)
    assert found.table.concentrations.tolist() == [*scans]
    assert [of_level[:, 0].tolist() for of_level in found.table.scans] == [*scans.values()]
    doubt = f"levels {THIRD} and 0.3 differ by rounding alone: read as one level"
    assert found.doubts.count(doubt) == name.startswith("rounding")


# unknown spectra


def test_names_of_unknown_spectra_may_be_any_text_but_are_unique(file):
    names = ["tap water", "well 3", "nm?", "12"]
    for rows in (wide(names), tall("sample", names), tall("As", names)):
        found = read_spectra(file(text(rows)))
        assert found.names == names
        np.testing.assert_array_equal(found.values, SPECTRA)
    found = read_spectra(file(text(long(["sample", "wavelength_nm", "A"], names))))
    place = [found.names.index(name) for name in names]
    np.testing.assert_array_equal(found.values[place], SPECTRA)
    # Two spectra that are called like columns of a long table.
    assert read_spectra(file("nm,sample,A\n1,2,3\n2,4,5\n3,6,7\n")).names == ["sample", "A"]
    with pytest.raises(SpectraError, match="column 4: found 'a' again, first in row 1, column 2"):
        read_spectra(file(text(wide(["a", "b", "a", "c"]))))
    with pytest.raises(SpectraError, match="row 1, column 3: found no name"):
        read_spectra(file(text(wide(["a", "", "b", "c"]))))


# writing


@pytest.mark.parametrize("unit", ["nm", "cm1", "other"])
def test_what_is_written_reads_back_unchanged(file, unit):
    written = (
        f'"wavelength, of {unit}_{unit}",0,0__r2,0.05 µg/L,1e-7,12345.678\n'
        "200.5,0.1,-0.30000000000000004,1e-12,7415.66667,1e20\n"
        "201,1,2,3,4,5\n202.25,1,2,3,4,5\n"
    )
    table = read_table(file(written))
    again = read_table(file(to_csv(table)))
    np.testing.assert_array_equal(again.axis, table.axis)
    np.testing.assert_array_equal(again.concentrations, table.concentrations)
    assert (again.axis_name, again.axis_unit) == (table.axis_name, table.axis_unit)
    assert again.concentration_unit == "µg/L"
    for scans, expected in zip(again.scans, table.scans, strict=True):
        np.testing.assert_array_equal(scans, expected)
    assert to_csv(read_table(file(PLAIN))) == PLAIN.replace("1.0", "1")


# what is no file, second tables and folders


def test_what_is_no_file_of_spectra(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "empty").mkdir()
    for name, message in {
        "absent.csv": r"absent\.csv: No such file",
        "absent.zarr": r"absent\.zarr: found no such folder",
        "folder.csv": r"folder\.csv: Is a directory",
        "series.XLS": r"found a file \.xls, expected one of \.csv, .*\.xlsx",
        "series.spa": r"found a file \.spa, expected one of .*JCAMP-DX",
        "series": r"series: No such file",
        "series.0": r"found a file \.0, expected one of .*JCAMP-DX",
        "empty": "found a folder with nothing in it",
    }.items():
        for read in (read_table, read_spectra):
            assert_refused(message, read, tmp_path / name)


def second(file, content, names="abcd"):
    return file(text(wide(list(names)))), Choices(concentrations=file(content, "b.csv"))


FOUND = {
    "in another order": "name,concentration (ppb)\nd,60\nb,10\nc,20\na,0\n",
    "an empty third column": "name;conc (ppb);\na;0;\nb;10,0;\nc;20,0;\nd;60,0;\n",
    "a title in Excel": ",,\nPlate,1,\n,,\nname,conc_ppb,\na,0,\nb,10,\nc,20,\nd,60,\n",
    "units below": "name,conc\n,ppb\na,0\nb,10\nc,20\nd,60\n",
    "amounts first": "conc_ppb;name;\n;x;\n0,0;a;\n10,0;b;\n20;c;\n60;d;\n",
}


@pytest.mark.parametrize("content", FOUND.values(), ids=FOUND)
def test_a_second_table_is_found(file, content):
    path, choices = second(file, content)
    assert_series(read_table(path, choices=choices), "ppb")


def test_levels_of_a_second_table_may_be_there_twice_or_absent(file):
    known = file("sample;by;conc\na;x;0\nb;x;2,5\nc;y;2,5\nd;y;9\ne;y;\n", "b.csv")
    table = read_table(file(counted("abcde")), concentrations=known)
    assert table.concentrations.tolist() == [0, 2.5, 9]
    assert [of_level[:, 0].tolist() for of_level in table.scans] == [[0], [1, 2], [3]]


def test_a_second_table_without_rows_leaves_it_to_the_names(file):
    path, choices = second(file, "name,concentration\n", NAMES)
    assert_series(read_table(path, choices=choices))


@pytest.mark.parametrize("mark", [",", "\t"])
def test_names_of_samples_have_blanks_and_signs(file, mark):
    nfc, nfd = (unicodedata.normalize(form, "Probé") for form in ("NFC", "NFD"))
    for one, other in ((nfc + " {}", nfd + "\xa0{}"), (nfd + "\xa0{} ", " " + nfc + " {}\xa0")):
        rows = [["a name", "conc"], *([other.format(at), name] for at, name in enumerate(NAMES))]
        path, choices = second(file, text(rows, mark), [one.format(at) for at in range(4)])
        assert_series(read_table(path, choices=choices))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("name,conc\na,0\nb,5\n\nc,10\nd,20\n", "row 4: found a blank row above data"),
        ("a,0\nb,5\nc,10\nd,20\n", "found the columns 'a', '0', expected name and conc"),
        ("name,conc\na,0\nb,5\nc,10\n", "found 'd', which b.csv has not"),
        ("name,conc\na,0\nb,5\nc,10\nd,20\na,0\n", "row 6: found 'a' again"),
        ("name,conc\na,0\nb,-5\nc,10\nd,20\n", "row 3, column 2: found '-5', expected a concentra"),
        ("name,conc\na,0\nb,5 ppm\nc,10 ppb\nd,20\n", "in ppb and in ppm"),
        ("name,conc\na,0\nb,5\nc,\nd,\n", "found 2 concentrations, expected 3 to 20000"),
        ("a,b,c\n1,2,3\n2,3,4\n", r"b\.csv: .*found the columns 'a', 'b', 'c', expected name and"),
    ],
)
def test_a_second_table_that_does_not_fit_is_refused(file, content, message):
    path, choices = second(file, content)
    assert_refused(message, read_table, path, choices=choices)


def folder(tmp_path, names, axes=(AXIS,) * 4, header="wavelength_nm,Abs\n", spectra=SPECTRA):
    place = tmp_path / "scans"
    place.mkdir()
    for name, axis, values in zip(names, axes, spectra, strict=True):
        body = "".join(f"{at:g},{value:.10g}\n" for at, value in zip(axis, values, strict=True))
        (place / name).write_text(header + body, encoding="utf-8")
    return place


def test_files_are_called_by_their_concentrations(tmp_path):
    place = folder(tmp_path, [f"As_{name}ppb.csv" for name in NAMES])
    for name in (".As_10ppb.csv", "~$As_10ppb.csv"):
        (place / name).write_text("of another program")
    assert_series(read_table(place), "ppb")
    assert len(read_spectra(place).names) == 4
    one = place / "As_10ppb.csv"
    content = one.read_text()
    for name, changed, message in (
        ("As_10ppb.CSV", content, r"found As_10ppb\.CSV and As_10ppb\.csv, expected one file a"),
        ("two.csv", PLAIN, r"two\.csv: found 4 spectra, '0', .*, expected one in every file"),
        ("As_9ppb.csv", content.replace("Abs", "8 ppb"), r"found '8 ppb' in a file called 'As_9p"),
        ("z.csv", content.replace("_nm", "_cm1"), r"z\.csv: found an axis in cm-1, expected an a"),
        ("bad.csv", content.replace("410", "x"), r"bad\.csv: row 3, .*: found 'x' on the axis"),
    ):
        (place / name).write_text(changed)
        assert_refused(message, read_table, place)
        (place / name).unlink()


@pytest.mark.parametrize("ending", [".JAZ", ""])
def test_files_without_a_header_and_with_a_second_table(tmp_path, ending):
    place = folder(tmp_path, [f"{n}.5 x{ending}" for n in range(4)], header="")
    assert_refused(rf"0\.5 x{ending}: found '0\.5 x', expected a conc", read_table, place)
    levels = "".join(f"{n}.5 x{ending},{level:g}\n" for n, level in enumerate(LEVELS))
    (place / "levels.csv").write_text("file,conc_ppb\n" + levels)
    table = read_table(place, concentrations=place / "levels.csv")
    assert_series(table, "ppb", axis_unit="1")


JASCO = "TITLE{m}x\nXUNITS{m}NANOMETERS\nYUNITS{m}CD [mdeg]\nY2UNITS{m}HT [V]\nXYDATA\n"


@pytest.mark.parametrize(("mark", "point"), [(";", ","), ("\t", ".")])
def test_channels_without_a_header_are_chosen_by_their_name(tmp_path, mark, point):
    for name, one in zip(PPB, SPECTRA, strict=True):
        rows = [[f"{at:g}", f"{v:g}", f"{2 * v:g}"] for at, v in zip(AXIS, one, strict=True)]
        (tmp_path / f"{name}.csv").write_text(JASCO.format(m=mark) + text(rows, mark, point))
    for target, factor in ((None, 1), ("CD", 1), ("ht [v]", 2), ("HT", 2)):
        table = read_table(tmp_path, target=target)
        np.testing.assert_array_equal(table.spectra, factor * SPECTRA)
    assert_refused("found 0 spectra called 'PL'", read_table, tmp_path, target="PL")


# axes that differ


def quadratic(axis, level):
    """Monotone along the axis, so that monotone cubics follow it closely."""
    return 0.2 + (level + 1) * ((axis - 300) / 100) ** 2


@pytest.mark.parametrize("kind", ["pairs", "files"])
def test_spectra_of_different_axes_are_brought_to_the_coarsest(tmp_path, file, caplog, kind):
    axes = [np.arange(400 + n, 461.0, 2.5) for n in range(4)]
    axes[2] = np.arange(395, 466.0, 5.0)
    values = [quadratic(axis, level) for axis, level in zip(axes, LEVELS, strict=True)]
    if kind == "pairs":
        path = file(cary(PPB, axes, values))
    else:
        path = folder(tmp_path, [f"{name}.csv" for name in PPB], axes, spectra=values)
    table = read_table(path)
    np.testing.assert_array_equal(table.axis, np.arange(405, 460.0, 5.0))
    expected = quadratic(table.axis, LEVELS[:, None])
    # Cubics through points 2.5 apart are off by less.
    np.testing.assert_allclose(table.spectra, expected, atol=2e-4 * expected.max())
    assert "interpolated (monotone cubics) to the 11 values" in caplog.text
    assert "from 405 to 455" in caplog.text


@pytest.mark.parametrize(
    ("axis", "message"),
    [
        (AXIS + 20, "2 values in common, from 420 to 430"),
        (np.delete(np.arange(400.0, 431.0), slice(6, 11)), "found nothing between 405 and 411"),
        (np.array([400.0, 420, 410, 430]), "found an axis of 4 values that does not ascend"),
    ],
)
def test_axes_that_cannot_be_one_are_refused(file, axis, message):
    values = [*SPECTRA[:3], np.ones(len(axis))]
    assert_refused(message, read_table, file(cary(PPB, [AXIS] * 3 + [axis], values)))
