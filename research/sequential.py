"""Pipeline and work of the publication against its method of one geodesic at a time.

`python -m research.sequential`, after `dvc repro`, writes metrics/sequential.json.
"""

import time
from typing import Annotated

import torch
import typer

from geonode.compute.device import Device, on_device
from geonode.config import Parameters
from geonode.errors import ArtifactError
from geonode.geometry.chebyshev import ChebyshevSource
from geonode.geometry.grid import uniform_nodes
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.metric import Metric
from geonode.geometry.problem import BoundaryValueProblem
from geonode.geometry.solvers.closed_form import ClosedForm
from geonode.learning.context import TrainingRun
from geonode.learning.end_to_end import EndToEnd
from geonode.learning.folds import leave_one_out
from geonode.learning.objective import fit
from geonode.parameters_file import read_parameters
from geonode.progress import bar
from geonode.spectra.series import read_series
from geonode.storage.document import write_json
from geonode.storage.lineage import consistent_artifacts
from geonode.storage.record import Record, conditions
from geonode.terminal import OneLineCommand, tell
from research.parity import MiddleFold
from research.published_method import EPOCHS, published_calls
from stages.paths import DEVICE, METRIC, METRICS, PARAMETERS, PIPELINE, RECORDS, SPECTRA
from stages.performance.kernels import Kernels

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(cls=OneLineCommand)
def main(
    wavelengths: Annotated[
        int, typer.Option(min=1, help="At how many the sequential method runs one fold.")
    ] = 3,
) -> None:
    """Compare the pipeline, and the work of the publication, with the sequential method."""
    parameters = read_parameters(PARAMETERS)
    device = Device.read(DEVICE, parameters.memory_mb)
    with consistent_artifacts(SPECTRA, METRIC):
        series, learned = read_series(SPECTRA), LearnedMetrics.read(METRIC)
    records = {name: Record.read(RECORDS / f"{name}.json") for name in PIPELINE}
    require_whole(records, parameters)
    kernels = Kernels(learned, series, device, parameters, parameters.benchmark.repeats)
    fold = MiddleFold.of(kernels, wavelengths)
    with bar("timing the sequential method", len(fold.rows)) as report:
        walked, call = fold.walk(report)
    with bar("timing the work of the publication", 1) as report:
        work = published_work(kernels)
        report(1)
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
        "published_work": {**work, "speedup": extrapolated / work["seconds"]},
    }
    write_json(METRICS / "sequential.json", found)
    tell(
        f"pipeline {seconds:.1f} s, sequential method {extrapolated / 86400:.1f} days "
        f"(extrapolated): {extrapolated / seconds:,.0f} times faster"
    )


def require_whole(records: dict[str, Record], parameters: Parameters) -> None:
    """Refuse records whose seconds cannot be compared.

    Raises:
        ArtifactError: a record is of a resumed run, or of another machine or engine.
    """
    here = conditions(parameters.engine.model_dump(mode="json"))
    for name, record in records.items():
        if not record.whole or record.conditions != here:
            found = "another machine or engine" if record.whole else "a resumed run"
            raise ArtifactError(
                f"{RECORDS / name}.json: found the record of {found}, expected one of a whole run "
                f"here; run `dvc repro --force --single-item {name}`"
            )


def published_work(kernels: Kernels) -> dict[str, float]:
    """Seconds of what the publication computes for every level left out and one member.

    Metrics are learned at all wavelengths in as many epochs as the publication's, every geodesic is
    solved on the grid with its features, and decoders take as many epochs as the metrics, each the
    median of some.
    """
    epoch, _, _ = kernels.epoch(*kernels.series.signal.shape)
    geometry, training = _geometry_of_folds(kernels), EPOCHS * epoch.median
    return {
        "geometry_seconds": geometry,
        "training_seconds": training,
        "seconds": geometry + training,
    }


def _geometry_of_folds(kernels: Kernels) -> float:
    """Seconds of metrics, grids and geodesics of `published_work`."""
    device, series, parameters = kernels.device, kernels.series, kernels.parameters
    levels, wide = series.signal.shape
    block = parameters.metric.model_copy(
        update={"members": 1, "epochs": EPOCHS, "wavelengths": wide}
    )
    run = TrainingRun(leave_one_out(levels)[:-1], 1, device)
    nodes = uniform_nodes(parameters.christoffel.resolution, device.place, device.geometry)
    wavelengths = on_device(series.wavelengths, device.place, device.geometry)
    charts = kernels.learned.positions(series.concentrations)[:-1]
    start = time.perf_counter()
    network, _ = fit(EndToEnd(series, charts, block), run)
    metrics = Metric(network.to(device.reference, torch.float64))
    source = ChebyshevSource.of(metrics, torch.from_numpy(series.wavelengths))
    for fold, stations in enumerate(on_device(charts, device.place, device.geometry)):
        form = ClosedForm(source.grid(fold, nodes))
        problem = BoundaryValueProblem.all_pairs(stations)
        solution = form.solve(problem, parameters.geodesics.tolerance)
        form.stations(stations, wavelengths).every_path(solution.v0)
    device.synchronise()
    return time.perf_counter() - start


if __name__ == "__main__":
    app()
