"""Ablation of the learning on every series of a folder. Frozen, as it takes long."""

from geonode.config import Parameters
from stages.command import progress, stage
from stages.paths import DEVICE, METRICS

SIMULATED_LEVELS = (4, 5, 6, 8, 12)
SEED = 2000  # of the simulated series, different from those behind the prior


@stage("ablation", also=("memory_mb",))
def app(parameters: Parameters) -> str:
    """Score posterior, blend and published method, whole and in parts, on every series."""
    from functools import partial
    from pathlib import Path

    from geonode.compute.device import Device
    from geonode.compute.processes import finished, processes_for
    from geonode.evaluation import ablation
    from geonode.evaluation.ablation_table import paired_csv, rows_csv
    from geonode.spectra.folder import parameters_of_folder
    from geonode.spectra.series import read_series_csv
    from geonode.storage.document import read_document, write_text

    block = parameters.ablation
    device = Device.from_description(read_document(DEVICE), parameters.memory_mb)
    found = {
        name: read_series_csv(own)
        for name, own in parameters_of_folder(Path(block.folder), parameters.spectra).items()
    }
    jobs = [
        partial(ablation.simulated, levels, block.simulated, SEED) for levels in SIMULATED_LEVELS
    ]
    for score in (ablation.posteriors, ablation.baselines):
        jobs += [partial(score, *named) for named in found.items()]
    processes = processes_for(len(jobs) + len(found) * len(block.seeds), device.kind)
    shared = device.shared(processes)
    jobs += [
        partial(ablation.networks, *named, parameters.seeded(seed), shared)
        for seed in block.seeds
        for named in found.items()
    ]
    rows = []
    with progress("ablation", len(jobs)) as report:
        for _, of_job in finished(ablation.rows_of, jobs, processes, report):
            rows += of_job
    rows.sort(key=lambda row: (row.origin, row.series, row.seed, row.predictor))
    write_text(METRICS / "ablation.csv", rows_csv(rows))
    write_text(METRICS / "ablation_tests.csv", paired_csv(rows))
    return f"{len(rows)} rows of {len(found)} series -> {METRICS / 'ablation.csv'}"


if __name__ == "__main__":
    app()
