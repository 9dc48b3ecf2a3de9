"""Learn the metric of every (member, fold) end to end."""

from geonode.config import Parameters
from stages.command import progress, stage
from stages.paths import DEVICE, METRIC, METRICS, PLOTS, SPECTRA


@stage("metric")
def app(parameters: Parameters) -> str:
    """Learn the metric of every (member, fold), together with a decoder, through geodesics."""
    import numpy as np

    from geonode.devices.device import Device
    from geonode.geometry.learned import LearnedMetrics
    from geonode.learning.end_to_end import TERMS, fit_metric
    from geonode.learning.trainer import history_csv
    from geonode.spectra.series import read_series
    from geonode.storage.document import read_document, write_metrics, write_text

    block = parameters.metric
    device = Device.from_description(read_document(DEVICE))
    series = read_series(SPECTRA)
    charts = [series.chart] * (len(series.concentrations) + 1)
    models = block.members * len(charts)
    with progress("learning the metric", models * block.epochs) as report:
        network, history = fit_metric(
            series.signal,
            np.stack([chart.position(series.concentrations) for chart in charts]),
            series.wavelengths,
            block,
            device=device.place,
            dtype=device.training,
            report=report,
        )
    LearnedMetrics(network, charts).write(METRIC)
    write_text(PLOTS / "metric_training.csv", history_csv(history, TERMS, len(charts)))
    last = history[-1].mean(-1).tolist()
    write_metrics(
        METRICS / "metric.json", {"models": models, **dict(zip(TERMS, last, strict=True))}
    )
    return f"{models} metrics, reconstruction {last[0]:.4f} -> {METRIC}"


if __name__ == "__main__":
    app()
