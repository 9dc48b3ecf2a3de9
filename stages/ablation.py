"""Ablation of the learning on every series of a folder. Frozen, as it takes long."""

from typing import TYPE_CHECKING, Any

from geonode.config import Parameters
from stages.command import progress, stage
from stages.paths import DEVICE, METRICS

if TYPE_CHECKING:
    from geonode.evaluation.evaluate import Job
    from geonode.progress import Progress

SIMULATED_LEVELS = (4, 5, 6, 8, 12)
SEED = 2000  # of the simulated series, different from those behind the prior


@stage("ablation", also=("memory_mb",))
def app(parameters: Parameters) -> str:
    """Score posterior, blend and published method, whole and in parts, on every series."""
    from pathlib import Path

    from geonode.compute.device import Device
    from geonode.compute.processes import finished, processes_for
    from geonode.evaluation.evaluate import Job, by_baselines
    from geonode.spectra.folder import parameters_of_folder
    from geonode.spectra.series import read_series_csv
    from geonode.storage.document import write_text
    from research.ablation import Networks, by_posteriors, comparisons, table_of

    block = parameters.ablation
    device = Device.read(DEVICE, parameters.memory_mb)
    found = {
        name: read_series_csv(own)
        for name, own in parameters_of_folder(Path(block.folder), parameters.spectra).items()
    }
    jobs: list[Job | tuple[int, int]] = [(levels, block.simulated) for levels in SIMULATED_LEVELS]
    jobs += [Job(*one, method) for method in (by_posteriors, by_baselines) for one in found.items()]
    processes = processes_for(len(jobs) + len(found) * len(block.seeds), device.kind)
    shared = device.shared(processes)
    jobs += [
        Job(*one, Networks(parameters.seeded(seed), shared), seed)
        for seed in block.seeds
        for one in found.items()
    ]
    rows = []
    with progress("ablation", len(jobs)) as report:
        for _, of_job in finished(rows_of_job, jobs, processes, lambda _: None):
            rows += of_job
            report(1)
    table = table_of(rows)
    for name, one in (("ablation", table), ("ablation_tests", comparisons(table))):
        text = one.to_csv(index=False, lineterminator="\n", na_rep="nan" if "p" in one else "")
        write_text(METRICS / f"{name}.csv", text)
    return f"{len(rows)} rows of {len(found)} series -> {METRICS / 'ablation.csv'}"


def rows_of_job(job: "Job | tuple[int, int]", report: "Progress") -> list[dict[str, Any]]:
    """Rows of a method on a measured series, or of so many simulated series of some levels."""
    from geonode.evaluation.evaluate import Job, rows_of
    from research.ablation import MEASURED, SIMULATED, simulated

    if isinstance(job, Job):
        return [row | {"origin": MEASURED} for row in rows_of(job, report)]
    return [row | {"origin": SIMULATED} for row in simulated(*job, SEED)]


if __name__ == "__main__":
    app()
