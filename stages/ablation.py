"""Ablation of the learning on every series of a folder. Frozen, as it takes long."""

from geonode.config import Parameters
from stages.command import progress, stage
from stages.paths import DEVICE, METRICS

SIMULATED_LEVELS = (4, 5, 6, 8, 12)
SEED = 2000  # of the simulated series, different from those behind the prior


@stage("ablation")
def app(parameters: Parameters) -> str:
    """Score posterior, blend and published method, whole and in parts, on every series."""
    from pathlib import Path

    from geonode.devices.device import Device
    from geonode.evaluation.ablation import baselines, networks, posteriors, simulated
    from geonode.evaluation.ablation_table import paired_csv, rows_csv
    from geonode.spectra.folder import parameters_of_folder
    from geonode.spectra.series import read_series_csv
    from geonode.storage.document import read_document, write_text

    block = parameters.ablation
    device = Device.from_description(read_document(DEVICE))
    found = {
        name: read_series_csv(own)
        for name, own in parameters_of_folder(Path(block.folder), parameters.spectra).items()
    }
    rows = []
    total = len(found) * (2 + len(block.seeds)) + len(SIMULATED_LEVELS)
    with progress("ablation", total) as report:
        for levels in SIMULATED_LEVELS:
            rows += simulated(levels, block.simulated, SEED)
            report(1)
        for name, series in found.items():
            rows += posteriors(name, series)
            report(1)
            rows += baselines(name, series)
            report(1)
            for seed in block.seeds:
                rows += networks(name, series, parameters.seeded(seed), device)
                report(1)
    write_text(METRICS / "ablation.csv", rows_csv(rows))
    write_text(METRICS / "ablation_tests.csv", paired_csv(rows))
    return f"{len(rows)} rows of {len(found)} series -> {METRICS / 'ablation.csv'}"


if __name__ == "__main__":
    app()
