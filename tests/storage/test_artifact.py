import errno
import os
import shutil
import warnings
from pathlib import Path

import google_crc32c
import numpy as np
import pytest
import xarray
import zarr

from geonode.errors import ArtifactError, CorruptArtifactError, MissingArtifactError
from geonode.storage.artifact import open_artifact
from geonode.storage.artifact_writer import artifact_writer
from tests.storage.damage import DAMAGES, contents, cut, empty, flip_every_byte

ATTRIBUTES = {
    "chart": "linear",
    "kappa": None,
    "text": 'a "checksum": "00000000" µ',
    "levels": [0, 1],
}
NAMES = (
    "christoffel",
    "converged",
    "features",
    "pair",
    "source",
    "start",
    "velocity",
    "wavelength",
)
RANDOM = np.random.default_rng(0)
WAVELENGTH = np.linspace(200.0, 800.0, 7)
SOURCE = np.array([0.0, 0.0, 10.0])
CHRISTOFFEL = RANDOM.standard_normal((2, 2, 5, 7))
CONVERGED = RANDOM.random((2, 3)) < 0.5
FEATURES = RANDOM.standard_normal((2, 3, 7)).astype("float32")
VELOCITY = RANDOM.standard_normal((2, 3, 7)).astype("float32")
BLOCKS = ((0, 0), (0, 1), (1, 0), (1, 1))


def write(path, blocks=BLOCKS, attributes=ATTRIBUTES):
    with artifact_writer(path, attributes) as writer:
        writer.coordinate("wavelength", WAVELENGTH, units="nm", long_name="Wavelength")
        writer.coordinate("pair", np.arange(3), units="1", long_name="Pair")
        writer.coordinate("source", SOURCE, dims=("pair",), units="ppb", long_name="From")
        writer.stored(
            "converged", ("member", "pair"), CONVERGED, units="1", long_name="Whether it was solved"
        )
        writer.stored("start", ("pair",), np.zeros(3, "int32"), units="1", long_name="All zeros")
        grid = writer.stored_blocks(
            "christoffel",
            ("member", "fold", "node", "wavelength"),
            CHRISTOFFEL.shape,
            CHRISTOFFEL.dtype,
            units="1",
            long_name="Christoffel symbol",
            block_dims=2,
        )
        for index in blocks:
            grid[index] = CHRISTOFFEL[index]
        for name, values in (("features", FEATURES), ("velocity", VELOCITY)):
            mapped = writer.mapped(
                name,
                ("member", "pair", "wavelength"),
                values.shape,
                values.dtype,
                units="1",
                long_name=name.title(),
            )
            mapped[...] = values
    return path


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    return write(tmp_path_factory.mktemp("written") / "data" / "geodesics.zarr")


@pytest.fixture
def path(written, tmp_path):
    """A copy to damage."""
    return shutil.copytree(written, tmp_path / "data" / "geodesics.zarr")


def test_round_trip(path):
    artifact = open_artifact(path)
    assert artifact.path == path
    assert artifact.attributes == ATTRIBUTES
    assert artifact.names == NAMES
    for name, values in (
        ("wavelength", WAVELENGTH),
        ("source", SOURCE),
        ("start", np.zeros(3, "int32")),
        ("converged", CONVERGED),
        ("christoffel", CHRISTOFFEL),
        ("features", FEATURES),
        ("velocity", VELOCITY),
    ):
        assert artifact[name].dtype == values.dtype
        np.testing.assert_array_equal(artifact[name], values, strict=True)
        assert not artifact[name].flags.writeable


def test_part_of_an_array(path):
    artifact = open_artifact(path)
    for index in ((1,), (1, 0), (1, 0, 4), (1, 0, 4, 6), (-1, -1)):
        part = artifact.read("christoffel", index)
        np.testing.assert_array_equal(part, CHRISTOFFEL[index])
        assert not part.flags.writeable
    for index in ((1,), (1, 2), (1, 2, 6)):
        np.testing.assert_array_equal(artifact.read("features", index), FEATURES[index])
    for name in ("christoffel", "features"):
        with pytest.raises(IndexError):
            artifact.read(name, (2,))


def test_a_mapped_array_is_a_map_of_its_file(path):
    features = open_artifact(path)["features"]
    assert isinstance(features, np.memmap)
    assert features.filename == path / "features" / "c" / "0" / "0" / "0"
    assert features.mode == "r"


def test_the_file_of_a_mapped_array_is_its_bytes_and_their_crc(path):
    data = FEATURES.astype("<f4").tobytes(order="C")
    crc = google_crc32c.value(data).to_bytes(4, "little")
    assert (path / "features" / "c" / "0" / "0" / "0").read_bytes() == data + crc


def test_a_mapped_array_larger_than_one_write(tmp_path):
    values = np.arange(400_001, dtype="float64")
    with artifact_writer(tmp_path / "a.zarr", {}) as writer:
        mapped = writer.mapped("x", ("i",), values.shape, "float64", units="1", long_name="x")
        assert np.isnan(mapped).all()
        mapped[:] = values
    np.testing.assert_array_equal(open_artifact(tmp_path / "a.zarr")["x"], values)


def test_plain_zarr_reads_it(path):
    group = zarr.open_group(path, mode="r", use_consolidated=False)
    assert set(group.array_keys()) == set(NAMES)
    np.testing.assert_array_equal(group["features"][...], FEATURES)
    np.testing.assert_array_equal(group["christoffel"][...], CHRISTOFFEL)
    assert np.isnan(group["christoffel"].fill_value)
    assert np.isnan(group["features"].fill_value)


def test_plain_zarr_finds_a_damaged_value(path):
    for file in (path / "features/c/0/0/0", path / "christoffel/c/1/0/0/0"):
        content = bytearray(file.read_bytes())
        content[20] ^= 1
        file.write_bytes(content)
    group = zarr.open_group(path, mode="r", use_consolidated=False)
    for name in ("features", "christoffel"):
        with pytest.raises(ValueError, match="checksum"):
            group[name][...]


def test_xarray_opens_it_with_names_and_units_and_no_warning(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset = xarray.open_zarr(path, consolidated=False, chunks=None)
        dataset.load()
    assert dataset.sizes == {"member": 2, "fold": 2, "node": 5, "pair": 3, "wavelength": 7}
    assert set(dataset.coords) == {"wavelength", "pair", "source"}
    assert set(dataset.data_vars) == {"christoffel", "converged", "features", "start", "velocity"}
    assert dataset["features"].dims == ("member", "pair", "wavelength")
    assert set(dataset["features"].coords) == {"wavelength", "pair", "source"}
    assert dataset["wavelength"].attrs == {"units": "nm", "long_name": "Wavelength"}
    assert dataset["features"].attrs == {"units": "1", "long_name": "Features"}
    assert dataset["converged"].dtype == bool
    assert dataset.attrs["chart"] == "linear"
    np.testing.assert_array_equal(dataset["source"], SOURCE)
    np.testing.assert_array_equal(dataset["christoffel"], CHRISTOFFEL)


def test_a_stored_array_is_one_file_per_block(path):
    assert contents(path / "christoffel").keys() == {
        "zarr.json",
        *(f"c/{member}/{fold}/0/0" for member, fold in BLOCKS),
    }
    assert contents(path / "converged").keys() == {"zarr.json", "c/0/0"}


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


def test_the_same_input_gives_the_same_bytes_in_any_order_of_blocks(path, tmp_path):
    other = write(tmp_path / "other.zarr", blocks=BLOCKS[::-1])
    assert contents(path) == contents(other)


def test_a_flipped_bit_in_any_byte_of_any_file_is_found(tmp_path):
    path = tmp_path / "a.zarr"
    with artifact_writer(path, {"µ": "1"}) as writer:
        writer.coordinate("node", np.arange(2), units="1", long_name="Node")
        writer.mapped("x", ("node",), (2,), "float32", units="1", long_name="x")[:] = 1.0
    for name in contents(path):
        array, _, part = name.rpartition("/c/") if "/c/" in name else name.partition("/")
        for offset in flip_every_byte(path / name):
            with pytest.raises(CorruptArtifactError) as caught:
                open_artifact(path)
                pytest.fail(f"byte {offset} of {name}")
            if part:
                assert caught.value.array == array
                assert caught.value.chunk == part.removesuffix("zarr.json")
    open_artifact(path)


@pytest.mark.parametrize("file", ["zarr.json", "converged/zarr.json", "features/c/0/0/0"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_of_another_length_is_found(path, damage, file):
    damage(path / file)
    with pytest.raises(CorruptArtifactError, match=f"{file} fails its checksum"):
        open_artifact(path)


@pytest.mark.parametrize("file", ["zarr.json", "pair/zarr.json", "start/c/0"])
def test_a_missing_file_is_found(path, file):
    (path / file).unlink()
    with pytest.raises(CorruptArtifactError, match=f"{file} is missing"):
        open_artifact(path)


@pytest.mark.parametrize("file", ["extra", "start/c/1", "start/extra", ".hidden/file"])
def test_an_additional_file_is_found(path, file):
    (path / file).parent.mkdir(exist_ok=True)
    (path / file).touch()
    with pytest.raises(CorruptArtifactError, match=f"{file} does not belong to the artifact"):
        open_artifact(path)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("features/c/0/0/0", "velocity/c/0/0/0"),  # both intact for Zarr: one CRC-32C
        ("christoffel/c/0/0/0/0", "christoffel/c/1/1/0/0"),
        ("features/zarr.json", "velocity/zarr.json"),
    ],
)
def test_swapped_files_are_found(path, first, second):
    (path / first).rename(path / "moving")
    (path / second).rename(path / first)
    (path / "moving").rename(path / second)
    with pytest.raises(CorruptArtifactError, match=f"{first} fails its checksum"):
        open_artifact(path)


def test_the_error_names_array_and_chunk(path):
    file = path / "christoffel" / "c" / "1" / "0" / "0" / "0"
    file.write_bytes(file.read_bytes()[::-1])
    with pytest.raises(CorruptArtifactError) as caught:
        open_artifact(path)
    error = caught.value
    assert (error.path, error.array, error.chunk) == (path, "christoffel", "1/0/0/0")


def test_a_root_from_another_artifact_is_found(path, tmp_path):
    other = write(tmp_path / "other.zarr", attributes={})
    shutil.copy(other / "start/c/0", path / "start/c/0")
    open_artifact(path)  # the same bytes
    with artifact_writer(other, {}) as writer:
        writer.stored("start", ("pair",), np.ones(3), units="1", long_name="Start")
    shutil.copy(other / "zarr.json", path / "zarr.json")
    with pytest.raises(CorruptArtifactError, match="christoffel/c/0/0/0/0 does not belong"):
        open_artifact(path)


def test_nothing_there(tmp_path):
    with pytest.raises(MissingArtifactError, match=r"a\.zarr: not found"):
        open_artifact(tmp_path / "a.zarr")


@pytest.mark.parametrize("make", ["touch", "mkdir"])
def test_something_else_there(tmp_path, make):
    getattr(tmp_path / "a.zarr", make)()
    with pytest.raises(CorruptArtifactError, match=r"zarr\.json is missing"):
        open_artifact(tmp_path / "a.zarr")


def test_an_unknown_array(path):
    with pytest.raises(ArtifactError, match=r"no array 'metric', expected one of christoffel, "):
        open_artifact(path)["metric"]


@pytest.mark.parametrize(
    ("name", "file", "damage"),
    [
        ("christoffel", "christoffel/c/1/0/0/0", cut),
        ("christoffel", "christoffel/c/1/0/0/0", empty),
        ("christoffel", "christoffel/c/1/0/0/0", Path.unlink),
        ("start", "start/c/0", Path.unlink),  # zeros, which is what Zarr reads without it
        ("features", "features/c/0/0/0", empty),
        ("features", "features/c/0/0/0", Path.unlink),
    ],
)
def test_damage_after_opening_is_no_wrong_number(path, name, file, damage):
    artifact = open_artifact(path)
    damage(path / file)
    with pytest.raises(CorruptArtifactError, match="since it was opened") as caught:
        artifact[name]
    assert caught.value.array == name


def test_a_body_that_raises_leaves_the_older_artifact(path):
    before = contents(path)
    with pytest.raises(ZeroDivisionError), artifact_writer(path, {}) as writer:
        writer.stored("start", ("pair",), np.ones(3), units="1", long_name="Start")
        raise ZeroDivisionError
    assert contents(path) == before
    assert list(path.parent.iterdir()) == [path]


def test_a_new_artifact_takes_the_place_of_the_older_one(path):
    with artifact_writer(path, {}) as writer:
        writer.stored("start", ("pair",), np.ones(3), units="1", long_name="Start")
    assert open_artifact(path).names == ("start",)
    assert list(path.parent.iterdir()) == [path]


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


@pytest.mark.parametrize("put", [put_coordinate, put_stored, put_block, put_mapped])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
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


def test_a_file_where_the_parent_should_be(tmp_path):
    (tmp_path / "data").touch()
    with (
        pytest.raises(ArtifactError, match=r"data/a\.zarr: cannot be written: "),
        artifact_writer(tmp_path / "data" / "a.zarr", {}),
    ):
        pytest.fail("the body ran")


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


def test_parts_are_filled_by_whoever_sees_the_folder(tmp_path):
    artifact = filled_elsewhere(tmp_path / "a.zarr")
    np.testing.assert_array_equal(artifact["stored"], [[0, 0, 0], [1, 1, 1]])
    np.testing.assert_array_equal(artifact["mapped"], [[0, 0, 0], [10, 10, 10]])


def test_blocks_that_a_killed_process_left_half_written_are_removed(tmp_path):
    filled_elsewhere(tmp_path / "a.zarr")
    (tmp_path / "other").mkdir()
    left = ("stored/c/0/0.5f3a.partial", "stored/c/1/0.77.partial")
    filled_elsewhere(tmp_path / "other/a.zarr", left)
    assert contents(tmp_path / "a.zarr") == contents(tmp_path / "other/a.zarr")
