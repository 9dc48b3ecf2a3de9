import numpy as np
import pytest
import torch
import xarray

from geonode.errors import (
    ArtifactError,
    GeometryError,
    GeonodeError,
    MissingArtifactError,
)
from geonode.geometry.grid import Grid
from geonode.geometry.sources import DirectSource
from geonode.geometry.stored import STORAGE, StoredGrids, write_grids
from tests.geometry.closed_forms import CPU, stretched
from tests.geometry.small_series import LEVELS, MEMBERS, WAVELENGTHS, small_metrics, small_series

RESOLUTION = 30
SERIES = small_series()
LEARNED = small_metrics(SERIES)
SOURCE = DirectSource(LEARNED.metric(CPU), torch.from_numpy(SERIES.wavelengths))
POSITIONS = stretched(RESOLUTION, torch.float32)


def write(path, source=SOURCE, positions=POSITIONS, **options):
    """Write with the usual options, and hand back the models and grids that were to be checked."""
    checked = []
    usual = {"storage": "float32", "check": lambda *one: checked.append(one)}
    write_grids(path, source, positions, LEARNED, SERIES, **usual | options)
    return checked


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("storage", STORAGE)
def test_what_is_written_is_read(tmp_path, storage, dtype):
    positions = stretched(RESOLUTION, dtype)
    write(tmp_path / "grids.zarr", positions=positions, storage=storage)
    stored = StoredGrids(tmp_path / "grids.zarr", LEARNED, SERIES)
    for model in range(SOURCE.models):
        grid = SOURCE.grid(model, positions)
        read = stored.grid(LEARNED.index(model), torch.empty(0, dtype=dtype))
        assert torch.equal(read.positions, positions)
        for name in ("log_sqrt", "symbol"):
            rounded = getattr(grid, name).to(STORAGE[storage])
            assert torch.equal(getattr(read, name), rounded.to(dtype))
            assert getattr(read, name).dtype == dtype


def test_names_and_coordinates(tmp_path):
    write(tmp_path / "grids.zarr", storage="float16")
    with xarray.open_zarr(tmp_path / "grids.zarr", consolidated=False) as dataset:
        shape = (MEMBERS, LEVELS + 1, RESOLUTION, WAVELENGTHS)
        for name in ("ln_sqrt_g", "christoffel"):
            assert dataset[name].dims == ("member", "fold", "node", "wavelength")
            assert dataset[name].shape == shape
            assert dataset[name].dtype == np.float16
        np.testing.assert_array_equal(dataset["position"], POSITIONS.double())
        np.testing.assert_array_equal(dataset["wavelength"], SERIES.axis)


@pytest.mark.parametrize("storage", STORAGE)
def test_every_grid_is_checked_as_it_was_stored_and_reported(tmp_path, storage):
    told = []
    checked = write(tmp_path / "grids.zarr", storage=storage, report=told.append)
    assert told == [1] * SOURCE.models
    assert [model for model, _ in checked] == list(range(SOURCE.models))
    stored = StoredGrids(tmp_path / "grids.zarr", LEARNED, SERIES)
    for model, grid in checked:
        read = stored.grid(LEARNED.index(model), POSITIONS)
        for name in ("positions", "log_sqrt", "symbol"):
            assert torch.equal(getattr(grid, name), getattr(read, name))


def test_a_check_that_fails_leaves_no_artifact(tmp_path):
    def check(model, grid):
        if model == 3:
            raise GeonodeError("not good enough")

    with pytest.raises(GeonodeError, match="good enough"):
        write(tmp_path / "grids.zarr", check=check)
    assert not any(tmp_path.iterdir())


def test_an_unknown_format_is_refused(tmp_path):
    with pytest.raises(GeometryError, match="storage: found 'cubic', expected one of float32, fl"):
        write(tmp_path / "grids.zarr", storage="cubic")
    assert not any(tmp_path.iterdir())


class Changed:
    """The usual grids, with the symbols of one model changed."""

    models, calls = SOURCE.models, 0

    def __init__(self, model, change):
        self.changed, self.change = model, change

    def grid(self, model, positions):
        grid = SOURCE.grid(model, positions)
        if model != self.changed:
            return grid
        return Grid(positions, grid.log_sqrt, self.change(grid.symbol))


@pytest.mark.parametrize(
    ("change", "storage"),
    [(lambda symbol: symbol / 0, "float32"), (lambda symbol: symbol + 1e5, "float16")],
    ids=["infinite", "too large for float16"],
)
def test_grids_that_are_not_finite_leave_no_artifact(tmp_path, change, storage):
    with pytest.raises(ArtifactError, match=r"christoffel.*NaN or infinity at index \(0, 3, 0, 0"):
        write(tmp_path / "grids.zarr", Changed(3, change), storage=storage)
    assert not any(tmp_path.iterdir())
    write(tmp_path / "grids.zarr", Changed(3, lambda symbol: symbol + 1e5))


@pytest.mark.parametrize(("levels", "wavelengths"), [(LEVELS, 6), (5, WAVELENGTHS)])
def test_grids_of_another_series_are_refused(tmp_path, levels, wavelengths):
    write(tmp_path / "grids.zarr")
    other = small_series(levels, wavelengths)
    with pytest.raises(ArtifactError, match=r"grids\.zarr.*ln_sqrt_g.*metrics and the spectra"):
        StoredGrids(tmp_path / "grids.zarr", small_metrics(other), other)


def test_absent_grids_are_named(tmp_path):
    with pytest.raises(MissingArtifactError, match="none"):
        StoredGrids(tmp_path / "none", LEARNED, SERIES)
