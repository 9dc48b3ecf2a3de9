import os
from dataclasses import replace

import numpy as np
import pytest
import torch
import xarray

import geonode.estimation.maps
from geonode.calibration.one_substance import OneSubstance
from geonode.compute.device import CPU
from geonode.errors import SpectraError
from geonode.estimation.estimates import Flag
from geonode.estimation.image import Image
from geonode.estimation.maps import Maps
from geonode.estimation.posterior import estimate
from geonode.storage.artifact import open_artifact
from geonode.storage.atomic import kept_of
from tests.commands.calling import call
from tests.estimation.images import (
    COLUMNS,
    CONCENTRATIONS,
    ROWS,
    edited,
    image_values,
    store,
)
from tests.estimation.trained import AXIS
from tests.stages.conftest import assert_refused
from tests.storage.damage import contents, flip


@pytest.fixture
def written(calibrated, monkeypatch):
    """Write maps of an image, and read them as xarray does."""

    def write(path, out, pixels=6, cores=1, **options):
        monkeypatch.setattr(geonode.estimation.maps, "usable_cores", lambda: cores)
        number = options.pop("number", "float64")
        Maps(calibrated.model, Image.open(path), number).write(out, pixels, **options)
        with xarray.open_zarr(out, consolidated=False) as found:
            return found.load()

    return write


WIDE = {"name": "regular", "configuration": {"chunk_shape": [2**11, 2**11, len(AXIS)]}}


def test_tiles_are_small_chunks_together_or_a_large_one_as_far_as_there_is_memory(
    tmp_path, calibrated
):
    path = store(tmp_path / "cube.zarr", image_values(), chunks=(2, 3, 16))

    def maps():
        return Maps(calibrated.model, Image.open(path))

    assert maps().pixels_at_once(4) == 2**24 // (8 * len(AXIS))
    edited(path / "signal", shape=[2**12, 2**12, len(AXIS)], chunk_grid=WIDE)
    # The store has double precision: what is read, and whether it is finite.
    assert maps().pixels_at_once(4) == 2**28 // (2 * 8 * len(AXIS))
    series = replace(calibrated.series, axis=calibrated.series.axis + 0.1)
    other = replace(calibrated.model, series=series)
    assert replace(maps(), model=other).pixels_at_once(1) == 2**30 // (5 * 8 * len(AXIS))


def test_single_precision_is_estimated_as_the_same_numbers_in_double_precision(tmp_path, written):
    values = image_values().astype(np.float32)
    single, double = (
        written(
            store(tmp_path / f"{name}.zarr", values.astype(name)), tmp_path / f"{name}-map.zarr"
        )
        for name in ("float32", "float64")
    )
    assert single.identical(double)


class Below(OneSubstance):
    """Its interval ends at -1, as that of a linear method may, or at the place."""

    @property
    def layers(self):
        """One map."""
        return {"low90": ("1", "lower end")}

    def on(self, place):
        """The same for all."""
        end = place.index or -1.0
        return lambda spectra: (np.full((1, len(spectra)), end), np.zeros(len(spectra), np.uint8))


def below(model):
    return Below(model.series, model.calibration, model.chance)


@pytest.mark.parametrize("number", ["float64", "float32", "float16"])
def test_no_estimate_reads_as_missing(tmp_path, calibrated, number):
    values = image_values()
    path = store(tmp_path / "cube.zarr", values)
    Maps(below(calibrated.model), Image.open(path), number).write(tmp_path / "map.zarr", 6)
    with xarray.open_zarr(tmp_path / "map.zarr", consolidated=False) as found:
        there = np.isfinite(values).all(axis=2)
        np.testing.assert_array_equal(found["low90"], np.where(there, -1.0, np.nan))


def test_tiles_go_round_the_cards(tmp_path, calibrated, monkeypatch):
    cards = [torch.device("cuda", card) for card in (3, 7)]
    monkeypatch.setattr(geonode.estimation.maps, "all_alike", {CPU: cards}.__getitem__)
    monkeypatch.setattr(geonode.estimation.maps, "usable_cores", lambda: 1)
    path = store(tmp_path / "cube.zarr", image_values(), chunks=(ROWS, 1, len(AXIS)))
    Maps(below(calibrated.model), Image.open(path)).write(tmp_path / "map.zarr", ROWS)
    found = open_artifact(tmp_path / "map.zarr")["low90"]
    np.testing.assert_array_equal(found[0], [3, 7, 3, 7, 3, 7, 3])


@pytest.fixture(scope="module")
def cube(tmp_path_factory):
    """An image in chunks of 2 x 3 pixels."""
    path = tmp_path_factory.mktemp("cube") / "cube.zarr"
    return store(path, image_values(), chunks=(2, 3, 16))


@pytest.mark.parametrize(("chunks", "pixels"), [(None, 10**6), ((ROWS, 2, 5), 3)])
def test_maps_are_the_estimates_of_the_pixels(tmp_path, curve, written, chunks, pixels):
    values = image_values()
    path = store(tmp_path / "cube.zarr", values, chunks=chunks)
    found = written(path, tmp_path / "map.zarr", pixels)
    there = np.isfinite(values).all(axis=2)
    expected = estimate(curve, values[there])
    columns = {
        "concentration": expected.mode,
        "low90": [sets[0][0] for sets in expected.sets],
        "high90": [sets[-1][1] for sets in expected.sets],
        "p_value": expected.p_value,
    }
    artifact = open_artifact(tmp_path / "map.zarr")
    assert set(artifact.arrays) == {*columns, "flags"}
    for name, column in columns.items():
        layer = found[name].values
        assert found[name].dims == ("y", "x")
        assert found[name].units == ("1" if name == "p_value" else "ppb")
        np.testing.assert_allclose(layer[there], column, rtol=1e-12)
        assert np.isnan(layer[1, 2])
        assert artifact[name][1, 2] == -65504  # all numbers of an artifact are finite
        assert np.isfinite(artifact[name]).all()
    flags = found["flags"].values
    assert flags.dtype == np.uint8
    assert flags[1, 2] == Flag.MISSING
    assert flags[4, 0] & Flag.FITS_NOWHERE
    assert not (flags[0] & Flag.FITS_NOWHERE).any()
    np.testing.assert_array_equal(flags[there] & Flag.AMBIGUOUS, expected.disconnected)
    assert found["flags"].flag_masks == [1, 2, 4, 8, 16]
    meanings = "ambiguous fits_nowhere missing outside_the_samples not_determined"
    assert found["flags"].flag_meanings == meanings
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cube.zarr", "map.zarr"]


def test_coordinates_of_the_pixels_go_with_them(tmp_path, written):
    place = ("y", np.arange(ROWS) * 0.5, {"units": "um", "long_name": "height"})
    path = store(tmp_path / "cube.zarr", image_values(), y=place)
    found = written(path, tmp_path / "map.zarr")
    assert set(found.coords) == {"y"}
    np.testing.assert_array_equal(found["low90"]["y"], np.arange(ROWS) * 0.5)
    assert (found["y"].units, found["y"].long_name) == ("um", "height")
    place = ("x", np.full(COLUMNS, np.nan))
    path = store(tmp_path / "nan.zarr", image_values(), x=place)
    with pytest.raises(SpectraError, match="coordinate 'x': found NaN"):
        written(path, tmp_path / "none.zarr")


def test_bytes_do_not_depend_on_threads_nor_values_on_tiles(tmp_path, written, cube):
    whole = written(cube, tmp_path / "whole.zarr", pixels=10**6)
    for pixels in (1, 5):
        alone, threads = tmp_path / f"{pixels}.zarr", tmp_path / f"{pixels}-2.zarr"
        found = written(cube, alone, pixels)
        xarray.testing.assert_allclose(found, whole, rtol=1e-9)
        written(cube, threads, pixels, cores=2)
        assert contents(threads) == contents(alone)


@pytest.mark.slow
@pytest.mark.usefixtures("calibrated")
def test_the_bytes_are_those_of_one_process(tmp_path, monkeypatch, trained, cube):
    pytest.importorskip("distributed")
    monkeypatch.chdir(cube.parent)
    for name, more in {"here.zarr": [], "own.zarr": ["--workers", "1"]}.items():
        words = ("--root", trained, "--batch-size", 6, *more, "--out", tmp_path / name)
        result = call("estimate", "cube.zarr", *words)
        assert result.exit_code == 0, result.output
    assert contents(tmp_path / "own.zarr") == contents(tmp_path / "here.zarr")
    names = {one.name for one in tmp_path.iterdir()}  # nothing is left of the work
    assert names == {"here.zarr", "own.zarr", "here.record.csv", "own.record.csv"}


def test_axes_in_any_order_and_finer_than_that_of_the_model(tmp_path, written):
    values = image_values()[:1]
    straight = written(store(tmp_path / "a.zarr", values), tmp_path / "a-map.zarr")
    turned = store(
        tmp_path / "b.zarr",
        np.moveaxis(values, 2, 0)[::-1].copy(),
        axis=AXIS[::-1].copy(),
        dims=("wavelength", "y", "x"),
    )
    xarray.testing.assert_identical(written(turned, tmp_path / "b-map.zarr"), straight)
    fine = np.linspace(AXIS[0], AXIS[-1], 2 * len(AXIS) - 1)
    shown = np.stack([np.interp(fine, AXIS, row) for row in values[0]])[None]
    path = store(tmp_path / "c.zarr", shown, axis=fine)
    found = written(path, tmp_path / "c-map.zarr")
    np.testing.assert_allclose(found["low90"], straight["low90"], rtol=1e-6)


def names_of_tiles(path):
    return [tile.name for tile in Image.open(path).tiles(6)]


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


def test_what_fails_leaves_the_older_map_and_is_gone_on_with(tmp_path, written, cube, monkeypatch):
    out, all_tiles = tmp_path / "map.zarr", names_of_tiles(cube)
    written(cube, out, number="float32")
    before = contents(out)
    written(cube, tmp_path / "whole.zarr")
    with monkeypatch.context() as patch:
        first = failing_at(patch, all_tiles[5])
        with pytest.raises(SpectraError, match="no more"):
            written(cube, out, cores=2)
    assert set(all_tiles[:5]) <= set(first)
    assert contents(out) == before
    beside = {path.name for path in tmp_path.iterdir()}
    assert beside == {"map.zarr", "whole.zarr", ".map.zarr.geonode"}
    (kept,) = kept_of(out).iterdir()
    flip(kept / all_tiles[0])
    second, reported = failing_at(monkeypatch, None), []
    written(cube, out, cores=2, report=reported.append)
    assert set(second) == (set(all_tiles) - set(first)) | {all_tiles[0]}
    assert sum(reported) == ROWS * COLUMNS
    assert contents(out) == contents(tmp_path / "whole.zarr")
    assert {path.name for path in tmp_path.iterdir()} == {"map.zarr", "whole.zarr"}


@pytest.mark.parametrize("other", ["format", "model", "image"])
def test_tiles_of_another_map_are_not_gone_on_with(
    tmp_path, calibrated, written, monkeypatch, other
):
    path, out = store(tmp_path / "cube.zarr", image_values(), chunks=(2, 3, 16)), tmp_path / "m"
    all_tiles = names_of_tiles(path)
    with monkeypatch.context() as patch:
        failing_at(patch, all_tiles[-1])
        with pytest.raises(SpectraError):
            written(path, out)
    computed, options, model = failing_at(monkeypatch, None), {}, calibrated.model
    if other == "format":
        options = {"number": "float32"}
    elif other == "model":
        curve = model.calibration.curve
        moved = replace(model.calibration, curve=replace(curve, mass=curve.mass - 0.01))
        model = replace(model, calibration=moved)
    else:
        os.utime(path / "signal" / "c" / "0" / "0" / "0", (0, 0))
    Maps(model, Image.open(path), **options).write(out, 6)
    assert sorted(computed) == sorted(all_tiles)


def test_tiles_of_another_device_are_kept_apart(calibrated, cube):
    """Their last digits differ."""
    image, devices = Image.open(cube), map(torch.device, ("cpu", "cuda"))
    one, other = (Maps(calibrated.model, image, place=place) for place in devices)
    assert one._fingerprint() != other._fingerprint()


def test_a_damaged_chunk_leaves_the_older_map(tmp_path, written):
    path, out = store(tmp_path / "cube.zarr", image_values(), chunks=(2, 3, 16)), tmp_path / "map"
    written(path, out)
    before = contents(out)
    (path / "signal" / "c" / "1" / "1" / "0").write_bytes(b"x" * 40)
    with pytest.raises(SpectraError, match=r"cube.zarr: found no pixels 2-4-3-6 that can be"):
        written(path, out)
    assert contents(out) == before


@pytest.mark.usefixtures("calibrated")
def test_the_command_writes_maps_and_refuses_what_is_not_for_images(tmp_path, trained):
    path, out = store(tmp_path / "cube.zarr", image_values()), tmp_path / "map.zarr"
    given = ("estimate", path, "--root", trained)
    made = call(*given, "--out", out, "--cache-dtype", "float32", "--user", "me")
    note, verdict = made.stderr.splitlines()
    assert (made.exit_code, note) == (0, f"maps of 5 x 7 pixels -> {out}")
    assert verdict.startswith("error: the calibration with trained: None of the methods")
    found = open_artifact(out)
    low, high = found["low90"][0], found["high90"][0]
    assert low.dtype == np.float32
    assert ((low <= CONCENTRATIONS[:COLUMNS]) & (CONCENTRATIONS[:COLUMNS] <= high)).all()
    assert "user,me" in (tmp_path / "map.record.csv").read_text("utf-8")
    for words, message in (
        (["--out", out], "expected a name that is not taken; --overwrite"),
        (["--out", tmp_path / "map.csv"], "a name that ends in .zarr"),
        (["--control", "a=1"], "expected a file of spectra, or no such option"),
        (["--control", "QC=1,2"], "--control: found 'QC=1,2', expected a file of spectra"),
        (["--workers", 1, "--scheduler", "tcp://x:1"], "one of --workers and --sch"),
        ([], "found 'nothing', expected a store of maps"),
    ):
        assert_refused(call(*given, *words), message)
