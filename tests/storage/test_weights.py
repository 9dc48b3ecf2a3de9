import json

import pytest
import safetensors
import torch

from geonode.errors import ArtifactError, CorruptArtifactError
from geonode.storage.seal import UNSEALED, WEIGHTS_AT, seal
from geonode.storage.weights import read_weights, write_weights
from tests.storage.damage import assert_damage_is_found

METADATA = {"text": 'a "checksum":"00000000" µ', **{letter: letter for letter in "abcdefg"}}
NAN = b"\0\0\xc0\x7f"


def tensors():
    generator = torch.Generator().manual_seed(0)
    batch = torch.randn(2, 3, 5, generator=generator)
    return {
        "weight": batch,
        "slice": batch[0],
        "transposed": batch.transpose(0, 2),
        "double": torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True),
        "scalar": torch.tensor(0.25),
        "count": torch.tensor([1, 2, 3]),
        "half": torch.ones(3, dtype=torch.bfloat16),
        "none": torch.zeros(0, 2),
    }


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "data" / "metric.safetensors"
    write_weights(path, tensors(), METADATA)
    return path


def test_round_trip(file):
    read, metadata = read_weights(file)
    assert list(metadata.items()) == list(METADATA.items())
    assert read.keys() == tensors().keys()
    for name, tensor in tensors().items():
        assert read[name].is_contiguous()
        torch.testing.assert_close(read[name], tensor.detach(), rtol=0, atol=0)
    # safetensors itself orders metadata by a hash that is seeded anew for every map
    before = file.read_bytes()
    for _ in range(5):
        write_weights(file, tensors(), METADATA)
        assert file.read_bytes() == before


def test_the_file_is_plain_safetensors_with_aligned_data(file):
    with safetensors.safe_open(file, framework="pt") as plain:
        assert plain.metadata().keys() == {"checksum", *METADATA}
        assert torch.equal(plain.get_tensor("weight"), tensors()["weight"])
    for text in ("", "a"):  # without padding one of the two would be aligned at most
        write_weights(file, tensors(), {"text": text})
        assert int.from_bytes(file.read_bytes()[:8], "little") % 8 == 0


def test_a_flipped_bit_in_any_byte_and_another_length_are_found(file):
    write_weights(file, {"weight": torch.arange(6.0)}, METADATA)
    assert_damage_is_found(file, read_weights)
    assert torch.equal(read_weights(file)[0]["weight"], torch.arange(6.0))


def tensor(size):
    return {"a": {"dtype": "F32", "shape": [size], "data_offsets": [0, 4 * size]}}


@pytest.mark.parametrize(
    ("header", "data", "message"),
    [
        (tensor(2), bytes(4) + NAN, "array 'a': contains NaN or infinity"),
        ({"a": 3}, bytes(8), "contains no tensors"),
        (tensor(3), bytes(8), "contains no tensors"),
    ],
)
def test_what_holds_no_finite_tensors_is_refused_though_sealed(file, header, data, message):
    text = json.dumps({"__metadata__": {"checksum": UNSEALED}} | header).replace(" ", "")
    content = len(text).to_bytes(8, "little") + text.encode() + data
    file.write_bytes(seal(content, WEIGHTS_AT))
    with pytest.raises(CorruptArtifactError, match=message):
        read_weights(file)


@pytest.mark.parametrize(
    ("value", "metadata", "message"),
    [
        (float("nan"), {}, r"metric\.safetensors: tensor 'bad': contains NaN"),
        (float("inf"), {}, r"metric\.safetensors: tensor 'bad': contains NaN"),
        (1.0, {"checksum": "00000000"}, "metadata 'checksum' is taken by the seal"),
    ],
)
def test_what_cannot_be_sealed_is_refused_and_the_older_file_kept(file, value, metadata, message):
    before = file.read_bytes()
    with pytest.raises(ArtifactError, match=message):
        write_weights(file, {"good": torch.ones(2), "bad": torch.tensor([1.0, value])}, metadata)
    assert file.read_bytes() == before
