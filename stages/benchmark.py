"""Time the whole pipeline on this device, and compare with the sequential way."""

import contextlib
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from geonode.config import Parameters
from stages.command import progress, stage
from stages.paths import DEVICE, GEODESICS, METRIC, METRICS, PARAMETERS, SPECTRA, SYNTHETIC

if TYPE_CHECKING:
    from geonode.devices.device import Device
    from geonode.evaluation.timing import CommandTiming
    from geonode.spectra.series import Series

PIPELINE = (
    "probe",
    "generate",
    "spectra",
    "metric",
    "christoffel",
    "geodesics",
    "decoders",
    "validate",
)


@stage("benchmark")
def app(parameters: Parameters) -> str:
    """Run the pipeline once more in an empty folder, and time it against the sequential way."""
    from geonode.devices.device import Device
    from geonode.evaluation.benchmark import Kernels, time_sequential
    from geonode.geodesics.solved import read_features
    from geonode.geometry.learned import LearnedMetrics
    from geonode.reference.sequential import published_calls
    from geonode.spectra.series import read_series
    from geonode.storage.document import read_document, write_metrics

    block = parameters.benchmark
    device = Device.from_description(read_document(DEVICE))
    series = read_series(SPECTRA)
    learned = LearnedMetrics.read(METRIC)
    learned.require_levels(METRIC, len(series.concentrations))
    features = read_features(GEODESICS, series)[:1]

    stages, device_peak_mb = _time_pipeline(parameters, device)
    seconds = sum(timing.seconds for timing in stages.values())
    predicted = _predicted_peaks(parameters, series, device)
    of_stages = {k: {**t._asdict(), "predicted_mb": predicted[k]} for k, t in stages.items()}
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
            "stages": of_stages,
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
            "memory": {
                "peak_mb": max(timing.peak_mb for timing in stages.values()),
                "predicted_mb": max(predicted.values()),
                "device_peak_mb": device_peak_mb,
            },
        },
    )
    return (
        f"pipeline {seconds:.1f} s, sequential way {extrapolated / 86400:.1f} days "
        f"(extrapolated): {extrapolated / seconds:,.0f} times faster"
    )


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


def _time_pipeline(
    parameters: Parameters, device: "Device"
) -> tuple[dict[str, "CommandTiming"], float | None]:
    """Time every stage as a process of its own in an empty folder, start-up included.

    Returns:
        Timings by stage, and the peak of the device's memory (MB) if it has one of its own.
    """
    from geonode.evaluation.timing import time_command, watch

    source = Path(parameters.spectra.source)
    project = Path.cwd()
    modules = os.pathsep.join([str(project), *filter(None, [os.environ.get("PYTHONPATH")])])
    timings = {}
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        report = stack.enter_context(progress("timing the pipeline", len(PIPELINE)))
        used = device.memory_in_use()
        peak = None if used is None else stack.enter_context(watch(device.memory_in_use))
        for name in PIPELINE:
            command = [sys.executable, "-m", f"stages.{name}"]
            command += ["--params", str(project / PARAMETERS)]
            if name == "spectra" and source != SYNTHETIC:
                command += ["--source", str(source.resolve())]
            timings[name] = time_command(command, Path(folder), {"PYTHONPATH": modules})
            report(1)
        return timings, None if peak is None else peak() / 1e6


if __name__ == "__main__":
    app()
