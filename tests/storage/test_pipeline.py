import random

import pytest

from geonode.errors import ArtifactError
from geonode.storage.pipeline import Output, Record, fingerprint, outputs, records, size_of
from tests.storage.pipelines import OUTPUTS, by_dvc


def test_the_md5_of_a_file_and_of_a_folder_is_that_of_dvc(tmp_path):
    # a.b sorts before a/b as text and after it as parts; text with CR LF is taken as it is
    for name in ("tree/a/b", "tree/a.b", "tree/a b", "tree/ü/Z", "tree/ü/a"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode() + b"\r\n")
    (tmp_path / "tree/big").write_bytes(random.Random(0).randbytes(3_000_001))
    read = []
    found = fingerprint(tmp_path / "tree", read.append)
    assert found == {"md5": by_dvc(tmp_path / "tree"), "size": size_of(tmp_path / "tree"),
                     "nfiles": 6}  # fmt: skip
    assert sum(read) == found["size"] == 3_000_001 + 2 * 5 + sum(map(len, (
        b"tree/a/b", b"tree/a.b", b"tree/a b", "tree/ü/Z".encode(), "tree/ü/a".encode()
    )))  # fmt: skip
    single = tmp_path / "tree/a/b"
    assert fingerprint(single) == {"md5": by_dvc(single), "size": 10}


def test_what_cannot_be_read_is_named(tmp_path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/link").symlink_to(tmp_path / "nowhere")
    for path in (tmp_path / "tree", tmp_path / "absent"):
        with pytest.raises(ArtifactError, match=f"{path}: cannot be read"):
            fingerprint(path)


def test_outputs_are_in_the_order_of_the_file(made_once):
    found = outputs(made_once)
    assert [(output.path, output.stage) for output in found] == list(OUTPUTS.items())
    assert found[0] == Output("data/device.json", "probe", "Look around", "output", False)
    reads = {output.stage: output.inputs for output in found}
    assert (reads["read"], reads["solve"]) == ((), ("data/spectra.zarr",))
    assert {output.role for output in found} == {"output", "metrics", "plot"}
    assert [output.path for output in found if output.frozen] == ["data/aside.bin"]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("stages: [", "is no YAML"),
        ("stages: 3", "found no mapping of stages"),
        ("[]", "found no mapping of stages"),
        ("stages: {a: 3}", "found no mapping of stages"),
        ("stages: {a: {outs: 3}}", "'a': outs: found None"),
        ("stages: {a: {outs: [3]}}", "'a': outs: found None"),
        ("stages: {a: {outs: [{}]}}", "'a': outs: found None"),
        ("stages: {a: {metrics: ['data/${b.c}.json']}}", "'data/${b.c}.json'"),
        ("stages: {a: {foreach: [1, 2], do: {outs: [b]}}}", "stage 'a': found 'foreach'"),
        ("stages: {a: {wdir: b, outs: [c]}}", "stage 'a': found 'wdir'"),
    ],
)
def test_a_pipeline_that_cannot_be_understood_is_refused(tmp_path, text, part):
    (tmp_path / "dvc.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(ArtifactError) as caught:
        outputs(tmp_path)
    assert part in str(caught.value)
    assert str(tmp_path / "dvc.yaml") in str(caught.value)


def test_no_pipeline_and_no_lock(tmp_path):
    with pytest.raises(ArtifactError, match=r"found no dvc\.yaml"):
        outputs(tmp_path)
    with pytest.raises(ArtifactError, match=r"dvc\.lock: not found; run `dvc repro` first"):
        records(tmp_path)


def test_records_are_by_stage_and_path(tmp_path):
    text = "stages: {a: {outs: [{path: x, md5: '1', size: 2}]}, b: {deps: [{path: x, md5: '3'}]}}"
    (tmp_path / "dvc.lock").write_text(text, encoding="utf-8")
    assert records(tmp_path) == {
        "a": Record({"x": {"path": "x", "md5": "1", "size": 2}}, {}),
        "b": Record({}, {"x": {"path": "x", "md5": "3"}}),
    }


@pytest.mark.parametrize(
    "text", ["stages: {a: {outs: 3}}", "stages: {a: {outs: [3]}}", "stages: {a: {deps: [{b: c}]}}"]
)
def test_a_lock_that_dvc_has_not_written_is_refused(tmp_path, text):
    (tmp_path / "dvc.lock").write_text(text, encoding="utf-8")
    with pytest.raises(ArtifactError, match=r"dvc\.lock: found a stage that DVC has not written"):
        records(tmp_path)
