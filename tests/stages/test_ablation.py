"""Jobs and tables of the ablation, without any learning."""

from geonode.compute.device import resolve
from geonode.evaluation import ablation
from geonode.parameters_file import read_parameters
from geonode.storage.document import write_document
from stages.paths import DEVICE, METRICS
from tests.evaluation.test_panel import write_series


def test_every_series_is_scored_by_all_and_the_networks_with_every_seed(run, project, monkeypatch):
    jobs = []

    def rows_of(job, report):
        jobs.append((job.func.__name__, job.args[0]))
        seed = job.args[2].metric.seed if job.func is ablation.networks else 0
        score, name = jobs[-1]
        return [ablation.AblationRow(ablation.MEASURED, str(name), seed, score, 1.0, None, None)]

    monkeypatch.setattr(ablation, "rows_of", rows_of)
    monkeypatch.setattr("geonode.compute.processes.processes_for", lambda *_: 1)
    precision = read_parameters(project / "params.yaml").precision
    write_document(DEVICE, resolve("cpu", precision).describe())
    (project / "series").mkdir()
    for name in ("a", "b"):
        write_series(project / f"series/{name}.csv")
    result = run("ablation", "--folder", "series", "--seeds", "[0, 1]")
    assert result.exit_code == 0, result.output
    of_series = [(score, name) for score in ("posteriors", "baselines") for name in "ab"]
    networks = [("networks", name) for name in "ab"] * 2
    simulated = [("simulated", levels) for levels in (4, 5, 6, 8, 12)]
    assert sorted(map(str, jobs)) == sorted(map(str, of_series + networks + simulated))
    table = (METRICS / "ablation.csv").read_text(encoding="utf-8").splitlines()
    assert len(table) == 1 + len(jobs)
    assert "measured,a,1,networks,1.0,," in table
