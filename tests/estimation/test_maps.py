import json
import logging
import os
import re
import signal
import subprocess
import sys
import time
from math import prod
from pathlib import Path

import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from geonode.cli import app
from geonode.errors import ArtifactError, SpectraError
from geonode.estimation import image as image_module
from geonode.estimation import large, maps
from geonode.estimation.curve import Curve
from geonode.estimation.image import Image, ImageTile, is_image, pixels_at_once, tiles
from geonode.estimation.maps import AMBIGUOUS, LAYERS, MISFIT, MISSING
from geonode.estimation.model import SpectralModel
from geonode.estimation.posterior import estimate
from geonode.spectra import labelled_arrays
from geonode.storage.artifact import open_artifact
from geonode.storage.atomic import kept_of
from tests.estimation.trained import AXIS, spectra_at, write_model

xarray = pytest.importorskip("xarray")
array = pytest.importorskip("dask.array")

ROWS, COLUMNS = 5, 7
CONCENTRATIONS = np.linspace(3, 27, ROWS * COLUMNS)


@pytest.fixture
def probed():
    """For tests of stores that are looked at by a process of its own first, as all are in use."""


@pytest.fixture(autouse=True)
def whole_stores_are_not_probed(request, monkeypatch):
    """Those that tests write themselves: the processes would take most of their time."""
    if "probed" not in request.fixturenames:
        monkeypatch.setattr(image_module, "probe", lambda path, most_dimensions: None)


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


def store(path, values, axis=AXIS, dims=("y", "x", "wavelength"), chunks=None, unit="nm", **others):
    at_axis = {"wavelength": ("wavelength", axis, {"units": unit})} if "wavelength" in dims else {}
    data = xarray.Dataset({"signal": (dims, values)}, at_axis | others)
    encoding = {"signal": {"chunks": chunks}} if chunks else {}
    data.to_zarr(path, consolidated=False, encoding=encoding)
    return path


CURVES = {}


def curve_of(model):
    """The curve of the module's model, made once."""
    if id(model) not in CURVES:
        CURVES[id(model)] = Curve.of(model)
    return CURVES[id(model)]


def written(model, path, out, pixels=6, **options):
    """Maps of an image, as xarray reads them."""
    maps.write_maps(out, curve_of(model), model.series, Image.open(path), pixels, **options)
    with xarray.open_zarr(out, consolidated=False) as found:
        return found.load()


def files(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def cube(tmp_path_factory):
    """An image in chunks of 2 x 3 pixels."""
    path = tmp_path_factory.mktemp("cube") / "cube.zarr"
    return store(path, image_values(), chunks=(2, 3, 16))


@pytest.mark.parametrize(
    ("chunks", "pixels"), [(None, 10**6), ((2, 3, len(AXIS)), 3), ((ROWS, 2, 5), 3)]
)
def test_maps_are_the_estimates_of_the_pixels(tmp_path, model, chunks, pixels):
    values = image_values()
    path = store(tmp_path / "cube.zarr", values, chunks=chunks)
    found = written(model, path, tmp_path / "map.zarr", pixels)
    there = np.isfinite(values).all(axis=2)
    expected = estimate(curve_of(model), values[there])
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
        assert found[name].dims == ("y", "x")
        assert found[name].units == ("1" if name == "p_value" else "ppb")
        np.testing.assert_allclose(layer[there], column, rtol=1e-12)
        assert np.isnan(layer[1, 2])
    flags = found["flags"].values
    assert flags.dtype == np.uint8
    assert flags[1, 2] == MISSING
    assert flags[4, 0] & MISFIT
    assert not (flags[0] & MISFIT).any()
    np.testing.assert_array_equal(flags[there] & AMBIGUOUS, expected.disconnected)
    assert found["flags"].flag_masks == [1, 2, 4]
    assert found["flags"].flag_meanings == "ambiguous fits_nowhere missing"


def test_maps_are_an_artifact_whose_numbers_are_finite(tmp_path, model, cube):
    written(model, cube, tmp_path / "map.zarr")
    artifact = open_artifact(tmp_path / "map.zarr")
    assert set(artifact.names) == {*LAYERS, "flags"}
    for name in artifact.names:
        assert artifact.first_not_finite(name) is None
    assert artifact["mean"][1, 2] == -1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["map.zarr"]


def test_coordinates_of_the_pixels_go_with_them(tmp_path, model):
    place = ("y", np.arange(ROWS) * 0.5, {"units": "um", "long_name": "height"})
    path = store(tmp_path / "cube.zarr", image_values(), y=place)
    found = written(model, path, tmp_path / "map.zarr")
    assert set(found.coords) == {"y"}
    np.testing.assert_array_equal(found["mean"]["y"], np.arange(ROWS) * 0.5)
    assert (found["y"].units, found["y"].long_name) == ("um", "height")
    place = ("x", np.full(COLUMNS, np.nan))
    path = store(tmp_path / "nan.zarr", image_values(), x=place)
    with pytest.raises(SpectraError, match="coordinate 'x': found NaN"):
        written(model, path, tmp_path / "none.zarr")


@settings(deadline=None, max_examples=200)
@given(
    shape=st.tuples(*[st.integers(1, 40)] * 2),
    chunks=st.tuples(*[st.integers(1, 40)] * 2),
    pixels=st.integers(1, 2000),
)
def test_tiles_cover_an_image_once_and_are_whole_chunks_or_within_one(shape, chunks, pixels):
    chunks = tuple(map(min, chunks, shape))
    lazy = array.empty((*shape, 1), chunks=(*chunks, 1))
    image = Image(Path("none"), xarray.DataArray(lazy), np.zeros(1), "nm")
    count = np.zeros(shape, dtype=int)
    for tile in tiles(image, pixels):
        count[tile] += 1
        assert prod(tile.shape) <= pixels
        for part, chunk, size in zip(tile, chunks, shape, strict=True):
            within = part.start // chunk == (part.stop - 1) // chunk
            assert within or (part.start % chunk == 0 and part.stop % chunk in (0, size % chunk))
    assert (count == 1).all()


def test_tiles_have_room_in_memory(monkeypatch, model, cube):
    image = Image.open(cube)
    whole = image_module.TILE_BYTES // (8 * len(AXIS))
    monkeypatch.setattr(large, "free_memory", lambda: 2**40)
    assert pixels_at_once(image, 4) == whole
    monkeypatch.setattr(image_module, "TILE_BYTES", 1)
    assert pixels_at_once(image, 4) == 6  # a chunk
    monkeypatch.setattr(
        large, "free_memory", lambda: 4 * 2 * 3 * image_module.COPIES * 8 * len(AXIS)
    )
    assert pixels_at_once(image, 2) == 3  # of a quarter, for two
    monkeypatch.setattr(large, "free_memory", lambda: 0)
    assert pixels_at_once(image, 2) == 1


def test_nothing_is_read_but_the_tile_and_that_once(tmp_path, monkeypatch, model, cube):
    read = []
    real = zarr.storage.LocalStore.get

    async def get(self, key, *arguments, **options):
        found = await real(self, key, *arguments, **options)
        if found is not None and "signal/c/" in key:
            read.append(key.split("signal/c/")[1])
        return found

    monkeypatch.setattr(zarr.storage.LocalStore, "get", get)
    image = Image.open(cube)
    assert read == []
    image.read(ImageTile(slice(2, 4), slice(3, 6)))
    assert sorted(read) == ["1/1/0", "1/1/1"]
    read.clear()
    written(model, cube, tmp_path / "map.zarr", pixels=6)
    assert len(read) == len(set(read)) == 3 * 3 * 2


def test_the_bytes_do_not_depend_on_tiles_and_threads(tmp_path, model, cube):
    written(model, cube, tmp_path / "one.zarr", pixels=10**6)
    for number, (pixels, cores) in enumerate([(1, None), (6, 3), (5, 2)]):
        out = tmp_path / f"{number}.zarr"
        written(model, cube, out, pixels, cores=cores)
        assert files(out) == files(tmp_path / "one.zarr")


@pytest.mark.slow
def test_the_bytes_are_those_of_one_process(tmp_path, monkeypatch, root, cube):
    pytest.importorskip("distributed")
    monkeypatch.chdir(cube.parent)
    call = ["estimate", "cube.zarr", "--root", str(root), "--batch-size", "6", "--out"]
    for name, more in (("here.zarr", []), ("there.zarr", ["--workers", "1"])):
        result = CliRunner().invoke(app, [*call, str(tmp_path / name), *more])
        assert result.exit_code == 0, result.output
    assert files(tmp_path / "here.zarr") == files(tmp_path / "there.zarr")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here.zarr", "there.zarr"]


@pytest.mark.slow
def test_a_cluster_that_is_there_makes_the_same_map(tmp_path, root, cube):
    distributed = pytest.importorskip("distributed")
    call = ["estimate", str(cube), "--root", str(root), "--batch-size", "6", "--out"]
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL,
        scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
    ) as cluster:  # fmt: skip
        more = ["--scheduler", cluster.scheduler_address]
        result = CliRunner().invoke(app, [*call, str(tmp_path / "there.zarr"), *more])
    assert result.exit_code == 0, result.output
    assert CliRunner().invoke(app, [*call, str(tmp_path / "here.zarr")]).exit_code == 0
    assert files(tmp_path / "here.zarr") == files(tmp_path / "there.zarr")


def test_axes_in_any_order_and_finer_than_that_of_the_model(tmp_path, model):
    values = image_values()[:1]
    straight = written(model, store(tmp_path / "a.zarr", values), tmp_path / "a-map.zarr")
    turned = store(
        tmp_path / "b.zarr",
        np.moveaxis(values, 2, 0)[::-1].copy(),
        axis=AXIS[::-1].copy(),
        dims=("wavelength", "y", "x"),
    )
    xarray.testing.assert_identical(written(model, turned, tmp_path / "b-map.zarr"), straight)
    fine = np.linspace(AXIS[0], AXIS[-1], 2 * len(AXIS) - 1)
    shown = np.stack([np.interp(fine, AXIS, row) for row in values[0]])[None]
    path = store(tmp_path / "c.zarr", shown, axis=fine)
    found = written(model, path, tmp_path / "c-map.zarr")
    np.testing.assert_allclose(found["mean"], straight["mean"], rtol=1e-6)


@pytest.mark.parametrize("number", ["float32", "float16"])
def test_a_smaller_format_rounds_once(tmp_path, model, cube, number):
    exact = written(model, cube, tmp_path / "exact.zarr")
    found = written(model, cube, tmp_path / "found.zarr", number=number)
    np.testing.assert_array_equal(found["flags"], exact["flags"])
    info = np.finfo(number)
    for name in LAYERS:
        assert found[name].dtype == number
        error = np.abs(found[name].values.astype(float) - exact[name].values)
        assert np.isnan(error[1, 2])
        half_steps = float(info.eps) / 2 * np.abs(exact[name].values)
        bound = np.maximum(half_steps, float(info.smallest_subnormal) / 2)
        assert (error <= bound)[~np.isnan(error)].all()
        assert (open_artifact(tmp_path / "found.zarr")[name].dtype) == number


def test_a_number_that_has_no_place_in_a_format_is_refused(tmp_path, monkeypatch, model, cube):
    real = maps._tile

    def large_numbers(*arguments):
        layers, flags = real(*arguments)
        layers[2] *= 1e6  # the standard deviation
        return layers, flags

    monkeypatch.setattr(maps, "_tile", large_numbers)
    with pytest.raises(ArtifactError, match=r"map 'std': found \d.*at most 65504.*--cache-dtype"):
        written(model, cube, tmp_path / "map.zarr", number="float16")
    assert not (tmp_path / "map.zarr").exists()
    written(model, cube, tmp_path / "map.zarr", number="float32")


def test_what_is_no_image_is_refused(tmp_path, model):
    values = image_values()
    flat = store(tmp_path / "flat.zarr", values[0], dims=("sample", "wavelength"))
    scans = store(
        tmp_path / "scans.zarr", values, dims=("concentration", "replicate", "wavelength")
    )
    assert not is_image(flat)
    assert not is_image(scans)
    assert not is_image(tmp_path / "absent.zarr")
    with pytest.raises(SpectraError, match="found no variable over two dimensions"):
        Image.open(flat)
    tangled = np.where(np.arange(len(AXIS)) == 2, AXIS[5], AXIS)
    with pytest.raises(SpectraError, match="wavelengths out of order"):
        Image.open(store(tmp_path / "tangled.zarr", values, axis=tangled))
    with pytest.raises(SpectraError, match="is missing"):
        written(
            model, store(tmp_path / "half.zarr", values[..., :-4], axis=AXIS[:-4]), tmp_path / "m"
        )
    with pytest.raises(SpectraError, match="expected nm"):
        written(model, store(tmp_path / "unit.zarr", values, unit="cm-1"), tmp_path / "m")


def names_of_tiles(path):
    return [tile.name for tile in tiles(Image.open(path), 6)]


def failing_at(monkeypatch, place):
    """Names of tiles that are computed from now on; one is not."""
    computed = []
    real = Image.read

    def read(self, tile):
        if tile.name == place:
            raise SpectraError("no more")
        computed.append(tile.name)
        return real(self, tile)

    monkeypatch.setattr(Image, "read", read)
    return computed


@pytest.mark.parametrize("cores", [None, 2])
def test_what_fails_leaves_the_older_map_and_is_gone_on_with(
    tmp_path, model, cube, monkeypatch, cores
):
    out, all_tiles = tmp_path / "map.zarr", names_of_tiles(cube)
    written(model, cube, out, number="float32")
    before = files(out)
    written(model, cube, tmp_path / "whole.zarr")
    with monkeypatch.context() as patch:
        first = failing_at(patch, all_tiles[5])
        with pytest.raises(SpectraError, match="no more"):
            written(model, cube, out, cores=cores)
    assert set(all_tiles[:5]) <= set(first)
    assert files(out) == before
    beside = {path.name for path in tmp_path.iterdir()}
    assert beside == {"map.zarr", "whole.zarr", ".map.zarr.geonode"}
    (kept,) = kept_of(out).iterdir()
    damaged = kept / all_tiles[0]
    damaged.write_bytes(bytes([damaged.read_bytes()[0] ^ 1]) + damaged.read_bytes()[1:])
    second, reported = failing_at(monkeypatch, None), []
    written(model, cube, out, cores=cores, report=reported.append)
    assert set(second) == (set(all_tiles) - set(first)) | {all_tiles[0]}
    assert sum(reported) == ROWS * COLUMNS
    assert files(out) == files(tmp_path / "whole.zarr")
    assert {path.name for path in tmp_path.iterdir()} == {"map.zarr", "whole.zarr"}


@pytest.mark.parametrize("other", ["format", "model", "image"])
def test_tiles_of_another_map_are_not_gone_on_with(tmp_path, model, monkeypatch, other):
    path, out = store(tmp_path / "cube.zarr", image_values(), chunks=(2, 3, 16)), tmp_path / "m"
    all_tiles = names_of_tiles(path)
    with monkeypatch.context() as patch:
        failing_at(patch, all_tiles[-1])
        with pytest.raises(SpectraError):
            written(model, path, out)
    computed, options, curve = failing_at(monkeypatch, None), {}, curve_of(model)
    if other == "format":
        options = {"number": "float32"}
    elif other == "model":
        curve = Curve.of(model, offset=True)
    else:
        chunk = path / "signal" / "c" / "0" / "0" / "0"
        os.utime(chunk, (0, 0))
    maps.write_maps(out, curve, model.series, Image.open(path), 6, **options)
    assert sorted(computed) == sorted(all_tiles)


@pytest.mark.slow
def test_a_map_that_is_killed_is_gone_on_with(tmp_path, root):
    values = np.tile(image_values(), (15, 15, 1))
    path = store(tmp_path / "cube.zarr", values, chunks=(20, 28, len(AXIS)))
    command = ["estimate", str(path), "--root", str(root), "--batch-size", "560", "--out"]
    out = tmp_path / "map.zarr"
    running = subprocess.Popen([sys.executable, "-m", "geonode.cli", *command, str(out)])
    done = kept_of(out)
    until = time.monotonic() + 60
    while len(list(done.glob("*/*"))) < 5 and time.monotonic() < until:
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    running.wait()
    kept = len([file for file in done.glob("*/*") if re.fullmatch(r"[\d-]+", file.name)])
    assert 3 <= kept < 16
    assert not out.exists()
    for name in ("map.zarr", "whole.zarr"):
        result = CliRunner().invoke(app, [*command, str(tmp_path / name)])
        assert result.exit_code == 0, result.output
    assert files(out) == files(tmp_path / "whole.zarr")
    assert {p.name for p in tmp_path.iterdir()} == {"cube.zarr", "map.zarr", "whole.zarr"}


def test_a_full_disk_leaves_the_older_map(tmp_path, model, cube, monkeypatch):
    out = tmp_path / "map.zarr"
    written(model, cube, out)
    before = files(out)

    def full(*arguments, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(maps, "write_bytes", full)
    with pytest.raises(ArtifactError, match="No space left"):
        written(model, cube, out)
    assert files(out) == before


def test_a_damaged_chunk_is_one_line(tmp_path, root, model):
    path = store(tmp_path / "cube.zarr", image_values(), chunks=(2, 3, 16))
    chunk = path / "signal" / "c" / "1" / "1" / "0"
    chunk.write_bytes(b"x" * 40)
    out = tmp_path / "map.zarr"
    call = ["estimate", str(path), "--root", str(root), "--batch-size", "6", "--out", str(out)]
    result = CliRunner().invoke(app, call)
    assert result.exit_code == 2
    assert re.search(r"^error: .*cube.zarr: found pixels 2-4-3-6 that cannot be", result.stderr)
    assert result.stderr.count("\n") == 1
    assert not out.exists()


@pytest.mark.slow
def test_the_command_writes_maps(tmp_path, root, probed):
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
    before = files(out)
    again = CliRunner().invoke(app, [*call, "--out", str(out)])
    assert again.exit_code == 2
    assert "found '" + str(out) + "', expected a name that is not taken; --over" in again.stderr
    assert files(out) == before
    more = ["--overwrite", "--cache-dtype", "float16"]
    result = CliRunner().invoke(app, [*call, "--out", str(out), *more])
    assert result.exit_code == 0, result.output
    assert open_artifact(out)["mean"].dtype == np.float16
    assert CliRunner().invoke(app, call).exit_code == 2
    assert CliRunner().invoke(app, [*call, "--out", str(tmp_path / "map.csv")]).exit_code == 2
    other = [*call, "--out", str(tmp_path / "other.zarr")]
    for more, message in (
        (["--figure", str(tmp_path / "a.png")], "--figure: found "),
        (["--workers", "1", "--scheduler", "tcp://x:1"], "expected one of --workers and --sch"),
    ):
        refused = CliRunner().invoke(app, [*other, *more])
        assert (refused.exit_code, refused.stderr.count("\n")) == (2, 1)
        assert message in refused.stderr


def test_a_store_that_names_a_codec_that_unpickles_is_never_opened(tmp_path, monkeypatch):
    path = store(tmp_path / "cube.zarr", image_values())
    file = path / "wavelength" / "zarr.json"
    about = json.loads(file.read_text())
    about["codecs"] = [{"name": "numcodecs.pickle", "configuration": {}}]
    file.write_text(json.dumps(about))

    def opened(*arguments, **options):
        raise AssertionError("opened")

    monkeypatch.setattr(xarray, "open_dataset", opened)
    assert not is_image(path)
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


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="no limit of memory here")
def test_a_coordinate_that_unpacks_to_more_than_it_says_is_refused(tmp_path, monkeypatch, probed):
    monkeypatch.setattr(labelled_arrays, "MOST_VALUES", 10**6)
    path = store(tmp_path / "cube.zarr", image_values())
    (chunk,) = (path / "wavelength" / "c").iterdir()
    chunk.write_bytes(numcodecs.Zstd().encode(bytes(2**28)))
    assert not is_image(path)
    with pytest.raises(SpectraError, match=r"cube.zarr: found a chunk that cannot be unpacked"):
        Image.open(path)


@pytest.mark.parametrize("linked", [False, True])
def test_a_folder_of_the_user_beside_a_map_is_left_alone(tmp_path, model, cube, linked):
    mine = tmp_path / ("elsewhere" if linked else "map.zarr.tiles")
    mine.mkdir()
    (mine / "deep").mkdir()
    (mine / "deep/thesis").write_text("mine", encoding="utf-8")
    if linked:
        (tmp_path / "map.zarr.tiles").symlink_to(mine)
    written(model, cube, tmp_path / "map.zarr")
    assert (tmp_path / "map.zarr.tiles/deep/thesis").read_text(encoding="utf-8") == "mine"


def test_a_lost_chunk_of_an_image_is_refused(tmp_path):
    path = store(tmp_path / "cube.zarr", image_values(), chunks=(2, 3, 16))
    Image.open(path)
    file = path / "signal/zarr.json"
    about = json.loads(file.read_text()) | {"fill_value": 0.0}
    file.write_text(json.dumps(about))
    Image.open(path)
    next((path / "signal/c").rglob("0/1/0")).unlink()
    with pytest.raises(
        SpectraError, match=r"cube.zarr: array 'signal': found 1 of .* chunks absent"
    ):
        Image.open(path)
