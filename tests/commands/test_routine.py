"""A chemist's week: calibrate once, estimate by the saved file, control, validate, record."""

import hashlib
import json
import resource
import time
from datetime import datetime

import numpy as np
import pandas as pd
import pytest
from openpyxl import load_workbook
from scipy.stats import t as student

from geonode.calibration import saved
from geonode.reading.files import FORMATS
from tests.calibration import beer
from tests.commands.calling import call, estimate, records, rows, write
from tests.stages.conftest import assert_refused

SAMPLES = dict(zip("abc", beer.spectra_at([1.5, 4.0, 7.0]), strict=True))
QC = beer.spectra_at([5.0])[0]


@pytest.fixture(scope="module")
def week(tmp_path_factory):
    """A calibration with unknowns and a validation file, made by the command."""
    folder = tmp_path_factory.mktemp("week")
    beer.write_series(folder / "beer.csv")
    write(folder / "day1/run.csv", {"QC": QC} | SAMPLES)
    for name in (".run.csv", "~$run.csv"):
        (folder / "day1" / name).write_text("of another program")
    known = dict(zip(("3 ppb", "6 ppb"), beer.spectra_at([3, 6]), strict=True))
    write(folder / "known.csv", known)
    words = ("--unknown", folder / "day1/*.csv", "--control", "QC=5", "--user", "A. Chemist")
    done = call(
        *("calibrate", folder / "beer.csv", *words, "--validation", folder / "known.csv"),
        *("--preprocess", "[{savgol: {window: 5, degree: 2}}]", "--out", folder / "made"),
    )
    assert done.exit_code == 0, done.output
    control, validation, verdict, *_ = done.stdout.splitlines()
    assert control.startswith("control QC (run.csv) passed: found 5")
    assert "2 of 2 inside their 90% intervals" in validation
    assert verdict.startswith("Use ")
    return folder


def test_the_saved_calibration_gives_the_same_digits(week, tmp_path):
    out = tmp_path / "out.csv"
    estimate(week, week / "day1", "--control", "QC=5", "--out", out, status=0)
    assert rows(out) == rows(week / "made/unknowns.csv")
    assert rows(out.with_suffix(".controls.csv")) == rows(week / "made/controls.csv")
    assert float(rows(out)[3][2]) == pytest.approx(4, abs=0.1)


def test_results_stay_until_they_are_to_be_replaced(week, tmp_path):
    out, day2 = tmp_path / "out.csv", write(tmp_path / "day2/run.csv", SAMPLES)
    estimate(week, week / "day1", "--control", "QC=5", "--out", out, status=0)
    assert_refused(estimate(week, day2, "--out", out), "a name that is not taken")
    out.unlink()
    assert_refused(estimate(week, day2, "--out", out), "out.controls.csv")
    estimate(week, week / "day1", day2, "--out", out, "--overwrite", status=0)
    assert {path.name for path in tmp_path.glob("*.csv")} == {"out.csv", "out.record.csv"}
    files = [row[0] for row in rows(out)[1:]]
    assert files == [str(week / "day1/run.csv")] * 4 + [str(day2)] * 3


def test_what_cannot_be_written_whole_leaves_all_results_as_they_were(week, tmp_path):
    """Files of more bytes than the first of three results."""
    out = tmp_path / "out.csv"
    estimate(week, week / "day1", "--control", "QC=5", "--out", out, status=0)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    day2 = write(tmp_path.parent / f"{tmp_path.name}_day2/run.csv", SAMPLES)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (out.stat().st_size, limits[1]))
    try:
        refused = estimate(week, day2, "--out", out, "--overwrite")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert_refused(refused, "File too large")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_the_record_says_by_what_from_what_and_when(week, tmp_path):
    out = tmp_path / "out.csv"
    estimate(week, week / "day1/run.csv", "--out", out, status=0)
    for path in (week / "made/record.csv", out.with_suffix(".record.csv")):
        found = dict(rows(path)[1:])
        content = (week / "made/calibration.safetensors").read_bytes()
        assert found["calibration file, SHA-256"] == hashlib.sha256(content).hexdigest()
        source = (week / "beer.csv").read_bytes()
        assert found["calibrated with, SHA-256"] == hashlib.sha256(source).hexdigest()
        assert json.loads(found["option preprocess"]) == [{"savgol": {"window": 5, "degree": 2}}]
        assert datetime.fromisoformat(found["date and time"]).tzinfo is not None
        assert {"method", "made by", "read, SHA-256", "preprocessing"} <= {*found}
    assert "user" not in found
    assert dict(rows(week / "made/record.csv"))["user"] == "A. Chemist"


@pytest.mark.parametrize(("control", "said"), [(1.2 * QC, "known 5 ppb"), (2 - QC, "fits nowhere")])
def test_a_failed_control_is_said_first_and_ends_with_status_1(week, tmp_path, control, said):
    """It concerns all of its own file."""
    day, other = write(tmp_path / "day.csv", {"QC": control} | SAMPLES), tmp_path / "other.csv"
    out = tmp_path / "out.csv"
    done = estimate(week, day, write(other, SAMPLES), "--control", "QC=5", "--out", out, status=1)
    first = done.output.splitlines()[0]
    assert first.startswith("error: control QC (day.csv) failed: ")
    assert said in first
    failed = ["a control failed" in row["remark"] for row in records(out)]
    assert failed == [True] * 4 + [False] * 3


def test_a_diluted_sample_has_its_amounts_before(week, tmp_path):
    """All numbers but those of the control, by one factor and by those of a table."""
    table, commas = tmp_path / "list.csv", tmp_path / "commas.csv"
    table.write_text("sample,dilution\na,10\nb,\nc,2.5\n", encoding="utf-8")
    commas.write_text("sample;dilution\na;10,000\nb;\nc;2,5\n", encoding="utf-8")
    found = {}
    for given in (None, "10", table, commas):
        out = tmp_path / "out.csv"
        words = ("--control", "QC=5", "--out", out, "--overwrite")
        words += () if given is None else ("--dilution", given)
        estimate(week, week / "day1/run.csv", *words, status=0)
        names = ("raw estimate (ppb)", "raw standard error (ppb)", "low90 (ppb)", "high90 (ppb)")
        found[given] = np.array([[float(row[name]) for name in names] for row in records(out)])
        record = dict(rows(out.with_suffix(".record.csv"))[1:])
        assert record.get("read with dilution") == (given and str(given))
    listed = [1, 10, 1, 2.5]
    for given, factors in (("10", [1, 10, 10, 10]), (table, listed), (commas, listed)):
        expected = np.array(factors)[:, None] * found[None]
        np.testing.assert_allclose(found[given], expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("names", "table"), [("xb", ""), ("xb", "sample,dilution\nx,1\nday,10\n"), ("xx", "")]
)
def test_a_spectrum_alone_has_the_name_of_its_file_too(week, tmp_path, names, table):
    """A control that is named so is not diluted, and a sample is named once in a table.

    All spectra have one name in tables of two columns, whose header is that of the instrument.
    """
    files = zip(("QC", "day"), names, strict=True)
    control, day = (write(tmp_path / f"{file}.csv", {name: QC}) for file, name in files)
    (tmp_path / "list.csv").write_text(table, encoding="utf-8")
    words = "--dilution", tmp_path / "list.csv" if table else 10, "--out", tmp_path / "out.csv"
    estimate(week, control, day, "--control", "QC=5", *words, status=0)
    assert [row["dilution"] for row in records(tmp_path / "out.csv")] == ["1", "10"]


def test_a_control_is_in_the_history_once_whatever_files_are_beside_it(week, tmp_path):
    history, words = tmp_path / "qc.csv", ("--control", "QC=5", "--history", tmp_path / "qc.csv")
    days = [
        write(tmp_path / f"day{at}/run.csv", {"QC": one}) for at, one in enumerate((QC, QC * 1.001))
    ]
    for files in (days[:1], days, days[1:]):
        estimate(week, *files, *words, status=0)
        assert len(rows(history)) == 1 + len(rows_of := {row[4] for row in rows(history)[1:]})
    assert len(rows_of) == 2


def test_dates_of_a_history_sort_as_text_where_clocks_differ(week, tmp_path, monkeypatch):
    history = tmp_path / "qc.csv"
    for zone, spectrum in (("UTC-14", QC), ("UTC+11", QC * 1.001)):  # 14 hours east, 11 west
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        day = write(tmp_path / f"{zone}.csv", {"QC": spectrum})
        estimate(week, day, "--control", "QC=5", "--history", history)
    monkeypatch.undo()
    time.tzset()
    dates = [row[0] for row in rows(history)[1:]]
    assert dates == sorted(dates)
    assert len(dates) == 2


def test_names_that_are_no_formulas_match_in_tables(week, tmp_path):
    day = write(tmp_path / "day.csv", {"=b": QC, "@QC": QC})
    estimate(week, day, "--out", tmp_path / "out.csv", status=0)
    names = [row[1] for row in rows(tmp_path / "out.csv")[1:]]
    assert names == ["'=b", "'@QC"]
    (tmp_path / "list.csv").write_text("name,dilution\n" + "".join(f"{one},10\n" for one in names))
    words = "--dilution", tmp_path / "list.csv", "--control", "@QC=50", "--overwrite"
    estimate(week, day, *words, "--out", tmp_path / "out.csv", status=0)
    assert [row["dilution"] for row in records(tmp_path / "out.csv")] == ["10", "10"]


def test_unknowns_below_the_recommended_limits_are_remarked(week, tmp_path):
    lod, loq = map(float, rows(week / "made/limits.csv")[1][1:3])
    assert 3 < loq / lod < 3.1  # 10 to 3.3 standard errors, of nearly one size
    samples = beer.spectra_at([lod / 2, (lod + loq) / 2, 2 * loq])
    day = write(tmp_path / "day.csv", dict(zip("abc", samples, strict=True)))
    estimate(week, day, "--out", tmp_path / "out.csv", status=0)
    low, between, high = (row["remark"] for row in records(tmp_path / "out.csv"))
    assert low.startswith("not detected: below the limit of detection, ")
    assert between.startswith("< LOQ: below the limit of quantification, ")
    assert high == ""


def test_an_axis_off_by_a_constant_is_corrected_on_request(tmp_path):
    """Spectra on an axis 6.3 nm too high, whose range is wider than the one calibrated with."""
    series, day = beer.write_series(tmp_path / "beer.csv"), tmp_path / "day.csv"
    made, saved = tmp_path / "made", "calibration.safetensors"
    by_pls = ("calibrate", series, "--method", "pls", "--out")
    call(*by_pls, made, "--window", 420, 580, status=0)
    lines = beer.table({"a": beer.spectra_at([2])[0], "b": beer.spectra_at([7])[0]}).splitlines()
    moved = [f"{float(line[:3]) + 6.3:g}{line[3:]}" for line in lines[1:]]
    day.write_text("\n".join([lines[0], *moved]), encoding="utf-8")
    words = "estimate", day, "--calibration"
    assert "its axis is off by about 6" in call(*words, made / saved).output
    done = call(*words, made / saved, "--align", "--out", tmp_path / "out.csv", status=0)
    shift = float(done.output.split("its axis was off by ")[1].split(" nm")[0])
    assert shift == pytest.approx(6.3, abs=0.3)
    estimates = [float(row[2]) for row in rows(tmp_path / "out.csv")[1:]]
    assert estimates == pytest.approx([2, 7], abs=0.05)
    assert dict(rows(tmp_path / "out.record.csv"))["aligned"].endswith("nm")
    call(*by_pls, tmp_path / "whole", status=0)
    done = call(*words, tmp_path / "whole" / saved, "--align")
    assert_refused(done, "axis: found 406.3 to 606.3 nm", "400 to 406.3 nm is missing")


def test_a_history_keeps_the_controls_of_all_days_with_their_chart(week, tmp_path):
    """An exact control; then 0.85% more, which one day warns of and two in succession reject."""
    history, exits = tmp_path / "qc.csv", []
    for number, factor in enumerate([1, 1.0085, 1.0085, 1.0085]):
        name = f"{min(number, 2)}.csv"  # the last file is estimated twice, and kept once
        day = write(tmp_path / name, {"QC": beer.spectra_at([5 * factor])[0]} | SAMPLES)
        done = estimate(week, day, "--control", "QC=5", "--history", history)
        exits.append(done.exit_code)
        assert ("a warning" in done.output) == (factor > 1)
    assert exits == [0, 0, 1, 1]
    assert "rule 2-2s: two in succession" in done.output
    header, *points = rows(history)
    assert header[:4] == ["date", "file", "control", "nominal"]
    assert [row[1] for row in points] == ["0.csv", "1.csv", "2.csv"]
    assert abs(float(points[0][6])) < 2 < float(points[1][6]) < 3
    page = history.with_suffix(".html").read_text(encoding="utf-8")
    assert "two in succession beyond 2 standard errors" in page


def test_a_level_is_that_of_all_intervals(week, tmp_path):
    """Half widths are those of Student's law; the calibration has 5 levels, 3 + 1/2 degrees."""
    widths = {}
    for level in (0.9, 0.95):
        out, name = tmp_path / f"{level}.csv", f"{100 * level:.0f}"
        words = ("--level", level, "--control", "QC=5", "--out", out)
        estimate(week, week / "day1", *words, status=0)
        row = records(out)[0]
        widths[level] = float(row[f"high{name} (ppb)"]) - float(row[f"low{name} (ppb)"])
        assert f"geonode set{name} (ppb)" in row
        assert ["intervals", f"{name}%"] in rows(out.with_suffix(".record.csv"))
    ratio = student.ppf(0.975, 3.5) / student.ppf(0.95, 3.5)
    assert widths[0.95] / widths[0.9] == pytest.approx(ratio, rel=1e-4)


def test_a_validation_that_fails_ends_with_status_1_and_results(week, tmp_path):
    day, out = write(tmp_path / "day.csv", SAMPLES), tmp_path / "out.csv"
    tenths = dict(zip(("0.3", "0.6", "0.9"), beer.spectra_at([3, 6, 9]), strict=True))
    words = ("--validation", write(tmp_path / "v.csv", tenths), "--out", out)
    done = estimate(week, day, *words, status=1)
    assert done.output.startswith("error: validation with 3 spectra (")
    assert "0 of 3 inside their 90% intervals; it failed" in done.output
    assert rows(out.with_suffix(".record.csv"))[-1][0] == "validation"


def test_spectra_that_calibrated_or_corrected_judge_nothing(week, tmp_path):
    higher = dict(zip(("2 ppb", "5 ppb", "8 ppb"), beer.spectra_at([2.1, 5.1, 8.1]), strict=True))
    standards = write(tmp_path / "standards.csv", higher)
    own = estimate(week, week / "day1", "--standards", standards, "--validation", standards)
    assert f"{standards}: corrected with 2 ppb, 5 ppb and 8 ppb too, which can judge" in own.stderr
    same = estimate(week, week / "day1", "--validation", week / "beer.csv")
    assert "beer.csv: calibrated with " in same.stderr
    other = "--standards", standards, "--validation", week / "known.csv"
    assert "too, which" not in estimate(week, week / "day1", *other).stderr


def test_validation_and_standards_are_said_and_recorded(week, tmp_path):
    ground = beer.spectra_at([0])
    higher = 1.1 * (beer.spectra_at([2, 5, 8]) - ground) + ground
    standards = write(tmp_path / "standards.csv", dict(zip("258", higher, strict=True)))
    out = tmp_path / "out.xlsx"
    words = ("--standards", standards, "--validation", week / "known.csv", "--out", out)
    done = estimate(week, week / "day1", *words, "--json", status=0)
    lines = done.stderr.splitlines()
    assert "RMSEP" in lines[0]
    assert "estimates are corrected by 3 standards" in lines[1]
    unknown = json.loads(done.stdout)["unknowns"][1]
    assert unknown["estimated (ppb)"] == pytest.approx(unknown["uncorrected (ppb)"] / 1.1, abs=0.05)
    book = load_workbook(out)
    assert book.sheetnames == ["unknowns", "validated", "standards", "record"]
    kinds = [row[0].value for row in book["record"].iter_rows()]
    assert {"correction", "validation"} <= {*kinds}


def test_known_spectra_are_read_as_those_of_levels(week, tmp_path):
    spectra = dict(zip(("x", "y"), beer.spectra_at([3, 6]), strict=True))
    day, out = write(tmp_path / "day.csv", SAMPLES), tmp_path / "out.csv"
    with pd.ExcelWriter(tmp_path / "known.xlsx") as book:
        for sheet in ("other", "checks"):
            pd.DataFrame(spectra, beer.AXIS).to_excel(book, sheet_name=sheet, index_label="nm")
    (tmp_path / "table.csv").write_text("name,lead (ppb),zinc (ppb)\nx,3,1\ny,6,2\n", "utf-8")
    words = ["--validation", tmp_path / "known.xlsx", "--concentrations", tmp_path / "table.csv"]
    words += ["--target", "lead", "--out", out]
    done = estimate(week, day, *words, "--sheet", "checks", status=0)
    assert "2 of 2 inside their 90% intervals" in done.stdout.splitlines()[0]
    assert [row[1] for row in rows(out.with_suffix(".validated.csv"))[1:]] == ["3", "6"]
    assert str(tmp_path / "table.csv") in [row[1] for row in rows(out.with_suffix(".record.csv"))]
    out.unlink()
    assert_refused(estimate(week, day, *words), "expected one sheet")
    assert_refused(estimate(week, day, "--target", "lead"), "--validation or --standards beside it")


def test_the_workbook_has_spectra_charts_and_formats(week):
    book = load_workbook(week / "made/calibration.xlsx")
    spectra = np.array([[cell.value for cell in row] for row in book["spectra"].iter_rows(2)])
    mean = spectra[:, -3:].mean(axis=1)
    np.testing.assert_allclose(mean, beer.spectra_at([10])[0], atol=0.01)
    assert [len(book[name]._charts) for name in ("calibration", "regression")] == [1, 1]
    assert book["calibration"]["C3"].number_format in {"0.000", "0.0000"}


@pytest.mark.parametrize("changed", ["source", "second", "unknown", "saved"])
def test_a_file_that_changes_while_it_is_read_is_refused(week, tmp_path, monkeypatch, changed):
    """Whatever is read while an instrument writes it, no record gets the checksum of another."""
    levels = dict(zip("abcd", beer.spectra_at([0, 2, 5, 8]), strict=True))
    samples = dict(zip("uv", beer.spectra_at([3, 6]), strict=True))
    columns = {"source": levels, "unknown": SAMPLES, "known": samples}
    files = {name: write(tmp_path / f"{name}.csv", one) for name, one in columns.items()}
    files |= {"second": tmp_path / "second.csv", "saved": tmp_path / "saved.safetensors"}
    files["second"].write_text("name,lead (ppb)\na,0\nb,2\nc,5\nd,8\nu,3\nv,6\n", "utf-8")
    files["saved"].write_bytes((week / "made/calibration.safetensors").read_bytes())

    def changing(path, read):
        found = read(path)
        if path == files[changed]:
            path.write_bytes(path.read_bytes() + b"\n")
        return found

    csv, loaded = FORMATS[".csv"], saved.load_calibration
    monkeypatch.setitem(FORMATS, ".csv", lambda path: changing(path, csv))
    monkeypatch.setattr(saved, "load_calibration", lambda path: changing(path, loaded))
    words = ["--concentrations", files["second"], "--validation", files["known"], "--out"]
    if changed == "source":
        done = call("calibrate", files["source"], *words, tmp_path / "out")
    else:
        words += [tmp_path / "out.csv", "--calibration", files["saved"]]
        done = call("estimate", files["unknown"], *words)
    assert_refused(done, f"{files[changed].name}: found that it changed while it was read")
    assert not [*tmp_path.glob("out*")]
