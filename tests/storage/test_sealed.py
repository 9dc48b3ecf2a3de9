"""A seal says that bytes are as they were written, not that they are right."""

import json

import pytest

from geonode.errors import CorruptArtifactError
from geonode.storage import document, weights
from geonode.storage.document import read_document
from geonode.storage.seal import UNSEALED, seal
from geonode.storage.weights import read_weights

NAN = b"\0\0\xc0\x7f"


def sealed_weights(header, data=b""):
    text = json.dumps({"__metadata__": {"checksum": UNSEALED}} | header).replace(" ", "")
    content = len(text).to_bytes(8, "little") + text.encode() + data
    return seal(content, weights._SEAL_AT)


def tensor(size):
    return {"a": {"dtype": "F32", "shape": [size], "data_offsets": [0, 4 * size]}}


def test_tensors_that_are_not_finite_are_refused_though_sealed(tmp_path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(sealed_weights(tensor(2), bytes(8)))
    assert read_weights(path)[0]["a"].tolist() == [0, 0]
    path.write_bytes(sealed_weights(tensor(2), bytes(4) + NAN))
    with pytest.raises(CorruptArtifactError, match="array 'a': holds NaN or infinity") as caught:
        read_weights(path)
    assert caught.value.array == "a"


@pytest.mark.parametrize(
    "header", [{"__metadata__": None}, {"a": 3}, tensor(3), {"__metadata__": 1}]
)
def test_a_header_that_is_none_is_refused_though_sealed(tmp_path, header):
    path = tmp_path / "a.safetensors"
    path.write_bytes(sealed_weights(header, bytes(8)))
    with pytest.raises(CorruptArtifactError):
        read_weights(path)


@pytest.mark.parametrize(
    "text", ["[", '["a"', '{"a": NaN', '{"a": 1e999', '{"a": -Infinity', "[" * 10**5, "\ud800"]
)
def test_a_document_that_is_no_object_of_finite_numbers_is_refused_though_sealed(tmp_path, text):
    path = tmp_path / "a.json"
    whole = f'{text},\n  "checksum": "{UNSEALED}"\n}}\n'
    path.write_bytes(seal(whole.encode("utf-8", "surrogatepass"), document._SEAL_AT))
    with pytest.raises(CorruptArtifactError, match="is sealed but holds no JSON object of finite"):
        read_document(path)
