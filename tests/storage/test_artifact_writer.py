import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from geonode.errors import ArtifactError
from geonode.storage.artifact import open_artifact
from geonode.storage.artifact_writer import artifact_writer
from tests.storage.arrays import BLOCKS, write
from tests.storage.damage import contents

X = {"units": "1", "long_name": "x"}


def test_arrays_larger_than_one_write(tmp_path):
    values = np.random.default_rng(1).standard_normal((601, 1000))
    with artifact_writer(tmp_path / "a.zarr", {}) as writer:
        mapped = writer.mapped("x", ("row", "column"), values.shape, "float64", **X)
        assert np.isnan(mapped).all()
        mapped[...] = values
    np.testing.assert_array_equal(open_artifact(tmp_path / "a.zarr")["x"], values)


def test_the_same_input_gives_the_same_bytes_in_any_order_of_blocks(written, tmp_path):
    other = write(tmp_path / "other.zarr", blocks=BLOCKS[::-1])
    assert contents(written) == contents(other)


BAD = np.array([0.0, 1.0, np.inf])


def partly(shape):
    """An array of which the last row is not filled."""
    return lambda writer: writer.mapped("x", ("i", "j"), shape, "f4", **X)[:-1].fill(1.0)


def blocks(*written):
    """An array of two blocks, of which some are written."""

    def write_blocks(writer):
        writer.mapped("x", ("a", "i"), (2, 3), "f8", **X)
        for index, block in written:
            writer.write("x", index, block)

    return write_blocks


NONE, ONES = "found NaN or infinity at index", np.ones(3)


@pytest.mark.parametrize(
    ("put", "message"),
    [
        (lambda writer: writer.coordinate("x", -BAD, **X), rf"array 'x': {NONE} \(2,\)"),
        (partly((3, 5)), rf"array 'x': {NONE} \(2, 0\)"),
        (partly((3, 500_000)), rf"array 'x': {NONE} \(2, 0\)"),
        (blocks(((0,), ONES), ((1,), BAD)), rf"array 'x': {NONE} \(1, 2\)"),
        (blocks(((1,), ONES)), rf"array 'x': {NONE} \(0, 0\)"),
        (blocks(((), ONES)), r"array 'x': block \(\).* expected float64 of shape \(2, 3\)"),
        (blocks(((2,), ONES)), r"array 'x': block \(2,\).* at an index of \(2,\)"),
        (blocks(((-1,), ONES)), r"array 'x': block \(-1,\).* at an index of \(2,\)"),
        (blocks(((0,), np.ones(1))), r"array 'x': block \(0,\).* expected float64 of shape"),
        (blocks(((0,), ONES + 1j)), r"array 'x': block \(0,\).* expected float64 of shape"),
    ],
)
def test_what_is_not_finite_not_whole_or_does_not_fit_is_refused(path, put, message):
    before = contents(path)
    with (
        pytest.raises(ArtifactError, match=rf"geodesics\.zarr: {message}"),
        artifact_writer(path, {}) as writer,
    ):
        writer.coordinate("pair", np.arange(3), units="1", long_name="Pair")
        put(writer)
    assert contents(path) == before


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"files": {}, "checksum": ""}, r"attributes \['checksum', 'files'\] are taken by"),
        ({"kappa": float("nan")}, "cannot be written as JSON"),
    ],
)
def test_attributes_that_cannot_be_sealed_are_refused_at_once(tmp_path, attributes, message):
    with (
        pytest.raises(ArtifactError, match=message),
        artifact_writer(tmp_path / "a.zarr", attributes),
    ):
        pytest.fail("the body ran")


def test_an_array_larger_than_the_room_left_is_refused_before_it_fills_the_disk(path, monkeypatch):
    before = contents(path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=7999))
    with (
        pytest.raises(ArtifactError, match=r"cannot be written: .*found 7,999 bytes free"),
        artifact_writer(path, {}) as writer,
    ):
        writer.mapped("x", ("i",), (1000,), "f8", **X)
    assert contents(path) == before


def test_a_folder_of_something_else_is_never_replaced(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ArtifactError, match="no artifact"), artifact_writer(tmp_path, {}):
        pytest.fail("the body ran")
    assert contents(tmp_path) == {"notes.txt": b"mine"}
