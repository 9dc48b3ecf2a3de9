import json

import numpy as np
import pytest
import zarr

from geonode.errors import ArtifactError
from geonode.storage.zarr_metadata import LARGEST_FILE, require_own_files, require_plain


def chunks(*shape):
    return {"name": "regular", "configuration": {"chunk_shape": shape}}


def sharded(inner, chunk=(2, 2)):
    parts = {"chunk_shape": chunk, "codecs": inner, "index_codecs": ["crc32c"]}
    return {"codecs": [{"name": "sharding_indexed", "configuration": parts}]}


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
        (3, sharded(["bytes"], (10**6, 10**6)), r"8e\+12 bytes"),
        (3, {"shape": [100, 4], "chunk_grid": chunks(1, 4)}, "100 chunks, expected at most 10"),
        (2, {"shape": [10**9, 4]}, r"5e\+08 chunks, expected at most 10"),
        (3, {"shape": [-1, 4]}, r"found shape \[-1, 4\] in chunks of"),
        (3, {"chunk_grid": chunks(0, 4)}, "found shape .* in chunks of"),
        (3, {"chunk_grid": {"name": "rectangular"}}, "irregular grid of chunks"),
        (2, {"filters": [{"id": "pickle"}]}, "found codec 'pickle', expected one of .*run code"),
        (2, {"compressor": {"id": "pickle"}}, "found codec 'pickle'"),
        (3, {"codecs": ["bytes", {"name": "numcodecs.pickle"}]}, "found codec 'numcodecs.pickle'"),
        (3, sharded(["bytes", "numcodecs.pickle"]), "found codec 'numcodecs.pickle'"),
        (3, sharded(["sharding_indexed"]), "shards within shards"),
        (3, {"storage_transformers": [{"name": "x"}]}, "storage transformers"),
        (2, {"dtype": "|O"}, r"found data type '\|O', expected numbers or texts, no objects"),
        (2, {"dtype": [["a", "<f8"]]}, "found data type .*no objects"),
        (3, {"data_type": "r64"}, "found data type 'r64'"),
        (3, {"data_type": {"name": "struct"}}, "found data type 'struct'"),
        (3, {"shape": None}, "found no metadata of an array"),
        (3, {"codecs": 3}, "found no metadata of an array"),
        (3, {"attributes": "x" * LARGEST_FILE}, "bytes of metadata, expected at most 1048576"),
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


@pytest.mark.parametrize("kind", ["string", {"name": "fixed_length_utf32"}])
def test_texts_and_lines_count_with_their_size(metadata, tmp_path, kind):
    if isinstance(kind, dict):
        kind = kind | {"configuration": {"length_bytes": 16}}
    line = metadata[3] | {"shape": [20], "chunk_grid": chunks(20), "data_type": kind}
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "zarr.json").write_text(json.dumps(line))
    require_plain(tmp_path, 320, 1, most_of_lines=640)
    for bounds in ((319, 1, 640), (320, 1, 639)):
        with pytest.raises(ArtifactError, match=r"found .* bytes of shape"):
            require_plain(tmp_path, *bounds)


def test_links_and_pipes_are_no_own_files(tmp_path):
    require_own_files(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(ArtifactError, match="link: found a link, expected files and folders"):
        require_own_files(tmp_path)
