import json

import numpy as np
import pytest
import torch

from geonode.errors import ArtifactError, CorruptArtifactError, MissingArtifactError
from geonode.storage.artifact import open_artifact
from geonode.storage.artifact_writer import artifact_writer
from geonode.storage.lineage import Seal, consistent_artifacts, read_seal, strangers
from geonode.storage.weights import read_weights, write_weights
from tests.storage.damage import cut

NAMES = ("a.zarr", "b.safetensors", "c.zarr")


def write(path, value=1.0, **attributes):
    """An artifact of one array."""
    if path.suffix == ".safetensors":
        texts = {name: json.dumps(content) for name, content in attributes.items()}
        write_weights(path, {"x": torch.full((3,), value)}, texts)
    else:
        with artifact_writer(path, attributes) as writer:
            writer.stored("x", ("n",), np.full(3, value), units="1", long_name="x")
    return path


@pytest.fixture
def chain(tmp_path):
    """Three artifacts, each made from all before it."""
    paths = []
    for name in NAMES:
        with consistent_artifacts(*paths) as made_from:
            paths.append(write(tmp_path / name, made_from=made_from))
    return paths


@pytest.mark.parametrize("name", NAMES[:2])
def test_the_same_content_has_the_same_checksum_and_any_other_one_another(tmp_path, name):
    def known(folder, **content):
        (tmp_path / folder).mkdir(exist_ok=True)
        return read_seal(write(tmp_path / folder / name, **content)).checksum

    assert known("one") == known("two") == known("one")
    of_contents = [known("one", value=1.0 + place) for place in range(20)]
    of_records = [known("one", made_from={"a": str(place)}) for place in range(20)]
    assert len({*of_contents, *of_records}) == 40
    assert all(len(bytes.fromhex(checksum)) == 4 for checksum in of_contents)


def test_the_checksum_is_the_one_that_the_seal_shows(chain):
    attributes = json.loads((chain[0] / "zarr.json").read_text(encoding="utf-8"))["attributes"]
    header = chain[1].read_bytes()
    assert read_seal(chain[0]) == Seal(attributes["checksum"], {})
    assert f'"checksum":"{read_seal(chain[1]).checksum}"'.encode() in header
    assert open_artifact(chain[2]).attributes == {
        "made_from": {path.name: read_seal(path).checksum for path in chain[:2]}
    }
    assert "checksum" not in read_weights(chain[1])[1]


def test_what_belongs_together_is_told_by_file_name(chain):
    with consistent_artifacts(*chain) as made_from:
        assert made_from == {path.name: read_seal(path).checksum for path in chain}
    with consistent_artifacts(chain[0], chain[2]) as made_from:
        assert list(made_from) == ["a.zarr", "c.zarr"]
    with consistent_artifacts(chain[2]) as made_from:
        assert list(made_from) == ["c.zarr"]


@pytest.mark.parametrize("place", range(3))
def test_one_of_another_run_is_told_with_both_files_and_checksums(chain, place):
    """Each is told by those after it; the last one by what it says of itself."""
    content = {} if place == 0 else {"made_from": dict.fromkeys(NAMES[:2], "01234567")}
    kept = read_seal(chain[0]).checksum
    write(chain[place], value=2.0, **content)
    expected = read_seal(chain[0]).checksum
    found = kept if place == 0 else "01234567"
    made = chain[max(place, 1)]
    with pytest.raises(ArtifactError) as caught, consistent_artifacts(*chain):
        pytest.fail("it is read")
    assert str(caught.value) == (
        f"{made}: found that it was made from a.zarr of checksum {found}, expected {expected} of "
        f"{chain[0]}; one of the two is of another run: run `dvc repro`"
    )
    assert type(caught.value) is ArtifactError


def test_every_artifact_before_it_counts_and_no_other(chain):
    write(chain[1], value=2.0, made_from={"a.zarr": read_seal(chain[0]).checksum})
    with consistent_artifacts(*chain[:2]), consistent_artifacts(chain[0], chain[2]):
        pass
    for paths in (chain, chain[1:]):
        match = r"c\.zarr: .* made from b\.safetensors"
        with pytest.raises(ArtifactError, match=match), consistent_artifacts(*paths):
            pass


def test_what_does_not_say_what_it_was_made_from_is_refused(chain):
    write(chain[1])
    match = r"from a\.zarr of checksum none, expected"
    with pytest.raises(ArtifactError, match=match), consistent_artifacts(*chain):
        pass


def test_every_stranger_is_told(chain):
    seals = {path: read_seal(path) for path in chain}
    assert not list(strangers(chain[2], chain[:2], seals))
    seals[chain[2]] = Seal("00000000", {})
    assert [str(chain[2]) in line for line in strangers(chain[2], chain[:2], seals)] == [True] * 2


@pytest.mark.parametrize("place", range(3))
def test_what_is_replaced_while_it_is_read_is_refused(chain, place):
    match = f"{chain[place].name}: was replaced by another while"
    with pytest.raises(ArtifactError, match=match), consistent_artifacts(*chain):
        write(chain[place], value=3.0, made_from=read_seal(chain[place]).made_from)


def test_an_error_while_they_are_read_is_that_error(chain):
    with pytest.raises(ZeroDivisionError), consistent_artifacts(*chain):
        write(chain[0], value=3.0)
        raise ZeroDivisionError


@pytest.mark.parametrize("made_from", [[], 3, "[", {"a.zarr": 3}, None, "[" * 9999])
@pytest.mark.parametrize("name", NAMES[:2])
def test_a_sealed_record_that_is_none_is_refused(tmp_path, name, made_from):
    path = write(tmp_path / name, made_from=made_from)
    with pytest.raises(CorruptArtifactError, match="does not say what it was made from") as caught:
        read_seal(path)
    assert name in str(caught.value)


@pytest.mark.parametrize("file", ["a.zarr/zarr.json", "b.safetensors"])
def test_a_damaged_seal_is_damage_and_no_mismatch(chain, file):
    cut(chain[0].parent / file)
    with (
        pytest.raises(CorruptArtifactError, match="fails its checksum"),
        consistent_artifacts(*chain),
    ):
        pass


def test_one_that_is_absent_is_told(chain):
    chain[1].unlink()
    with (
        pytest.raises(MissingArtifactError, match=r"b\.safetensors: not found"),
        consistent_artifacts(*chain),
    ):
        pass
