"""Train the leave-one-out decoders."""

from geonode.config import Parameters
from stages.command import progress, stage, write_scores
from stages.paths import (
    CHECKPOINTS,
    DECODERS,
    DEVICE,
    GEODESICS,
    METRIC,
    PLOTS,
    SHARED,
    SPECTRA,
)


@stage("decoders", also=("preset", "inner", "engine", "memory_mb"))
def app(parameters: Parameters) -> str:
    """Train the decoders of all folds, and fit the weights of their kinds."""
    from geonode.compute.device import Device
    from geonode.compute.processes import open_engine
    from geonode.geometry.learned import LearnedMetrics
    from geonode.geometry.solved import read_features
    from geonode.learning.blend import fit_blend, training_steps
    from geonode.learning.context import NestedRuns
    from geonode.learning.folds import fold_names, path_wavelengths
    from geonode.learning.path_features import path_features
    from geonode.learning.trainer import history_csv
    from geonode.spectra.series import read_series
    from geonode.storage.atomic import file_lock, remove
    from geonode.storage.document import write_text
    from geonode.storage.lineage import consistent_artifacts

    block, inner = parameters.decoders, parameters.inner
    device = Device.read(DEVICE, parameters.memory_mb)
    with consistent_artifacts(SPECTRA, METRIC, GEODESICS) as made_from:
        series = read_series(SPECTRA)
        learned = LearnedMetrics.read(METRIC)
        chosen = path_wavelengths(len(series.axis), block.kind, block.wavelengths)
        features = inner_features = None
        if chosen is not None:
            features = read_features(GEODESICS, series, chosen)
    levels, scratch = len(series.concentrations), CHECKPOINTS / "decoders"
    runs = NestedRuns.of(levels, block, inner, device, scratch)
    left_out = () if runs.inner is None else tuple(f.left_out for f in runs.inner.folds)
    learned.require_inner(METRIC, left_out)
    if chosen is not None and learned.inner is not None:
        inner_features = path_features(learned.inner, series, chosen)
    steps = training_steps(block, runs)
    with (
        file_lock(DECODERS.with_suffix("")),  # one process at a time, as of the checkpoints
        open_engine(parameters.engine, SHARED, processes=device.kind == "cpu") as engine,
        progress("training decoders", steps) as report,
    ):
        runs = runs.with_progress(report, engine)
        blend, history = fit_blend(series, features, inner_features, block, runs)
        blend.write(DECODERS, made_from)
        remove(scratch)
    names = fold_names(series.concentrations)
    write_text(PLOTS / "training.csv", history_csv(history, ("loss",), len(names), block))
    last = float(history[-1].sum(0).mean()) if len(history) else None
    weights = {
        name: dict(zip(blend.decoders, weights.tolist(), strict=True))
        for name, weights in zip(names, blend.weights, strict=True)
    }
    write_scores("decoders", {"kind": block.kind, "loss": last, "weights": weights})
    trained = "" if last is None else f", loss {last:.4f}"
    return f"decoders ({block.kind}) of {len(names)} folds{trained} -> {DECODERS}"


if __name__ == "__main__":
    app()
