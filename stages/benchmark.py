"""Seconds, memory and rates of this device."""

from geonode.config import Parameters
from stages.command import stage
from stages.paths import DEVICE, METRIC, METRICS, PIPELINE, RECORDS, SPECTRA, WORK


@stage("benchmark", also=("memory_mb",))
def app(parameters: Parameters) -> str:
    """Measure seconds, memory and rates."""
    from geonode.compute.device import Device
    from geonode.geometry.learned import LearnedMetrics
    from geonode.spectra.series import read_series
    from geonode.storage.document import write_json
    from geonode.storage.lineage import consistent_artifacts
    from geonode.storage.record import Record
    from stages.performance.kernels import Kernels

    device = Device.read(DEVICE, parameters.memory_mb)
    with consistent_artifacts(SPECTRA, METRIC):
        series, learned = read_series(SPECTRA), LearnedMetrics.read(METRIC)
    files = {name: RECORDS / f"{name}.json" for name in PIPELINE}
    records = {name: Record.read(file) for name, file in files.items() if file.exists()}
    cached = [name for name in PIPELINE if name not in records]  # by DVC; it never ran here
    repeats = parameters.benchmark.repeats
    measured = Kernels(learned, series, device, parameters, repeats).measure()
    seconds = None if cached else sum(record.seconds for record in records.values())
    peaks = [record.peak_mb for record in records.values() if record.peak_mb is not None]
    measures = ("seconds", "imports", "device_start", "peak_mb", "device_peak_mb")
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
    # Counts alone, no times: the same in every run, by which DVC knows of this one.
    counts = {
        name: {key: value for key, value in found.items() if isinstance(value, int)}
        for name, found in measured.items()
    }
    write_json(WORK, counts)
    total = f"{seconds:.1f} s" if seconds is not None else f"not timed ({', '.join(cached)} cached)"
    return (
        f"pipeline {total}, {measured['geodesics']['per_second']:.3g} geodesics and "
        f"{measured['training']['trained_per_second']:.3g} trained samples a second"
    )


if __name__ == "__main__":
    app()
