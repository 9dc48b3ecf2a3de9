import os
import shutil
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
import xarray

import geonode.estimation.maps
from geonode.calibration.one_substance import OneSubstance
from geonode.errors import SpectraError
from geonode.estimation.estimates import Flag
from geonode.estimation.image import Image
from geonode.estimation.maps import Maps
from geonode.estimation.posterior import estimate
from geonode.parameter_types import PreprocessStep
from geonode.spectra.preprocessing import Preprocessing
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
    path, model = chunked(tmp_path), calibrated.model
    assert Maps(model, Image.open(path)).pixels_at_once(4) == 2**24 // (8 * len(AXIS))
    edited(path / "signal", shape=[2**12, 2**12, len(AXIS)], chunk_grid=WIDE)
    wide = Maps(model, Image.open(path))
    # The store has double precision: what is read, and whether it is finite.
    assert wide.pixels_at_once(4) == 2**28 // (2 * 8 * len(AXIS))
    other = replace(model, series=replace(model.series, axis=model.series.axis + 0.1))
    assert replace(wide, model=other).pixels_at_once(1) == 2**30 // (5 * 8 * len(AXIS))


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
    """Its interval ends at -1, as that of a linear method may."""

    @property
    def layers(self):
        """One map."""
        return {"low90": ("1", "lower end")}

    def on(self, place):
        """The same for all."""
        return lambda spectra: (np.full((1, len(spectra)), -1), np.zeros(len(spectra), np.uint8))


@pytest.mark.parametrize("number", ["float64", "float32", "float16"])
def test_no_estimate_reads_as_missing(tmp_path, calibrated, number):
    values, model = image_values(), calibrated.model
    path = store(tmp_path / "cube.zarr", values)
    below = Below(model.series, model.calibration, model.chance)
    Maps(below, Image.open(path), number).write(tmp_path / "map.zarr", 6)
    with xarray.open_zarr(tmp_path / "map.zarr", consolidated=False) as found:
        there = np.isfinite(values).all(axis=2)
        np.testing.assert_array_equal(found["low90"], np.where(there, -1.0, np.nan))


def chunked(folder, values=None):
    """An image in chunks of 2 x 3 pixels."""
    values = image_values() if values is None else values
    shutil.rmtree(folder / "cube.zarr", ignore_errors=True)
    return store(folder / "cube.zarr", values, chunks=(2, 3, 16))


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


def test_pixels_are_preprocessed_as_the_series(tmp_path, calibrated, curve):
    values, steps = image_values(), Preprocessing((PreprocessStep.model_validate("snv"),))
    values[0, 0] = 0.5  # too flat
    series = replace(calibrated.series, preprocessing=steps)
    image = Image.open(store(tmp_path / "cube.zarr", values))
    Maps(replace(calibrated.model, series=series), image).write(tmp_path / "map.zarr", 6)
    found, rows = open_artifact(tmp_path / "map.zarr"), values[2]
    rows = (rows - rows.mean(1, keepdims=True)) / rows.std(1, ddof=1, keepdims=True)
    np.testing.assert_allclose(found["concentration"][2], estimate(curve, rows).mode, rtol=1e-9)
    assert found["flags"][0, 0] == Flag.MISSING


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


def test_bytes_do_not_depend_on_threads_nor_values_on_tiles(tmp_path, written):
    cube = chunked(tmp_path)
    whole = written(cube, tmp_path / "whole.zarr", pixels=10**6)
    for pixels in (1, 5):
        alone, threads = tmp_path / f"{pixels}.zarr", tmp_path / f"{pixels}-2.zarr"
        found = written(cube, alone, pixels)
        xarray.testing.assert_allclose(found, whole, rtol=1e-9)
        written(cube, threads, pixels, cores=2)
        assert contents(threads) == contents(alone)


@pytest.mark.slow
@pytest.mark.usefixtures("calibrated")
def test_the_bytes_are_those_of_one_process(tmp_path, monkeypatch, trained):
    pytest.importorskip("distributed")
    monkeypatch.chdir(chunked(tmp_path).parent)
    for name, more in {"here.zarr": [], "own.zarr": ["--workers", "1"]}.items():
        words = ("--root", trained, "--batch-size", 6, *more, "--out", tmp_path / name)
        result = call("estimate", "cube.zarr", *words)
        assert result.exit_code == 0, result.output
    assert contents(tmp_path / "own.zarr") == contents(tmp_path / "here.zarr")
    names = {one.name for one in tmp_path.iterdir()} - {"cube.zarr"}  # nothing is left of the work
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


def overwrite(file, content):
    """Put as many other bytes into a file, which keeps its age."""
    state = file.stat()
    file.write_bytes(content)
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))


@contextmanager
def damaged(chunk):
    """A chunk that cannot be read, and can again at the end."""
    content = chunk.read_bytes()
    overwrite(chunk, b"x" * len(content))
    yield
    overwrite(chunk, content)


def test_what_fails_leaves_the_older_map_and_is_gone_on_with(tmp_path, written):
    path, out = chunked(tmp_path), tmp_path / "map.zarr"
    written(path, out, number="float32")
    before, chunks = contents(out), path / "signal/c"
    written(path, tmp_path / "whole.zarr")
    unreadable = r"cube.zarr: found no pixels 2-4-3-6 that can be"
    with damaged(chunks / "1/1/0"), pytest.raises(SpectraError, match=unreadable):
        written(path, out)
    assert contents(out) == before
    there = {"cube.zarr", "map.zarr", "whole.zarr"}
    assert {path.name for path in tmp_path.iterdir()} == there | {".map.zarr.geonode"}
    (kept,) = kept_of(out).iterdir()
    first, second, *_ = sorted(kept.iterdir())
    flip(first)
    reported = []
    with damaged(chunks / "0/1/0"):  # of a tile that is kept, and not read again
        assert second.name == "0-2-3-6"
        written(path, out, cores=2, report=reported.append)
    assert sum(reported) == ROWS * COLUMNS
    assert contents(out) == contents(tmp_path / "whole.zarr")
    assert {path.name for path in tmp_path.iterdir()} == there


@pytest.mark.parametrize("other", ["format", "model", "image"])
def test_tiles_of_another_map_are_not_gone_on_with(tmp_path, calibrated, written, other):
    path, out = chunked(tmp_path), tmp_path / "map.zarr"
    with damaged(path / "signal/c/2/2/0"), pytest.raises(SpectraError):
        written(path, out)
    options, model = {}, calibrated.model
    if other == "format":
        options = {"number": "float32"}
    elif other == "model":
        curve = model.calibration.curve
        moved = replace(model.calibration, curve=replace(curve, mass=curve.mass - 0.01))
        model = replace(model, calibration=moved)
    else:
        path = chunked(tmp_path, image_values() + 0.01)
    for one in (out, tmp_path / "whole.zarr"):
        Maps(model, Image.open(path), **options).write(one, 6)
    assert contents(out) == contents(tmp_path / "whole.zarr")


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
