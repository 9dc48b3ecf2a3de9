import csv
import json
import re
import shlex
import shutil
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from geonode import cli
from geonode.estimation.curve import Curve
from geonode.estimation.model import SpectralModel
from geonode.estimation.posterior import estimate
from geonode.estimation.tables import COLUMNS
from geonode.parameter_types import PreprocessStep
from geonode.preprocessing.steps import Preprocessing
from geonode.spectra.series import read_series
from tests.estimation.trained import AXIS, spectra_at
from tests.stages.conftest import ROOT, assert_refused

DOCS = ROOT / "docs/estimate.md"


def call(*arguments, before=()):
    words = [*before, "estimate", *arguments]
    return CliRunner().invoke(cli.app, [str(word) for word in words])


def write(path, spectra, axis=AXIS, header="wavelength_nm", names=None):
    """A file of one column a spectrum."""
    names = names or [f"sample {number}" for number in range(1, len(spectra) + 1)]
    lines = [",".join([header, *names])]
    lines += [",".join(map(repr, map(float, row))) for row in zip(axis, *spectra, strict=True)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def samples(tmp_path):
    """Spectra of 12 and of 50, which those of 48 and of 10 resemble, and of the highest peak."""
    return write(tmp_path / "samples.csv", spectra_at([12, 50, 30]))


def direct(root, spectra, **allowed):
    return estimate(Curve.of(SpectralModel.read(root / "data"), **allowed), spectra)


def intervals(text):
    return [tuple(map(float, part.split("-"))) for part in text.split("; ")]


def test_a_table_has_what_the_model_says(trained, samples, tmp_path):
    out = tmp_path / "out.csv"
    result = call(samples, "--root", trained, "--out", out)
    assert (result.exit_code, result.stderr) == (0, f"3 estimates -> {out}\n")
    with out.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert tuple(rows[0]) == COLUMNS
    assert [row["name"] for row in rows] == ["sample 1", "sample 2", "sample 3"]
    expected = direct(trained, spectra_at([12, 50, 30]))
    columns = {
        "mode": expected.mode,
        "mean": expected.mean,
        "std": expected.deviation,
        "p_value": expected.p_value,
    }
    for name, numbers in columns.items():
        np.testing.assert_allclose([float(row[name]) for row in rows], numbers, rtol=5.1e-6)
    for row, sets, modes in zip(rows, expected.sets, expected.modes, strict=True):
        np.testing.assert_allclose(intervals(row["set90"]), sets, rtol=5.1e-6)
        hull = [float(row["low90"]), float(row["high90"])]
        np.testing.assert_allclose(hull, [sets[0][0], sets[-1][1]], rtol=5.1e-6)
        said = re.findall(r"(\S+) \((\S+)\)", row["modes"])
        np.testing.assert_allclose([float(at) for at, _ in said], [at for at, _ in modes], 5.1e-6)
        assert [float(weight) for _, weight in said] == [round(w, 2) for _, w in modes]
    assert [row["intervals"] for row in rows] == ["2", "2", "1"]
    assert [row["ambiguous"] for row in rows] == ["true", "true", "false"]
    assert {row["fits"] for row in rows} == {"true"}


def test_both_concentrations_of_one_spectrum_are_told(trained, samples):
    result = call(samples, "--root", trained, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert found["concentration_unit"] == "ppb"
    for row, truth in zip(found["spectra"], (12, 50, 30), strict=True):
        for possible in (truth, 60 - truth):
            assert any(low <= possible <= high for low, high in row["set90"])
        assert (row["intervals"], row["ambiguous"]) == ((2, True) if truth != 30 else (1, False))
        assert (row["low90"], row["high90"]) == (row["set90"][0][0], row["set90"][-1][1])
        assert sum(mode["weight"] for mode in row["modes"]) == pytest.approx(1, abs=0.02)
        assert row["fits"]


def test_the_screen_has_a_table_and_plain_sentences(trained, samples):
    header, one, two, three, blank, *told = call(samples, "--root", trained).stdout.splitlines()
    assert re.split(r" {2,}", header)[:5] == ["name", "mode (ppb)", "mean", "std", "90% set"]
    assert [line.endswith("ambiguous") for line in (one, two, three)] == [True, True, False]
    assert blank == ""
    assert [line.split(":")[0] for line in told] == [
        "sample 1 is ambiguous",
        "sample 2 is ambiguous",
    ]
    assert re.search(r"ambiguous: \S+-\S+ or \S+-\S+ ppb are its 90% set", told[0])


def test_what_fits_nowhere_is_told_and_status_1(trained, tmp_path):
    strange = 0.3 + 0.2 * np.sin(AXIS / 20)
    file = write(tmp_path / "in.csv", [*spectra_at([20]), strange], names=["good", "bad"])
    out = tmp_path / "out.csv"
    result = call(file, "--root", trained, "--out", out, before=["--quiet"])
    assert result.exit_code == 1
    assert result.stderr == "error: 1 of 2 spectra fit nowhere: bad\n"
    assert re.search(r"^bad fits nowhere \(p = \S+\): no conc", result.stdout, re.MULTILINE)
    with out.open(encoding="utf-8", newline="") as stream:
        assert [row["fits"] for row in csv.DictReader(stream)] == ["true", "false"]


@pytest.mark.parametrize(
    ("option", "change"),
    [("--allow-offset", lambda s: s + 0.3), ("--allow-scale", lambda s: 1.3 * s)],
)
def test_an_offset_or_a_factor_is_allowed_if_asked_for(trained, tmp_path, option, change):
    file = write(tmp_path / "in.csv", change(spectra_at([12])), names=["moved"])
    assert call(file, "--root", trained).exit_code == 1
    result = call(file, "--root", trained, option, "--json")
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.stdout)["spectra"]
    for possible in (12, 48):
        assert any(low <= possible <= high for low, high in row["set90"])


def test_another_axis_says_the_same(trained, tmp_path, samples):
    axis = np.linspace(720, 390, 111)
    on_model = spectra_at([12, 50, 30])
    spectra = [np.interp(axis, AXIS, row, left=row[0], right=row[-1]) for row in on_model]
    fine = write(tmp_path / "fine.csv", spectra, axis=axis)
    found, expected = (
        json.loads(call(file, "--root", trained, "--json").stdout)["spectra"]
        for file in (fine, samples)
    )
    for row, as_is in zip(found, expected, strict=True):
        np.testing.assert_allclose(row["set90"], as_is["set90"], atol=1.0)
        assert row["fits"]


@pytest.mark.slow
def test_only_the_first_are_shown_and_all_are_written(trained, tmp_path):
    truths = np.linspace(2, 58, 1100)
    file, out = write(tmp_path / "in.csv", spectra_at(truths)), tmp_path / "out.csv"
    result = call(file, "--root", trained, "--out", out)
    lines = result.stdout.splitlines()
    assert lines[51] == "and 1050 more; --out writes all of them"
    told = lines[53:]
    assert len(told) == 51
    with out.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert told[50] == (
        f"and {sum(row['ambiguous'] == 'true' for row in rows) - 50} more that are ambiguous or "
        "fit nowhere"
    )
    held = [
        any(low <= truth <= high for low, high in intervals(row["set90"]))
        for row, truth in zip(rows, truths, strict=True)
    ]
    assert np.mean(held) > 0.9


@pytest.mark.slow
def test_figures_of_several_spectra_and_of_one(trained, samples, tmp_path):
    one = write(tmp_path / "one.csv", spectra_at([12]))
    for file in (samples, one):
        figure = file.with_suffix(".png")
        assert call(file, "--root", trained, "--figure", figure).exit_code == 0
        assert figure.read_bytes().startswith(b"\x89PNG")


def column_of(text):
    return lambda path: path.write_text(text, encoding="utf-8")


ROWS = "\n".join(f"{w:g},0.5" for w in AXIS)
REFUSED = {
    "empty": (column_of(""), (), "in.csv: found an empty file"),
    "absent": (lambda path: None, (), "in.csv: No such file or directory"),
    "text": (column_of(f"nm,a\n{ROWS}\n710,high\n"), (), "found 'high', expected a number"),
    "gap": (column_of(f"nm,a\n{ROWS}\n710,\n"), (), "found an empty or NaN cell"),
    "short": (column_of("nm,a\n400,1\n700,1\n"), (), "spectra at 2 wavelengths, expected at"),
    "uncovered": (lambda path: write(path, spectra_at([30])[:, 5:], AXIS[5:]), (), "400 to 450 nm"),
    "units": (lambda path: write(path, spectra_at([30]), header="shift_cm1"), (), "in cm-1, expe"),
    "extension": (column_of(f"nm,a\n{ROWS}\n"), ("--out", "out.txt"), "a name that ends in .csv"),
    "folder": (column_of(f"nm,a\n{ROWS}\n"), ("--out", "no/out.csv"), "a folder that exists"),
    "itself": (column_of(f"nm,a\n{ROWS}\n"), ("--out", "in.csv"), "another place than in.csv"),
    "figure": (column_of(f"nm,a\n{ROWS}\n"), ("--figure", "out.pdf"), "that ends in .png"),
    "taken": (column_of(f"nm,a\n{ROWS}\n"), ("--out", "taken.csv"), "a name that is not taken"),
    "workers": (column_of(f"nm,a\n{ROWS}\n"), ("--workers", "2"), "--workers: found 2, expected"),
    "size": (column_of(f"nm,a\n{ROWS}\n"), ("--batch-size", "2"), "--batch-size: found 2"),
    "format": (column_of(f"nm,a\n{ROWS}\n"), ("--cache-dtype", "float16"), "--cache-dtype: found"),
    "figure in model": (
        column_of(f"nm,a\n{ROWS}\n"), ("--figure", "data/x.png"), "another place than data"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("make", "words", "message"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_one_line_and_nothing_is_written(
    trained, tmp_path, monkeypatch, make, words, message
):
    shutil.copytree(trained / "data", tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken.csv").touch()
    make(tmp_path / "in.csv")
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
    result = call("in.csv", *(words or ("--out", "out.csv", "--figure", "out.png")))
    assert_refused(result, "error: ", message)
    assert result.stdout == ""
    after = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
    assert after == before


def test_files_are_replaced_if_that_is_asked_for(trained, samples, tmp_path):
    words = (samples, "--root", trained)
    files = [tmp_path / name for name in ("out.csv", "out.png")]
    for option, file in zip(("--out", "--figure"), files, strict=True):
        file.write_bytes(b"mine")
        assert_refused(call(*words, option, file), "not taken; --overwrite replaces the file")
        assert file.read_bytes() == b"mine"
        assert call(*words, option, file, "--overwrite").exit_code == 0
        assert len(file.read_bytes()) > 100


def test_a_model_that_is_absent_or_has_no_inner_folds_is_refused(uncalibrated, samples, tmp_path):
    out = tmp_path / "out.csv"
    absent = call(samples, "--root", tmp_path, "--out", out)
    assert_refused(absent, "spectra.zarr: not found; run `dvc repro`")
    assert_refused(call(samples, "--root", uncalibrated, "--out", out), "found inner.members 0")
    assert not out.exists()


@pytest.mark.slow
def test_the_commands_of_the_documentation_run(trained, tmp_path, monkeypatch):
    shutil.copytree(trained / "data", tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    xarray, series = pytest.importorskip("xarray"), read_series(tmp_path / "data" / "spectra.zarr")
    image = xarray.Dataset(
        {"signal": (("y", "x", "wavelength"), series.signal[None])}, {"wavelength": series.axis}
    )
    image.to_zarr("cube.zarr", consolidated=False)
    lines = re.findall(r"^geonode .*$", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert {shlex.split(line)[1] for line in lines} == {"predict", "estimate", "inspect"}
    for line in lines:
        result = CliRunner().invoke(cli.app, shlex.split(line)[1:])
        assert result.exit_code == 0, f"{line}\n{result.output}"
    for name in re.findall(r"--(?:out|figure) (\S+)", "\n".join(lines)):
        assert (tmp_path / name).exists(), name


def test_offsets_of_preprocessed_spectra_are_refused(trained, samples, monkeypatch):
    model = SpectralModel.read(trained / "data")
    for step, refused in (({"savgol": {"window": 5, "degree": 2}}, False), ("snv", True)):
        done = Preprocessing((PreprocessStep.model_validate(step),))
        series = replace(model.series, preprocessing=done)
        monkeypatch.setattr(SpectralModel, "read", lambda _, of=series: replace(model, series=of))
        result = call(samples, "--root", trained, "--allow-offset")
        assert ("--allow-offset: found True, expected neither" in result.stderr) is refused
