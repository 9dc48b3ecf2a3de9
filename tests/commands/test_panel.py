import json

import pytest

from geonode.errors import ArtifactError
from geonode.estimation import series_fit
from geonode.evaluation import panel
from tests.commands.calling import call
from tests.evaluation.test_panel import TINY, write_series
from tests.stages.conftest import assert_refused
from tests.storage.damage import contents
from tests.test_config import write_parameters


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A working folder with two series and tiny parameters."""
    (tmp_path / "series").mkdir()
    write_series(tmp_path / "series/a.csv", levels=4)
    write_series(tmp_path / "series/b.csv")
    write_parameters(tmp_path / "params.yaml", TINY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def quick(monkeypatch):
    """Scoring in this process without any learning; the parameters of every series."""
    calls = []

    def score(job, report):
        if job.part == "predictor":
            calls.append(job.parameters)
            return {"rmse": 1.0, "seconds": 0.0}
        return {"best_baseline": "mean", "best_baseline_rmse": 2.0, "chosen_baseline_rmse": None,
                "seconds": 0.0}  # fmt: skip

    monkeypatch.setattr(panel, "score_part", score)
    monkeypatch.setattr(panel, "processes_for", lambda *_: 1)
    return calls


@pytest.mark.slow
def test_a_folder_is_scored_and_left_alone_the_second_time(project, monkeypatch):
    first = call("panel", "series", "--out", "out.json")
    assert first.exit_code == 0, first.output
    series = json.loads((project / "out.json").read_text(encoding="utf-8"))["series"]
    assert list(series) == ["a", "b"]
    assert (series["a"]["skill"], series["a"]["levels"]) == (None, 4)
    assert 0 <= series["b"]["coverage90"] <= 1
    *lines, last = first.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["series", "a", "b"]
    ratios = [row["rmse"] / row["best_baseline_rmse"] for row in series.values()]
    assert float(last.split()[-1]) == pytest.approx((ratios[0] * ratios[1]) ** 0.5, rel=1e-3)
    # Of several processes either may be the first to end.
    assert sorted(line.split(" in ")[0] for line in first.stderr.splitlines()) == [
        "a: scored",
        "b: scored",
    ]

    before = (project / "out.json").read_bytes()
    monkeypatch.setattr(series_fit, "learn", None)  # nobody calls it
    second = call("panel", "series", "--out", "out.json")
    assert (second.exit_code, second.stdout) == (0, first.stdout)
    assert second.stderr.splitlines() == ["a: unchanged, skipped", "b: unchanged, skipped"]
    assert (project / "out.json").read_bytes() == before


def test_options_stand_in_for_the_file(project, quick):
    write_parameters(project / "other.yaml", TINY | {"device": "auto", "preset": "thorough"})
    options = ["--params", "other.yaml", "--preset", "fast", "--device", "cpu"]
    assert call("panel", "series", "--out", "out.csv", *options).exit_code == 0
    assert {(p.device, p.preset, p.metric.learning) for p in quick} == {("cpu", "fast", "flat")}


def test_a_bad_series_among_good_ones_is_named_and_ends_in_status_1(project, quick):
    write_series(project / "series/few.csv", levels=2)
    result = call("panel", "series", "--out", "out.json")
    assert result.exit_code == 1
    assert len(quick) == 2
    told = result.stderr.splitlines()
    assert told[0].startswith("few: series/few.csv: found 2 concentrations")
    assert told[-1] == "error: 1 of 3 series have no scores: few"
    series = json.loads((project / "out.json").read_text(encoding="utf-8"))["series"]
    assert series["few"]["error"] in told[0]
    assert result.stdout.splitlines()[-1].endswith(": 0.5")
    again = call("--quiet", "panel", "series", "--out", "out.json")  # has not gone away
    assert (again.exit_code, len(quick)) == (1, 2)
    assert again.stderr == "error: 1 of 3 series have no scores: few\n"


def test_what_cannot_begin_is_one_line_and_status_2(project, quick):
    (project / "empty").mkdir()
    write_parameters(project / "wrong.yaml", TINY | {"metric.epochs": -3})
    before = contents(project)
    for words, parts in (
        (["empty"], ["empty", "no file *.csv"]),
        (["series", "--params", "wrong.yaml"], ["wrong.yaml", "epochs", "-3"]),
    ):
        result = call("panel", *words, "--out", "out.json")
        assert_refused(result, "error: ", *parts)
        assert result.stdout == ""
    assert not quick
    assert contents(project) == before


@pytest.mark.parametrize("after", [0, 1])
def test_a_table_that_cannot_be_written_is_refused(project, quick, monkeypatch, after):
    """Before anything is scored, where it never could; else when it happens."""

    def full(path, content):
        if len(quick) >= after:
            raise ArtifactError(f"{path}: cannot be written: disk full")

    monkeypatch.setattr(panel, "write_bytes", full)
    result = call("panel", "series", "--out", "out.json")
    assert_refused(result, "out.json: cannot be written: disk full")
    assert len(quick) == after
