"""`geonode calibrate` and `geonode next`, with a calibration that is fitted once."""

import json
import math
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from openpyxl import load_workbook

from geonode.calibration.calibration_file import CalibrationFile
from geonode.report.calibration_files import write_calibration
from tests.calibration import beer
from tests.commands.calling import call, records, rows, write
from tests.report.reading import Page

NAMES = {
    *("index.html", "calibration.xlsx", "summary.csv", "calibration.csv", "validation.csv"),
    "left_out.csv",
    *("unknowns.csv", "limits.csv", "peaks.csv", "predicted.csv", "next.csv"),
    *("samples.csv", "components.csv", "regression.csv", "spectra.csv", "record.csv"),
    *("precision.csv", "calibration.safetensors"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory, calibration, series_file):
    """A calibration with two unknowns, one of a hostile name and one of nothing that was seen."""
    folder = tmp_path_factory.mktemp("made")
    known = beer.spectra_at([3.5])[0]
    spectra = {"=1+1": known, "odd": 2 - known}
    write(folder / "unknown.csv", spectra)
    words = ("--unknown", folder / "unknown.csv", "--out", folder / "out")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CalibrationFile, "of", lambda source, series, how, report: calibration)
        done = call("calibrate", series_file, "--quantity", "absorbance", *words)
    assert done.exit_code == 0, done.output
    assert "The best single method, by these same errors, is PCR with RMSEP 0.00" in done.stdout
    assert "unknowns estimated by straight line, weighted 1/c²" in done.stderr
    return folder / "out"


def test_levels_and_unknowns_are_estimated(made):
    header, *levels = rows(made / "calibration.csv")
    assert header[:6] == [
        *("level (ppb)", "method", "estimated (ppb)", "low90 (ppb)", "high90 (ppb)", "error (ppb)")
    ]
    method = "straight line, weighted 1/c²"
    assert [(float(row[0]), row[1]) for row in levels] == [(at, method) for at in beer.LEVELS]
    assert all(abs(float(row[5])) < 0.1 for row in levels)
    assert sum(row[7] == "true" for row in levels) >= 4
    good, odd = records(made / "unknowns.csv")
    assert (good["spectrum"], good["method"]) == ("'=1+1", method)  # no formula of a spreadsheet
    assert float(good["low90 (ppb)"]) < 3.5 < float(good["high90 (ppb)"])
    assert good["raw estimate (ppb)"] != good["geonode estimated (ppb)"]
    assert float(good["geonode low90 (ppb)"]) < 3.5 < float(good["geonode high90 (ppb)"])
    assert (good["fits"], odd["fits"]) == ("true", "false")
    assert "fits nowhere" in odd["remark"]
    assert odd["estimated (ppb)"] == odd["low90 (ppb)"] == odd["geonode set90 (ppb)"] == ""
    assert good["remark"] == ""
    error = float(f"{float(good['raw standard error (ppb)']):.1e}")
    assert float(good["standard error (ppb)"]) == error
    rounded = round(float(good["raw estimate (ppb)"]), 1 - math.floor(math.log10(error)))
    assert float(good["estimated (ppb)"]) == rounded


def test_the_band_is_a_peak_and_the_summary_gives_errors_and_limits(made):
    (names, *peaks), page = rows(made / "peaks.csv"), (made / "index.html").read_text("utf-8")
    assert (names[1], names[5]) == ("absorbance at 0 ppb", "slope of the line (1/ppb)")
    assert [float(peak[0]) for peak in peaks] == [500]
    assert float(peaks[0][5]) == pytest.approx(beer.UNIT_SPECTRUM[beer.PLACE], rel=0.02)
    assert peaks[0][8] == "true"
    assert 'id="peaks"' in page
    assert page.index('id="results"') < page.index('id="answer"') < page.index("<details>")
    used = dict(rows(made / "summary.csv"))["unknowns by"]
    medians = {row[0]: float(row[2]) for row in rows(made / "validation.csv")[1:]}
    table = rows(made / "calibration.csv")[1:]
    geonode = [abs(float(row[8]) - float(row[0])) for row in table]
    for method, errors in (("geonode", geonode), (used, [abs(float(row[5])) for row in table])):
        assert medians[method] == pytest.approx(np.median(errors), rel=0.01)


def test_diagnostics_are_tables_of_levels_wavelengths_and_components(made):
    header, *levels = rows(made / "samples.csv")
    names = ("leverage", "T2", "Q")
    each = [column for name in names for column in (name, f"limit of {name}")]
    assert header[1:] == [*each, "inside both limits"]
    assert [float(row[0]) for row in levels] == [*beer.LEVELS]
    for _, *pairs, inside in levels:
        leverage, highest, t2, of_t2, q, largest = map(float, pairs)
        # Tracy, Young and Mason: T2 = (n - 1) (h - 1/n), of five levels.
        expected = 4 * (leverage - 0.2), 4 * (highest - 0.2)
        assert (t2, of_t2) == pytest.approx(expected, rel=1e-4)
        assert (inside == "true") == (leverage <= highest and q <= largest)
    (_, _, name), *vector = rows(made / "regression.csv")
    assert name == "regression vector of PLS (ppb)"
    at, mean, found = np.array(vector, float).T
    np.testing.assert_allclose(at, beer.AXIS)
    np.testing.assert_allclose(mean, np.mean([one.mean(0) for one in beer.scans()], 0), rtol=1e-4)
    assert np.corrcoef(found, beer.UNIT_SPECTRUM)[0, 1] > 0.9  # of one substance, with noise
    header, *errors = rows(made / "components.csv")
    assert header == ["components", "RMSECV of PCR (ppb)", "RMSECV of PLS (ppb)"]
    assert float(errors[0][1]) < 0.1


def test_the_workbook_holds_the_same_cells(made):
    book = load_workbook(made / "calibration.xlsx")
    assert {entry.name for entry in made.iterdir()} == NAMES
    assert book.sheetnames[:4] == ["unknowns", "record", "summary", "calibration"]
    for sheet in book:
        table = rows(made / f"{sheet.title}.csv")
        assert (sheet.max_row, sheet.max_column) == (len(table), len(table[0]))
        for cells, texts in zip(sheet.iter_rows(), table, strict=True):
            for found, text in zip(cells, texts, strict=True):
                assert found.data_type != "f"
                if found.data_type == "n" and found.value is not None:
                    assert math.isclose(found.value, float(text), rel_tol=1e-5)
                elif found.data_type == "s":
                    assert found.value == text.removeprefix("'")


def test_another_method_may_be_asked_for_and_whose_number_it_is_is_said(tmp_path):
    """Of a series without a blank."""
    levels, noise = [1, 2, 4, 6, 8, 10], np.random.default_rng(3).normal(size=(6, 21))
    names, spectra = (f"{at} ppb" for at in levels), beer.spectra_at(levels) + 1e-4 * noise
    series = write(tmp_path / "wide.csv", dict(zip(names, spectra, strict=True)))
    exact = dict(zip("abc", beer.spectra_at([0.2, 5.0, 14.0]), strict=True))
    unknown = write(tmp_path / "unknown.csv", exact)
    words = ("--unknown", unknown, "--method", "pls", "--out", tmp_path / "out")
    done = call("calibrate", series, *words, status=0)
    assert "Unknown spectra are estimated by PLS." in done.stdout
    found = records(tmp_path / "out" / "unknowns.csv")
    assert [row["method"] for row in found] == ["PLS"] * 3
    *raw, none = [row["raw estimate (ppb)"] for row in found]
    assert [float(one) for one in raw] == pytest.approx([0.2, 5], abs=0.05)
    assert none == ""
    low, within, high = (row["remark"] for row in found)
    assert low.startswith("below the range: beyond the level of 1 ppb")
    assert "range" not in within
    assert high.startswith("c fits nowhere")  # its numbers mean nothing, also their range


def test_intervals_that_fail_and_large_errors_are_warned_of(calibration):
    """Of 7 intervals 2 hold, which happens with a probability of 2e-4 if 9 of 10 do."""
    levels = np.arange(7.0)
    sets = [[(level - 1, level + 1)] for level in [0, 1, *levels[2:] + 5]]
    errors = np.array([2, -2, 2, -2, 2, -2, 2])
    left_out = dict.fromkeys(("pls", "combined"), levels + errors)
    found = replace(
        calibration.model.calibration,
        **{"concentrations": levels, "sets": {"pls": sets}, "method": "pls", "left_out": left_out},
    )
    few, large = found.warnings
    assert few == "Warning: 2 of 7 known levels inside their interval; about 6 expected."
    assert "the error (RMSEP) is 33% of the range" in large
    assert not replace(calibration.model, calibration=found).is_sound
    sound = replace(found, sets={"pls": [[(level - 1, level + 1)] for level in levels]})
    assert sound.warnings == [large]


def test_proposals_lie_between_the_levels_and_are_told_apart(series_file):
    done = call("next", series_file, "--count", 1, "--json")
    (found,) = json.loads(done.stdout)["next"]
    amount = found["concentration"]
    assert amount not in beer.LEVELS
    assert beer.LEVELS[0] < amount < beer.LEVELS[-1]
    assert found["gain"] == 1 - found["after"] / found["before"] > 0
    header, line = call("next", series_file, "--count", 1).stdout.splitlines()
    assert "(ppb)" in header
    assert float(line.split()[0]) == float(f"{amount:.4g}")


# the command of the page


def command(folder):
    """Words of the command that the page in a folder shows."""
    page = Page((folder / "index.html").read_text(encoding="utf-8"))
    (shown,) = [text for text in page.text if text.startswith("geonode estimate ")]
    return shlex.split(shown)


@pytest.mark.parametrize("name", ["plain", 'it\'s <b>&amp; "$HOME"'])
def test_the_command_of_the_page_estimates_by_the_file_beside_it(
    calibration, tmp_path, monkeypatch, name
):
    monkeypatch.chdir(tmp_path)
    write(Path("unknown.csv"), {"a": beer.spectra_at([3.5])[0]})
    write_calibration(calibration, Path(name))
    program, *words = command(Path(name))
    done = call(*words, "--json")
    assert (program, done.exit_code) == ("geonode", 0), done.output
    (found,) = json.loads(done.stdout)["unknowns"]
    assert found["low90 (ppb)"] < 3.5 < found["high90 (ppb)"]


def test_a_folder_whose_name_is_no_text_has_a_page(calibration, tmp_path):
    folder = tmp_path / "a\udcffb"
    try:
        folder.touch()
    except OSError:
        pytest.skip("no such names on this file system")
    folder.unlink()
    write_calibration(calibration, folder)
    assert command(folder)[-1] == str(tmp_path / "a?b" / "calibration.safetensors")
