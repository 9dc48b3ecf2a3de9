"""Solve the boundary value problems of all ordered pairs of levels."""

from geonode.config import Parameters
from stages.command import progress, stage, write_scores
from stages.paths import CHRISTOFFEL, DEVICE, GEODESICS, METRIC, SHARED, SPECTRA


@stage("geodesics", also=("preset", "engine", "memory_mb"))
def app(parameters: Parameters) -> str:
    """Solve every geodesic on its grid, and check samples on the network in float64."""
    from geonode.compute.device import Device
    from geonode.compute.processes import open_engine
    from geonode.geometry.learned import LearnedMetrics
    from geonode.geometry.solved import Geodesics
    from geonode.geometry.stored import StoredGrids
    from geonode.learning.folds import path_wavelengths
    from geonode.spectra.series import read_series
    from geonode.storage.lineage import consistent_artifacts

    device = Device.read(DEVICE, parameters.memory_mb)
    with consistent_artifacts(SPECTRA, METRIC, CHRISTOFFEL) as made_from:
        series = read_series(SPECTRA)
        learned = LearnedMetrics.read(METRIC)
        kind, most = parameters.decoders.kind, parameters.decoders.wavelengths
        chosen = path_wavelengths(len(series.axis), kind, most)
        grids = StoredGrids(CHRISTOFFEL, learned, series, chosen is not None)
    models = learned.wanted(chosen is not None)
    with (
        open_engine(parameters.engine, SHARED) as engine,
        progress("solving geodesics", len(models)) as report,
    ):
        wanted = Geodesics(grids, learned, series, chosen, parameters.geodesics, device)
        summary = wanted.solve(GEODESICS, report, engine, made_from)
    write_scores("geodesics", summary.metrics())
    error = summary.endpoint_error_max
    return f"{summary.geodesics:,} geodesics, endpoint error {error:.1e} -> {GEODESICS}"


if __name__ == "__main__":
    app()
