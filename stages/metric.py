"""Learn the metric of every (member, fold)."""

from geonode.config import Parameters
from stages.command import progress, stage
from stages.paths import CHECKPOINTS, DEVICE, METRIC, METRICS, PLOTS, SPECTRA


@stage("metric")
def app(parameters: Parameters) -> str:
    """Learn the metric of every fold: none, by evidence, or end to end through geodesics."""
    import math

    from geonode.devices.device import Device
    from geonode.learning.end_to_end import TERMS
    from geonode.learning.folds import fold_names
    from geonode.learning.metric_learning import LEARNING
    from geonode.learning.trainer import history_csv
    from geonode.spectra.series import read_series
    from geonode.storage.document import read_document, write_metrics, write_text

    block = parameters.metric
    device = Device.from_description(read_document(DEVICE))
    series = read_series(SPECTRA)
    names = fold_names(series.concentrations)
    with progress("learning the metric", block.members * len(names) * block.epochs) as report:
        metrics, history = LEARNING[block.learning](
            series, block, device, CHECKPOINTS / "metric", report
        )
    metrics.write(METRIC)
    write_text(PLOTS / "metric_training.csv", history_csv(history, TERMS, len(names), block))
    models = metrics.network.models
    kappas = [chart.kappa if math.isfinite(chart.kappa) else None for chart in metrics.charts]
    last = history[-1].mean(-1).tolist() if len(history) else [None] * len(TERMS)
    write_metrics(
        METRICS / "metric.json",
        {
            "models": models,
            "learning": block.learning,
            "chart_kappa": dict(zip(names, kappas, strict=True)),
            **dict(zip(TERMS, last, strict=True)),
        },
    )
    trained = f", reconstruction {last[0]:.4f}" if len(history) else ""
    return f"{models} metrics ({block.learning}){trained} -> {METRIC}"


if __name__ == "__main__":
    app()
