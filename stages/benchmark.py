"""Seconds, memory and rates of this device; by an option, the comparison with the sequential way.

`dvc repro` measures what takes seconds and writes metrics/benchmark.json. `make benchmark` also
solves geodesics one at a time, as the publication does, and writes metrics/sequential.json.
"""

from typing import TYPE_CHECKING, Any

from geonode.config import Parameters
from geonode.errors import ArtifactError
from stages.command import progress, stage
from stages.paths import DEVICE, METRIC, METRICS, PIPELINE, RECORDS, SPECTRA

if TYPE_CHECKING:
    from geonode.storage.record import Record
    from stages.performance.kernels import Kernels


@stage("benchmark", also=("memory_mb",))
def app(parameters: Parameters) -> str:
    """Measure seconds, memory and rates, or compare with the sequential method."""
    from geonode.compute.device import Device
    from geonode.geometry.learned import LearnedMetrics
    from geonode.spectra.series import read_series
    from geonode.storage.lineage import consistent_artifacts
    from geonode.storage.record import Record
    from stages.performance.kernels import Kernels

    device = Device.read(DEVICE, parameters.memory_mb)
    with consistent_artifacts(SPECTRA, METRIC):
        series, learned = read_series(SPECTRA), LearnedMetrics.read(METRIC)
    records = {name: Record.read(RECORDS / f"{name}.json") for name in PIPELINE}
    compare = parameters.benchmark.sequential_wavelengths > 0
    return (_sequential if compare else _quick)(
        Kernels(learned, series, device, parameters), records
    )


def _quick(kernels: "Kernels", records: dict[str, "Record"]) -> str:
    """Measure what takes seconds."""
    from geonode.storage.document import write_json

    measured, device = kernels.measure(), kernels.device
    seconds = sum(record.seconds for record in records.values())
    peaks = [record.peak_mb for record in records.values() if record.peak_mb is not None]
    measures = ("seconds", "peak_mb", "device_peak_mb")
    write_json(
        METRICS / "benchmark.json",
        {
            "device": device.kind,
            "name": device.name,
            "precision": device.describe()["training"],
            "seconds": seconds,
            "peak_mb": max(peaks, default=None),
            "stages": {
                name: {measure: getattr(record, measure) for measure in measures}
                for name, record in records.items()
            },
            **measured,
        },
    )
    return (
        f"pipeline {seconds:.1f} s, {measured['geodesics']['per_second']:.3g} geodesics and "
        f"{measured['training']['trained_per_second']:.3g} trained samples a second"
    )


def _sequential(kernels: "Kernels", records: dict[str, "Record"]) -> str:
    """Compare the pipeline, and the work of the publication, with the sequential method.

    Raises:
        ArtifactError: as `require_whole`.
    """
    from geonode.storage.document import write_json
    from research.parity import MiddleFold
    from research.published_method import published_calls

    require_whole(records, kernels.parameters)
    fold = MiddleFold.of(kernels)
    with progress("timing the sequential method", len(fold.rows)) as report:
        walked, call = fold.walk(report)
    with progress("timing the work of the publication", 1) as report:
        work = kernels.published_work()
        report(1)
    calls, seconds = published_calls(), sum(record.seconds for record in records.values())
    extrapolated = call.median * calls
    found: dict[str, Any] = {
        "device": kernels.device.kind,
        "name": kernels.device.name,
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
    return (
        f"pipeline {seconds:.1f} s, sequential method {extrapolated / 86400:.1f} days "
        f"(extrapolated): {extrapolated / seconds:,.0f} times faster"
    )


def require_whole(records: dict[str, "Record"], parameters: Parameters) -> None:
    """Refuse records whose seconds cannot be compared.

    Raises:
        ArtifactError: a record is of a resumed run, or of another machine or engine.
    """
    from geonode.storage.record import conditions

    here = conditions(parameters.engine.model_dump(mode="json"))
    for name, record in records.items():
        if not record.whole or record.conditions != here:
            found = "another machine or engine" if record.whole else "a resumed run"
            raise ArtifactError(
                f"{RECORDS / name}.json: found the record of {found}, expected one of a whole run "
                f"here; run `dvc repro --force --single-item {name}`"
            )


if __name__ == "__main__":
    app()
