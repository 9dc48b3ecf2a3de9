import json

import numpy as np
import pytest
import xarray

from geonode.posterior.prior import PROBABILITIES, packaged_prior
from geonode.prediction.model import SpectralModel
from geonode.reading.files import read_spectra
from geonode.storage.artifact import open_artifact
from tests.commands.calling import call, records
from tests.estimation.trained import AXIS, LEVELS, spectra_at
from tests.reading.tables import read_table
from tests.stages.conftest import assert_refused

WANTED = [0.1, 12.5, 75.0]
NINETY = PROBABILITIES.index(0.9)


def options(concentrations=(12.5, 30.0)):
    return [word for number in concentrations for word in ("--concentration", number)]


def expected(root, concentrations):
    """Predictions of the model, and the scale by which half its intervals were made."""
    model = SpectralModel.read(root / "data")
    found = model.predict(np.array(concentrations))
    inside = model.is_inside(np.array(concentrations))
    factors = packaged_prior().intervals(len(LEVELS), inside)[:, NINETY]
    half = found.half_width[NINETY]
    return found.spectra, half / factors[:, None], half


def column(rows, name):
    return np.array([float(row[name]) for row in rows]).reshape(-1, len(AXIS))


def numbers(out):
    """Arrays of a table or an artifact by name, and whether each spectrum is extrapolated."""
    if out.suffix == ".zarr":
        data = xarray.open_zarr(out, consolidated=False).load()
        assert (data["concentration"].units, data["wavelength"].units) == ("ppb", "nm")
        assert data["concentration"].values.tolist() == WANTED
        beyond = data["extrapolated"].values.tolist()
        found = {name: data[name].values for name in data.data_vars if name != "extrapolated"}
        assert all(data[name].dims == ("concentration", "wavelength") for name in found)
        return found, beyond
    rows = records(out)
    first, second, *names, last = rows[0]
    assert (first, second, last) == ("concentration (ppb)", "wavelength (nm)", "extrapolated")
    assert (column(rows, first) == np.array(WANTED)[:, None]).all()
    assert (column(rows, second) == AXIS).all()
    beyond = [row[last] == "true" for row in rows[:: len(AXIS)]]
    return {name: column(rows, name) for name in names}, beyond


@pytest.mark.parametrize("name", ["out.csv", "out.zarr"])
@pytest.mark.parametrize("kind", ["posterior", "path without inner folds"])
def test_files_have_the_numbers_of_the_model(trained, uncalibrated, tmp_path, name, kind):
    root, out = trained if kind == "posterior" else uncalibrated, tmp_path / name
    words = options([*WANTED[::-1], *WANTED])
    result = call("predict", *words, "--extrapolate", "--out", out, "--root", root)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.splitlines()[0] == f"3 spectra at 31 wavelengths -> {out}"
    assert "extrapolated: 1 of 3, out of 0 to 60 ppb" in result.stdout
    if kind == "posterior":
        signal, std, half = expected(root, WANTED)
        computed = {"signal": signal, "std": std, "low90": signal - half, "high90": signal + half}
        assert np.abs(signal[:2] - spectra_at(WANTED[:2])).max() < 0.02
        assert "std: size of the error to expect" in result.stdout
    else:
        found = SpectralModel.read(root / "data").predict(np.array(WANTED))
        computed = {"signal": found.spectra, "std": found.deviation}
        assert "std: what members and sources disagree by" in result.stdout
    written, beyond = numbers(out)
    assert (set(written), beyond) == (set(computed), [False, False, True])
    for part, values in computed.items():
        np.testing.assert_allclose(written[part], values, rtol=5.1e-6)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_intervals_have_the_level_that_is_asked_for(trained, uncalibrated, tmp_path):
    found, widths = SpectralModel.read(trained / "data").predict(np.array(WANTED)), {}
    for level in ("0.8", "0.94", "0.95", "0.99"):
        out = tmp_path / f"{level}.csv"
        words = (*options(WANTED), "--extrapolate", "--level", level, "--out", out)
        call("predict", *words, "--root", trained, status=0)
        written, _ = numbers(out)
        low, high = (written[f"{end}{level[2:].ljust(2, '0')}"] for end in ("low", "high"))
        widths[level] = (high - low) / 2
    for level in ("0.8", "0.95"):  # learned ones
        half = found.half_width[PROBABILITIES.index(float(level))]
        np.testing.assert_allclose(widths[level], half, rtol=1e-3)
    assert (found.half_width[NINETY] < widths["0.94"]).all()
    assert (widths["0.94"] < widths["0.95"]).all()
    assert (widths["0.95"] < widths["0.99"]).all()
    for root, *rest in ((uncalibrated, "--out", tmp_path / "a.csv"), (trained, "--json")):
        words = (*options([30]), "--level", "0.95", "--root", root, *rest)
        assert_refused(call("predict", *words), "--level", "0.95", "intervals")


@pytest.mark.parametrize("name", ["out.csv", "out.zarr"])
def test_spectra_alone_are_read_back(trained, tmp_path, name):
    out = tmp_path / name
    words = ("--at-range", "0:60:12.5", "--only-signal", "--out", out, "--root", trained)
    call("predict", *words, status=0)
    table, spectra = read_table(out), read_spectra(out)
    wanted = [0.0, 12.5, 25.0, 37.5, 50.0]
    assert table.concentrations.tolist() == [float(name) for name in spectra.names] == wanted
    assert (table.concentration_unit, table.axis_name, table.axis_unit) == (
        "ppb", "wavelength", "nm"
    )  # fmt: skip
    signal, *_ = expected(trained, wanted)
    for values in (table.spectra, spectra.values):
        np.testing.assert_allclose(values, signal, rtol=5.1e-6)


def test_without_a_file_there_is_a_line_about_every_spectrum(trained):
    result = call("predict", *options([30, 75]), "--extrapolate", "--root", trained)
    header, inside, outside, std, beyond = result.stdout.splitlines()
    signal, scale, _ = expected(trained, [30.0, 75.0])
    assert header.startswith("concentration (ppb)  absorbance at its peak  wavelength (nm)  mean")
    shown = [[float(word) for word in line.split()[:4]] for line in (inside, outside)]
    peaks, means = AXIS[signal.argmax(axis=1)], scale.mean(axis=1)
    told = np.column_stack([[30, 75], signal.max(axis=1), peaks, means])
    np.testing.assert_allclose(shown, told, rtol=5.1e-6)
    assert inside.split()[4:] == []
    assert outside.split()[4:] == ["extrapolated"]
    assert abs(float(inside.split()[2]) - 550) <= 10
    assert std.startswith("std: size of the error to expect")
    assert beyond == "extrapolated: 1 of 2, out of 0 to 60 ppb"
    many = call("predict", "--at-range", "0:59:1", "--root", trained).stdout
    assert "\nand 10 more; --out writes all of them\n" in many


def test_json_has_the_same_numbers(trained, tmp_path):
    out = tmp_path / "out.csv"
    words = (*options(WANTED), "--extrapolate", "--root", trained, "--json", "--out", out)
    result = call("predict", "-q", *words)
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    signal, scale, _ = expected(trained, WANTED)
    np.testing.assert_allclose([row["peak"] for row in found["spectra"]], signal.max(axis=1))
    np.testing.assert_allclose([row["mean_std"] for row in found["spectra"]], scale.mean(axis=1))
    assert (found["measured_range"], found["out"]) == ([0, 60], str(out))
    assert [row["extrapolated"] for row in found["spectra"]] == [False, False, True]


def test_blocks_leave_no_trace(trained, tmp_path):
    files = []
    for more in ([], ["--batch-size", "4"]):
        out = tmp_path / f"{len(files)}.csv"
        words = ("--at-range", "0:60:6", "--root", trained, "--out", out, *more)
        call("predict", *words, status=0)
        files.append(out.read_bytes())
    assert files[0] == files[1]


def test_spectra_are_kept_in_a_smaller_format(trained, tmp_path):
    words = (*options(), "--root", trained, "--out")
    for name, more in (("exact", []), ("small", ["--cache-dtype", "float16"])):
        call("predict", *words, tmp_path / f"{name}.zarr", *more, status=0)
    exact, small = (open_artifact(tmp_path / f"{name}.zarr") for name in ("exact", "small"))
    for name in ("signal", "std", "low90", "high90"):
        assert (exact[name].dtype, small[name].dtype) == (np.float64, np.float16)
        np.testing.assert_array_equal(small[name], exact[name].astype(np.float16))
    np.testing.assert_array_equal(small["concentration"], [12.5, 30.0])


def test_what_is_there_stays_unless_it_may_be_replaced(trained, tmp_path):
    kept = {tmp_path / name: b"mine" for name in ("out.csv", "out.png")}
    for path, content in kept.items():
        path.write_bytes(content)
    (tmp_path / "link.csv").symlink_to("absent.csv")
    for option, name in (("--out", "out.csv"), ("--figure", "out.png"), ("--out", "link.csv")):
        result = call("predict", *options(), "--root", trained, option, tmp_path / name)
        assert_refused(result, "expected a name that is not taken; --overwrite replaces")
    assert {path: path.read_bytes() for path in kept} == kept
    words = ("--out", tmp_path / "out.csv", "--figure", tmp_path / "out.png", "--overwrite")
    call("predict", *options(), "--root", trained, *words, status=0)
    assert all(path.read_bytes() != content for path, content in kept.items())
