"""Score the leave-one-out predictions against the measured spectra and the classical baselines."""

from typing import TYPE_CHECKING

from geonode.config import Parameters
from stages.command import progress, stage
from stages.paths import DATA, DECODERS, GEODESICS, METRIC, METRICS, PLOTS, SPECTRA

if TYPE_CHECKING:
    import numpy as np

    from geonode.decoders.blend import Blend, Prediction
    from geonode.estimation.model import SpectralModel
    from geonode.evaluation.comparison import Comparison
    from geonode.evaluation.estimation import LeftOutEstimates
    from geonode.evaluation.scores import SeriesScores
    from geonode.spectra.series import Series


@stage("validate")
def app(parameters: Parameters) -> str:
    """Score leave-one-out predictions, compare with classical baselines, draw the figures."""
    from geonode.estimation.model import SpectralModel
    from geonode.evaluation.baselines import BASELINES
    from geonode.evaluation.comparison import Comparison
    from geonode.evaluation.coverage import coverage
    from geonode.evaluation.estimation import calibration_scores, estimate_left_out
    from geonode.evaluation.scores import band_scores, series_scores
    from geonode.geodesics.solved import read_features
    from geonode.storage.document import write_metrics
    from geonode.storage.lineage import consistent_artifacts

    with consistent_artifacts(SPECTRA, METRIC, GEODESICS, DECODERS):
        model = SpectralModel.read(DATA)
        series, blend = model.series, model.blend
        features = read_features(GEODESICS, series)[..., blend.training, :]
    levels, measured = series.concentrations, series.signal

    prediction = blend.left_out(series, features)
    predicted, half_width = prediction.spectra, prediction.half_width
    held = None if half_width is None else coverage(measured, predicted, half_width)
    bands = parameters.validation.bands
    scores = series_scores(series.axis, levels, measured, predicted)
    with progress("predicting with the baselines", len(BASELINES) + len(levels)) as report:
        baselines = Comparison.of(series, report)
    with progress("estimating left-out concentrations", len(levels)) as report:
        estimated = estimate_left_out(model, report)
    write_metrics(
        METRICS / "validate.json",
        {
            **scores,
            "bands": band_scores(series.axis, levels, measured, predicted, bands),
            **baselines.summary(scores["rmse"]),
            "coverage": held,
            "coverage90": held["90"]["all"] if held else None,
            "estimation": estimated and estimated.summary(),
            "calibrations": calibration_scores(series),
            "published_method": _published(series, blend, features),
        },
    )
    _write_tables(model, prediction, estimated)
    _draw(series, prediction, baselines, scores)
    best = baselines.best
    pooled = "undefined" if scores["pooled_r2"] is None else f"{scores['pooled_r2']:.4f}"
    return (
        f"leave-one-out: pooled R2 {pooled}, RMSE {scores['rmse']:.4g}; "
        f"best baseline {best}: RMSE {baselines.scores[best]['rmse']:.4g}"
    )


def _write_tables(
    model: "SpectralModel", found: "Prediction", estimated: "LeftOutEstimates | None"
) -> None:
    """Write predictions and posteriors as tables for `dvc plots`."""
    from geonode.evaluation.estimation import metric_csv, posterior_csv
    from geonode.evaluation.predictions import predictions_csv
    from geonode.spectra.series import level_names
    from geonode.storage.document import write_text

    series, names = model.series, level_names(model.series.concentrations)
    rows = predictions_csv(series.axis, names, series.signal, found.spectra, found.band)
    write_text(PLOTS / "predictions.csv", rows)
    write_text(PLOTS / "posterior.csv", posterior_csv(estimated))
    write_text(PLOTS / "metric_posterior.csv", metric_csv(model))


def _draw(
    series: "Series", found: "Prediction", baselines: "Comparison", scores: "SeriesScores"
) -> None:
    """Draw predictions of all left-out levels, and their errors with those of the best baseline."""
    from geonode.evaluation.figures import error_figure, folds_figure, save_figure

    r2 = [fold["r2"] for fold in scores["folds"].values()]
    save_figure(folds_figure(series, found.spectra, found.band, r2), PLOTS / "folds.png")
    best = baselines.best
    errors = error_figure(series, found.spectra, best, baselines.predictions[best])
    save_figure(errors, PLOTS / "error.png")


def _published(
    series: "Series", blend: "Blend", features: "np.ndarray"
) -> dict[str, float | None] | None:
    """Scores of the published method; None where it was not trained."""
    from geonode.evaluation.scores import series_scores

    if "path" not in blend.decoders:
        return None
    spectra = blend.only("path").left_out(series, features).spectra
    scores = series_scores(series.axis, series.concentrations, series.signal, spectra)
    return {key: scores[key] for key in ("q2", "pooled_r2", "interior_pooled_r2", "rmse")}


if __name__ == "__main__":
    app()
