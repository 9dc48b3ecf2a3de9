import numpy as np
import pytest

from geonode.errors import ArtifactError
from geonode.storage.artifact import open_artifact
from geonode.storage.artifact_writer import artifact_writer
from tests.storage.arrays import BLOCKS, write
from tests.storage.damage import contents


def test_arrays_larger_than_one_write_and_of_many_inner_chunks(tmp_path):
    values = np.random.default_rng(1).standard_normal((601, 1000))
    for name in ("a.zarr", "b.zarr"):
        with artifact_writer(tmp_path / name, {}) as writer:
            dims, about = ("row", "column"), {"units": "1", "long_name": "x"}
            writer.stored("stored", dims, values, **about)
            mapped = writer.mapped("mapped", dims, values.shape, "float64", **about)
            assert np.isnan(mapped).all()
            mapped[...] = values
    assert contents(tmp_path / "a.zarr") == contents(tmp_path / "b.zarr")
    for name in ("stored", "mapped"):
        np.testing.assert_array_equal(open_artifact(tmp_path / "a.zarr")[name], values)


def test_a_stored_array_is_one_file_per_block(written):
    blocks = (f"c/{member}/{fold}/0/0" for member, fold in BLOCKS)
    assert contents(written / "christoffel").keys() == {"zarr.json", *blocks}
    assert contents(written / "converged").keys() == {"zarr.json", "c/0/0"}


def test_the_same_input_gives_the_same_bytes_in_any_order_of_blocks(written, tmp_path):
    other = write(tmp_path / "other.zarr", blocks=BLOCKS[::-1])
    assert contents(written) == contents(other)


def test_a_new_artifact_takes_the_place_of_the_older_one(path):
    with artifact_writer(path, {}) as writer:
        writer.stored("start", ("pair",), np.ones(3), units="1", long_name="Start")
    assert open_artifact(path).names == ("start",)
    assert list(path.parent.iterdir()) == [path]


X = {"units": "1", "long_name": "x"}
BAD = np.array([0.0, 1.0, np.inf])


def coordinate(writer):
    writer.coordinate("x", -BAD, **X)


def mapped(writer):
    writer.mapped("x", ("i",), (5,), "float32", **X)[:3] = 1.0


def large(writer):
    writer.mapped("x", ("i", "j"), (3, 500_000), "float32", **X)[:2] = 1.0


def blocks(*written):
    """A stored array of two blocks, of which some are written."""

    def write_blocks(writer):
        writer.stored_blocks("x", ("a", "i"), (2, 3), "f8", block_dims=1, **X)
        for index, block in written:
            writer.parts.write("x", index, block)

    return write_blocks


NONE, ONES = "found NaN or infinity at index", np.ones(3)


@pytest.mark.parametrize(
    ("put", "message"),
    [
        (coordinate, rf"array 'x': {NONE} \(2,\)"),
        (mapped, rf"array 'x': {NONE} \(3,\)"),  # which is not filled
        (large, rf"array 'x': {NONE} \(2, 0\)"),
        (blocks(((0,), ONES), ((1,), BAD)), rf"array 'x': {NONE} \(1, 2\)"),
        (blocks(((1,), ONES)), "array 'x': found 1 blocks, expected 2"),
        (blocks(((), ONES)), r"array 'x': block \(\).* expected float64 of shape"),  # for both
        (blocks(((0, 0), np.ones(()))), r"array 'x': block \(0, 0\).* the index of one block"),
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


def test_a_folder_of_something_else_is_never_replaced(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ArtifactError, match="no artifact"), artifact_writer(tmp_path, {}):
        pytest.fail("the body ran")
    assert contents(tmp_path) == {"notes.txt": b"mine"}


def filled_elsewhere(path, left_behind=()):
    """An artifact whose arrays are filled by someone who knows its parts alone."""
    dims, about = ("member", "row"), {"units": "1", "long_name": "what"}
    with artifact_writer(path, {}) as writer:
        writer.stored_blocks("stored", dims, (2, 3), "f4", block_dims=1, **about)
        writer.mapped("mapped", dims, (2, 3), "f8", **about)
        parts = writer.parts
        mapped = parts.mapped("mapped")
        for member in range(2):
            parts.write("stored", (member,), np.full(3, member, "f4"))
            np.testing.assert_array_equal(parts.read("stored", (member,)), np.full(3, member))
            mapped[member] = 10 * member
        mapped.flush()
        for name in left_behind:
            (parts.folder / name).write_bytes(b"half")
    return open_artifact(path)


def test_parts_are_filled_by_whoever_sees_the_folder_and_halves_of_the_killed_go(tmp_path):
    artifact = filled_elsewhere(tmp_path / "a.zarr")
    np.testing.assert_array_equal(artifact["stored"], [[0, 0, 0], [1, 1, 1]])
    np.testing.assert_array_equal(artifact["mapped"], [[0, 0, 0], [10, 10, 10]])
    left = ("stored/c/0/0.5f3a.partial", "stored/c/1/0.77.partial")
    filled_elsewhere(tmp_path / "other/a.zarr", left)
    assert contents(tmp_path / "a.zarr") == contents(tmp_path / "other/a.zarr")
