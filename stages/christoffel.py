"""Evaluate the Christoffel symbols of every metric on the grid, and check them."""

from typing import TYPE_CHECKING, Any

from geonode.config import Parameters
from stages.command import progress, stage
from stages.paths import CHRISTOFFEL, DEVICE, METRIC, METRICS, SHARED, SPECTRA

if TYPE_CHECKING:
    from geonode.config import ChristoffelParameters
    from geonode.evaluation.grid_report import GridReport
    from geonode.geometry.learned import LearnedMetrics
    from geonode.spectra.series import Series


@stage("christoffel", also=("engine", "memory_mb"))
def app(parameters: Parameters) -> str:
    """Evaluate Christoffel symbols and ln sqrt(g) on the grid, and check them in float64."""
    import torch

    from geonode.compute.device import Device, one_thread
    from geonode.compute.opening import open_engine
    from geonode.evaluation.grid_report import GridCheck, GridReport
    from geonode.geometry.grid import uniform_nodes
    from geonode.geometry.resolution import require_resolution
    from geonode.geometry.sources import grid_source
    from geonode.geometry.stored import write_grids
    from geonode.storage.document import read_document

    block = parameters.christoffel
    device = Device.from_description(read_document(DEVICE), parameters.memory_mb)
    series, learned, made_from = _inputs()
    metric = learned.metric(device.reference)
    wavelengths = torch.from_numpy(series.wavelengths)
    source = grid_source(block, metric, wavelengths)
    like = torch.empty(0, device=device.place, dtype=device.geometry)
    with (
        one_thread(),  # or the last digits would depend on the number of cores
        open_engine(parameters.engine, SHARED) as engine,
        progress("evaluating grids", 2 * source.models) as report,
    ):
        smallest = require_resolution(source, block.resolution, like, block.tolerance, report)
        nodes = uniform_nodes(block.resolution, like.device, like.dtype)
        checked = write_grids(
            CHRISTOFFEL,
            source,
            nodes,
            learned,
            series,
            check=GridCheck(metric, wavelengths, block.check_positions),
            report=report,
            engine=engine,
            made_from=made_from,
        )
    # The source does not count calls for the stored grids: other processes may have made them.
    calls = source.calls + (len(nodes) * len(wavelengths) if block.method == "direct" else 0)
    _write_metrics(block, series, smallest, calls, GridReport(learned, checked))
    return f"{source.models} grids, {calls} network calls each -> {CHRISTOFFEL}"


def _write_metrics(
    block: "ChristoffelParameters",
    series: "Series",
    smallest: int,
    calls: int,
    checks: "GridReport",
) -> None:
    from geonode.storage.document import write_metrics

    about: dict[str, Any] = {
        "models": len(checks.grids),
        "method": block.method,
        "resolution": block.resolution,
        "smallest_uniform_resolution": smallest,
        "wavelengths": len(series.wavelengths),
        "network_calls_per_model": calls,
        "metrics": checks.statistics(series.concentrations),
    }
    write_metrics(METRICS / "christoffel.json", about | checks.errors())


def _inputs() -> tuple["Series", "LearnedMetrics", dict[str, str]]:
    """Spectra, metrics learned from them, and the checksums of both artifacts."""
    from geonode.geometry.learned import LearnedMetrics
    from geonode.spectra.series import read_series
    from geonode.storage.lineage import consistent_artifacts

    with consistent_artifacts(SPECTRA, METRIC) as made_from:
        series = read_series(SPECTRA)
        learned = LearnedMetrics.read(METRIC)
    learned.require_levels(METRIC, len(series.concentrations))
    return series, learned, made_from


if __name__ == "__main__":
    app()
