import numpy as np
import pytest
import torch
import xarray

from geonode.errors import ArtifactError, GeonodeError, MissingArtifactError
from geonode.geometry.grid import Grid, Grids, direct_grids
from geonode.geometry.stored import StoredGrids, write_grids
from tests.geometry.closed_forms import nodes
from tests.geometry.small_series import LEVELS, MEMBERS, WAVELENGTHS, small_metrics, small_series

RESOLUTION = 30
SERIES = small_series()
LEARNED = small_metrics(SERIES)
METRIC = LEARNED.metric(torch.device("cpu"))
GRIDS = direct_grids(METRIC, torch.from_numpy(SERIES.wavelengths), nodes(RESOLUTION))


def write(path, grids=GRIDS, **options):
    return write_grids(path, grids, LEARNED, METRIC, SERIES, check_positions=8, **options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_written_is_read(tmp_path, dtype):
    write(tmp_path / "grids.zarr")
    stored = StoredGrids(tmp_path / "grids.zarr", LEARNED, SERIES)
    like = torch.empty(0, dtype=dtype)
    for model, grid in enumerate(GRIDS):
        read = stored.grid(LEARNED.index(model), like)
        assert torch.equal(read.positions, grid.positions.to(dtype))
        assert torch.equal(read.log_sqrt, grid.log_sqrt.float().to(dtype))
        assert torch.equal(read.symbol, grid.symbol.float().to(dtype))


def test_names_and_coordinates(tmp_path):
    write(tmp_path / "grids.zarr")
    with xarray.open_zarr(tmp_path / "grids.zarr", consolidated=False) as dataset:
        shape = (MEMBERS, LEVELS + 1, RESOLUTION, WAVELENGTHS)
        for name in ("ln_sqrt_g", "christoffel"):
            assert dataset[name].dims == ("member", "fold", "node", "wavelength")
            assert dataset[name].shape == shape
        np.testing.assert_array_equal(dataset["position"], nodes(RESOLUTION))
        np.testing.assert_array_equal(dataset["wavelength"], SERIES.axis)


def test_every_grid_is_checked_and_reported(tmp_path):
    told = []
    errors = write(tmp_path / "grids.zarr", report=told.append)
    assert told == [1] * 10
    assert len(errors) == 10
    # Storage in float32 rounds; 30 nodes of an untrained metric interpolate to about 1e-8.
    assert 1e-9 < max(float(error.log_sqrt.abs().max()) for error in errors) < 1e-6


def test_a_grid_of_another_model_is_seen_by_the_check(tmp_path):
    swapped = Grids(GRIDS.positions, 10, GRIDS.calls, lambda model: GRIDS.build(model ^ 1))
    errors = write(tmp_path / "grids.zarr", swapped)
    assert min(float(error.log_sqrt.abs().max()) for error in errors) > 1e-2


def test_grids_that_are_not_finite_leave_no_artifact(tmp_path):
    def build(model):
        grid = GRIDS.build(model)
        return Grid(grid.positions, grid.log_sqrt, grid.symbol / (model != 3))

    with pytest.raises(GeonodeError, match=r"christoffel.*NaN or infinity"):
        write(tmp_path / "grids.zarr", Grids(GRIDS.positions, 10, 1, build))
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(("levels", "wavelengths"), [(LEVELS, 6), (5, WAVELENGTHS)])
def test_grids_of_another_series_are_refused(tmp_path, levels, wavelengths):
    write(tmp_path / "grids.zarr")
    other = small_series(levels, wavelengths)
    with pytest.raises(ArtifactError, match=r"grids\.zarr.*ln_sqrt_g.*metrics and the spectra"):
        StoredGrids(tmp_path / "grids.zarr", small_metrics(other), other)


def test_absent_grids_are_named(tmp_path):
    with pytest.raises(MissingArtifactError, match="none"):
        StoredGrids(tmp_path / "none", LEARNED, SERIES)
