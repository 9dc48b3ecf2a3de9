import json

import numpy as np
import pytest
import zarr

from geonode.errors import ArtifactError
from geonode.storage.zarr_metadata import LARGEST_METADATA, require_plain
from tests.bounds import chunks


def sharded(inner, chunk=(2, 2)):
    of_index = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
    parts = {"chunk_shape": chunk, "codecs": inner, "index_codecs": of_index}
    return {"codecs": [{"name": "sharding_indexed", "configuration": parts}]}


BYTES = [{"name": "bytes", "configuration": {"endian": "little"}}]


@pytest.fixture(scope="module")
def metadata(tmp_path_factory):
    """Metadata of a store of 4 x 4 numbers, by version."""
    folder = tmp_path_factory.mktemp("stores")
    for version in (2, 3):
        group = zarr.create_group(folder / str(version), zarr_format=version)
        group.create_array("signal", data=np.ones((4, 4)), chunks=(2, 4))
    files = {2: "2/signal/.zarray", 3: "3/signal/zarr.json"}
    for version in files:
        require_plain(folder / str(version), 1000, 10)  # as it is
    return {version: json.loads((folder / file).read_text()) for version, file in files.items()}


@pytest.mark.parametrize(
    ("version", "changes", "message"),
    [
        (3, {"shape": [10**6, 10**6], "chunk_grid": chunks(10**6, 10**5)}, r"8e\+12 bytes"),
        (3, {"chunk_grid": chunks(10**6, 10**6)}, r"8e\+12 bytes of shape .*expected at most 1e"),
        (3, {"chunk_grid": chunks(10**6, 10**6)} | sharded(BYTES, (10**6, 5)), r"8e\+12 bytes"),
        (3, {"shape": [100, 4], "chunk_grid": chunks(1, 4)}, "100 chunks, expected at most 10"),
        (2, {"shape": [10**9, 4]}, r"5e\+08 chunks, expected at most 10"),
        (3, {"shape": [-1, 4]}, r"found no metadata of an array .*\[-1, 4\]"),
        (3, {"chunk_grid": chunks(0, 4)}, "found shape .* in chunks of"),
        (2, {"filters": [{"id": "pickle"}]}, "found codec 'pickle', expected one of .*run code"),
        (2, {"compressor": {"id": "pickle"}}, "found codec 'pickle'"),
        (3, {"codecs": ["bytes", {"name": "numcodecs.pickle"}]}, "found codec 'numcodecs.pickle'"),
        (3, sharded(["bytes", "numcodecs.pickle"]), "found codec 'numcodecs.pickle'"),
        (3, sharded(["sharding_indexed"]), "shards within shards"),
        (3, {"storage_transformers": [{"name": "x"}]}, "storage transformers"),
        (2, {"dtype": "|O"}, "found no metadata of an array"),
        (2, {"dtype": [["a", "<f8"]], "fill_value": None}, "found data type .*no objects"),
        (2, {"dtype": "<M8[s]", "fill_value": 0}, r"found data type datetime64\[s\]"),
        (3, {"codecs": 3}, "found no metadata of an array"),
        (3, {"attributes": "x" * LARGEST_METADATA}, "bytes of metadata, expected at most 1048576"),
    ],
)
def test_what_is_no_array_of_numbers_of_a_bounded_size_is_refused(
    metadata, tmp_path, version, changes, message
):
    file = tmp_path / "signal" / {2: ".zarray", 3: "zarr.json"}[version]
    file.parent.mkdir()
    file.write_text(json.dumps(metadata[version] | changes))
    with pytest.raises(ArtifactError, match=f"^signal/{file.name}: .*{message}"):
        require_plain(tmp_path, 1000, 10)


@pytest.mark.parametrize(("dtype", "size"), [(str, 16), ("U4", 16), ("int8", 8)])
@pytest.mark.filterwarnings("ignore:The data type")
def test_texts_and_lines_count_with_their_size(tmp_path, dtype, size):
    for name in "ab":
        zarr.create_array(tmp_path / name, shape=20, chunks=20, dtype=dtype)
    require_plain(tmp_path, 20 * size, 1, most_of_lines=40 * size)
    for bounds in ((20 * size - 1, 1, 40 * size), (20 * size, 1, 40 * size - 1)):
        with pytest.raises(ArtifactError, match=r"found .* bytes of shape"):
            require_plain(tmp_path, *bounds)
    with pytest.raises(ArtifactError, match="found 1 chunks, expected at most 0"):
        require_plain(tmp_path, 20 * size, 0, 40 * size)


def test_links_and_pipes_are_no_own_files(tmp_path):
    require_plain(tmp_path, 1, 1)
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(ArtifactError, match="link: found a link, expected files and folders"):
        require_plain(tmp_path, 1, 1)
