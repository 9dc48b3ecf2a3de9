"""Jobs and tables of the ablation, without any learning."""

import pandas as pd

import stages.ablation
from geonode.compute.device import resolve
from geonode.evaluation.evaluate import Job
from geonode.parameters_file import read_parameters
from geonode.storage.document import write_json
from stages.paths import DEVICE, METRICS
from tests.evaluation.test_panel import write_series


def test_every_series_is_scored_by_all_and_the_networks_with_every_seed(run, project, monkeypatch):
    jobs = []

    def rows(job, report):
        name = job.name if isinstance(job, Job) else str(job)
        method = (
            getattr(job.method, "__name__", "networks") if isinstance(job, Job) else "simulated"
        )
        seed = job.seed if isinstance(job, Job) else 0
        jobs.append((method, name, seed))
        origin = "measured" if isinstance(job, Job) else "simulated"
        return [{"origin": origin, "series": name, "method": method, "seed": seed, "rmse": 1 / 3}]

    monkeypatch.setattr(stages.ablation, "rows_of_job", rows)
    monkeypatch.setattr("geonode.compute.processes.processes_for", lambda *_: 1)
    precision = read_parameters(project / "params.yaml").precision
    write_json(DEVICE, resolve("cpu", precision).describe())
    (project / "series").mkdir()
    for name in ("a", "b"):
        write_series(project / f"series/{name}.csv")
    result = run("ablation", "--folder", "series", "--seeds", "[0, 1]")
    assert result.exit_code == 0, result.output
    expected = {(method, name, 0) for method in ("by_posteriors", "by_baselines") for name in "ab"}
    expected |= {("networks", name, seed) for name in "ab" for seed in (0, 1)}
    expected |= {("simulated", f"({levels}, 200)", 0) for levels in (4, 5, 6, 8, 12)}
    assert set(jobs) == expected
    assert len(jobs) == len(expected)
    table = pd.read_csv(METRICS / "ablation.csv")
    assert len(table) == len(jobs)
    assert set(table.rmse) == {1 / 3}


def test_measured_and_simulated_series_have_their_origin():
    (row, *_) = stages.ablation.rows_of_job((4, 1), None)
    assert (row["origin"], row["series"]) == ("simulated", "4 levels, 0")
