import csv
import math

import pytest
from openpyxl import load_workbook
from typer.testing import CliRunner

from geonode.cli import app
from tests.calibration import beer


def run(*arguments):
    return CliRunner().invoke(app, ["calibrate", *map(str, arguments)])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A calibration with two unknowns, one of a hostile name and one of nothing that was seen."""
    folder = tmp_path_factory.mktemp("made")
    source = beer.write_series(folder / "beer.csv")
    known = beer.spectra_at([3.5])[0]
    spectra = {"=1+1": known, "odd": 2 - known}
    (folder / "unknown.csv").write_text(beer.table(spectra), encoding="utf-8")
    done = run(source, "--unknown", folder / "unknown.csv", "--out", folder / "out")
    return done, folder / "out"


def rows(path):
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.reader(stream))


def test_a_straight_line_is_as_good_on_a_straight_response(made):
    done, _ = made
    assert done.exit_code == 0
    assert done.stdout.startswith("Use a straight line at 500 nm: median error")


def test_levels_and_unknowns_are_estimated(made):
    _, folder = made
    header, *levels = rows(folder / "calibration.csv")
    assert header[:5] == [
        f"{name} (ppb)" for name in ("level", "estimated", "low90", "high90", "error")
    ]
    assert [float(row[0]) for row in levels] == beer.LEVELS.tolist()
    assert all(abs(float(row[4])) < 1 for row in levels)
    _, good, odd = rows(folder / "unknowns.csv")
    assert good[:2] == ["unknown.csv", "'=1+1"]  # no formula of a spreadsheet
    assert float(good[3]) < 3.5 < float(good[4])
    assert (good[6], odd[6]) == ("true", "false")
    assert "fits nowhere" in odd[-1]


def test_the_workbook_holds_the_same_cells(made):
    _, folder = made
    book = load_workbook(folder / "calibration.xlsx")
    assert book.sheetnames[:4] == ["summary", "calibration", "validation", "unknowns"]
    for sheet in book:
        table = rows(folder / f"{sheet.title}.csv")
        assert (sheet.max_row, sheet.max_column) == (len(table), len(table[0]))
        for cells, texts in zip(sheet.iter_rows(), table, strict=True):
            for found, text in zip(cells, texts, strict=True):
                assert found.data_type != "f"
                if found.data_type == "n" and found.value is not None:
                    assert math.isclose(found.value, float(text), rel_tol=1e-5)
                elif found.data_type == "s":
                    assert found.value == text.removeprefix("'")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file"),
        (beer.table({"0": beer.UNIT_SPECTRUM}), "found 1 concentrations, expected 4"),
        (beer.table({"0": beer.UNIT_SPECTRUM * math.nan}), "an empty or NaN cell"),
    ],
)
def test_a_wrong_file_is_one_line_and_nothing_is_written(tmp_path, text, said):
    source = tmp_path / "series.csv"
    if text is not None:
        source.write_text(text, encoding="utf-8")
    done = run(source, "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_an_unknown_on_another_axis_is_refused_before_anything_is_written(tmp_path):
    source = beer.write_series(tmp_path / "beer.csv", 1)
    other = beer.table({"a": beer.UNIT_SPECTRUM}).replace("\n400,", "\n401,")
    (tmp_path / "unknown.csv").write_text(other, encoding="utf-8")
    done = run(source, "--unknown", tmp_path / "unknown.csv", "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert "unknown.csv: axis: found 401 to 600" in done.stderr
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["beer.csv", "unknown.csv"]


def test_a_unit_that_is_not_that_of_the_file_is_refused(tmp_path):
    done = run(beer.write_series(tmp_path / "beer.csv", 1), "--concentration-unit", "mol/L")
    assert done.exit_code == 2
    assert "found concentrations in ppb, and spectra.concentration_unit mol/L" in done.stderr
