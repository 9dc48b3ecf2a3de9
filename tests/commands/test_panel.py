import pandas as pd
import pytest

from geonode.evaluation import panel
from geonode.evaluation.baselines import BASELINES
from geonode.evaluation.evaluate import Learned
from tests.commands.calling import call
from tests.evaluation.test_panel import TINY, write_series
from tests.stages.conftest import assert_refused
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


@pytest.mark.slow
def test_a_folder_is_scored_by_several_processes(project):
    result = call("panel", "series", "--out", "out.csv", status=0)
    rmse = pd.read_csv(project / "out.csv", index_col=["series", "method"]).rmse
    assert {series for series, _ in rmse.index} == {"a", "b"}
    *lines, last = result.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["series", "a", "b"]
    best = (min(rmse[name, one] for one in BASELINES) for name in "ab")
    ratios = [rmse[name, "geonode"] / one for name, one in zip("ab", best, strict=True)]
    assert float(last.split()[-1]) == pytest.approx((ratios[0] * ratios[1]) ** 0.5, rel=1e-3)
    # Of several processes either may be the first to end.
    assert sorted(result.stderr.splitlines()) == ["a: scored", "b: scored"]


@pytest.fixture
def quick(monkeypatch):
    """Scoring in this process by a fixed row; the parameters of every series."""
    calls = []

    def score(job, report):
        if isinstance(job.method, Learned):
            calls.append(job.method.parameters)
            return [{"series": job.name, "method": "geonode", "rmse": 1.0}]
        return [{"series": job.name, "method": "mean", "rmse": 2.0}]

    monkeypatch.setattr(panel, "rows_or_error", score)
    monkeypatch.setattr("geonode.compute.processes.processes_for", lambda *_: 1)
    return calls


def test_options_stand_in_for_the_file(project, quick):
    write_parameters(project / "other.yaml", TINY | {"device": "auto", "preset": "thorough"})
    options = ["--params", "other.yaml", "--preset", "fast", "--device", "cpu"]
    call("panel", "series", "--out", "out.csv", *options, status=0)
    assert {(p.device, p.preset, p.metric.learning) for p in quick} == {("cpu", "fast", "flat")}


def test_a_bad_series_among_good_ones_is_named_and_ends_in_status_1(project, quick):
    write_series(project / "series/few.csv", levels=2)
    result = call("panel", "series", "--out", "out.csv", status=1)
    assert len(quick) == 2
    told = result.stderr.splitlines()
    assert told[0].startswith("few: series/few.csv: found 2 concentrations")
    assert told[-1] == "error: 1 of 3 series have no scores: few"
    table = pd.read_csv(project / "out.csv", index_col="series")
    error = table.error["few"]
    assert error in told[0]
    assert result.stdout.splitlines()[-1].endswith(": 0.5")
    again = call("--quiet", "panel", "series", "--out", "out.csv", "--overwrite")
    assert (again.exit_code, again.stderr) == (1, "error: 1 of 3 series have no scores: few\n")


def test_a_table_that_cannot_be_written_is_refused_before_anything_is_scored(project, quick):
    assert_refused(call("panel", "series", "--out", "params.yaml/out.csv"), "params.yaml")
    assert not quick
