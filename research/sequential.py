"""The pipeline against the method of the publication, one geodesic at a time.

`python -m research.sequential`, after `dvc repro`, writes metrics/sequential.json.
"""

from typing import Annotated

import typer

from geonode.compute.device import Device
from geonode.geometry.learned import LearnedMetrics
from geonode.parameters_file import read_parameters
from geonode.progress import bar
from geonode.spectra.series import read_series
from geonode.storage.document import write_json
from geonode.storage.lineage import consistent_artifacts
from geonode.storage.record import Record
from geonode.terminal import OneLineCommand, tell
from research.parity import MiddleFold
from research.published_method import published_calls
from stages.paths import DEVICE, METRIC, METRICS, PARAMETERS, PIPELINE, RECORDS, SPECTRA

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(cls=OneLineCommand)
def main(
    wavelengths: Annotated[
        int, typer.Option(min=1, help="At how many the sequential method runs one fold.")
    ] = 3,
) -> None:
    """Compare the pipeline with the sequential method."""
    parameters = read_parameters(PARAMETERS)
    device = Device.read(DEVICE, parameters.memory_mb)
    with consistent_artifacts(SPECTRA, METRIC):
        series, learned = read_series(SPECTRA), LearnedMetrics.read(METRIC)
    records = {name: Record.read(RECORDS / f"{name}.json") for name in PIPELINE}
    fold = MiddleFold.of(learned, series, device, parameters.decoders, wavelengths)
    with bar("timing the sequential method", len(fold.rows)) as report:
        walked, call = fold.walk(report)
    calls, seconds = published_calls(), sum(record.seconds for record in records.values())
    extrapolated = call.median * calls
    found = {
        "device": device.kind,
        "name": device.name,
        "pipeline": {
            "seconds": seconds,
            "speedup": extrapolated / seconds,
            "speedup_q25": call.q25 * calls / seconds,
            "speedup_q75": call.q75 * calls / seconds,
        },
        "sequential": {
            "metric_calls": calls,
            "sample_geodesics": len(fold.rows),
            "seconds_per_call": call._asdict(),
            "seconds_extrapolated": extrapolated,
            "days_extrapolated": extrapolated / 86400,
        },
        "parity": fold.parity(walked)._asdict(),
    }
    write_json(METRICS / "sequential.json", found)
    tell(
        f"pipeline {seconds:.1f} s, sequential method {extrapolated / 86400:.1f} days "
        f"(extrapolated): {extrapolated / seconds:,.0f} times faster"
    )


if __name__ == "__main__":
    app()
