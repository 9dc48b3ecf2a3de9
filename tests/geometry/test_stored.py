import numpy as np
import pytest
import torch
import xarray

from geonode.errors import ArtifactError
from geonode.geometry.grid import Grid
from geonode.geometry.stored import StoredGrids, write_grids
from tests.geometry.closed_forms import CPU, DirectSource, stretched
from tests.geometry.small_series import LEVELS, MEMBERS, WAVELENGTHS, small_metrics, small_series

RESOLUTION = 30
SERIES = small_series()
LEARNED = small_metrics(SERIES)
SOURCE = DirectSource(LEARNED.metric(CPU), torch.from_numpy(SERIES.wavelengths))


def write(path, grid_of=SOURCE.grid, dtype=torch.float32, **options):
    """Write with the usual options, and hand back the models and grids that were to be checked."""
    usual = {"check": lambda *one: one, "every": True}
    nodes = stretched(RESOLUTION, dtype)
    return write_grids(path, grid_of, nodes, LEARNED, SERIES, **usual | options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_written_is_checked_and_read(tmp_path, dtype):
    told, positions = [], stretched(RESOLUTION, dtype)
    path = tmp_path / "grids.zarr"
    checked = write(path, dtype=dtype, report=told.append)
    assert told == [1] * LEARNED.network.models
    assert [model for model, _ in checked] == list(range(LEARNED.network.models))
    stored = StoredGrids(path, LEARNED, SERIES, True)
    for model, seen in checked:
        grid = SOURCE.grid(model, positions)
        read = stored.grid(LEARNED.index(model), torch.empty(0, dtype=dtype))
        assert torch.equal(read.positions, positions)
        for name in ("log_sqrt", "symbol"):
            rounded = getattr(grid, name).float().to(dtype)
            for found in (read, seen):
                assert getattr(found, name).dtype == dtype
                assert torch.equal(getattr(found, name), rounded)
    with xarray.open_zarr(path, consolidated=False) as dataset:
        for name in ("ln_sqrt_g", "christoffel"):
            assert dataset[name].dims == ("member", "fold", "node", "wavelength")
            assert dataset[name].shape == (MEMBERS, LEVELS + 1, RESOLUTION, WAVELENGTHS)
            assert dataset[name].dtype == "float32"
        np.testing.assert_array_equal(dataset["position"], positions.double())
        np.testing.assert_array_equal(dataset["wavelength"], SERIES.axis)


def test_without_path_decoders_grids_of_all_levels_alone_are_evaluated(tmp_path):
    checked, path = write(tmp_path / "grids", every=False), tmp_path / "grids"
    assert [LEARNED.index(model) for model, _ in checked] == [(0, LEVELS), (1, LEVELS)]
    stored = StoredGrids(path, LEARNED, SERIES, False)
    for model, seen in checked:
        assert torch.equal(stored.grid(LEARNED.index(model), torch.empty(0)).symbol, seen.symbol)
    with pytest.raises(ArtifactError, match=r"grids: .*ln_sqrt_g.*metrics and the spectra"):
        StoredGrids(path, LEARNED, SERIES, True)
    with pytest.raises(ArtifactError, match="found shape"):
        StoredGrids(path, LEARNED, small_series(LEVELS, WAVELENGTHS + 1), False)


@pytest.mark.parametrize("change", [lambda symbol: symbol / 0, lambda symbol: symbol + 1e39])
def test_grids_that_are_not_finite_leave_no_artifact(tmp_path, change):
    def changed(model, positions):
        grid = SOURCE.grid(model, positions)
        return Grid(positions, grid.log_sqrt, change(grid.symbol)) if model == 3 else grid

    with pytest.raises(ArtifactError, match=r"christoffel.*NaN or infinity at index \(0, 3, 0, 0"):
        write(tmp_path / "grids.zarr", changed, dtype=torch.float64)
    assert not any(tmp_path.iterdir())
