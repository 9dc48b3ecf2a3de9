"""Compare the time of the pipeline on this device with the sequential method."""

from typing import TYPE_CHECKING, Any

from geonode.config import Parameters
from geonode.errors import ArtifactError
from stages.command import progress, stage
from stages.paths import DEVICE, METRIC, METRICS, PIPELINE, RECORDS, SPECTRA

if TYPE_CHECKING:
    import numpy as np

    from benchmarks.performance.timing import Quartiles
    from geonode.geometry.learned import LearnedMetrics
    from geonode.spectra.series import Series
    from geonode.storage.record import Record


@stage("benchmark", also=("memory_mb",))
def app(parameters: Parameters) -> str:
    """Compare the stages, and the work of the publication, with the sequential method."""
    from benchmarks.performance.benchmark import Kernels
    from benchmarks.performance.parity import MiddleFold
    from geonode.compute.device import Device
    from geonode.storage.document import read_document, write_metrics

    device = Device.from_description(read_document(DEVICE), parameters.memory_mb)
    series, learned, features = _inputs()
    records = stage_records(parameters)
    fold = MiddleFold(learned, series, features, device, parameters)
    with progress("timing the sequential method", len(fold.geodesics)) as report:
        walked, call = fold.walk(report)
    with progress("timing grid, geodesics and training", 4) as report:
        measured = Kernels(learned, series, device, parameters).measure(features, report)
    sequential = _sequential(call, len(fold.geodesics))
    extrapolated = sequential["seconds_extrapolated"]
    seconds = sum(record.seconds for record in records.values())
    work = measured.pop("published_work")
    measures = ("seconds", "peak_mb", "device_peak_mb")
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
            "stages": {
                name: {measure: getattr(record, measure) for measure in measures}
                for name, record in records.items()
            },
            "sequential": sequential,
            "parity": fold.parity(walked)._asdict(),
            **measured,
            "published_work": {**work, "speedup": extrapolated / work["seconds"]},
        },
    )
    return (
        f"pipeline {seconds:.1f} s, sequential method {sequential['days_extrapolated']:.1f} days "
        f"(extrapolated): {extrapolated / seconds:,.0f} times faster"
    )


def stage_records(parameters: Parameters) -> dict[str, "Record"]:
    """Records of every stage of the pipeline.

    Raises:
        ArtifactError: a record is of a resumed or profiled run, or of another machine or engine.
        MissingArtifactError, CorruptArtifactError: a record is absent or damaged.
    """
    from geonode.storage.record import Record, conditions

    here = conditions(parameters.engine.model_dump(mode="json"))
    paths = {name: RECORDS / f"{name}.json" for name in PIPELINE}
    records = {name: Record.read(path) for name, path in paths.items()}
    for name, record in records.items():
        if not record.whole or record.conditions != here:
            found = "another machine or engine" if record.whole else "a resumed or profiled run"
            raise ArtifactError(
                f"{paths[name]}: found the record of {found}, expected one of a whole run here; "
                f"run `dvc repro --force --single-item {name}`"
            )
    return records


def _inputs() -> tuple["Series", "LearnedMetrics", "np.ndarray"]:
    """Spectra, metrics, and features of the geodesics of the first member at all wavelengths."""
    import numpy as np

    from geonode.geometry.learned import LearnedMetrics
    from geonode.learning.path_features import path_features
    from geonode.spectra.series import read_series
    from geonode.storage.lineage import consistent_artifacts

    with consistent_artifacts(SPECTRA, METRIC):
        series = read_series(SPECTRA)
        learned = LearnedMetrics.read(METRIC)
        learned.require_levels(METRIC, len(series.concentrations))
    first = LearnedMetrics(learned.network[: len(learned.charts)], learned.charts)
    return series, learned, path_features(first, series, np.arange(len(series.axis)))


def _sequential(call: "Quartiles", sample: int) -> dict[str, Any]:
    """Time of the sequential method, extrapolated to the metric calls of the publication."""
    from benchmarks.sequential import published_calls

    calls = published_calls()
    return {
        "metric_calls": calls,
        "sample_geodesics": sample,
        "seconds_per_call": call._asdict(),
        "seconds_extrapolated": call.median * calls,
        "days_extrapolated": call.median * calls / 86400,
    }


if __name__ == "__main__":
    app()
