import json
import random

import pytest
from typer import Typer
from typer.testing import CliRunner

from benchmarks import chaos, corruption
from benchmarks.crash import killed_stages
from benchmarks.project import Bench, FaultRow, made, make, stage

RUN = ("probe", "generate", "spectra", "metric")


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """Two projects up to the metric."""
    folder = tmp_path_factory.mktemp("chaos")
    for seed, name in enumerate(("whole", "other")):
        make(folder / name, seed)
        for step in RUN:
            assert stage(folder / name, step).finish()[0] == 0
    return Bench.of(folder, {"spectra": 0.2, "metric": 1.5})


@pytest.mark.slow
def test_killed_stages_end_in_the_same_bytes(bench, monkeypatch):
    monkeypatch.setattr("benchmarks.crash.STAGES", ("spectra", "metric"))
    spectra, metric = killed_stages(bench, 4)
    assert (spectra.trials, metric.trials) == (2, 2)
    assert spectra.problems == metric.problems == ()
    assert bench.differing() == ""


@pytest.mark.slow
def test_what_is_torn_or_different_is_seen(bench):
    bench.give("metric", bench.other)
    assert bench.torn("metric") == ""
    assert "data/metric.safetensors" in bench.differing()
    with (bench.work / "data/metric.safetensors").open("ab") as stream:
        stream.write(b"\0")
    assert bench.torn("metric").startswith("metric: data/metric.safetensors is neither")
    bench.restore()
    scratch = bench.work / "data/.spectra.zarr.geonode"
    scratch.mkdir()
    (bench.work / "data/spectra.zarr").rename(scratch / "old")
    assert bench.torn("spectra") == ""
    assert "data/.spectra.zarr.geonode/old" in bench.differing()
    (scratch / "old").rename(bench.work / "data/spectra.zarr")
    scratch.rmdir()
    assert bench.differing() == ""


@pytest.mark.slow
def test_a_reader_that_says_nothing_is_counted(bench, monkeypatch):
    file = bench.work / "data/spectra.zarr/signal/c/0/0"
    before = made(bench.work)
    for damage in (corruption.flip, corruption.cut, corruption.empty, corruption.remove):
        assert corruption._unreported(bench, "data/spectra.zarr", file, damage) == ""
    assert made(bench.work) == before
    deaf = corruption.Reader("metric", lambda root: None)
    monkeypatch.setitem(corruption.READERS, "data/spectra.zarr", deaf)
    found = corruption._unreported(bench, "data/spectra.zarr", file, corruption.flip)
    assert found.endswith("the reader says nothing")
    monkeypatch.setattr(corruption, "verify", lambda root: iter(()))
    found = corruption._unreported(bench, "data/spectra.zarr", file, corruption.flip)
    assert found.endswith("verify found None")
    assert made(bench.work) == before


@pytest.mark.slow
def test_an_artifact_of_another_run_that_nobody_tells_of_is_counted(bench, monkeypatch):
    read = (corruption.SPECTRA, corruption.METRIC)
    monkeypatch.setattr(corruption, "TOGETHER", {"christoffel": read})
    row = corruption.of_another_run(bench)
    assert (row.trials, row.problems) == (2, ())
    monkeypatch.setattr(corruption, "TOGETHER", {"metric": read[:1]})  # and nothing else
    message, differing = corruption.of_another_run(bench).problems
    assert message.startswith("metric: status 0 of data/spectra.zarr")
    assert "data/metric.safetensors" in differing
    monkeypatch.setattr(corruption, "verify", lambda root: iter(()))
    monkeypatch.setattr(corruption, "TOGETHER", {"christoffel": read[:1]})
    assert corruption.of_another_run(bench).problems == ("data/spectra.zarr: verify found []",)
    assert bench.differing() == ""


@pytest.mark.parametrize(("problems", "status"), [((), 0), (("gone",), 1)])
def test_what_is_lost_is_in_the_table_and_ends_with_an_error(
    problems, status, monkeypatch, tmp_path
):
    def rows(folder):
        yield FaultRow("fault", "a hammer", 3, problems, "noted")

    monkeypatch.setattr(chaos, "rows", rows)
    application = Typer()
    application.command()(chaos.main)
    result = CliRunner().invoke(application, ["--out", str(tmp_path / "chaos.json")])
    assert result.exit_code == status
    lost = len(problems)
    assert f"| fault | a hammer | 3 | {3 - lost} | {lost} | noted |" in result.stdout
    assert ("lost: gone" in result.stderr) == bool(problems)
    (line,) = json.loads((tmp_path / "chaos.json").read_text(encoding="utf-8"))["faults"]
    assert (line["survived"], line["lost"], line["problems"]) == (3 - lost, lost, list(problems))


def test_damages_damage(tmp_path):
    bench = Bench(tmp_path / "whole", tmp_path / "other", tmp_path, {}, {}, random.Random(0))
    (tmp_path / "other").mkdir()
    (tmp_path / "other/file").write_bytes(b"other")
    file, content = tmp_path / "file", bytes(range(100))

    def bits(found):
        return sum((one ^ two).bit_count() for one, two in zip(found, content, strict=True))

    for damage, expected in (
        (corruption.flip, lambda found: bits(found) == 1),
        (corruption.cut, lambda found: content.startswith(found) and 0 < len(found) < 100),
        (corruption.empty, lambda found: found == b""),
        (corruption.exchange, lambda found: found == b"other"),
    ):
        file.write_bytes(content)
        damage(bench, file)
        assert expected(file.read_bytes())
    corruption.remove(bench, file)
    assert not file.exists()
