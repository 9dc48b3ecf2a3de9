import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import xarray

from geonode.errors import ArtifactError, CorruptArtifactError, MissingArtifactError
from geonode.storage.artifact import SEAL_AT, open_artifact
from geonode.storage.artifact_writer import artifact_writer
from geonode.storage.document import encode_json
from geonode.storage.seal import file_checksum, seal
from tests.storage.arrays import ATTRIBUTES, VALUES
from tests.storage.damage import DAMAGES, contents, empty, flip, flip_every_byte


def test_arrays_are_read_only_maps(written):
    artifact = open_artifact(written)
    assert (artifact.attributes, [*artifact.arrays]) == (ATTRIBUTES, [*VALUES])
    for name, values in VALUES.items():
        np.testing.assert_array_equal(artifact[name], values, strict=True)
        assert not artifact[name].flags.writeable
        assert isinstance(artifact[name].base, np.memmap)
    with pytest.raises(ArtifactError, match=r"no array 'metric', expected one of christoffel, "):
        artifact["metric"]


def test_xarray_opens_it_with_names_and_units_and_finds_a_damaged_value(path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset = xarray.open_zarr(path, consolidated=False, chunks=None).load()
    assert set(dataset.coords) == {"wavelength", "pair", "source"}
    assert dataset["features"].dims == ("member", "pair", "wavelength")
    assert dataset["wavelength"].attrs == {"units": "nm", "long_name": "Wavelength"}
    assert dataset["features"].attrs == {"units": "1", "long_name": "Features"}
    assert dataset.attrs["chart"] == "linear"
    for name, values in VALUES.items():
        np.testing.assert_array_equal(dataset[name], values)
        assert dataset[name].dtype == values.dtype
    for name in ("features", "christoffel"):
        flip(path.joinpath(name, "c", *"0" * VALUES[name].ndim))
        with pytest.raises(ValueError, match="checksum"):
            xarray.open_zarr(path, consolidated=False, chunks=None)[name].load()


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


def moved(first, second):
    def exchange(path):
        (path / first).rename(path / "moving")
        (path / second).rename(path / first)
        (path / "moving").rename(path / second)

    return exchange


def added(file):
    def add(path):
        (path / file).parent.mkdir(exist_ok=True)
        (path / file).touch()

    return add


FOREIGN = "does not belong to the artifact"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        *[
            (lambda path, file=file, way=way: way(path / file), f"{file} fails its checksum")
            for file in ("zarr.json", "converged/zarr.json", "features/c/0/0/0")
            for way in DAMAGES
        ],
        *[
            (lambda path, file=file: (path / file).unlink(), f"{file} is missing")
            for file in ("zarr.json", "pair/zarr.json", "start/c/0")
        ],
        *[(added(file), f"{file} {FOREIGN}") for file in ("extra", "start/c/1", ".hidden/file")],
        # intact for Zarr: they have one CRC-32C
        (moved("features/c/0/0/0", "velocity/c/0/0/0"), "features/c/0/0/0 fails its checksum"),
        (moved("features/zarr.json", "velocity/zarr.json"), "features/zarr.json fails its check"),
    ],
)
def test_what_was_cut_removed_added_or_swapped_is_found(path, damage, message):
    damage(path)
    with pytest.raises(CorruptArtifactError, match=message):
        open_artifact(path)


@pytest.mark.parametrize("make", ["touch", "mkdir"])
def test_nothing_or_something_else_there(tmp_path, make):
    with pytest.raises(MissingArtifactError, match=r"a\.zarr: not found"):
        open_artifact(tmp_path / "a.zarr")
    getattr(tmp_path / "a.zarr", make)()
    with pytest.raises(CorruptArtifactError, match=r"zarr\.json is missing"):
        open_artifact(tmp_path / "a.zarr")


@pytest.mark.parametrize("damage", [empty, Path.unlink])
@pytest.mark.parametrize("file", ["start/c/0", "features/c/0/0/0"])
def test_damage_after_opening_is_no_wrong_number(path, file, damage):
    artifact, name = open_artifact(path), file.partition("/")[0]
    damage(path / file)
    with pytest.raises(CorruptArtifactError, match="since it was opened") as caught:
        artifact[name]
    assert caught.value.array == name


PICKLE = [{"name": "numcodecs.pickle"}, {"name": "crc32c"}]
REGULAR = {"name": "regular", "configuration": {"chunk_shape": [1]}}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("codecs", PICKLE, "codecs .*pickle"),
        ("codecs", [], "list index"),
        ("codecs", 3, "not subscriptable"),
        ("chunk_grid", REGULAR, "chunk_grid"),
        ("shape", [10**12], "chunk_grid"),
        ("data_type", "object", "object of dimensions"),
        ("data_type", "int64", "16 bytes, expected 28"),
        ("dimension_names", [], "of dimensions"),
    ],
)
def test_sealed_metadata_of_anything_else_are_refused(path, name, value, message):
    """No codec that a store names is ever run."""
    file, root = path / "start/zarr.json", path / "zarr.json"
    metadata, group = (json.loads(one.read_bytes()) for one in (file, root))
    file.write_bytes(encode_json(file, metadata | {name: value}))
    group["attributes"]["files"]["start/zarr.json"] = file_checksum(file)
    root.write_bytes(seal(encode_json(root, group), SEAL_AT))
    match = f"array 'start': found .*{message}.*run `dvc repro`"
    with pytest.raises(CorruptArtifactError, match=match):
        open_artifact(path)
