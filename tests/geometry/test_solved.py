import itertools
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
import xarray

from geonode.compute.device import Device
from geonode.config import GeodesicsParameters
from geonode.errors import ArtifactError, GeometryError, MissingArtifactError
from geonode.geometry import solved
from geonode.geometry.problem import converged, ordered_pairs
from geonode.geometry.solved import Geodesics, read_features
from geonode.geometry.solvers.methods import SOLVERS
from geonode.geometry.stored import StoredGrids, write_grids
from tests.geometry.closed_forms import CPU, DirectSource, nodes
from tests.geometry.small_series import LEVELS, MEMBERS, WAVELENGTHS, small_metrics, small_series

SERIES = small_series()
LEARNED = small_metrics(SERIES)
CHOSEN = np.array([0, 2, 4])
CORES = "geonode.compute.profile.usable_cores"
PAIRS = LEVELS * (LEVELS - 1)
COUNT = MEMBERS * PAIRS * (LEVELS * len(CHOSEN) + WAVELENGTHS)
DOUBLE = Device("cpu", "test", torch.float32, torch.float64)
SINGLE = Device("cpu", "test", torch.float32, torch.float32)


def stored(path, resolution=200, learned=LEARNED):
    """Grids of some metrics, read back."""
    source = DirectSource(learned.metric(CPU), torch.from_numpy(SERIES.wavelengths))
    options = {"every": True, "check": lambda *one: None}
    write_grids(path, source.grid, nodes(resolution), learned, SERIES, **options)
    return StoredGrids(path, learned, SERIES, True)


@pytest.fixture(scope="module")
def grids(tmp_path_factory):
    return stored(tmp_path_factory.mktemp("grids") / "grids.zarr")


def parameters(tolerance=1e-6, **others):
    block = {
        "method": "closed_form",
        "steps": 50,
        "time_points": 5,
        "allow_unconverged": 0,
    }
    return GeodesicsParameters(tolerance=tolerance, **block | others)


def solve(
    path, grids, block, device=DOUBLE, learned=LEARNED, report=lambda units: None, chosen=CHOSEN
):
    return Geodesics(grids, learned, SERIES, chosen, block, device).solve(path, report)


def contents(path):
    """Arrays of an artifact."""
    with xarray.open_zarr(path, consolidated=False) as dataset:
        return {name: dataset[name].values for name in dataset.variables}


@pytest.fixture(scope="module")
def whole(grids, tmp_path_factory):
    """All geodesics in closed form: path, summary and progress."""
    path, told = tmp_path_factory.mktemp("solved") / "geodesics.zarr", []
    return path, solve(path, grids, parameters(), report=told.append), told


def test_what_is_solved_is_read(whole):
    """Of every geodesic the length, which is l = |v0| sqrt(g), and that of its reverse."""
    path, summary, told = whole
    assert told == [1] * 10
    features, found = read_features(path, SERIES, CHOSEN), contents(path)
    assert (features.shape, features.dtype) == ((MEMBERS, LEVELS + 1, PAIRS, 3, 5), np.float32)
    assert not features.flags.writeable
    source, target = ordered_pairs(LEVELS)
    back = (source[:, None] == target) & (target[:, None] == source)
    length = features[..., 2]
    np.testing.assert_allclose(length, length[:, :, back.int().argmax(1)], rtol=1e-6)
    metric, wavelengths = LEARNED.metric(CPU), torch.from_numpy(SERIES.wavelengths)
    x = LEARNED.positions(SERIES.concentrations)[LEVELS]  # in the metric of all levels
    for member, model in enumerate(LEARNED.wanted(folds=False)):
        log_sqrt = metric[model].log_sqrt(torch.from_numpy(x), wavelengths)[0].numpy()
        v0, ends = found["v0"][member], x[[source.numpy(), target.numpy()]]
        speed, paths = np.abs(v0) * np.exp(log_sqrt[source]), found["trajectory"][member]
        np.testing.assert_allclose(speed[:, CHOSEN], length[member, LEVELS], rtol=1e-6)
        np.testing.assert_allclose(paths[..., [0, -1]].mean(1), ends.T, atol=1e-6)
    assert not found["status"].any()
    np.testing.assert_array_equal(found["training"], SERIES.axis[CHOSEN])
    for name, index in (("source", source), ("target", target)):
        np.testing.assert_array_equal(found[name], SERIES.concentrations[index])
    np.testing.assert_array_equal(found["time"], [0, 0.25, 0.5, 0.75, 1])
    assert (summary.geodesics, summary.unconverged) == (COUNT, 0)
    assert (summary.evaluations, summary.checked_on_network) == (2 * COUNT, 10 * 64)
    assert np.abs(found["residual"]).max() <= summary.residual_max <= 1e-9
    assert 0 < summary.endpoint_error_max <= 3e-7  # grids are stored in float32
    assert 0 < summary.speed_drift_max <= 3e-7


def test_without_path_decoders_geodesics_of_all_levels_alone_are_solved(tmp_path, grids, whole):
    path = tmp_path / "geodesics.zarr"
    summary = solve(path, grids, parameters(), chosen=None)
    assert summary.geodesics == MEMBERS * PAIRS * WAVELENGTHS
    found, expected = contents(path), contents(whole[0])
    assert expected.keys() - found.keys() == {"features", "training", "fold"}
    for name, values in found.items():
        np.testing.assert_array_equal(values, expected[name])


def test_float32_geometry_and_no_trajectories(tmp_path, grids, whole):
    path = tmp_path / "geodesics.zarr"
    summary = solve(path, grids, parameters(time_points=0), SINGLE)
    assert summary.unconverged == 0
    assert summary.endpoint_error_max <= 1e-6
    assert summary.speed_drift_max <= 1e-6
    found = contents(path)
    assert "trajectory" not in found
    assert found["v0"].dtype == np.float64
    expected = read_features(whole[0], SERIES, CHOSEN)
    np.testing.assert_allclose(read_features(path, SERIES, CHOSEN), expected, rtol=2e-6, atol=1e-6)


def test_geodesics_that_miss_leave_an_older_artifact_as_it_was(tmp_path, grids, whole):
    path = tmp_path / "geodesics.zarr"
    shutil.copytree(whole[0], path)
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    row = r"[0-9]+ to [0-9]+ ppb at [0-9.]+ nm \(member [01], fold [0-4]\): [0-9.]+e-1[0-9]"
    message = (
        r"[0-9]+ of 408 geodesics miss their target by more than 1e-300, expected at most 0\. "
        rf"Worst: {row}\. Raise .*--allow-unconverged"
    )
    with pytest.raises(GeometryError, match=message) as caught:
        solve(path, grids, parameters(1e-300))
    assert "\n" not in str(caught.value)
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before
    assert [file.name for file in tmp_path.iterdir()] == ["geodesics.zarr"]


@pytest.mark.parametrize("device", [DOUBLE, SINGLE], ids=["float64", "float32"])
def test_a_grid_that_is_too_coarse_or_of_other_metrics_is_refused(tmp_path, grids, device):
    sharp, other = small_metrics(SERIES, gain=3.0), small_metrics(SERIES, seed=1)
    coarse = stored(tmp_path / "grids.zarr", 12, sharp)
    path = tmp_path / "geodesics.zarr"
    with pytest.raises(GeometryError, match=r"of 408 geodesics miss .*Raise christoffel\.resoluti"):
        solve(path, coarse, parameters(time_points=0), device, sharp)
    with pytest.raises(GeometryError, match=r"on the network, expected at most .*write the grid"):
        solve(path, grids, parameters(time_points=0), device, other)
    assert [file.name for file in tmp_path.iterdir()] == ["grids.zarr"]


def test_absent_features_and_those_of_another_series_are_refused(tmp_path, whole):
    with pytest.raises(MissingArtifactError, match="none"):
        read_features(tmp_path / "none", SERIES, CHOSEN)
    with pytest.raises(ArtifactError, match=r"geodesics\.zarr.*features.*the spectra"):
        read_features(whole[0], small_series(5, WAVELENGTHS), CHOSEN)
    with pytest.raises(ArtifactError, match=r"geodesics\.zarr.*at other wavelengths"):
        read_features(whole[0], SERIES, np.array([0, 1, 4]))


def test_an_iterative_method_finds_the_same_velocities(tmp_path, grids, whole):
    """Features and trajectories follow from the velocities that are found."""
    path = tmp_path / "iterative.zarr"
    summary = solve(path, grids, parameters(method="newton", steps=10))
    assert (summary.method, summary.unconverged) == ("newton", 0)
    assert summary.evaluations > COUNT * 2 * 10 * 4  # two shots of 10 steps of 4 stages at least
    assert summary.endpoint_error_max <= 1e-5
    expected, found = contents(whole[0]), contents(path)
    assert 0 < abs(found["v0"] - expected["v0"]).max() <= 1e-5
    for name in ("features", "trajectory"):
        assert 0 < abs(found[name] - expected[name]).max() <= 1e-4
    with xarray.open_zarr(path, consolidated=False) as dataset:
        assert dataset.attrs["method"] == "newton"


def clumsy(misses):
    """A method that misses (row, column) by some amount, in some of its calls."""
    calls = itertools.count()

    def method(closed_form, problem, settings):
        solution = closed_form.solve(problem, settings.tolerance)
        v0, residual = solution.v0.clone(), solution.residual.clone()
        for row, column, off in misses.get(next(calls), []):
            v0[row, column] += off
            residual[row, column] += off
        reached = converged(v0, residual, 1e-6)
        return replace(solution, v0=v0, residual=residual, converged=reached)

    return method


def test_permitted_rows_keep_their_status_and_residual(tmp_path, grids, monkeypatch):
    """Three of the model (1, 4), one of them in the second block of its wavelengths."""
    monkeypatch.setattr(CORES, lambda: 1)  # the method counts its calls
    misses = {10: [(0, 1, 0.1), (4, 0, 0.2)], 11: [(4, 0, 0.3)]}
    monkeypatch.setattr(solved, "TABLES", 180)  # 288 kB a wavelength: 1 MB is enough for three
    monkeypatch.setitem(SOLVERS, "newton", clumsy(misses))
    path, device = tmp_path / "geodesics.zarr", replace(DOUBLE, memory_mb=1)
    message = (
        r"3 of 408 geodesics .*expected at most 2\. Worst: 10 to 20 ppb at 405\.196 nm "
        r"\(member 1, fold 4\): 3\.0e-01\. Raise"
    )
    block = {"method": "newton", "time_points": 0}
    with pytest.raises(GeometryError, match=message):
        solve(path, grids, parameters(allow_unconverged=2, **block), device)
    monkeypatch.setitem(SOLVERS, "newton", clumsy(misses))
    summary = solve(path, grids, parameters(allow_unconverged=3, **block), device)
    assert (summary.unconverged, summary.checked_on_network) == (3, 8 * 64 + 2 * 65)
    assert summary.residual_max == pytest.approx(0.3, abs=1e-6)
    assert summary.endpoint_error_max <= 3e-7  # of those that have converged
    found = contents(path)
    assert found["status"].sum() == found["status"][1, [0, 4, 4], [1, 0, 3]].sum() == 3
    assert found["residual"][1, 4, 0] == pytest.approx(0.2, abs=1e-6)
    monkeypatch.setattr(solved, "TABLES", 700)
    with pytest.raises(GeometryError, match=r"memory_mb: found 1 MB .* 1\.1\d MB of one"):
        solve(path, grids, parameters(**block), device)
