import numpy as np
import pytest
import torch
import xarray

from geonode.errors import ArtifactError, MissingArtifactError
from geonode.geometry.grid import Grid
from geonode.geometry.stored import StoredGrids, write_grids
from tests.geometry.closed_forms import CPU, DirectSource, stretched
from tests.geometry.small_series import LEVELS, MEMBERS, WAVELENGTHS, small_metrics, small_series

RESOLUTION = 30
SERIES = small_series()
LEARNED = small_metrics(SERIES)
SOURCE = DirectSource(LEARNED.metric(CPU), torch.from_numpy(SERIES.wavelengths))


CHOSEN = np.array([0, 3])


def write(path, grid_of=SOURCE.grid, dtype=torch.float32, **options):
    """Write with the usual options, and hand back the models and grids that were to be checked."""
    usual = {"check": lambda *one: one, "chosen": CHOSEN}
    nodes = stretched(RESOLUTION, dtype)
    return write_grids(path, grid_of, nodes, LEARNED, SERIES, **usual | options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_written_is_checked_and_read(tmp_path, dtype):
    told, positions = [], stretched(RESOLUTION, dtype)
    path = tmp_path / "grids.zarr"
    checked = write(path, dtype=dtype, report=told.append)
    assert told == [1] * SOURCE.models
    assert [model for model, *_ in checked] == list(range(SOURCE.models))
    stored = StoredGrids(path, LEARNED, SERIES, CHOSEN)
    for model, seen, columns in checked:
        grid = SOURCE.grid(model, positions)
        if LEARNED.index(model)[1] < LEVELS:
            assert columns.tolist() == CHOSEN.tolist()
            grid = grid.at_wavelengths(columns)
        read = stored.grid(model, torch.empty(0, dtype=dtype))
        assert torch.equal(read.positions, positions)
        for name in ("log_sqrt", "symbol"):
            rounded = getattr(grid, name).float().to(dtype)
            for found in (read, seen):
                assert getattr(found, name).dtype == dtype
                assert torch.equal(getattr(found, name), rounded)
    with xarray.open_zarr(path, consolidated=False) as dataset:
        for name in ("ln_sqrt_g", "christoffel"):
            of_folds = dataset[f"fold_{name}"]
            assert dataset[name].dims == ("member", "node", "wavelength")
            assert dataset[name].shape == (MEMBERS, RESOLUTION, WAVELENGTHS)
            assert of_folds.dims == ("member", "fold", "node", "training")
            assert of_folds.shape == (MEMBERS, LEVELS, RESOLUTION, len(CHOSEN))
            assert dataset[name].dtype == of_folds.dtype == "float32"
        np.testing.assert_array_equal(dataset["training"], SERIES.axis[CHOSEN])
        np.testing.assert_array_equal(dataset["position"], positions.double())
        np.testing.assert_array_equal(dataset["wavelength"], SERIES.axis)


def test_without_path_decoders_grids_of_all_levels_alone_are_evaluated(tmp_path):
    last = [member * (LEVELS + 1) + LEVELS for member in range(MEMBERS)]
    assert [model for model, *_ in write(tmp_path / "grids.zarr", chosen=None)] == last
    with xarray.open_zarr(tmp_path / "grids.zarr", consolidated=False) as dataset:
        assert {*dataset.data_vars} == {"ln_sqrt_g", "christoffel"}
    with pytest.raises(ArtifactError, match="no array 'fold_ln_sqrt_g'"):
        StoredGrids(tmp_path / "grids.zarr", LEARNED, SERIES, CHOSEN)


@pytest.mark.parametrize("change", [lambda symbol: symbol / 0, lambda symbol: symbol + 1e39])
def test_grids_that_are_not_finite_leave_no_artifact(tmp_path, change):
    def changed(model, positions):
        grid = SOURCE.grid(model, positions)
        return Grid(positions, grid.log_sqrt, change(grid.symbol)) if model == 3 else grid

    with pytest.raises(ArtifactError, match=r"christoffel.*NaN or infinity at index \(0, 3, 0, 0"):
        write(tmp_path / "grids.zarr", changed, dtype=torch.float64)
    assert not any(tmp_path.iterdir())


def test_absent_grids_and_those_of_another_series_are_refused(tmp_path):
    with pytest.raises(MissingArtifactError, match="none"):
        StoredGrids(tmp_path / "none", LEARNED, SERIES, None)
    write(tmp_path / "grids.zarr")
    for other in (small_series(LEVELS, 6), small_series(5, WAVELENGTHS)):
        with pytest.raises(ArtifactError, match=r"grids\.zarr.*ln_sqrt_g.*metrics and the spectra"):
            StoredGrids(tmp_path / "grids.zarr", small_metrics(other), other, CHOSEN)
