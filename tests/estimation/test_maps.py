import json

import numpy as np
import pytest
from typer.testing import CliRunner

from geonode.cli import app
from geonode.errors import ArtifactError, SpectraError
from geonode.estimation import maps
from geonode.estimation.curve import Curve
from geonode.estimation.maps import AMBIGUOUS, LAYERS, MISFIT, MISSING, Image
from geonode.estimation.model import SpectralModel
from geonode.estimation.posterior import estimate
from tests.estimation.trained import AXIS, spectra_at, write_model

xarray = pytest.importorskip("xarray")
array = pytest.importorskip("dask.array")

ROWS, COLUMNS = 5, 7
CONCENTRATIONS = np.linspace(3, 27, ROWS * COLUMNS)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def model(root):
    return SpectralModel.read(root / "data")


def image_values():
    """A gradient of concentrations, with a pixel that was lost and one that is no such spectrum."""
    values = spectra_at(CONCENTRATIONS).reshape(ROWS, COLUMNS, -1)
    values[1, 2, 3] = np.nan
    values[4, 0] = 50.0
    return values


def store(path, values, axis=AXIS, dims=("y", "x", "wavelength"), chunks=None, unit="nm"):
    at_axis = {"wavelength": ("wavelength", axis, {"units": unit})} if "wavelength" in dims else {}
    data = xarray.Dataset({"signal": (dims, values)}, at_axis)
    encoding = {"signal": {"chunks": chunks}} if chunks else {}
    data.to_zarr(path, consolidated=False, encoding=encoding)
    return path


def mapped(model, path, **options):
    curve = Curve.of(model, **options)
    return curve, maps.concentration_maps(curve, model.series, Image.open(path))


@pytest.mark.parametrize("chunks", [None, (2, 3, len(AXIS)), (ROWS, 2, 5)])
@pytest.mark.parametrize("largest", [2**26, 3 * 8 * len(AXIS)])
def test_maps_are_the_estimates_of_the_pixels(tmp_path, monkeypatch, model, chunks, largest):
    monkeypatch.setattr(maps, "BLOCK_BYTES", largest)
    values = image_values()
    curve, found = mapped(model, store(tmp_path / "cube.zarr", values, chunks=chunks))
    there = np.isfinite(values).all(axis=2)
    expected = estimate(curve, values[there])
    columns = {
        "concentration": expected.mode,
        "mean": expected.mean,
        "std": expected.deviation,
        "low90": [sets[0][0] for sets in expected.sets],
        "high90": [sets[-1][1] for sets in expected.sets],
        "p_value": expected.p_value,
    }
    assert set(columns) == set(LAYERS)
    for name, column in columns.items():
        layer = found[name].values
        np.testing.assert_allclose(layer[there], column, rtol=1e-12)
        assert np.isnan(layer[1, 2])
    flags = found["flags"].values
    assert flags.dtype == np.uint8
    assert flags[1, 2] == MISSING
    assert flags[4, 0] & MISFIT
    assert not (flags[0] & MISFIT).any()
    np.testing.assert_array_equal(flags[there] & AMBIGUOUS, expected.disconnected)


def test_nothing_is_read_before_it_is_asked_for_and_then_block_by_block(
    tmp_path, monkeypatch, model
):
    monkeypatch.setattr(maps, "BLOCK_BYTES", 2 * COLUMNS * 8 * len(AXIS))
    values, seen = image_values(), []

    def read(block):
        seen.append(block.shape)
        return block

    path = store(tmp_path / "cube.zarr", values)
    image = Image.open(path)
    lazy = array.from_array(values, chunks=(2, 7, len(AXIS))).map_blocks(
        read, dtype=float, meta=np.empty((0, 0, 0))
    )
    image = Image(image.spectra.copy(data=lazy), image.axis, image.axis_unit)
    found = maps.concentration_maps(Curve.of(model), model.series, image)
    assert seen == []
    found["mean"][0:1].compute()
    assert all(shape[0] <= 2 for shape in seen)
    assert sum(shape[0] for shape in seen) < ROWS


def test_axes_in_any_order_and_finer_than_that_of_the_model(tmp_path, model):
    values = image_values()[:1]
    straight = mapped(model, store(tmp_path / "a.zarr", values))[1]
    turned = store(
        tmp_path / "b.zarr",
        np.moveaxis(values, 2, 0)[::-1].copy(),
        axis=AXIS[::-1].copy(),
        dims=("wavelength", "y", "x"),
    )
    np.testing.assert_allclose(mapped(model, turned)[1]["mean"], straight["mean"], rtol=1e-12)
    fine = np.linspace(AXIS[0], AXIS[-1], 2 * len(AXIS) - 1)
    shown = np.stack([np.interp(fine, AXIS, row) for row in values[0]])[None]
    found = mapped(model, store(tmp_path / "c.zarr", shown, axis=fine))[1]
    np.testing.assert_allclose(found["mean"], straight["mean"], rtol=1e-6)


def test_what_is_no_image_is_refused(tmp_path, model):
    values = image_values()
    flat = store(tmp_path / "flat.zarr", values[0], dims=("sample", "wavelength"))
    scans = store(
        tmp_path / "scans.zarr", values, dims=("concentration", "replicate", "wavelength")
    )
    assert not maps.is_image(flat)
    assert not maps.is_image(scans)
    assert not maps.is_image(tmp_path / "absent.zarr")
    with pytest.raises(SpectraError, match="found no variable over two dimensions"):
        Image.open(flat)
    tangled = np.where(np.arange(len(AXIS)) == 2, AXIS[5], AXIS)
    with pytest.raises(SpectraError, match="wavelengths out of order"):
        Image.open(store(tmp_path / "tangled.zarr", values, axis=tangled))
    with pytest.raises(SpectraError, match="is missing"):
        mapped(model, store(tmp_path / "half.zarr", values[..., :-4], axis=AXIS[:-4]))
    with pytest.raises(SpectraError, match="expected nm"):
        mapped(model, store(tmp_path / "unit.zarr", values, unit="cm-1"))


def test_a_map_that_fails_leaves_the_older_one(tmp_path, model, monkeypatch):
    path, out = store(tmp_path / "cube.zarr", image_values()), tmp_path / "map.zarr"
    found = mapped(model, path)[1]
    done = []
    maps.write_maps(found, out, done.append)
    assert sum(done) == found["flags"].data.npartitions
    before = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(found), "to_zarr", full)
    with pytest.raises(ArtifactError, match="No space left"):
        maps.write_maps(found, out)
    assert {file: file.read_bytes() for file in out.rglob("*") if file.is_file()} == before


def test_the_command_writes_maps(tmp_path, root):
    path, out = store(tmp_path / "cube.zarr", image_values()), tmp_path / "map.zarr"
    call = ["estimate", str(path), "--root", str(root)]
    result = CliRunner().invoke(app, [*call, "--out", str(out)])
    assert result.exit_code == 0, result.output
    with xarray.open_zarr(out, consolidated=False) as written:
        assert set(written.data_vars) == {*LAYERS, "flags"}
        assert written["mean"].shape == (ROWS, COLUMNS)
        np.testing.assert_allclose(
            written["mean"][0], CONCENTRATIONS[:COLUMNS], atol=3 * float(written["std"][0].max())
        )
    assert CliRunner().invoke(app, call).exit_code == 2
    assert CliRunner().invoke(app, [*call, "--out", str(tmp_path / "map.csv")]).exit_code == 2


def test_a_store_that_names_a_codec_that_unpickles_is_never_opened(tmp_path, monkeypatch):
    path = store(tmp_path / "cube.zarr", image_values())
    file = path / "wavelength" / "zarr.json"
    about = json.loads(file.read_text())
    about["codecs"] = [{"name": "numcodecs.pickle", "configuration": {}}]
    file.write_text(json.dumps(about))

    def opened(*arguments, **options):
        raise AssertionError("opened")

    monkeypatch.setattr(xarray, "open_dataset", opened)
    assert not maps.is_image(path)
    with pytest.raises(SpectraError, match=r"found codec 'numcodecs\.pickle'"):
        Image.open(path)


def test_a_coordinate_of_terabytes_is_refused(tmp_path):
    path = store(tmp_path / "cube.zarr", image_values())
    file = path / "wavelength" / "zarr.json"
    about = json.loads(file.read_text())
    about["shape"] = about["chunk_grid"]["configuration"]["chunk_shape"] = [10**10]
    file.write_text(json.dumps(about))
    with pytest.raises(SpectraError, match="8e\\+10 bytes of shape"):
        Image.open(path)
