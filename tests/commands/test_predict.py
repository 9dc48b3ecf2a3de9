import csv
import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
import xarray
from typer.testing import CliRunner

from geonode import cli
from geonode.decoders.calibration import PROBABILITIES
from geonode.errors import SpectraError
from geonode.estimation.model import SpectralModel
from geonode.estimation.predicting import PredictedBlock
from geonode.posterior.prior import packaged_prior
from geonode.spectra.reading import read_spectra, read_table
from geonode.storage.artifact import open_artifact
from tests.estimation.trained import AXIS, LEVELS, spectra_at
from tests.stages.conftest import assert_refused

WANTED = [0.1, 12.5, 59.99]
NINETY = PROBABILITIES.index(0.9)


def call(*arguments, before=()):
    words = [*before, "predict", *arguments]
    return CliRunner().invoke(cli.app, [str(word) for word in words])


def options(concentrations=WANTED):
    return [word for number in concentrations for word in ("--concentration", number)]


def expected(root, concentrations):
    """Predictions of the model, and the scale by which half its intervals were made."""
    model = SpectralModel.read(root / "data")
    found = model.predict(np.array(concentrations))
    inside = model.is_inside(np.array(concentrations))
    factors = packaged_prior().intervals(len(LEVELS), inside)[:, NINETY]
    half = found.half_width[NINETY]
    return found.spectra, half / factors[:, None], half


def read_csv(path):
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def column(rows, name):
    return np.array([float(row[name]) for row in rows]).reshape(-1, len(AXIS))


def test_a_table_has_the_numbers_of_the_model(trained, tmp_path):
    out = tmp_path / "out.csv"
    result = call(*options(WANTED[::-1]), *options(), "--out", out, "--root", trained)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[0] == f"3 spectra at 31 wavelengths -> {out}"
    rows = read_csv(out)
    values = ["signal", "std", "low90", "high90"]
    assert list(rows[0]) == ["concentration (ppb)", "wavelength (nm)", *values, "extrapolated"]
    assert (column(rows, "concentration (ppb)") == np.array(WANTED)[:, None]).all()
    assert (column(rows, "wavelength (nm)") == AXIS).all()
    assert {row["extrapolated"] for row in rows} == {"false"}
    signal, std, half = expected(trained, WANTED)
    for name, numbers in zip(values, (signal, std, signal - half, signal + half), strict=True):
        np.testing.assert_allclose(column(rows, name), numbers, rtol=5.1e-6)
    assert np.abs(column(rows, "signal") - spectra_at(WANTED)).max() < 0.02
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_an_artifact_has_the_numbers_of_the_model(trained, tmp_path):
    out, wanted = tmp_path / "out.zarr", [30.0, 75.0]
    result = call(*options(wanted), "--extrapolate", "--out", out, "--root", trained)
    assert result.exit_code == 0
    assert "extrapolated: 1 of 2, out of 0 to 60 ppb" in result.stdout
    data = xarray.open_zarr(out, consolidated=False)
    signal, std, half = expected(trained, wanted)
    for name, numbers in {
        "signal": signal, "std": std, "low90": signal - half, "high90": signal + half
    }.items():  # fmt: skip
        assert data[name].dims == ("concentration", "wavelength")
        np.testing.assert_allclose(data[name], numbers, rtol=1e-12)
    assert data["extrapolated"].values.tolist() == [False, True]
    assert data["concentration"].values.tolist() == wanted
    assert (data["concentration"].units, data["wavelength"].units) == ("ppb", "nm")
    assert data.attrs["measured_range"] == [0, 60]
    assert data.attrs["std"].startswith("size of the error to expect")


@pytest.mark.parametrize("name", ["out.csv", "out.zarr"])
def test_spectra_alone_are_read_back(trained, tmp_path, name):
    out = tmp_path / name
    result = call("--at-range", "0:60:12.5", "--only-signal", "--out", out, "--root", trained)
    assert result.exit_code == 0
    table, spectra = read_table(out), read_spectra(out)
    wanted = [0.0, 12.5, 25.0, 37.5, 50.0]
    assert table.concentrations.tolist() == [float(name) for name in spectra.names] == wanted
    assert (table.concentration_unit, table.axis_name, table.axis_unit) == (
        "ppb", "wavelength", "nm"
    )  # fmt: skip
    signal, *_ = expected(trained, wanted)
    for values in (table.spectra, spectra.values):
        np.testing.assert_allclose(values, signal, rtol=5.1e-6)


@pytest.mark.parametrize("name", ["out.csv", "out.zarr"])
def test_without_inner_folds_there_is_no_interval(uncalibrated, tmp_path, name):
    out = tmp_path / name
    result = call(*options(), "--out", out, "--root", uncalibrated)
    assert "std: what members, sources and kinds of decoders disagree by" in result.stdout
    deviation = SpectralModel.read(uncalibrated / "data").predict(np.array(WANTED)).deviation
    if name == "out.zarr":
        data = xarray.open_zarr(out, consolidated=False)
        assert set(data.data_vars) == {"signal", "std", "extrapolated"}
        np.testing.assert_allclose(data["std"], deviation)
    else:
        rows = read_csv(out)
        assert list(rows[0])[2:] == ["signal", "std", "extrapolated"]
        np.testing.assert_allclose(column(rows, "std"), deviation, rtol=5.1e-6)


def test_without_a_file_there_is_a_line_about_every_spectrum(trained):
    result = call(*options([30, 75]), "--extrapolate", "--root", trained)
    header, inside, outside, std, beyond = result.stdout.splitlines()
    signal, scale, _ = expected(trained, [30.0, 75.0])
    assert header.startswith("concentration (ppb)  absorbance at its peak  wavelength (nm)  mean")
    for line, number, spectrum, deviation in zip(
        (inside, outside), (30, 75), signal, scale, strict=True
    ):
        peak, at = spectrum.max(), AXIS[spectrum.argmax()]
        numbers = [float(word) for word in line.split()[:4]]
        np.testing.assert_allclose(numbers, [number, peak, at, deviation.mean()], rtol=5.1e-6)
    assert inside.split()[4:] == []
    assert outside.split()[4:] == ["extrapolated"]
    assert abs(float(inside.split()[2]) - 550) <= 10
    assert std.startswith("std: size of the error to expect")
    assert beyond == "extrapolated: 1 of 2, out of 0 to 60 ppb"
    many = call("--at-range", "0:59:1", "--root", trained).stdout.splitlines()
    assert (len(many), many[51]) == (53, "and 10 more; --out writes all of them")


def test_json_has_the_same_numbers(trained, tmp_path):
    out = tmp_path / "out.csv"
    words = (*options(), "--root", trained, "--json", "--out", out)
    result = call(*words, before=["--quiet"])
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    signal, scale, _ = expected(trained, WANTED)
    np.testing.assert_allclose([row["peak"] for row in found["spectra"]], signal.max(axis=1))
    np.testing.assert_allclose([row["mean_std"] for row in found["spectra"]], scale.mean(axis=1))
    assert (found["measured_range"], found["out"]) == ([0, 60], str(out))
    assert not any(row["extrapolated"] for row in found["spectra"])


@pytest.mark.parametrize("name", ["out.csv", "out.zarr"])
def test_blocks_leave_no_trace(trained, tmp_path, monkeypatch, name):
    whole, parts = tmp_path / "whole" / name, tmp_path / "parts" / name
    real, sizes = SpectralModel.predict, []

    def predict(model, concentrations):
        sizes.append(len(concentrations))
        return real(model, concentrations)

    monkeypatch.setattr(SpectralModel, "predict", predict)
    for out, more, expected in ((whole, [], [1, 11]), (parts, ["--batch-size", "4"], [4, 4, 3])):
        out.parent.mkdir()
        words = ("--at-range", "0:60:6", "--root", trained, "--out", out)
        sizes.clear()
        assert call(*words, *more).exit_code == 0
        assert sizes == expected
    if name == "out.csv":
        assert whole.read_bytes() == parts.read_bytes()
        assert len(read_csv(whole)) == 11 * len(AXIS)
    else:
        of_whole, of_parts = (xarray.open_zarr(p, consolidated=False) for p in (whole, parts))
        xarray.testing.assert_allclose(of_whole, of_parts, rtol=1e-9)


def test_spectra_are_kept_in_a_smaller_format_or_refused_by_it(trained, tmp_path, monkeypatch):
    words = (*options(), "--root", trained, "--out")
    for name, more in (("exact", []), ("small", ["--cache-dtype", "float16"])):
        assert call(*words, tmp_path / f"{name}.zarr", *more).exit_code == 0
    exact, small = (open_artifact(tmp_path / f"{name}.zarr") for name in ("exact", "small"))
    for name in ("signal", "std", "low90", "high90"):
        assert (exact[name].dtype, small[name].dtype) == (np.float64, np.float16)
        np.testing.assert_array_equal(small[name], exact[name].astype(np.float16))
    np.testing.assert_array_equal(small["concentration"], WANTED)
    real = PredictedBlock.of

    def large(*arguments):
        block = real(*arguments)
        return replace(block, signal=1e7 * block.signal)

    monkeypatch.setattr(PredictedBlock, "of", large)
    refused = call(*words, tmp_path / "large.zarr", "--cache-dtype", "float16")
    assert re.search(r"array 'signal': found \d\S+, expected at most 65504", refused.stderr)
    assert not (tmp_path / "large.zarr").exists()


def test_what_is_there_stays_unless_it_may_be_replaced(trained, tmp_path, monkeypatch):
    kept = {tmp_path / name: b"mine" for name in ("out.csv", "out.png")}
    for path, content in kept.items():
        path.write_bytes(content)
    (tmp_path / "link.csv").symlink_to("absent.csv")
    with monkeypatch.context() as patch:
        patch.setattr(SpectralModel, "read", None)  # nothing is read before
        for option, name in (("--out", "out.csv"), ("--figure", "out.png"), ("--out", "link.csv")):
            result = call(*options(), "--root", trained, option, tmp_path / name)
            assert_refused(result, "expected a name that is not taken; --overwrite replaces")
    assert {path: path.read_bytes() for path in kept} == kept
    words = ("--out", tmp_path / "out.csv", "--figure", tmp_path / "out.png", "--overwrite")
    assert call(*options(), "--root", trained, *words).exit_code == 0
    assert all(path.read_bytes() != content for path, content in kept.items())


@pytest.mark.parametrize("name", ["out.csv", "out.zarr"])
def test_what_fails_half_way_leaves_the_older_file(trained, tmp_path, monkeypatch, name):
    out = tmp_path / name
    words = ("--at-range", "0:60:6", "--root", trained, "--out", out)
    call(*options([45]), "--root", trained, "--out", out)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    real = SpectralModel.predict

    def predict(model, concentrations):
        if concentrations[0] > 10:
            raise SpectraError("no more")
        return real(model, concentrations)

    monkeypatch.setattr(SpectralModel, "predict", predict)
    assert_refused(call(*words, "--overwrite", "--batch-size", 2), "error: no more")
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


REFUSED = {
    "none": ([], "expected one or more, or --at-range START:STOP:STEP"),
    "outside": (options([75]), "found 75.0, expected 0 to 60 ppb, the measured range; --extrapo"),
    "negative": (options([-1]), "found -1.0, expected a finite number that is not negative"),
    "range": (["--at-range", "0:60"], "found '0:60', expected START:STOP:STEP"),
    "extension": ([*options(), "--out", "out.xlsx"], "a name that ends in .csv or .zarr"),
    "folder": ([*options(), "--out", "absent/out.csv"], "a file in a folder that exists; make abs"),
    "is folder": ([*options(), "--out", "folder.csv"], "expected a file, not a folder"),
    "is file": ([*options(), "--out", "file.zarr"], "expected a folder, not a file"),
    "far": ([*options(["1e300"]), "--extrapolate", "--out", "out.csv"], "1e+300: found a predic"),
    "model": ([*options(), "--out", "data/spectra.zarr"], "expected another place than"),
    "foreign": ([*options(), "--out", "foreign.zarr", "--overwrite"], "a folder but no artifact"),
    "format": (
        [*options(), "--cache-dtype", "float32", "--out", "out.csv"], "an --out that is a .zarr"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("words", "message"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_one_line_and_nothing_is_written(
    trained, tmp_path, monkeypatch, words, message
):
    shutil.copytree(trained / "data", tmp_path / "data")
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "file.zarr").touch()
    (tmp_path / "foreign.zarr").mkdir()
    (tmp_path / "foreign.zarr/mine.txt").touch()
    monkeypatch.chdir(tmp_path)
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
    result = call(*words)
    assert_refused(result, "error: ")
    assert message in result.stderr
    assert result.stdout == ""
    after = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
    assert after == before


def test_without_a_model_it_says_what_to_run(tmp_path):
    result = call(*options(), "--root", tmp_path, "--out", tmp_path / "out.csv")
    assert_refused(result, f"error: {tmp_path}/data/spectra.zarr: not found; run `dvc repro`")
    assert list(tmp_path.iterdir()) == []
