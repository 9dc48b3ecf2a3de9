import json
from math import prod
from pathlib import Path

import numpy as np
import pytest
import xarray
from hypothesis import given, settings
from hypothesis import strategies as st

from geonode.errors import SpectraError
from geonode.estimation import image, large
from geonode.estimation.image import Image, is_image, pixels_at_once, tiles
from tests.estimation.images import image_values, store
from tests.estimation.trained import AXIS

array = pytest.importorskip("dask.array")


@settings(deadline=None, max_examples=60)
@given(
    shape=st.tuples(*[st.integers(1, 40)] * 2),
    chunks=st.tuples(*[st.integers(1, 40)] * 2),
    pixels=st.integers(1, 2000),
)
def test_tiles_cover_an_image_once_and_are_whole_chunks_or_within_one(shape, chunks, pixels):
    chunks = tuple(map(min, chunks, shape))
    lazy = array.empty((*shape, 1), chunks=(*chunks, 1))
    found = Image(Path("none"), xarray.DataArray(lazy), np.zeros(1), "nm")
    count = np.zeros(shape, dtype=int)
    for tile in tiles(found, pixels):
        count[tile] += 1
        assert prod(tile.shape) <= pixels
        for part, chunk, size in zip(tile, chunks, shape, strict=True):
            within = part.start // chunk == (part.stop - 1) // chunk
            assert within or (part.start % chunk == 0 and part.stop % chunk in (0, size % chunk))
    assert (count == 1).all()


def test_tiles_have_room_in_memory(tmp_path, monkeypatch):
    cube = store(tmp_path / "cube.zarr", image_values(), chunks=(2, 3, 16))
    found = Image.open(cube)
    whole = image.TILE_BYTES // (8 * len(AXIS))
    monkeypatch.setattr(large, "free_memory", lambda: 2**40)
    assert pixels_at_once(found, 4) == whole
    monkeypatch.setattr(image, "TILE_BYTES", 1)
    assert pixels_at_once(found, 4) == 6  # a chunk
    monkeypatch.setattr(large, "free_memory", lambda: 4 * 2 * 3 * image.COPIES * 8 * len(AXIS))
    assert pixels_at_once(found, 2) == 3  # of a quarter, for two
    monkeypatch.setattr(large, "free_memory", lambda: 0)
    assert pixels_at_once(found, 2) == 1


def test_what_is_no_image_is_refused(tmp_path):
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


def edited(path, **changes):
    """Metadata of an array with other values."""
    about = json.loads((path / "zarr.json").read_text()) | changes
    (path / "zarr.json").write_text(json.dumps(about))


LARGE = {"name": "regular", "configuration": {"chunk_shape": [10**10]}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"codecs": [{"name": "numcodecs.pickle", "configuration": {}}]}, "'numcodecs.pickle'"),
        ({"shape": [10**10], "chunk_grid": LARGE}, r"8e\+10 bytes of shape"),
    ],
)
def test_a_store_that_would_unpickle_or_fill_the_memory_is_never_opened(
    tmp_path, monkeypatch, changes, message
):
    path = store(tmp_path / "cube.zarr", image_values())
    edited(path / "wavelength", **changes)
    monkeypatch.setattr(xarray, "open_dataset", None)
    assert not is_image(path)
    with pytest.raises(SpectraError, match=message):
        Image.open(path)


def test_a_lost_chunk_of_an_image_is_refused(tmp_path):
    path = store(tmp_path / "cube.zarr", image_values(), chunks=(2, 3, 16))
    edited(path / "signal", fill_value=0.0)
    Image.open(path)
    next((path / "signal/c").rglob("0/1/0")).unlink()
    with pytest.raises(
        SpectraError, match=r"cube.zarr: array 'signal': found 1 of .* chunks absent"
    ):
        Image.open(path)
