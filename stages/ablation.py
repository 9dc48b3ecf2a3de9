"""What every part of the learning buys, on every series of a folder. Frozen: it takes long."""

from geonode.config import Parameters
from geonode.errors import ParameterError
from stages.command import progress, stage
from stages.paths import DEVICE, METRICS


@stage("ablation")
def app(parameters: Parameters) -> str:
    """Score every metric learning, chart, predictor and ensemble on every series of a folder."""
    from pathlib import Path

    from geonode.devices.device import Device
    from geonode.evaluation.ablation import GEOMETRIES, ablate, baselines, steps
    from geonode.evaluation.ablation_table import paired_csv, rows_csv
    from geonode.evaluation.baselines import BASELINES
    from geonode.spectra.folder import parameters_of_folder
    from geonode.spectra.series import read_series_csv
    from geonode.storage.document import read_document, write_text

    block = parameters.ablation
    device = Device.from_description(read_document(DEVICE))
    members = sorted(block.members)
    if parameters.decoders.members not in members:
        expected = f"decoders.members, {parameters.decoders.members}, among them"
        raise ParameterError("parameters", "ablation.members", members, expected)
    common = parameters.spectra
    found = {
        name: read_series_csv(own)
        for name, own in parameters_of_folder(Path(block.folder), common).items()
    }
    rows = []
    total = sum(
        len(BASELINES)
        + len(series.concentrations)
        + len(block.seeds) * len(GEOMETRIES) * steps(series, members[-1], parameters, device)
        for series in found.values()
    )
    with progress("ablation", total) as report:
        for name, series in found.items():
            rows += baselines(name, series, report)
            for seed in block.seeds:
                for geometry in GEOMETRIES:
                    rows += ablate(
                        name, series, geometry, parameters.seeded(seed), members, device, report
                    )
    write_text(METRICS / "ablation.csv", rows_csv(rows))
    write_text(
        METRICS / "ablation_tests.csv", paired_csv(rows, parameters.decoders.members, members[-1])
    )
    return f"{len(rows)} rows of {len(found)} series -> {METRICS / 'ablation.csv'}"


if __name__ == "__main__":
    app()
