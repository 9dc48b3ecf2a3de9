import shutil

import pytest

from benchmarks import chaos
from benchmarks.chaos import Bench

OUTPUTS = {"spectra": ["data/spectra.zarr"], "metric": ["data/metric.safetensors"]}


@pytest.fixture
def bench(tmp_path):
    """Two projects of two outputs, a folder and a file."""
    for name in ("whole", "other"):
        (tmp_path / name / "data/spectra.zarr").mkdir(parents=True)
        (tmp_path / name / "metrics").mkdir()
        (tmp_path / name / "data/spectra.zarr/signal").write_text(f"{name} signal")
        (tmp_path / name / "data/metric.safetensors").write_text(f"{name} metric")
    shutil.copytree(tmp_path / "whole", tmp_path / "work")
    folders = (tmp_path / name for name in ("whole", "other", "work"))
    return Bench(*folders, OUTPUTS)


def test_what_is_torn_or_different_is_seen(bench):
    bench.give("metric", bench.other)
    assert bench.torn("metric") == ""
    assert bench.differing() == "differing: data/metric.safetensors"
    with (bench.work / "data/metric.safetensors").open("ab") as stream:
        stream.write(b"\0")
    assert bench.torn("metric").startswith("metric: data/metric.safetensors is neither")
    bench.restore()
    scratch = bench.work / "data/.spectra.zarr.geonode"
    scratch.mkdir()
    (bench.work / "data/spectra.zarr").rename(scratch / "old")
    assert bench.torn("spectra") == ""
    assert "data/.spectra.zarr.geonode/old" in bench.differing()
    bench.restore()
    assert bench.differing() == ""


@pytest.mark.parametrize(("problem", "status"), [("", 0), ("gone", 1)])
def test_what_is_lost_is_in_the_table_and_ends_with_an_error(problem, status, monkeypatch, capsys):
    monkeypatch.setattr(chaos.Bench, "of", lambda folder: None)
    monkeypatch.setattr(chaos, "FAULTS", {"a hammer": lambda bench: iter(["", problem, ""])})
    with pytest.raises(SystemExit) as ended:
        chaos.main()
    assert ended.value.code == status
    said = capsys.readouterr()
    assert f"| a hammer | 3 | {3 - status} | {status} |" in said.out
    assert ("lost: gone" in said.err) == bool(problem)
