"""Evaluate the Christoffel symbols of every metric on the grid, and check them."""

from geonode.config import Parameters
from stages.command import progress, stage
from stages.paths import CHRISTOFFEL, DEVICE, METRIC, METRICS, SPECTRA


@stage("christoffel")
def app(parameters: Parameters) -> str:
    """Evaluate Christoffel symbols and ln sqrt(g) on the grid, and check them in float64."""
    import torch

    from geonode.devices.device import Device
    from geonode.geometry.accuracy import error_statistics
    from geonode.geometry.grid import chebyshev_grids, direct_grids, uniform_nodes
    from geonode.geometry.learned import LearnedMetrics
    from geonode.geometry.stored import write_grids
    from geonode.spectra.series import read_series
    from geonode.storage.document import read_document, write_metrics

    block = parameters.christoffel
    device = Device.from_description(read_document(DEVICE))
    series = read_series(SPECTRA)
    learned = LearnedMetrics.read(METRIC)
    learned.require_levels(METRIC, len(series.concentrations))
    metric = learned.metric(device.reference)
    wavelengths = torch.from_numpy(series.wavelengths)
    nodes = uniform_nodes(block.resolution, device.place, device.geometry)
    if block.method == "chebyshev":
        tolerance, largest = block.tolerance, block.largest_degree
        grids = chebyshev_grids(
            metric, wavelengths, nodes, tolerance=tolerance, largest_degree=largest
        )
    else:
        grids = direct_grids(metric, wavelengths, nodes)
    with progress("evaluating grids", grids.models) as report:
        errors = write_grids(
            CHRISTOFFEL,
            grids,
            learned,
            metric,
            series,
            check_positions=block.check_positions,
            report=report,
        )
    write_metrics(
        METRICS / "christoffel.json",
        {
            "models": grids.models,
            "method": block.method,
            "resolution": block.resolution,
            "wavelengths": len(wavelengths),
            "network_calls_per_model": grids.calls,
            "ln_sqrt_g_error": error_statistics([error.log_sqrt for error in errors]),
            "christoffel_error": error_statistics([error.symbol for error in errors]),
        },
    )
    return f"{grids.models} grids, {grids.calls} network calls each -> {CHRISTOFFEL}"


if __name__ == "__main__":
    app()
