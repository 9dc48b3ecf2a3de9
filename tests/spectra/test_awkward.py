"""Files as instruments and people write them: read right, or refused with the reason."""

import struct
import warnings

import numpy as np
import pytest

from geonode.errors import SpectraError
from geonode.spectra.reading import Choices, read_spectra, read_table

LEVELS = np.array([0.0, 5.0, 10.0, 20.0, 40.0])
AXIS = np.arange(400.0, 461.0, 5.0)
SPECTRA = np.round(np.random.default_rng(7).uniform(0.05, 1.2, (len(LEVELS), len(AXIS))), 4)
PREAMBLE = "Instrument: UV-2600\nDate: 22.11.2026 10:15:00\nScan range (nm): 400 - 460\n"
FOOTER = "\nEnd of data\nLamp: D2\n"
NAMES = [f"{level:g}" for level in LEVELS]


def columns(names=NAMES, corner="wavelength_nm", mark=",", point=".", spectra=SPECTRA, axis=AXIS):
    rows = [[corner, *names]] + [
        [f"{at:g}", *(f"{value:.4f}" for value in row)]
        for at, row in zip(axis, spectra.T, strict=True)
    ]
    return (
        "\n".join(
            mark.join(row if not place else [cell.replace(".", point) for cell in row])
            for place, row in enumerate(rows)
        )
        + "\n"
    )


def above(*rows, mark=","):
    """The table with other rows in place of its header."""
    body = columns(mark=mark).split("\n", 1)[1]
    return "\n".join(mark.join(row) for row in rows) + "\n" + body


def cary(names, axes=None, spectra=SPECTRA, end=","):
    """Two columns a spectrum; shorter ones end in empty cells."""
    axes = [AXIS] * len(names) if axes is None else axes
    lines = [",,".join(names) + "," + end, ",".join(["Wavelength (nm),Abs"] * len(names)) + end]
    for place in range(max(map(len, axes))):
        pairs = [
            f"{axis[place]:g},{values[place]:.4f}" if place < len(axis) else ","
            for axis, values in zip(axes, spectra, strict=True)
        ]
        lines.append(",".join(pairs) + end)
    return "\n".join(lines) + "\n"


@pytest.fixture
def write(tmp_path):
    """Write files, by name; the path of the first one."""

    def write_files(**files):
        paths = []
        for name, content in files.items():
            path = tmp_path / name.replace("__", ".")
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
            paths.append(path)
        return paths[0]

    return write_files


def assert_series(table, unit=None, axis_unit="nm"):
    np.testing.assert_array_equal(table.concentrations, LEVELS)
    np.testing.assert_array_equal(table.axis, AXIS)
    np.testing.assert_array_equal(table.spectra, SPECTRA)
    assert (table.concentration_unit, table.axis_unit) == (unit, axis_unit)


MICRO = columns([f"{name} µM" for name in NAMES])
READ = {
    "UTF-16 of Excel's Unicode text": (columns(mark="\t").encode("utf-16"), None),
    "UTF-16, the other order": (b"\xfe\xff" + columns(mark="\t").encode("utf-16-be"), None),
    "Latin-1 with a micro sign": (MICRO.encode("latin-1"), "µM"),
    "Windows-1252 in the text above": (("Prüfer: Jörg\n\n" + columns()).encode("cp1252"), None),
    "text above": (PREAMBLE + columns(), None),
    "text above, an empty line between": (PREAMBLE + "\n" + columns(), None),
    "text above as a spreadsheet saves it": (
        "Instrument,UV-2600,,,,\nOperator,Anna,,,,\n" + columns(),
        None,
    ),
    "text above of as many words as columns": (
        "a text of six words here\n" + columns(mark="\t"),
        None,
    ),
    "text below": (columns() + FOOTER, None),
    "text above and below, decimal commas": (
        PREAMBLE + columns(mark=";", point=",") + FOOTER,
        None,
    ),
    "comments above": ("# made by hand\n# twice\n" + columns(), None),
    "comments within": (columns().replace("\n420,", "\n# lamp changed\n420,"), None),
    "a commented header": ("# " + columns(), None),
    "a column that counts rows": (
        ",".join(["", *columns().split("\n")[0].split(",")])
        + "\n"
        + "".join(f"{n},{row}\n" for n, row in enumerate(columns().strip().split("\n")[1:])),
        None,
    ),
    "names above units": (above(["Wavelength", *NAMES], ["nm", *["ppb"] * 5]), "ppb"),
    "names above units in brackets": (
        above(["Wavelength", *NAMES], ["(nm)", *["(mg/L)"] * 5], mark="\t"),
        "mg/L",
    ),
    "levels above per cent, of spectra": (
        above(["wavelength_nm", *NAMES], ["nm", *["%"] * 5]),
        None,
    ),
    "levels above the signal": (above(["wavelength_nm", *NAMES], ["nm", *["Abs"] * 5]), None),
    "samples above concentrations": (
        above(["Sample", *"ABCDE"], ["Concentration (ppb)", *NAMES], ["nm", *["Abs"] * 5]),
        "ppb",
    ),
    "samples above concentrations, the axis named": (
        above(["Sample", "1", "2", "3", "4", "5"], ["wavelength_nm", *NAMES]),
        None,
    ),
    "substance and concentration": (columns([f"As_{name}ppb" for name in NAMES]), "ppb"),
    "concentration in brackets": (columns([f"As ({name} mg/L)" for name in NAMES]), "mg/L"),
    "unit behind a blank": (columns([f"{name} mg/L" for name in NAMES]), "mg/L"),
    "commas at the end of every line": (columns().replace("\n", ",\n"), None),
    "Cary": (cary([f"{name} ppb" for name in NAMES]), "ppb"),
    "Cary with text below": (
        cary([f"As_{name}ppb" for name in NAMES]) + "\n5 ppb,\nCollection Time: 9/22/2026\n"[7:],
        "ppb",
    ),
    "an axis beside every spectrum": (
        cary(NAMES, end="")
        .split("\n", 1)[1]
        .replace(
            ",".join(["Wavelength (nm),Abs"] * 5),
            ",".join(f"Wavelength (nm),{name}" for name in NAMES),
        ),
        None,
    ),
}


@pytest.mark.parametrize(("content", "unit"), READ.values(), ids=READ)
def test_the_series_is_read(write, content, unit):
    assert_series(read_table(write(a__csv=content)), unit)


BROKEN = columns().replace("\n420,", "\n\n420,")
REFUSED = {
    "a row without its axis among numbers": (
        columns().replace("\n420,", "\nx,"),
        "'x' on the axis",
    ),
    "a gap between two halves": (BROKEN, "found a blank row above data"),
    "a last row that was cut": (PREAMBLE + columns()[:-9], "row 17: found 5 cells, expected 6"),
    "a last row of a number alone": (PREAMBLE + columns() + "465", "row 18: found 1 cells"),
    "a damaged row behind the text above": (
        PREAMBLE + columns().replace("\n400,", "\n400,high"),
        "row 5, column '0': found 'high",
    ),
    "two rows of numbers above": (
        above(["wavelength_nm", *NAMES], ["", "1", "2", "3", "4", "5"]),
        "rows 1 and 2: found two rows that may be the concentrations",
    ),
    "columns that pandas has renamed": (
        columns(["0", "20", "20.1", "20.2", "40"]),
        "a level of its own, or what pandas .* spectra.replicates to levels or to marks",
    ),
    "two substances": (
        columns(["As_0ppb", "As_5ppb", "Pb_5ppb", "As_20ppb", "As_40ppb"]),
        "'Pb_5ppb' beside 'As_0ppb', which are of two substances",
    ),
    "two numbers in a name": (
        columns([f"As 1 {name} ppb" for name in ("000", "005", "010", "020", "040")]),
        "expected a concentration that is finite",
    ),
    "a negative number in a name": (columns(["0", "As -5 ppb", "10", "20", "40"]), "'As -5 ppb'"),
    "a time behind a concentration": (
        columns([f"As_{name}ppb_10min" for name in NAMES]),
        "expected a concentration",
    ),
    "units that differ between rows": (
        above(["Conc. (ppm)", *NAMES], ["nm", *["ppb"] * 5]),
        "found concentrations in ppb and in ppm",
    ),
    "units that differ between columns": (
        above(["Wavelength", *NAMES], ["nm", "ppb", "ppm", "ppb", "ppb", "ppb"]),
        "found concentrations in ppm and in ppb",
    ),
    "rows of data behind an empty one": (
        columns() + "\nmean,1,2,3,4,5\n",
        "a blank row above data",
    ),
    "two tables": (columns() + "\n" + columns(), "a blank row above data"),
    "a blank": (columns(["blank", *NAMES[1:]]), "'blank'.*write 0 for a blank"),
    "UTF-8 and Latin-1 together": (
        (columns() + "\n# µ").encode() + "\n# µ\n".encode("latin-1"),
        "partly of UTF-8",
    ),
    "Cary with a baseline": (
        cary(["Baseline 100%T", *(f"{name} ppb" for name in NAMES[1:])]),
        "'Baseline 100%T', expected a concentration.*spectra.concentrations",
    ),
    "Cary with a value and no wavelength": (
        cary([f"{name} ppb" for name in NAMES]).replace("\n405,", "\n,", 1),
        "'405'|without its wavelength|found",
    ),
}


@pytest.mark.parametrize(("content", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_wrong_or_may_mean_two_things_is_refused(write, content, message):
    with pytest.raises(SpectraError, match=message):
        read_table(write(a__csv=content))


# replicates


def test_what_pandas_calls_a_second_column_is_as_it_is_chosen(write):
    path = write(a__csv=columns(["0", "20", "20.1", "5", "40"]))
    marked = read_table(path, choices=Choices(replicates="marks"))
    assert marked.concentrations.tolist() == [0, 5, 20, 40]
    np.testing.assert_array_equal(marked.scans[2], SPECTRA[[1, 2]])
    apart = read_table(path, choices=Choices(replicates="levels"))
    assert apart.concentrations.tolist() == [0, 5, 20, 20.1, 40]
    np.testing.assert_array_equal(apart.spectra, SPECTRA[[0, 3, 1, 2, 4]])


def test_marks_that_can_mean_nothing_else_are_scans(write):
    names = ["As_0ppb", "As_5ppb_1", "As_5ppb_2", "As_20ppb", "As_40ppb"]
    for marked in (names, ["0 ppb", "5 ppb", "5 ppb.1", "20 ppb", "40 ppb"]):
        table = read_table(write(a__csv=columns(marked))) if len(set(marked)) == 5 else None
        if marked is names:
            assert [len(scans) for scans in table.scans] == [1, 2, 1, 1]
        np.testing.assert_array_equal(table.scans[1], SPECTRA[[1, 2]])


# sheets


def workbook(path, **sheets):
    book = pytest.importorskip("openpyxl").Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


CELLS = [["wavelength_nm", *NAMES], *np.column_stack([AXIS, SPECTRA.T]).tolist()]


def test_a_sheet_is_chosen(tmp_path):
    path = workbook(tmp_path / "a.xlsx", Info=[["made by", "Anna"]], Data=CELLS)
    with pytest.raises(SpectraError, match=r"sheets 'Info', 'Data', .*spectra\.sheet"):
        read_table(path)
    with pytest.raises(SpectraError, match="expected one called 'data'"):
        read_table(path, choices=Choices(sheet="data"))
    assert_series(read_table(path, choices=Choices(sheet="Data")))
    assert len(read_spectra(path, sheet_name="Data").names) == 5


def test_a_table_may_stand_anywhere_in_a_sheet(tmp_path):
    rows = [["UV-2600"], [], *([None, *row] for row in CELLS), [], [None, "checked by Jörg"]]
    rows[0] = [None, "UV-2600"]
    assert_series(read_table(workbook(tmp_path / "a.xlsx", Data=rows)))
    with pytest.raises(SpectraError, match="expected a workbook"):
        read_table(tmp_path / "a.csv", choices=Choices(sheet="Data"))


# a second table


def named(write, second, names="abcde"):
    path = write(a__csv=columns(list(names)), b__csv=second)
    return path, Choices(concentrations=path.with_name("b.csv"))


def test_concentrations_come_from_a_second_table(write):
    path, choices = named(write, "name,concentration (ppb)\ne,40\nb,5\nc,10\nd,20\na,0\n")
    assert_series(read_table(path, choices=choices), "ppb")
    path, choices = named(write, "sample;operator;conc\na;x;0\nb;x;2,5\nc;y;2,5\nd;y;20\ne;y;40\n")
    with pytest.raises(SpectraError, match=r"b\.csv: .*found the columns|expected name and"):
        read_table(path, choices=Choices(concentrations=write(c__csv="a,b,c\n1,2,3\n2,3,4\n")))
    table = read_table(path, choices=choices)
    assert table.concentrations.tolist() == [0, 2.5, 20, 40]
    np.testing.assert_array_equal(table.scans[1], SPECTRA[[1, 2]])


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("name,conc\na,0\nb,5\nc,10\nd,20\n", "found 'e', which b.csv has not"),
        ("name,conc\na,0\nb,5\nc,10\nd,20\ne,40\na,0\n", "row 7: found 'a' again"),
        ("name,conc\na,0\nb,-5\nc,10\nd,20\ne,40\n", "row 3: found '-5', expected a concentration"),
        ("name,conc\na,0\nb,5 ppm\nc,10 ppb\nd,20\ne,40\n", "in ppb and in ppm"),
        ("name,conc\na,0\nb,5\nc,\nd,20\ne,\n", "found 3 concentrations, expected 4 to 50"),
    ],
)
def test_a_second_table_that_does_not_fit_is_refused(write, second, message):
    path, choices = named(write, second)
    with pytest.raises(SpectraError, match=message):
        read_table(path, choices=choices)


# several files


def folder(tmp_path, names, axes=None, header="wavelength_nm,Abs\n", spectra=SPECTRA):
    place = tmp_path / "scans"
    place.mkdir()
    for name, axis, values in zip(names, axes or [AXIS] * len(names), spectra, strict=False):
        body = "".join(f"{at:g},{value:.4f}\n" for at, value in zip(axis, values, strict=True))
        (place / name).write_text(header + body, encoding="utf-8")
    return place


def test_files_are_called_by_their_concentrations(tmp_path):
    place = folder(tmp_path, [f"As_{name}ppb.csv" for name in NAMES])
    assert_series(read_table(place), "ppb")
    assert len(read_spectra(place).names) == 5
    (place / "notes.docx").touch()
    with pytest.raises(SpectraError, match=r"a folder with notes\.docx in it"):
        read_table(place)


def test_files_without_a_header_and_with_a_second_table(tmp_path):
    place = folder(tmp_path, [f"S{n}.txt" for n in range(5)], header="")
    (place / "levels.csv").write_text(
        "file,conc_ppb\n" + "".join(f"S{n}.txt,{level:g}\n" for n, level in enumerate(LEVELS))
    )
    table = read_table(place, choices=Choices(concentrations=place / "levels.csv"))
    assert_series(table, "ppb", axis_unit="1")


def test_numbers_of_samples_are_no_concentrations(tmp_path):
    place = folder(tmp_path, [f"{n}.csv" for n in range(5)])
    with pytest.raises(SpectraError, match=r"0\.csv: found '0' as name of a sample"):
        read_table(place)


def test_files_of_two_units_are_refused(tmp_path):
    place = folder(tmp_path, [f"{name} ppb.csv".replace("/", "") for name in NAMES])
    one = place / "5 ppb.csv"
    one.write_text(one.read_text().replace("wavelength_nm", "wavenumber_cm1"))
    with pytest.raises(SpectraError, match=r"found an axis in .*, expected"):
        read_table(place)


# axes that differ


def quadratic(axis, level):
    """Monotone along the axis, so that monotone cubics follow it closely."""
    return 0.2 + (level + 1) * ((axis - 300) / 100) ** 2


@pytest.mark.parametrize("kind", ["pairs", "files"])
def test_spectra_of_different_axes_are_brought_to_the_coarsest(tmp_path, write, caplog, kind):
    axes = [np.arange(400 + n, 461.0, 2.5) for n in range(5)]
    axes[2] = np.arange(395, 466.0, 5.0)
    values = [quadratic(axis, level) for axis, level in zip(axes, LEVELS, strict=True)]
    names = [f"{name} ppb" for name in NAMES]
    if kind == "pairs":
        path = write(a__csv=cary(names, axes, values))
    else:
        path = folder(tmp_path, [f"{name}.csv" for name in names], axes, spectra=values)
    table = read_table(path)
    np.testing.assert_array_equal(table.axis, np.arange(405, 460.0, 5.0))
    expected = quadratic(table.axis, LEVELS[:, None])
    # Written with four digits; cubics through points 2.5 apart are off by less.
    np.testing.assert_allclose(table.spectra, expected, atol=2e-4 * expected.max())
    assert "interpolated (monotone cubics) to the 11 values" in caplog.text
    assert "from 405 to 455" in caplog.text


def test_axes_without_enough_in_common_are_refused(write):
    axes = [AXIS] * 4 + [AXIS + 55]
    with pytest.raises(SpectraError, match="2 values in common, from 455 to 460"):
        read_table(write(a__csv=cary([f"{name} ppb" for name in NAMES], axes)))
    axes = [AXIS] * 4 + [np.delete(np.arange(400.0, 461.0), slice(11, 39))]
    values = [*SPECTRA[:4], np.ones(len(axes[4]))]
    with pytest.raises(SpectraError, match="found nothing between 410 and 439"):
        read_table(write(a__csv=cary([f"{name} ppb" for name in NAMES], axes, values)))


# SPC, as bytes that are packed by hand from the description of the format


def spc(values, first=AXIS[0], last=AXIS[-1], version=0x4B, exponent=-128, of_one=-128, kind=3):
    header = struct.pack("<BBBbIddI", 0, version, 0, exponent, len(values), first, last, 1)
    header += struct.pack("<BBB", kind, 2, 0)
    one = struct.pack("<BbHfffIIf", 0, of_one, 0, 0.0, 0.0, 0.0, 0, 0, 0.0)
    kinds = "f" if -128 in (exponent, of_one) else "i"
    scale = 1 if kinds == "f" else 2.0 ** (32 - exponent)
    body = struct.pack(
        f"<{len(values)}{kinds}", *(v if kinds == "f" else round(v * scale) for v in values)
    )
    return header.ljust(512, b"\0") + one.ljust(32, b"\0") + body


@pytest.mark.parametrize("exponents", [(-128, -128), (2, 2)])
def test_spc_files_are_read(tmp_path, exponents):
    pytest.importorskip("spc_io")
    place = tmp_path / "scans"
    place.mkdir()
    for name, values in zip(NAMES, SPECTRA, strict=True):
        content = spc(values, exponent=exponents[0], of_one=exponents[1])
        (place / f"As_{name}ppb.spc").write_bytes(content)
    table = read_table(place)
    np.testing.assert_array_equal(table.concentrations, LEVELS)
    np.testing.assert_allclose(table.axis, AXIS)
    np.testing.assert_allclose(table.spectra, SPECTRA, rtol=1e-6)
    assert (table.axis_name, table.axis_unit) == ("wavelength", "nm")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (spc(SPECTRA[0], version=0x4D), "old format .*JCAMP-DX"),
        (spc(SPECTRA[0])[:-9], "found no SPC file|bytes of 1 spectra"),
        (spc(SPECTRA[0], exponent=3, of_one=1), "exponents 3 and 1"),
        (b"no SPC", "found no header of an SPC file"),
        (spc([*SPECTRA[0][:-1], np.nan]), "found NaN or infinity"),
    ],
)
def test_spc_files_that_are_not_read_are_refused(write, content, message):
    pytest.importorskip("spc_io")
    with pytest.raises(SpectraError, match=message), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read_spectra(write(a__spc=content))
