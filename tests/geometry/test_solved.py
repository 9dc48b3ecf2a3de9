import re
from dataclasses import replace

import numpy as np
import pytest
import torch
import xarray

from geonode.compute.device import Device
from geonode.config import GeodesicsParameters
from geonode.errors import ArtifactError, GeometryError
from geonode.geometry.problem import ordered_pairs
from geonode.geometry.solved import Geodesics, read_features
from geonode.geometry.stored import StoredGrids, write_grids
from geonode.progress import silent
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
    block = {"method": "closed_form", "steps": 50, "time_points": 5, "allow_unconverged": 0}
    return GeodesicsParameters(tolerance=tolerance, **block | others)


def solve(path, grids, block, device=DOUBLE, learned=LEARNED, report=silent, chosen=CHOSEN):
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
    summary = solve(path, grids, parameters(time_points=0), chosen=None)
    assert summary.geodesics == MEMBERS * PAIRS * WAVELENGTHS
    found, expected = contents(path), contents(whole[0])
    absent = {"features", "training", "fold", "trajectory", "time"}
    assert expected.keys() - found.keys() == absent
    for name, values in found.items():
        np.testing.assert_array_equal(values, expected[name])


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


def test_features_of_another_series_are_refused(whole):
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
    expected, found = contents(whole[0]), contents(path)
    for name, error in (("v0", 1e-5), ("features", 1e-4), ("trajectory", 1e-4)):
        assert 0 < abs(found[name] - expected[name]).max() <= error


def test_wavelengths_are_solved_a_few_at_once_where_memory_is_small(tmp_path, monkeypatch):
    """As where cores share it: neither arrays nor what is told of them depend on it."""
    monkeypatch.setattr(CORES, lambda: 1)
    fine, found, told = stored(tmp_path / "grids.zarr", 2200), {}, {}  # 275 kB a wavelength
    for memory in (100, 1):
        path, device = tmp_path / f"{memory}.zarr", replace(DOUBLE, memory_mb=memory)
        told[memory] = solve(path, fine, parameters(), device, chosen=None)
        found[memory] = contents(path)
    assert told[1] == told[100]
    for name, values in found[1].items():
        np.testing.assert_array_equal(values, found[100][name])
    with pytest.raises(GeometryError, match=r"memory_mb: found 1 MB .* 1\.23 MB of one"):
        solve(path, fine, parameters(time_points=4000), device)


def test_what_misses_is_refused_or_permitted_and_marked(tmp_path, grids):
    """The tolerance is less than what is left of most residuals in single precision."""
    path, one = tmp_path / "geodesics.zarr", {"device": SINGLE, "chosen": None}
    summary = solve(path, grids, parameters(1e-9, allow_unconverged=COUNT), **one)
    found, before = contents(path), path.stat().st_mtime_ns
    residual = abs(found["residual"])
    missed = (residual > 1e-9).sum()
    assert 0 < missed == found["status"].sum() == summary.unconverged < residual.size
    assert max(summary.endpoint_error_max, summary.speed_drift_max, residual.max()) <= 1e-6
    assert summary.residual_max == residual.max()
    message = (
        f"{missed} of {residual.size} geodesics miss their target by more than 1e-09, expected "
        rf"at most {missed - 1}\. Worst: (\d+) to (\d+) ppb at ([0-9.]+) nm \(member ([01]), fold "
        rf"4\): {residual.max():.1e}\. Raise .*--allow-unconverged"
    )
    with pytest.raises(GeometryError, match=message) as caught:
        solve(path, grids, parameters(1e-9, allow_unconverged=int(missed) - 1), **one)
    source, target, axis, member = map(float, re.search(message, str(caught.value)).groups())
    pair = (found["source"] == source) & (found["target"] == target)
    worst = residual[int(member), pair, abs(found["wavelength"] - axis).argmin()]
    assert worst == residual.max()
    assert path.stat().st_mtime_ns == before
    assert [file.name for file in tmp_path.iterdir()] == ["geodesics.zarr"]
