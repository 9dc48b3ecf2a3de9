from dataclasses import replace

import numpy as np
import pytest
import torch
import xarray

from geonode.config import GeodesicsParameters
from geonode.devices.device import Device
from geonode.errors import ArtifactError, GeometryError, MissingArtifactError
from geonode.geodesics import solved
from geonode.geodesics.problem import BoundaryValueProblem, ordered_pairs
from geonode.geodesics.solution import judge
from geonode.geodesics.solved import Memory, read_features, solve_all
from geonode.geodesics.solvers.closed_form import ClosedForm
from geonode.geodesics.solvers.methods import METHODS
from geonode.geometry.grid import Grid
from geonode.geometry.sources import DirectSource
from geonode.geometry.stored import StoredGrids, write_grids
from tests.devices.allocated import peak_bytes
from tests.geometry.closed_forms import CPU, nodes
from tests.geometry.small_series import LEVELS, MEMBERS, WAVELENGTHS, small_metrics, small_series

SERIES = small_series()
LEARNED = small_metrics(SERIES)
PAIRS = LEVELS * (LEVELS - 1)
SHAPE = (MEMBERS, LEVELS + 1, PAIRS, WAVELENGTHS)
DOUBLE = Device("cpu", "test", torch.float32, torch.float64)
SINGLE = Device("cpu", "test", torch.float32, torch.float32)


def stored(path, resolution=200, learned=LEARNED):
    """Grids of some metrics, read back."""
    source = DirectSource(learned.metric(CPU), torch.from_numpy(SERIES.wavelengths))
    write_grids(
        path,
        source,
        nodes(resolution),
        learned,
        SERIES,
        storage="float32",
        check=lambda model, grid: None,
    )
    return StoredGrids(path, learned, SERIES)


@pytest.fixture(scope="module")
def grids(tmp_path_factory):
    return stored(tmp_path_factory.mktemp("grids") / "grids.zarr")


def parameters(tolerance=1e-6, **others):
    block = {
        "method": "closed_form",
        "patience": 2,
        "steps": 50,
        "time_points": 5,
        "check_rows": 20,
        "allow_unconverged": 0,
    }
    return GeodesicsParameters(tolerance=tolerance, **block | others)


def test_what_is_solved_is_read(tmp_path, grids):
    path, told = tmp_path / "geodesics.zarr", []
    summary = solve_all(path, grids, LEARNED, SERIES, parameters(), DOUBLE, told.append)
    assert told == [1] * 10
    features = read_features(path, SERIES)
    assert features.shape == (*SHAPE, 5)
    assert features.dtype == np.float32
    assert not features.flags.writeable
    wavelengths = torch.from_numpy(SERIES.wavelengths)
    residuals = []
    with xarray.open_zarr(path, consolidated=False) as dataset:
        for member, fold in ((0, 0), (1, 2), (0, 4)):
            closed_form = ClosedForm(grids.grid((member, fold), torch.empty(0).double()))
            stations = torch.from_numpy(LEARNED.positions(SERIES.concentrations)[fold])
            problem = BoundaryValueProblem.all_pairs(stations)
            solved = closed_form.solve(problem, 1e-6)
            times = torch.linspace(0, 1, 5, dtype=torch.float64)
            at = closed_form.stations(stations, wavelengths)
            expected = {
                "v0": solved.v0,
                "residual": solved.residual,
                "features": at.every_path(solved.v0)[1].float(),
                "trajectory": closed_form.trajectories(problem, solved.v0, times).float(),
            }
            for name, values in expected.items():
                np.testing.assert_array_equal(dataset[name][member, fold], values)
            residuals.append(float(solved.residual.abs().max()))
        assert not dataset["status"].any()
        source, target = ordered_pairs(LEVELS)
        np.testing.assert_array_equal(dataset["source"], SERIES.concentrations[source])
        np.testing.assert_array_equal(dataset["target"], SERIES.concentrations[target])
        np.testing.assert_array_equal(dataset["time"], [0, 0.25, 0.5, 0.75, 1])
    assert (summary.geodesics, summary.unconverged) == (np.prod(SHAPE), 0)
    assert summary.checked_on_network == 10 * 20
    assert max(residuals) <= summary.residual_max <= 1e-9
    assert 0 < summary.endpoint_error_max <= 3e-7  # grids are stored in float32
    assert 0 < summary.speed_drift_max <= 3e-7


def test_float32_geometry_and_no_trajectories(tmp_path, grids):
    path = tmp_path / "geodesics.zarr"
    summary = solve_all(path, grids, LEARNED, SERIES, parameters(time_points=0), SINGLE)
    assert summary.unconverged == 0
    assert summary.endpoint_error_max <= 1e-6
    assert summary.speed_drift_max <= 1e-6
    with xarray.open_zarr(path, consolidated=False) as dataset:
        assert "trajectory" not in dataset
        assert dataset["v0"].dtype == np.float64
    double = tmp_path / "double.zarr"
    solve_all(double, grids, LEARNED, SERIES, parameters(), DOUBLE)
    np.testing.assert_allclose(
        read_features(path, SERIES), read_features(double, SERIES), rtol=2e-6, atol=1e-6
    )


def test_geodesics_that_miss_leave_no_artifact(tmp_path, grids):
    row = r"[0-9]+ to [0-9]+ ppb at [0-9.]+ nm \(member [01], fold [0-4]\): [0-9.]+e-1[0-9]"
    message = (
        r"[0-9]+ of 600 geodesics miss their target by more than 1e-300, expected at most 0\. "
        rf"Worst: {row}; {row}; {row}\. Raise .*--allow-unconverged"
    )
    with pytest.raises(GeometryError, match=message) as caught:
        solve_all(tmp_path / "geodesics.zarr", grids, LEARNED, SERIES, parameters(1e-300), DOUBLE)
    assert "\n" not in str(caught.value)
    assert not any(tmp_path.iterdir())


def test_geodesics_that_miss_leave_an_older_artifact_as_it_was(tmp_path, grids):
    path = tmp_path / "geodesics.zarr"
    solve_all(path, grids, LEARNED, SERIES, parameters(), DOUBLE)
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    with pytest.raises(GeometryError):
        solve_all(path, grids, LEARNED, SERIES, parameters(1e-300), DOUBLE)
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before
    assert [file.name for file in tmp_path.iterdir()] == ["geodesics.zarr"]


@pytest.mark.parametrize("device", [DOUBLE, SINGLE], ids=["float64", "float32"])
def test_a_grid_that_is_too_coarse_is_refused(tmp_path, device):
    sharp = small_metrics(SERIES, gain=3.0)
    coarse = stored(tmp_path / "grids.zarr", 12, sharp)
    with pytest.raises(
        GeometryError, match=r"of 600 geodesics miss .*Raise christoffel\.resolution"
    ):
        solve_all(tmp_path / "geodesics.zarr", coarse, sharp, SERIES, parameters(), device)
    assert [file.name for file in tmp_path.iterdir()] == ["grids.zarr"]


def test_in_closed_form_the_network_must_agree_within_the_tolerance_itself(tmp_path, grids):
    path = tmp_path / "geodesics.zarr"
    error = solve_all(path, grids, LEARNED, SERIES, parameters(), DOUBLE).endpoint_error_max
    solve_all(path, grids, LEARNED, SERIES, parameters(1.1 * error), DOUBLE)
    with pytest.raises(GeometryError, match="on the network"):
        solve_all(path, grids, LEARNED, SERIES, parameters(0.9 * error), DOUBLE)


@pytest.mark.parametrize("device", [DOUBLE, SINGLE], ids=["float64", "float32"])
def test_grids_of_other_metrics_are_refused(tmp_path, grids, device):
    other = small_metrics(SERIES, seed=1)
    with pytest.raises(GeometryError, match=r"on the network, expected at most .*write the grid"):
        solve_all(tmp_path / "geodesics.zarr", grids, other, SERIES, parameters(), device)
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(("levels", "wavelengths"), [(LEVELS, 6), (5, WAVELENGTHS)])
def test_features_of_another_series_are_refused(tmp_path, grids, levels, wavelengths):
    path = tmp_path / "geodesics.zarr"
    solve_all(path, grids, LEARNED, SERIES, parameters(time_points=0), DOUBLE)
    with pytest.raises(ArtifactError, match=r"geodesics\.zarr.*features.*the spectra"):
        read_features(path, small_series(levels, wavelengths))


def test_absent_geodesics_are_named(tmp_path):
    with pytest.raises(MissingArtifactError, match="none"):
        read_features(tmp_path / "none", SERIES)


def contents(path):
    """Arrays of an artifact."""
    with xarray.open_zarr(path, consolidated=False) as dataset:
        return {name: dataset[name].values for name in dataset.data_vars}


@pytest.mark.slow
@pytest.mark.parametrize("columns", [1, 3])
def test_wavelengths_at_once_change_no_bit(tmp_path, grids, monkeypatch, columns):
    solve_all(tmp_path / "whole.zarr", grids, LEARNED, SERIES, parameters(), DOUBLE)
    whole = contents(tmp_path / "whole.zarr")
    monkeypatch.setattr(Memory, "columns", lambda *_: columns)
    path = tmp_path / "parts.zarr"
    summary = solve_all(path, grids, LEARNED, SERIES, parameters(), DOUBLE)
    assert (summary.geodesics, summary.evaluations) == (600, 1200)
    parts = contents(path)
    assert set(parts) == set(whole) == {"v0", "residual", "status", "features", "trajectory"}
    for name, values in whole.items():
        np.testing.assert_array_equal(parts[name], values, err_msg=name)


def test_a_card_short_of_memory_takes_fewer_wavelengths_and_finds_the_same(
    tmp_path, grids, monkeypatch, caplog
):
    """Stands for what another process takes of the card after the wavelengths were chosen."""
    most, plain, rows = 2 * PAIRS, METHODS["closed_form"], []

    def short(closed_form, problem, settings):
        rows.append(len(problem.source) * closed_form.grid.log_sqrt.shape[1])
        if rows[-1] > most:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nmore")
        return plain(closed_form, problem, settings)

    monkeypatch.setattr(solved, "BYTES_PER_ROW", 2**20 // 100)
    little, told = replace(DOUBLE, memory_mb=1), []
    solve_all(tmp_path / "whole.zarr", grids, LEARNED, SERIES, parameters(), little)
    monkeypatch.setitem(METHODS, "closed_form", short)
    path = tmp_path / "halved.zarr"
    summary = solve_all(path, grids, LEARNED, SERIES, parameters(), little, told.append)
    failed = sum(count > most for count in rows)
    assert failed > 0
    assert max(rows[failed:]) <= most  # nor is it tried with the next model
    assert (told, sum(rows[failed:])) == ([1] * 10, 600)
    assert (summary.geodesics, summary.evaluations) == (600, 1200)
    whole, halved = contents(tmp_path / "whole.zarr"), contents(path)
    for name, values in whole.items():
        np.testing.assert_array_equal(halved[name], values, err_msg=name)
    assert len(caplog.messages) == failed
    assert caplog.messages[0].startswith("CUDA out of memory. Tried to allocate 2 GiB.; solving")


def test_a_card_without_memory_for_one_wavelength_is_an_error(tmp_path, grids, monkeypatch):
    def short(*_):
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setitem(METHODS, "closed_form", short)
    with pytest.raises(GeometryError, match=r"memory_mb: found .* MB for geodesics, expected at"):
        solve_all(tmp_path / "a.zarr", grids, LEARNED, SERIES, parameters(), DOUBLE)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("method", ["newton", "lbfgs", "dopri5"])
def test_iterative_methods_find_the_same_velocities(tmp_path, grids, method):
    solve_all(tmp_path / "closed_form.zarr", grids, LEARNED, SERIES, parameters(), DOUBLE)
    path = tmp_path / "iterative.zarr"
    summary = solve_all(path, grids, LEARNED, SERIES, parameters(method=method), DOUBLE)
    assert (summary.method, summary.unconverged) == (method, 0)
    # two shots of 50 steps of 4 stages at least; by dopri5 of some 40, and back again
    assert summary.evaluations > 600 * 2 * (40 if method == "dopri5" else 200)
    assert summary.endpoint_error_max <= 1e-5
    expected, found = (contents(tmp_path / f"{name}.zarr") for name in ("closed_form", "iterative"))
    assert 0 < abs(found["v0"] - expected["v0"]).max() <= 1e-5
    # features and trajectories follow from the velocities that are found
    for name in ("features", "trajectory"):
        assert 0 < abs(found[name] - expected[name]).max() <= 1e-4
    with xarray.open_zarr(path, consolidated=False) as dataset:
        assert dataset.attrs["method"] == method


def test_permitted_rows_keep_their_status_and_residual(tmp_path, grids, monkeypatch):
    """A method that misses three rows of the model (1, 2) by a tenth."""
    calls = iter(range(10))

    def clumsy(closed_form, problem, settings):
        solution = closed_form.solve(problem, settings.tolerance)
        if next(calls) != 7:
            return solution
        off = torch.zeros_like(solution.v0)
        off[[0, 4, 4], [1, 0, 3]] = torch.tensor([0.1, 0.2, 0.3], dtype=off.dtype)
        v0, residual = solution.v0 + off, solution.residual + off
        return replace(solution, v0=v0, residual=residual, status=judge(v0, residual, 1e-6))

    monkeypatch.setitem(METHODS, "newton", clumsy)
    path = tmp_path / "geodesics.zarr"
    message = (
        r"3 of 600 geodesics .*expected at most 2\. Worst: 10 to 20 ppb at 405\.196 nm "
        r"\(member 1, fold 2\): 3\.0e-01; 10 to 20 ppb at 400 nm \(member 1, fold 2\): 2\.0e-01; "
        r"0 to 10 ppb at 401 nm \(member 1, fold 2\): 1\.0e-01\. Raise"
    )
    block = {"method": "newton", "check_rows": 60}
    with pytest.raises(GeometryError, match=message):
        solve_all(path, grids, LEARNED, SERIES, parameters(allow_unconverged=2, **block), DOUBLE)
    calls = iter(range(10))
    three = parameters(allow_unconverged=3, **block)
    summary = solve_all(path, grids, LEARNED, SERIES, three, DOUBLE)
    assert (summary.unconverged, summary.checked_on_network) == (3, 600)
    assert summary.residual_max == pytest.approx(0.3, abs=1e-6)
    assert summary.endpoint_error_max <= 3e-7  # of those that have converged
    found = contents(path)
    assert found["status"].sum() == found["status"][1, 2, [0, 4, 4], [1, 0, 3]].sum() == 3
    assert found["residual"][1, 2, 4, 0] == pytest.approx(0.2, abs=1e-6)


def test_a_velocity_that_is_not_finite_is_counted_and_never_stored(tmp_path, grids, monkeypatch):
    def lost(closed_form, problem, settings):
        solution = closed_form.solve(problem, settings.tolerance)
        v0 = solution.v0.clone()
        v0[2, 2] = torch.nan
        return replace(solution, v0=v0, status=judge(v0, solution.residual, 1e-6))

    monkeypatch.setitem(METHODS, "newton", lost)
    path = tmp_path / "geodesics.zarr"
    with pytest.raises(GeometryError, match=r"10 of 600 .*Worst: 0 to 30 ppb at .*: not finite;"):
        solve_all(path, grids, LEARNED, SERIES, parameters(method="newton"), DOUBLE)
    ten = parameters(method="newton", allow_unconverged=10)
    with pytest.raises(ArtifactError, match=r"v0.*NaN or infinity"):
        solve_all(path, grids, LEARNED, SERIES, ten, DOUBLE)
    assert not any(tmp_path.iterdir())


def test_what_a_closed_form_is_counted_to_hold_is_what_torch_allocates():
    grid = DirectSource(LEARNED.metric(CPU), torch.linspace(-1, 1, 50).double()).grid(
        0, nodes(2000)
    )
    problem = BoundaryValueProblem.all_pairs(torch.linspace(-1, 1, 4).double())
    held = []

    def solve():
        held[:] = [ClosedForm(Grid(grid.positions, grid.log_sqrt + 0, grid.symbol + 0))]
        v0 = held[0].solve(problem, 1e-6).v0
        wavelengths = torch.linspace(-1, 1, 50).double()
        held[0].stations(problem.stations, wavelengths).every_path(v0)

    table = grid.log_sqrt.numel() * 8
    # two and a half are there for a moment while the last table is made
    assert peak_bytes(solve) / table == pytest.approx(solved.TABLES, abs=2.5)


def test_wavelengths_at_once_fit_into_the_memory_that_is_given():
    memory = Memory(nodes=200, itemsize=8, time_points=5)
    column = 200 * 8 * solved.TABLES + 20 * (solved.BYTES_PER_ROW + 5 * solved.BYTES_PER_TIME)
    assert [memory.columns(total, 20) for total in (column, 3 * column - 1, 3 * column)] == [
        1,
        2,
        3,
    ]
    with pytest.raises(GeometryError, match=r"memory_mb: found 0\.0\d+ MB for geodesics, .*raise"):
        memory.columns(column - 1, 20)
