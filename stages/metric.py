"""Learn the metric of every (member, fold)."""

from geonode.config import Parameters
from stages.command import progress, stage, write_scores
from stages.paths import CHECKPOINTS, DEVICE, METRIC, PLOTS, SHARED, SPECTRA


@stage("metric", also=("preset", "inner", "engine", "memory_mb"))
def app(parameters: Parameters) -> str:
    """Learn the metric of every fold: end to end through geodesics, or flat."""
    import math

    from geonode.compute.device import Device
    from geonode.compute.processes import open_engine
    from geonode.learning.context import NestedRuns
    from geonode.learning.folds import fold_names
    from geonode.learning.metric_learning import learn
    from geonode.learning.trainer import history_csv
    from geonode.spectra.series import read_series
    from geonode.storage.atomic import file_lock, remove
    from geonode.storage.document import write_text
    from geonode.storage.lineage import consistent_artifacts

    block = parameters.metric
    device = Device.read(DEVICE, parameters.memory_mb)
    with consistent_artifacts(SPECTRA) as made_from:
        series = read_series(SPECTRA)
    names = fold_names(series.concentrations)
    levels, scratch = len(series.concentrations), CHECKPOINTS / "metric"
    runs = NestedRuns.of(levels, block, parameters.inner, device, scratch)
    with (
        file_lock(METRIC.with_suffix("")),  # one process at a time, as of the checkpoints
        open_engine(parameters.engine, SHARED, processes=device.kind == "cpu") as engine,
        progress("learning the metric", runs.models * block.epochs) as report,
    ):
        metrics, history, terms = learn(series, block, runs.with_progress(report, engine))
        metrics.write(METRIC, made_from)
        remove(scratch)
    write_text(PLOTS / "metric_training.csv", history_csv(history, terms, len(names), block))
    models = metrics.network.models
    kappas = [chart.kappa if math.isfinite(chart.kappa) else None for chart in metrics.charts]
    last = dict(zip(terms, history[-1].mean(-1).tolist(), strict=True)) if len(history) else {}
    write_scores(
        "metric",
        {
            "models": models,
            "learning": block.learning,
            "chart_kappa": dict(zip(names, kappas, strict=True)),
            **last,
        },
    )
    ended = "".join(f", {term} {value:.4f}" for term, value in list(last.items())[:1])
    return f"{models} metrics ({block.learning}){ended} -> {METRIC}"


if __name__ == "__main__":
    app()
