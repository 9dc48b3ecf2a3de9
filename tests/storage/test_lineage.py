import json
import shutil

import numpy as np
import pytest
import torch

from geonode.errors import ArtifactError, CorruptArtifactError, MissingArtifactError
from geonode.storage import lineage
from geonode.storage.artifact_writer import artifact_writer
from geonode.storage.lineage import consistent_artifacts, read_seal
from geonode.storage.weights import write_weights
from tests.storage.damage import cut

NAMES = ("spectra.zarr", "metric.safetensors", "solved.zarr")


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
def chain(folder):
    """Three artifacts, each made from all before it."""
    return [folder / name for name in NAMES]


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
        f"{made}: found that it was made from spectra.zarr of checksum {found}, expected "
        f"{expected} of {chain[0]}; one of the two is of another run: run `dvc repro`"
    )
    assert type(caught.value) is ArtifactError


def test_every_artifact_before_it_counts_and_no_other(chain):
    write(chain[1], value=2.0, made_from={NAMES[0]: read_seal(chain[0]).checksum})
    with consistent_artifacts(*chain[:2]), consistent_artifacts(chain[0], chain[2]):
        pass
    for paths in (chain, chain[1:]):
        match = r"solved\.zarr: .* made from metric\.safetensors"
        with pytest.raises(ArtifactError, match=match), consistent_artifacts(*paths):
            pass


@pytest.mark.parametrize("place", range(3))
def test_what_is_replaced_while_it_is_read_is_refused(chain, place):
    match = f"{chain[place].name}: was replaced by another while"
    with pytest.raises(ArtifactError, match=match), consistent_artifacts(*chain):
        write(chain[place], value=3.0, made_from=read_seal(chain[place]).made_from)
    with pytest.raises(ZeroDivisionError), consistent_artifacts(chain[place]):
        write(chain[place], value=4.0)
        raise ZeroDivisionError  # an error of the reader is that error


@pytest.mark.parametrize("made_from", [[], "[", {"spectra.zarr": 3}, None, "[" * 9999])
@pytest.mark.parametrize("name", NAMES[:2])
def test_a_sealed_record_that_is_none_is_refused(tmp_path, name, made_from):
    path = write(tmp_path / name, made_from=made_from)
    with pytest.raises(CorruptArtifactError, match=f"{name}: .* not name what it was made from"):
        read_seal(path)


def test_what_is_damaged_silent_or_absent_is_told(chain):
    def refused(error, match):
        with pytest.raises(error, match=match), consistent_artifacts(*chain):
            pytest.fail("it is read")

    write(chain[1])
    refused(ArtifactError, r"from spectra\.zarr of checksum none, expected")
    chain[1].unlink()
    refused(MissingArtifactError, r"metric\.safetensors: not found")
    cut(chain[0] / "zarr.json")
    refused(CorruptArtifactError, r"spectra\.zarr.*fails its checksum")


def test_the_digest_of_the_code_is_of_every_byte(tmp_path, monkeypatch):
    code = shutil.copytree(lineage.PACKAGE, tmp_path / "geonode")
    monkeypatch.setattr(lineage, "PACKAGE", code)
    found = [lineage.code_digest.__wrapped__()]
    for change in ("evaluation/panel.py", "posterior/prior.safetensors"):
        with (code / change).open("ab") as file:
            file.write(b" ")
        found.append(lineage.code_digest.__wrapped__())
    (code / "evaluation/panel.py").rename(code / "evaluation/other.py")
    found.append(lineage.code_digest.__wrapped__())
    assert len(set(found)) == 4
