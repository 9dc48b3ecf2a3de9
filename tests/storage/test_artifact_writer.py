import errno
import os
from contextlib import suppress

import numpy as np
import pytest
import zarr

from geonode.errors import ArtifactError
from geonode.storage.artifact import open_artifact
from geonode.storage.artifact_writer import artifact_writer
from tests.storage.arrays import (
    BLOCKS,
    write,
)
from tests.storage.damage import contents


def test_a_mapped_array_larger_than_one_write(tmp_path):
    values = np.arange(400_001, dtype="float64")
    with artifact_writer(tmp_path / "a.zarr", {}) as writer:
        mapped = writer.mapped("x", ("i",), values.shape, "float64", units="1", long_name="x")
        assert np.isnan(mapped).all()
        mapped[:] = values
    np.testing.assert_array_equal(open_artifact(tmp_path / "a.zarr")["x"], values)


def test_a_stored_array_is_one_file_per_block(written):
    blocks = (f"c/{member}/{fold}/0/0" for member, fold in BLOCKS)
    assert contents(written / "christoffel").keys() == {"zarr.json", *blocks}
    assert contents(written / "converged").keys() == {"zarr.json", "c/0/0"}


@pytest.mark.parametrize(
    ("shape", "chunk", "shard"),
    [
        ((3, 2000, 601), (1, 200, 601), (1, 2000, 601)),  # 9.2 MiB: 10 chunks of 0.92 MiB
        ((3, 601, 1000), (1, 121, 1000), (1, 605, 1000)),  # 601 is prime: the last chunk sticks out
        ((3, 5), (1, 5), (1, 5)),
        ((1, 3, 300_000), (1, 1, 300_000), (1, 3, 300_000)),  # a row above 1 MiB is a chunk
    ],
)
def test_inner_chunks_are_about_one_mebibyte(tmp_path, shape, chunk, shard):
    dims = tuple("abc"[: len(shape)])
    # Never closed: only the metadata matters here, and the folder goes with the exception.
    with pytest.raises(KeyError), artifact_writer(tmp_path / "a.zarr", {}) as writer:
        writer.stored_blocks("x", dims, shape, "f8", units="1", long_name="x", block_dims=1)
        array = zarr.open_array(tmp_path / ".a.zarr.geonode/new/x", mode="r")
        assert (array.chunks, array.shards) == (chunk, shard)
        raise KeyError


def test_an_array_of_many_inner_chunks(tmp_path):
    values = np.random.default_rng(1).standard_normal((601, 1000))
    for name in ("a.zarr", "b.zarr"):
        with artifact_writer(tmp_path / name, {}) as writer:
            writer.stored("x", ("row", "column"), values, units="1", long_name="x")
    assert contents(tmp_path / "a.zarr") == contents(tmp_path / "b.zarr")
    np.testing.assert_array_equal(open_artifact(tmp_path / "a.zarr")["x"], values)


def test_the_same_input_gives_the_same_bytes_in_any_order_of_blocks(written, tmp_path):
    other = write(tmp_path / "other.zarr", blocks=BLOCKS[::-1])
    assert contents(written) == contents(other)


def test_a_new_artifact_takes_the_place_of_the_older_one_if_the_body_ends(path):
    before = contents(path)
    for error in (ZeroDivisionError, None):
        with suppress(ZeroDivisionError), artifact_writer(path, {}) as writer:
            writer.stored("start", ("pair",), np.ones(3), units="1", long_name="Start")
            if error:
                raise error
        assert (contents(path) == before) == bool(error)
        assert list(path.parent.iterdir()) == [path]
    assert open_artifact(path).names == ("start",)


def put_coordinate(writer, values):
    writer.coordinate("x", values, units="1", long_name="x")


def put_stored(writer, values):
    writer.stored("x", ("i",), values, units="1", long_name="x")


def put_block(writer, values):
    blocks = writer.stored_blocks(
        "x", ("block", "i"), (2, *values.shape), "f8", units="1", long_name="x", block_dims=1
    )
    blocks[0,] = np.ones_like(values)
    blocks[1,] = values


def put_mapped(writer, values):
    mapped = writer.mapped("x", ("i",), values.shape, "f8", units="1", long_name="x")
    mapped[:] = values


@pytest.mark.parametrize(
    ("put", "value"),
    [(put_stored, np.nan), (put_coordinate, np.inf), (put_block, -np.inf), (put_mapped, np.nan)],
)
def test_numbers_that_are_not_finite_are_refused(path, put, value):
    before = contents(path)
    where = r"\(1, 2\)" if put is put_block else r"\(2,\)"
    with (
        pytest.raises(ArtifactError, match=rf"geodesics\.zarr: array 'x': .* at index {where}"),
        artifact_writer(path, {}) as writer,
    ):
        put(writer, np.array([0.0, 1.0, value]))
    assert contents(path) == before


def test_a_mapped_array_that_is_not_filled_is_refused(tmp_path):
    with (
        pytest.raises(ArtifactError, match=r"array 'x': found NaN or infinity at index \(3,\)"),
        artifact_writer(tmp_path / "a.zarr", {}) as writer,
    ):
        writer.mapped("x", ("i",), (5,), "float32", units="1", long_name="x")[:3] = 1.0


def test_a_block_that_is_not_written_is_refused(tmp_path):
    with (
        pytest.raises(ArtifactError, match="array 'x': found 1 blocks, expected 2"),
        artifact_writer(tmp_path / "a.zarr", {}) as writer,
    ):
        blocks = writer.stored_blocks(
            "x", ("block", "i"), (2, 3), "int32", units="1", long_name="x", block_dims=1
        )
        blocks[0,] = np.zeros(3, "int32")


@pytest.mark.parametrize(
    ("index", "block"),
    [
        ((0,), np.zeros(3)),  # would be broadcast over the blocks
        ((0, 0), np.zeros(1)),  # would be broadcast over the block
        ((0, 0), np.zeros(3, "complex64")),  # would lose its imaginary part
    ],
)
def test_a_block_that_does_not_fit_is_refused(tmp_path, index, block):
    with (
        pytest.raises(ArtifactError, match=r"array 'x': block \(0,.* expected float64 of shape"),
        artifact_writer(tmp_path / "a.zarr", {}) as writer,
    ):
        blocks = writer.stored_blocks(
            "x", ("a", "b", "i"), (2, 2, 3), "f8", units="1", long_name="x", block_dims=2
        )
        blocks[index] = block


@pytest.mark.parametrize(
    ("name", "dims", "values", "message"),
    [
        ("pair", ("pair",), np.zeros(3), "array 'pair': is there already"),
        ("x", ("pair",), np.zeros(4), "array 'x': found size 4 of 'pair', expected 3 as before"),
        ("x", ("i", "j"), np.zeros(4), "array 'x': found dimensions"),
        ("x", (), np.array(1.0), "array 'x': found dimensions"),
        ("x", ("i",), np.zeros(0), "array 'x': found dimensions"),
        ("x", ("i",), np.array(["text"]), "array 'x': found dtype <U4, expected numbers"),
    ],
)
def test_an_array_that_does_not_fit_is_refused(tmp_path, name, dims, values, message):
    with (
        pytest.raises(ArtifactError, match=message),
        artifact_writer(tmp_path / "a.zarr", {}) as writer,
    ):
        writer.coordinate("pair", np.arange(3), units="1", long_name="Pair")
        writer.stored(name, dims, values, units="1", long_name="x")


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (
            {"files": {}, "checksum": ""},
            r"attributes \['checksum', 'files'\] are taken by the seal",
        ),
        ({"kappa": float("nan")}, "cannot be written as JSON"),
    ],
)
def test_attributes_that_cannot_be_sealed_are_refused_at_once(tmp_path, attributes, message):
    with (
        pytest.raises(ArtifactError, match=message),
        artifact_writer(tmp_path / "a.zarr", attributes),
    ):
        pytest.fail("the body ran")


def test_a_folder_of_something_else_is_never_replaced(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ArtifactError, match="no artifact"), artifact_writer(tmp_path, {}):
        pytest.fail("the body ran")
    assert contents(tmp_path) == {"notes.txt": b"mine"}


def test_a_full_disk(path, monkeypatch):
    def fail(*arguments, **keywords):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = contents(path)
    monkeypatch.setattr("zarr.storage._local._put", fail)
    with pytest.raises(ArtifactError, match=r"geodesics\.zarr: cannot be written: .*No space left"):
        write(path)
    assert contents(path) == before


def filled_elsewhere(path, left_behind=()):
    """An artifact whose arrays are filled by someone who knows its parts alone."""
    dims, about = ("member", "row"), {"units": "1", "long_name": "what"}
    with artifact_writer(path, {}) as writer:
        writer.stored_blocks("stored", dims, (2, 3), "f4", block_dims=1, **about)
        writer.mapped("mapped", dims, (2, 3), "f8", **about)
        parts = writer.parts
        blocks, mapped = parts.blocks("stored", block_dims=1), parts.mapped("mapped")
        for member in range(2):
            blocks[member,] = np.full(3, member, "f4")
            np.testing.assert_array_equal(parts.read("stored", (member,)), np.full(3, member))
            mapped[member] = 10 * member
        mapped.flush()
        for name in left_behind:
            (parts.folder / name).write_bytes(b"half")
        with pytest.raises(ArtifactError, match=r"a\.zarr: array 'other': cannot be opened"):
            parts.mapped("other")
    return open_artifact(path)


def test_parts_are_filled_by_whoever_sees_the_folder_and_halves_of_the_killed_go(tmp_path):
    artifact = filled_elsewhere(tmp_path / "a.zarr")
    np.testing.assert_array_equal(artifact["stored"], [[0, 0, 0], [1, 1, 1]])
    np.testing.assert_array_equal(artifact["mapped"], [[0, 0, 0], [10, 10, 10]])
    left = ("stored/c/0/0.5f3a.partial", "stored/c/1/0.77.partial")
    filled_elsewhere(tmp_path / "other/a.zarr", left)
    assert contents(tmp_path / "a.zarr") == contents(tmp_path / "other/a.zarr")
