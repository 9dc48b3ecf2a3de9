"""Evaluate the Christoffel symbols of every metric on the grid, and check them."""

from geonode.config import Parameters
from stages.command import progress, stage, write_scores
from stages.paths import CHRISTOFFEL, DEVICE, METRIC, SHARED, SPECTRA


@stage("christoffel", also=("preset", "engine"))
def app(parameters: Parameters) -> str:
    """Evaluate Christoffel symbols and ln sqrt(g) on the grid, and check them in float64."""
    from functools import partial

    import torch

    from geonode.compute.device import Device
    from geonode.compute.processes import open_engine
    from geonode.geometry.chebyshev import ChebyshevSource
    from geonode.geometry.grid import uniform_nodes
    from geonode.geometry.learned import LearnedMetrics
    from geonode.geometry.stored import write_grids
    from geonode.geometry.verification import grid_errors
    from geonode.spectra.series import read_series
    from geonode.storage.lineage import consistent_artifacts

    block = parameters.christoffel
    device = Device.read(DEVICE)
    with consistent_artifacts(SPECTRA, METRIC) as made_from:
        series = read_series(SPECTRA)
        learned = LearnedMetrics.read(METRIC)
    metric = learned.metric(device.reference)
    wavelengths = torch.from_numpy(series.wavelengths)
    source = ChebyshevSource.of(metric, wavelengths)
    every = parameters.decoders.kind != "posterior"
    models = learned.wanted(every)
    with (
        open_engine(parameters.engine, SHARED) as engine,
        progress("evaluating grids", len(models)) as report,
    ):
        checked = write_grids(
            CHRISTOFFEL,
            source.grid,
            uniform_nodes(block.resolution, device.place, device.geometry),
            learned,
            series,
            every=every,
            check=partial(grid_errors, metric, wavelengths, block.tolerance),
            report=report,
            engine=engine,
            made_from=made_from,
        )
    log_sqrt, symbol = (max(errors) for errors in zip(*checked, strict=True))
    write_scores(
        "christoffel",
        {
            "models": len(models),
            "resolution": block.resolution,
            "wavelengths": len(series.wavelengths),
            "network_calls_per_model": source.calls,
            "ln_sqrt_g_error": log_sqrt,
            "christoffel_error": symbol,
        },
    )
    return f"{len(models)} grids, {source.calls} network calls each -> {CHRISTOFFEL}"


if __name__ == "__main__":
    app()
