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
from tests.storage.arrays import ATTRIBUTES, CHRISTOFFEL, FEATURES, SOURCE, VALUES
from tests.storage.damage import DAMAGES, contents, cut, empty, flip, flip_every_byte


def test_round_trip(path):
    artifact = open_artifact(path)
    assert artifact.path == path
    assert artifact.attributes == ATTRIBUTES
    assert artifact.names == tuple(VALUES)
    for name, values in VALUES.items():
        assert artifact[name].dtype == values.dtype
        np.testing.assert_array_equal(artifact[name], values, strict=True)
        assert not artifact[name].flags.writeable


def test_part_of_an_array(written):
    artifact = open_artifact(written)
    for index in ((1,), (1, 0), (1, 0, 4), (1, 0, 4, 6), (-1, -1)):
        part = artifact.read("christoffel", index)
        np.testing.assert_array_equal(part, CHRISTOFFEL[index])
        assert not part.flags.writeable
    for index in ((1,), (1, 2), (1, 2, 6)):
        np.testing.assert_array_equal(artifact.read("features", index), FEATURES[index])
    for name in ("christoffel", "features"):
        with pytest.raises(IndexError):
            artifact.read(name, (2,))
    with pytest.raises(ArtifactError, match=r"no array 'metric', expected one of christoffel, "):
        artifact["metric"]


def test_a_mapped_array_is_a_map_of_its_bytes_and_their_crc(written):
    features, file = open_artifact(written)["features"], written / "features/c/0/0/0"
    assert isinstance(features, np.memmap)
    assert (features.filename, features.mode) == (file, "r")
    data = FEATURES.astype("<f4").tobytes(order="C")
    assert file.read_bytes() == data + google_crc32c.value(data).to_bytes(4, "little")


def test_plain_zarr_reads_it_and_finds_a_damaged_value(path):
    group = zarr.open_group(path, mode="r", use_consolidated=False)
    assert set(group.array_keys()) == set(VALUES)
    for name, values, file in (
        ("features", FEATURES, "features/c/0/0/0"),
        ("christoffel", CHRISTOFFEL, "christoffel/c/1/0/0/0"),
    ):
        np.testing.assert_array_equal(group[name][...], values)
        assert np.isnan(group[name].fill_value)
        flip(path / file)
        with pytest.raises(ValueError, match="checksum"):
            group[name][...]


def test_xarray_opens_it_with_names_and_units_and_no_warning(written):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset = xarray.open_zarr(written, consolidated=False, chunks=None)
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
        # the next two are intact for Zarr: they have one CRC-32C
        (moved("features/c/0/0/0", "velocity/c/0/0/0"), "features/c/0/0/0 fails its checksum"),
        (moved("christoffel/c/0/0/0/0", "christoffel/c/1/1/0/0"), "c/0/0/0/0 fails its checksum"),
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
