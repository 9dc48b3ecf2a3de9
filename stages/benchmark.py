"""Time the whole pipeline on this device, and compare with the sequential way."""

import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from geonode.config import Parameters
from stages.command import progress, stage
from stages.paths import (
    CHECKPOINTS,
    DATA,
    DEVICE,
    GEODESICS,
    METRIC,
    METRICS,
    PARAMETERS,
    PIPELINE,
    RECORDS,
    SPECTRA,
    SYNTHETIC,
)

if TYPE_CHECKING:
    from geonode.devices.device import Device
    from geonode.observation.record import Record
    from geonode.spectra.series import Series


@stage("benchmark")
def app(parameters: Parameters) -> str:
    """Set what the stages took, and the work of the publication, beside the sequential way."""
    from geonode.devices.device import Device
    from geonode.evaluation.benchmark import Kernels, time_sequential
    from geonode.geodesics.solved import read_features
    from geonode.geometry.learned import LearnedMetrics
    from geonode.reference.sequential import published_calls
    from geonode.spectra.series import read_series
    from geonode.storage.document import read_document, write_metrics
    from geonode.storage.lineage import consistent_artifacts

    block = parameters.benchmark
    device = Device.from_description(read_document(DEVICE))
    with consistent_artifacts(SPECTRA, METRIC, GEODESICS):
        series = read_series(SPECTRA)
        learned = LearnedMetrics.read(METRIC)
        learned.require_levels(METRIC, len(series.concentrations))
        features = read_features(GEODESICS, series)[:1]

    records = stage_records(parameters)
    seconds = sum(record.seconds for record in records.values())
    predicted = _predicted_peaks(parameters, series, device)
    on_device = _predicted_on_device(parameters, series, device)
    with progress("timing the sequential way", block.sequential_sample) as report:
        call = time_sequential(learned, series, device, block.sequential_sample, report)
    with progress("timing grid, geodesics and training", 4) as report:
        measured = Kernels(learned, series, device, parameters).measure(features, report)
    calls = published_calls()
    extrapolated = call.median * calls
    write_metrics(
        METRICS / "benchmark.json",
        {
            "device": device.kind,
            "name": device.name,
            "precision": device.describe()["training"],
            "pipeline": {
                "seconds": seconds,
                "speedup": extrapolated / seconds,
                "speedup_q25": call.q25 * calls / seconds,
                "speedup_q75": call.q75 * calls / seconds,
            },
            "stages": _told(records, predicted, on_device),
            "sequential": {
                "metric_calls": calls,
                "sample_geodesics": block.sequential_sample,
                "seconds_per_call": call._asdict(),
                "seconds_extrapolated": extrapolated,
                "days_extrapolated": extrapolated / 86400,
            },
            **measured,
            "published_work": {
                **measured["published_work"],
                "speedup": extrapolated / measured["published_work"]["seconds"],
            },
            "memory": _memory(records, predicted, on_device),
        },
    )
    return (
        f"pipeline {seconds:.1f} s, sequential way {extrapolated / 86400:.1f} days "
        f"(extrapolated): {extrapolated / seconds:,.0f} times faster"
    )


def _told(
    records: dict[str, "Record"], predicted: dict[str, float], on_device: dict[str, float]
) -> dict[str, dict[str, float | None]]:
    """Seconds and memory of every stage, and the memory that it should need."""
    return {
        name: {
            "seconds": record.seconds,
            "peak_mb": record.peak_mb,
            "predicted_mb": predicted[name],
            "device_peak_mb": record.device_peak_mb,
            "device_predicted_mb": on_device.get(name),
        }
        for name, record in records.items()
    }


def _memory(
    records: dict[str, "Record"], predicted: dict[str, float], on_device: dict[str, float]
) -> dict[str, float | None]:
    """The memory of the stage that takes most."""
    return {
        "peak_mb": _largest(record.peak_mb for record in records.values()),
        "predicted_mb": max(predicted.values()),
        "device_peak_mb": _largest(record.device_peak_mb for record in records.values()),
        "device_predicted_mb": _largest(on_device.values()),
    }


def _largest(sizes: Iterable[float | None]) -> float | None:
    """The largest of those that were measured."""
    return max((size for size in sizes if size is not None), default=None)


def _predicted_peaks(
    parameters: Parameters, series: "Series", device: "Device"
) -> dict[str, float]:
    """Memory that every stage should need (MB)."""
    from geonode.evaluation.memory_model import predicted_peaks
    from geonode.spectra.series import measured_table

    levels, wavelengths = series.signal.shape
    scans = sum(map(len, measured_table(parameters.spectra).scans))
    with progress("predicting memory", 1) as report:
        predicted = predicted_peaks(
            parameters, levels, max(1, scans // levels), wavelengths, device
        )
        report(1)
    return predicted


def _predicted_on_device(
    parameters: Parameters, series: "Series", device: "Device"
) -> dict[str, float]:
    """Memory that stages should need on a card (MB); nothing where there is none."""
    from geonode.evaluation.memory_model import predicted_device_peaks

    if device.kind != "cuda":
        return {}
    levels, wavelengths = series.signal.shape
    return predicted_device_peaks(parameters, levels, wavelengths, device)


def stage_records(parameters: Parameters) -> dict[str, "Record"]:
    """What every stage of the pipeline took: as it was recorded when it ran, or measured now.

    A record counts if it is of this machine and engine and of a whole run. Every other stage is run
    once more in a folder of its own, on the artifacts that are there.
    """
    from geonode.observation.record import Record, conditions

    here = conditions(parameters.engine.model_dump(mode="json"))
    records = {}
    with (
        progress("looking at the stages", len(PIPELINE)) as report,
        tempfile.TemporaryDirectory() as folder,
    ):
        for stage_name in PIPELINE:
            record = Record.read(RECORDS / f"{stage_name}.json")
            if not record.whole or record.conditions != here:
                record = _measure(stage_name, parameters, Path(folder))
            records[stage_name] = record
            report(1)
    return records


def _measure(stage_name: str, parameters: Parameters, folder: Path) -> "Record":
    """Run a stage once more, in a folder with links to all that the pipeline has made."""
    from geonode.evaluation.timing import time_command
    from geonode.observation.record import Record

    project, source = Path.cwd(), Path(parameters.spectra.source)
    for made in (project / DATA).iterdir():
        link = folder / DATA / made.name
        link.parent.mkdir(exist_ok=True)
        if not link.exists() and made not in (project / RECORDS, project / CHECKPOINTS):
            link.symlink_to(made)
    command = [sys.executable, "-m", f"stages.{stage_name}", "--params", str(project / PARAMETERS)]
    if stage_name == "spectra" and source != SYNTHETIC:
        command += ["--source", str(source.resolve())]
    modules = os.pathsep.join([str(project), *filter(None, [os.environ.get("PYTHONPATH")])])
    time_command(command, folder, {"PYTHONPATH": modules})
    return Record.read(folder / RECORDS / f"{stage_name}.json")


if __name__ == "__main__":
    app()
