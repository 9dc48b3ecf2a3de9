"""Time the whole pipeline on this device, and compare with the sequential method."""

import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    import numpy as np

    from geonode.devices.device import Device
    from geonode.evaluation.timing import Quartiles
    from geonode.geometry.learned import LearnedMetrics
    from geonode.observation.record import Record
    from geonode.spectra.series import Series


@stage(
    "benchmark",
    also=("memory_mb",),
    reads=(
        "precision",
        "generate",
        "spectra",
        "inner",
        "metric",
        "christoffel",
        "geodesics",
        "decoders",
        "validate",
    ),
)
def app(parameters: Parameters) -> str:
    """Compare the stages, and the work of the publication, with the sequential method."""
    from geonode.devices.device import Device
    from geonode.evaluation.benchmark import Kernels, time_sequential
    from geonode.storage.document import read_document, write_metrics

    sample = parameters.benchmark.sequential_sample
    device = Device.from_description(read_document(DEVICE), parameters.memory_mb)
    series, learned, features = _inputs()
    records = stage_records(parameters)
    predicted = _predicted_peaks(parameters, series, device)
    on_device = _predicted_on_device(parameters, series, device)
    with progress("timing the sequential method", sample) as report:
        call = time_sequential(learned, series, device, sample, report)
    with progress("timing grid, geodesics and training", 4) as report:
        measured = Kernels(learned, series, device, parameters).measure(features, report)
    sequential = _sequential(call, sample)
    extrapolated = sequential["seconds_extrapolated"]
    seconds = sum(record.seconds for record in records.values())
    work = measured.pop("published_work")
    write_metrics(
        METRICS / "benchmark.json",
        {
            "device": device.kind,
            "name": device.name,
            "precision": device.describe()["training"],
            "pipeline": {
                "seconds": seconds,
                "speedup": extrapolated / seconds,
                "speedup_q25": call.q25 * sequential["metric_calls"] / seconds,
                "speedup_q75": call.q75 * sequential["metric_calls"] / seconds,
            },
            "stages": _stages(records, predicted, on_device),
            "sequential": sequential,
            **measured,
            "published_work": {**work, "speedup": extrapolated / work["seconds"]},
            "memory": _memory(records, predicted, on_device),
        },
    )
    return (
        f"pipeline {seconds:.1f} s, sequential method {sequential['days_extrapolated']:.1f} days "
        f"(extrapolated): {extrapolated / seconds:,.0f} times faster"
    )


def _inputs() -> tuple["Series", "LearnedMetrics", "np.ndarray"]:
    """Spectra, metrics, and features of the geodesics of the first member."""
    from geonode.geodesics.solved import read_features
    from geonode.geometry.learned import LearnedMetrics
    from geonode.spectra.series import read_series
    from geonode.storage.lineage import consistent_artifacts

    with consistent_artifacts(SPECTRA, METRIC, GEODESICS):
        series = read_series(SPECTRA)
        learned = LearnedMetrics.read(METRIC)
        learned.require_levels(METRIC, len(series.concentrations))
        return series, learned, read_features(GEODESICS, series)[:1]


def _sequential(call: "Quartiles", sample: int) -> dict[str, Any]:
    """Time of the sequential method, extrapolated to the metric calls of the publication."""
    from geonode.reference.sequential import published_calls

    calls = published_calls()
    return {
        "metric_calls": calls,
        "sample_geodesics": sample,
        "seconds_per_call": call._asdict(),
        "seconds_extrapolated": call.median * calls,
        "days_extrapolated": call.median * calls / 86400,
    }


def _stages(
    records: dict[str, "Record"], predicted: dict[str, float], on_device: dict[str, float]
) -> dict[str, dict[str, float | None]]:
    """Seconds and memory of every stage, measured and predicted."""
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
    """Largest memory of a stage, measured and predicted."""
    return {
        "peak_mb": _largest(record.peak_mb for record in records.values()),
        "predicted_mb": max(predicted.values()),
        "device_peak_mb": _largest(record.device_peak_mb for record in records.values()),
        "device_predicted_mb": _largest(on_device.values()),
    }


def _largest(sizes: Iterable[float | None]) -> float | None:
    """Largest measured size; None if none was measured."""
    return max((size for size in sizes if size is not None), default=None)


def _predicted_peaks(
    parameters: Parameters, series: "Series", device: "Device"
) -> dict[str, float]:
    """Predicted memory of every stage (MB)."""
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
    """Predicted GPU memory of the stages that compute there (MB); empty without a GPU."""
    from geonode.evaluation.memory_model import predicted_device_peaks

    if device.kind != "cuda":
        return {}
    levels, wavelengths = series.signal.shape
    return predicted_device_peaks(parameters, levels, wavelengths, device)


def stage_records(parameters: Parameters) -> dict[str, "Record"]:
    """Records of every stage of the pipeline, from its last run or measured now.

    A record is valid if it is of a whole run with this machine and engine. Every other stage is run
    once more in a folder of its own, on the existing artifacts.
    """
    from geonode.observation.record import Record, conditions

    here = conditions(parameters.engine.model_dump(mode="json"))
    records = {}
    with (
        progress("reading records of the stages", len(PIPELINE)) as report,
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
    """Run a stage once more, in a folder with links to the artifacts of the pipeline."""
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
