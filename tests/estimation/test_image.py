from math import prod
from pathlib import Path

import numpy as np
import pytest
import xarray
from hypothesis import given, settings
from hypothesis import strategies as st

from geonode.errors import SpectraError
from geonode.estimation.image import Image
from tests.estimation.images import edited, image_values, store
from tests.estimation.trained import AXIS


@settings(deadline=None, max_examples=60)
@given(
    shape=st.tuples(*[st.integers(1, 40)] * 2),
    chunks=st.tuples(*[st.integers(1, 40)] * 2),
    pixels=st.integers(1, 2000),
)
def test_tiles_cover_an_image_once_and_are_whole_chunks_or_within_one(shape, chunks, pixels):
    chunks = tuple(map(min, chunks, shape))
    empty = xarray.DataArray(np.empty((*shape, 1)), dims=("y", "x", "nm"))
    empty.encoding["chunks"] = (*chunks, 1)
    found = Image(Path("none"), empty, ("y", "x", "nm"), np.zeros(1), "nm", turned=False)
    count = np.zeros(shape, dtype=int)
    for tile in found.tiles(pixels):
        count[tile] += 1
        assert prod(tile.shape) <= pixels
        for part, chunk, size in zip(tile, chunks, shape, strict=True):
            within = part.start // chunk == (part.stop - 1) // chunk
            assert within or (part.start % chunk == 0 and part.stop % chunk in (0, size % chunk))
    assert (count == 1).all()


def test_what_is_no_image_is_refused(tmp_path):
    values = image_values()
    flat = store(tmp_path / "flat.zarr", values[0], dims=("sample", "wavelength"))
    scans = store(
        tmp_path / "scans.zarr", values, dims=("concentration", "replicate", "wavelength")
    )
    for path in (flat, scans, tmp_path / "absent.zarr", tmp_path):
        assert Image.open(path) is None
    both, dims = tmp_path / "both.zarr", ("y", "x", "wavelength")
    pair = xarray.Dataset(dict.fromkeys(("other", "signal"), (dims, values)))
    pair.to_zarr(both, consolidated=False)
    with pytest.raises(SpectraError, match=r"found .other., .signal. over two dim"):
        Image.open(both)
    tangled = np.where(np.arange(len(AXIS)) == 2, AXIS[5], AXIS)
    with pytest.raises(SpectraError, match="wavelengths out of order"):
        Image.open(store(tmp_path / "tangled.zarr", values, axis=tangled))


LARGEST = {"configuration": {"chunk_shape": [2**8, 2**8, 1]}}


def test_an_image_beyond_all_limits_is_refused_by_its_metadata(tmp_path):
    path = store(tmp_path / "cube.zarr", image_values()[:1, :, :1], axis=AXIS[:1])
    for shape, chunk, message in (
        ([2**19, 2**19, 3], 2**9, r"6\.6e\+12 bytes"),
        ([2**12, 2**12, 1], 1, "chunks"),
    ):
        grid = {"name": "regular", "configuration": {"chunk_shape": [chunk, chunk, 1]}}
        edited(path / "signal", shape=shape, chunk_grid=grid)
        with pytest.raises(SpectraError, match=message):
            Image.open(path)
    edited(path / "signal", shape=[2**19, 2**18, 1], chunk_grid=grid | LARGEST)
    assert Image.open(path).shape == (2**19, 2**18)


def test_a_lost_chunk_of_an_image_is_refused(tmp_path):
    path = store(tmp_path / "cube.zarr", image_values(), chunks=(2, 3, 16))
    edited(path / "signal", fill_value=0.0)
    Image.open(path)
    next((path / "signal/c").rglob("0/1/0")).unlink()
    with pytest.raises(
        SpectraError, match=r"cube.zarr: array 'signal': found 1 of .* chunks absent"
    ):
        Image.open(path)
