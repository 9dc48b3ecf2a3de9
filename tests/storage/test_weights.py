import pytest
import safetensors
import torch

from geonode.errors import ArtifactError, CorruptArtifactError, MissingArtifactError
from geonode.storage.weights import read_weights, write_weights
from tests.storage.damage import DAMAGES, flip_every_byte

METADATA = {"chart": "linear", "text": 'a "checksum":"00000000" µ', "members": "4"}


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
        assert read[name].dtype == tensor.dtype
        assert read[name].is_contiguous()
        assert torch.equal(read[name], tensor.detach())


def test_the_file_is_plain_safetensors_with_aligned_data(file):
    with safetensors.safe_open(file, framework="pt") as plain:
        assert plain.metadata().keys() == {"checksum", *METADATA}
        assert torch.equal(plain.get_tensor("weight"), tensors()["weight"])
    assert int.from_bytes(file.read_bytes()[:8], "little") % 8 == 0


def test_the_same_input_gives_the_same_bytes(tmp_path):
    # safetensors itself orders metadata by a hash that is seeded anew for every map
    metadata = {letter: letter for letter in "abcdefgh"}
    written = set()
    for _ in range(5):
        write_weights(tmp_path / "a.safetensors", tensors(), metadata)
        written.add((tmp_path / "a.safetensors").read_bytes())
    assert len(written) == 1


def test_a_flipped_bit_in_any_byte_is_found(tmp_path):
    file = tmp_path / "small.safetensors"
    write_weights(file, {"weight": torch.arange(6.0)}, METADATA)
    for offset in flip_every_byte(file):
        with pytest.raises(CorruptArtifactError):
            read_weights(file)
            pytest.fail(f"byte {offset}")
    assert torch.equal(read_weights(file)[0]["weight"], torch.arange(6.0))


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_of_another_length_is_found(file, damage):
    damage(file)
    with pytest.raises(CorruptArtifactError, match=r"metric\.safetensors"):
        read_weights(file)


def test_a_missing_file(tmp_path):
    with pytest.raises(MissingArtifactError):
        read_weights(tmp_path / "metric.safetensors")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_refused(file, value):
    before = file.read_bytes()
    with pytest.raises(ArtifactError, match=r"metric\.safetensors: tensor 'bad': holds NaN"):
        write_weights(file, {"good": torch.ones(2), "bad": torch.tensor([1.0, value])}, {})
    assert file.read_bytes() == before


def test_the_key_of_the_seal_is_refused(file):
    with pytest.raises(ArtifactError, match="metadata 'checksum' is taken by the seal"):
        write_weights(file, {}, {"checksum": "00000000"})
