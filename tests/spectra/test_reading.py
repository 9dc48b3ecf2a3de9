import random

import numpy as np
import pytest

from geonode.errors import SpectraError
from geonode.spectra.reading import read_spectra, read_table, to_csv

PLAIN = """\
wavelength_nm,0,10,20,60
400,0.1,0.2,0.3,0.4
410,0.5,0.6,0.7,0.8
420,0.9,1.0,1.1,1.2
430,1.3,1.4,1.5,1.6
"""
PLAIN_SPECTRA = np.array(
    [[0.1, 0.5, 0.9, 1.3], [0.2, 0.6, 1.0, 1.4], [0.3, 0.7, 1.1, 1.5], [0.4, 0.8, 1.2, 1.6]]
)


@pytest.fixture
def read(tmp_path):
    """Read text or bytes from a file called series.csv."""

    def read_text(content, **options):
        path = tmp_path / "series.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_table(path, **options)

    return read_text


def assert_plain(table):
    np.testing.assert_array_equal(table.axis, [400, 410, 420, 430])
    assert (table.axis_name, table.axis_unit) == ("wavelength", "nm")
    np.testing.assert_array_equal(table.concentrations, [0, 10, 20, 60])
    np.testing.assert_array_equal(table.spectra, PLAIN_SPECTRA)
    assert table.masked.size == 0


@pytest.mark.parametrize(
    "content",
    [
        PLAIN,
        PLAIN.encode("utf-8-sig"),
        PLAIN.replace("\n", "\r\n"),
        PLAIN.rstrip("\n"),
        PLAIN + "\n  \n,,,,\n\n",
        PLAIN.replace(",", " , ").replace("\n", " \n "),
        PLAIN.replace("wavelength_nm,0", '"wavelength_nm", "0"'),
        PLAIN.replace("wavelength_nm", "wavelength (nm)"),
        PLAIN.replace("0.1,0.2", "+.1,2E-1"),
    ],
    ids=["plain", "bom", "crlf", "no newline", "blank end", "spaces", "quoted", "unit", "floats"],
)
def test_the_same_series_in_many_hands(read, content):
    assert_plain(read(content))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("direction", [1, -1])
def test_order_of_rows_and_columns_does_not_matter(read, seed, direction):
    header, *rows = [line.split(",") for line in PLAIN.splitlines()]
    columns = random.Random(seed).sample(range(1, 5), 4)
    lines = [[row[0], *(row[column] for column in columns)] for row in [header, *rows[::direction]]]
    assert_plain(read("\n".join(",".join(line) for line in lines)))


@pytest.mark.parametrize(
    ("header", "name", "unit"),
    [
        ("wavelength_nm", "wavelength", "nm"),
        ("raman_shift_cm1", "raman_shift", "cm-1"),
        ("Raman shift (cm^-1)", "Raman shift", "cm-1"),
        ("wavelength [nm]", "wavelength", "nm"),
        ("wavelength / nm", "wavelength", "nm"),
        ("wavelength nm", "wavelength", "nm"),
        ("Wavelength (NM)", "Wavelength", "nm"),
        ("wavelength_µm", "wavelength", "um"),
        ("photon_energy_eV", "photon_energy", "eV"),
        ("raman_shift", "raman_shift", "1"),
        ("shift (parsec)", "shift (parsec)", "1"),  # of no known unit
        ("nm", "nm", "1"),
    ],
)
def test_name_and_unit_of_the_axis(read, header, name, unit):
    table = read(PLAIN.replace("wavelength_nm", header))
    assert (table.axis_name, table.axis_unit) == (name, unit)


def test_replicates_belong_to_their_level_in_order_of_their_marks(read):
    table = read(
        "wavelength_nm,30__r10,0,30,10.0__r2,10,30__r2,20\n"
        "1,5,0,3,2,1,4,0\n2,50,0,30,20,10,40,0\n3,500,0,300,200,100,400,0\n"
    )
    np.testing.assert_array_equal(table.concentrations, [0, 10, 20, 30])
    np.testing.assert_array_equal(table.scans[1], [[1, 10, 100], [2, 20, 200]])
    np.testing.assert_array_equal(table.scans[3], [[3, 30, 300], [4, 40, 400], [5, 50, 500]])
    np.testing.assert_array_equal(table.spectra[3], [4, 40, 400])


def test_window_includes_its_ends(read):
    table = read(PLAIN, window=(410.0, 430.0))
    np.testing.assert_array_equal(table.axis, [410, 420, 430])
    np.testing.assert_array_equal(table.spectra, PLAIN_SPECTRA[:, 1:])


@pytest.mark.parametrize("cell", ["", "nan", "NaN", " "])
@pytest.mark.parametrize("descending", [False, True])
def test_masked_wavelengths_are_left_out_and_reported(read, cell, descending):
    header, *rows = PLAIN.replace("0.6", cell).splitlines()
    text = "\n".join([header, *(rows[::-1] if descending else rows)])
    table = read(text, missing="mask")
    np.testing.assert_array_equal(table.axis, [400, 420, 430])
    np.testing.assert_array_equal(table.spectra, PLAIN_SPECTRA[:, [0, 2, 3]])
    np.testing.assert_array_equal(table.masked, [410])


def test_missing_cells_outside_the_window_do_not_matter(read):
    table = read(PLAIN.replace("0.2", ""), window=(410.0, 430.0))
    np.testing.assert_array_equal(table.axis, [410, 420, 430])
    assert table.masked.size == 0


def wide(levels):
    rows = ["wavelength_nm," + ",".join(map(str, levels))]
    return "\n".join(rows + [f"{axis}" + ",1" * len(levels) for axis in (1, 2, 3)])


ERRORS = {
    "empty file": ("", "found an empty file, expected a header"),
    "blank file": ("\n \n\n", "found an empty file, expected a header"),
    "header only": ("wavelength_nm,0,10,20,60\n", "found 0 wavelengths, expected at least 3"),
    "two rows": ("nm,0,1,2,3\n1,1,1,1,1\n2,1,1,1,1\n", "found 2 wavelengths, expected at least 3"),
    "utf-16 without mark": (PLAIN.encode("utf-16-le"), "binary data"),
    "half a character": (PLAIN.encode() + b"\xc3", "not UTF-8"),
    "binary": (bytes(range(256)) * 10, "binary data|not UTF-8"),
    "endless line": (b"0" * 2**21, "binary data"),
    "no header": (PLAIN.split("\n", 1)[1], "row 1: found '400', expected a header"),
    "no axis name": (PLAIN.replace("wavelength_nm", ""), "row 1: found '', expected a header"),
    "short row": (PLAIN.replace("0.7,0.8", "0.7"), "row 3: found 4 cells, expected 5"),
    "long row": (PLAIN.replace("0.8", "0.8,9"), "row 3: found 6 cells, expected 5"),
    "blank row": (PLAIN.replace("420,", "\n420,"), "row 4: found a blank row above data"),
    "text": (PLAIN.replace("0.7", "high"), "row 3, column '20': found 'high', expected a number"),
    "underscore": (PLAIN.replace("0.7", "1_0"), "row 3, column '20': found '1_0'"),
    "other digits": (PLAIN.replace("0.7", "\u0667"), "row 3, column '20': found '\u0667'"),
    "thousands": (PLAIN.replace("0.7", '"1,000"'), "row 3, column '20': found '1,000'"),
    "quote": (PLAIN.replace("0.7", '"0"7'), "row 3: .*expected plain cells"),
    "open quote": (PLAIN.replace("0.7", '"0.7'), "row .*expected plain cells"),
    "empty cell": (PLAIN.replace("0.7", ""), "row 3, column '20': found an empty or NaN cell"),
    "nan cell": (PLAIN.replace("1.6", "nan"), "row 5, column '60': found an empty or NaN cell"),
    "inf cell": (PLAIN.replace("0.7", "inf"), "row 3, column '20': found 'inf', .*finite"),
    "overflow": (PLAIN.replace("0.7", "1e999"), "row 3, column '20': found '1e999', .*finite"),
    "nan axis": (PLAIN.replace("410", "nan"), "row 3, column 'wavelength_nm': found 'nan'"),
    "empty axis": (PLAIN.replace("410", ""), "row 3, column 'wavelength_nm': found ''"),
    "inf axis": (PLAIN.replace("410", "inf"), "row 3, column 'wavelength_nm': found 'inf'"),
    "text axis": (PLAIN.replace("410", "x"), "row 3, column 'wavelength_nm': found 'x'"),
    "repeated axis": (PLAIN.replace("420", "410"), "row 4: found 410 .*again, first in row 3"),
    "repeated apart": (PLAIN.replace("430", "400"), "row 5: found 400 .*again, first in row 2"),
    "unsorted": (PLAIN.replace("420", "405"), "row 4: found 405 .*after 410, expected it to asc"),
    "unsorted start": (PLAIN.replace("400", "415"), "row 3: found 410 .*after 415"),
    "unsorted down": (
        "nm,0,1,2,3\n9,1,1,1,1\n8,1,1,1,1\n8.5,1,1,1,1\n7,1,1,1,1\n",
        "row 4: found 8.5 .*after 8, expected it to descend",
    ),
    "text level": (
        PLAIN.replace("20,60", "high,60"),
        "row 1, column 4: found 'high', expected a c",
    ),
    "empty level": (PLAIN.replace("20,60", ",60"), "row 1, column 4: found ''"),
    "negative level": (PLAIN.replace("20,60", "-20,60"), "row 1, column 4: found '-20'.*negative"),
    "nan level": (PLAIN.replace("20,60", "nan,60"), "row 1, column 4: found 'nan'.*finite"),
    "inf level": (PLAIN.replace("20,60", "inf,60"), "row 1, column 4: found 'inf'.*finite"),
    "same level": (
        PLAIN.replace("20,60", "10.0,60"),
        r"row 1, column 3 \('10'\) and row 1, column 4 \('10.0'\) are the same .*mark .* 10__r2",
    ),
    "same scan": (
        wide([0, 10, 20, 30, "30__r2", "30.0__r2"]),
        r"column 6 \('30__r2'\) and row 1, column 7 \('30.0__r2'\) are the same scan",
    ),
    "mark without base": (
        PLAIN.replace("20,60", "20__r2,60"),
        "row 1, column 4: found '20__r2' but no '20'",
    ),
    "mark without level": (PLAIN.replace("20,60", "__r2,60"), "row 1, column 4: found '__r2'"),
    "mark without number": (PLAIN.replace("20,60", "20__r,60"), "row 1, column 4: found '20__r'"),
    "first scan marked": (
        PLAIN.replace("20,60", "20__r1,60"),
        "row 1, column 4: found '20__r1', expected .* 30__r2 for its second scan",
    ),
    "3 levels": (wide(range(3)), "found 3 concentrations, expected 4 to 50"),
    "51 levels": (wide(range(51)), "found 51 concentrations, expected 4 to 50"),
    "replicates are no levels": (
        wide([0, 10, 20, "20__r2"]),
        "found 3 concentrations, expected 4 to 50",
    ),
}


@pytest.mark.parametrize(("content", "message"), ERRORS.values(), ids=ERRORS)
def test_errors_name_file_place_and_remedy_in_one_line(read, tmp_path, content, message):
    with pytest.raises(SpectraError, match=message) as caught:
        read(content)
    assert str(caught.value).startswith(f"{tmp_path / 'series.csv'}: ")
    assert "\n" not in str(caught.value)


def test_infinity_is_refused_even_where_gaps_are_masked(read):
    with pytest.raises(SpectraError, match="row 3, column '20': found '-inf'"):
        read(PLAIN.replace("0.7", "-inf"), missing="mask")


def test_masking_must_leave_a_series(read):
    holes = PLAIN.replace("0.1", "").replace("0.6", "").replace("1.1", "")
    with pytest.raises(SpectraError, match="missing cells leave 1 of 4 wavelengths"):
        read(holes, missing="mask")
    with pytest.raises(SpectraError, match="missing cells leave 0 of 4 wavelengths"):
        read(holes.replace("1.6", ""), missing="mask")


def test_window_must_leave_a_series(read):
    with pytest.raises(
        SpectraError, match=r"window \[405, 420\] keeps 2 wavelengths.*axis runs from 400 to 430"
    ):
        read(PLAIN, window=(405.0, 420.0))


def test_missing_file_and_directory(tmp_path):
    with pytest.raises(SpectraError, match=r"absent\.csv: No such file"):
        read_table(tmp_path / "absent.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(SpectraError, match=r"folder\.csv: Is a directory"):
        read_table(tmp_path / "folder.csv")
    for name, found in (("series.xls", r"a file \.xls"), ("series", "a file without extension")):
        with pytest.raises(SpectraError, match=rf"{name}: found {found}, expected one of \.csv, "):
            read_table(tmp_path / name)


@pytest.mark.parametrize("unit", ["nm", "cm1", "um", "eV", "other"])
def test_what_is_written_reads_back_unchanged(read, unit):
    text = (
        f'"wavelength, of {unit}_{unit}",0,0__r2,0.05,1e-7,12345.678\n'
        "200.5,0.1,-0.30000000000000004,1e-12,7415.66667,1e20\n"
        "201,1,2,3,4,5\n202.25,1,2,3,4,5\n"
    )
    table = read(text)
    again = read(to_csv(table))
    np.testing.assert_array_equal(again.axis, table.axis)
    np.testing.assert_array_equal(again.concentrations, table.concentrations)
    assert (again.axis_name, again.axis_unit) == (table.axis_name, table.axis_unit)
    for scans, expected in zip(again.scans, table.scans, strict=True):
        np.testing.assert_array_equal(scans, expected)


def test_the_unit_of_the_levels_is_written_too(read):
    table = read(wide([0, "10 µg/L", "10 µg/L__r2", 20, 30]))
    again = read(to_csv(table))
    assert table.concentration_unit == again.concentration_unit == "µg/L"
    assert [len(scans) for scans in again.scans] == [1, 2, 1, 1]


def test_text_is_what_a_user_would_write(read):
    assert to_csv(read(PLAIN)) == PLAIN.replace("1.0", "1")


def excel(path):
    book = pytest.importorskip("openpyxl").Workbook()
    for line in PLAIN.splitlines():
        book.active.append([cell if "_" in cell else float(cell) for cell in line.split(",")])
    book.save(path)


def jcamp(path):
    pytest.importorskip("jcamp")
    with path.open("w", encoding="utf-8") as file:
        file.write("##TITLE=all\n##DATA TYPE=LINK\n")
        for level, spectrum in zip((20, 0, 60, 10), PLAIN_SPECTRA[[2, 0, 3, 1]], strict=True):
            file.write(f"##TITLE=x\n##CONCENTRATIONS={level}\n##XUNITS=NANOMETERS\n")
            file.write("##NPOINTS=4\n##XYPOINTS=(XY..XY)\n")
            file.writelines(f"{400 + 10 * k} {y}\n" for k, y in enumerate(spectrum))
            file.write("##END=\n")
        file.write("##END=\n")


def arrays(path):
    xarray = pytest.importorskip("xarray")
    coordinates = {"concentration": [0, 10, 20, 60], "wavelength": [400.0, 410, 420, 430]}
    found = xarray.DataArray(PLAIN_SPECTRA, coordinates, ["concentration", "wavelength"])
    found["wavelength"].attrs["units"] = "nm"
    if path.suffix == ".nc":
        found.to_dataset(name="signal").to_netcdf(path, engine="scipy")
    else:
        found.to_dataset(name="signal").to_zarr(path, consolidated=False)


def text(path):
    tabs = path.suffix == ".tsv"
    path.write_text(PLAIN.replace(",", "\t" if tabs else ";").replace(".", ","), encoding="utf-8")


@pytest.mark.parametrize(
    ("suffix", "write"),
    [
        (".txt", text),
        (".TSV", text),
        (".xlsx", excel),
        (".dx", jcamp),
        (".nc", arrays),
        (".zarr", arrays),
    ],
)
def test_the_same_table_from_every_format(tmp_path, suffix, write):
    path = tmp_path / f"series{suffix}"
    write(path)
    assert_plain(read_table(path))
    spectra = read_spectra(path)
    values = dict(zip(map(float, spectra.names), spectra.values.tolist(), strict=True))
    assert values == dict(zip((0, 10, 20, 60), PLAIN_SPECTRA.tolist(), strict=True))


@pytest.mark.parametrize(
    ("file", "levels", "wavelengths", "unit"),
    [
        ("aunp_as_030mb.csv", [0, 10, 20, 30, 40, 60], 601, "nm"),
        ("quinine_flu.csv", [0.05, 0.10, 0.15, 0.20, 0.25, 0.30], 181, "nm"),
        ("pmppp_sync_dl15.csv", [31, 62, 125, 250, 500, 2000, 4000, 8000, 10000], 290, "nm"),
        ("aunp_mb_coarse.csv", [100, 300, 600, 900], 601, "nm"),
        ("raman_glucose_a.csv", [0, 50, 100, 150, 200, 300, 400, 500], 748, "cm-1"),
    ],
)
def test_measured_series(measured_data, file, levels, wavelengths, unit):
    table = read_table(measured_data / file)
    np.testing.assert_array_equal(table.concentrations, levels)
    assert table.spectra.shape == (len(levels), wavelengths)
    assert table.axis_unit == unit
    # numpy's own reader as the independent method.
    expected = np.loadtxt(measured_data / file, delimiter=",", skiprows=1)
    np.testing.assert_array_equal(np.column_stack([table.axis, table.spectra.T]), expected)


def test_measured_replicates(measured_data):
    table = read_table(measured_data / "aunp_as_030mb__reps.csv")
    assert [len(scans) for scans in table.scans] == [1, 1, 1, 3, 1, 1]
    # Published: repeat scans differ by 0.0010 to 0.0014 RMS. A difference of two scans has
    # sqrt(2) times the standard deviation of one.
    assert 0.0010 <= np.sqrt(2) * table.replicate_noise() <= 0.0014
    # Published: not monotonic at every wavelength.
    assert read_table(measured_data / "aunp_as_030mb.csv").non_monotonic_share() == 1.0
