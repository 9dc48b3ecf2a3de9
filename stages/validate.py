"""Score the leave-one-out predictions against the measured spectra and the classical baselines."""

from geonode.config import Parameters
from stages.command import progress, stage
from stages.paths import DATA, DECODERS, GEODESICS, METRIC, METRICS, PLOTS, SPECTRA


@stage("validate")
def app(parameters: Parameters) -> str:
    """Score leave-one-out predictions, compare with classical baselines, draw the figures."""
    from geonode.estimation.model import SpectralModel
    from geonode.evaluation.baselines import BASELINES
    from geonode.evaluation.comparison import Comparison
    from geonode.evaluation.coverage import coverage
    from geonode.evaluation.estimation import estimate_left_out, posterior_csv
    from geonode.evaluation.figures import error_figure, folds_figure, save_figure
    from geonode.evaluation.predictions import predictions_csv
    from geonode.evaluation.scores import band_scores, series_scores
    from geonode.geodesics.solved import read_features
    from geonode.spectra.series import level_names
    from geonode.storage.document import write_metrics, write_text
    from geonode.storage.lineage import together

    with together(SPECTRA, METRIC, GEODESICS, DECODERS):
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
        },
    )
    best = baselines.best
    unit = series.labels["concentration_unit"]
    write_text(
        PLOTS / "predictions.csv",
        predictions_csv(series.axis, level_names(levels), measured, predicted, prediction.band),
    )
    write_text(PLOTS / "posterior.csv", posterior_csv(estimated))
    labels = (series.axis_label, series.signal_label, levels, unit)
    r2 = [fold["r2"] for fold in scores["folds"].values()]
    save_figure(
        folds_figure(series.axis, *labels, measured, predicted, prediction.band, r2),
        PLOTS / "folds.png",
    )
    save_figure(
        error_figure(series.axis, *labels, measured, predicted, best, baselines.predictions[best]),
        PLOTS / "error.png",
    )
    pooled = "undefined" if scores["pooled_r2"] is None else f"{scores['pooled_r2']:.4f}"
    return (
        f"leave-one-out: pooled R2 {pooled}, RMSE {scores['rmse']:.4g}; "
        f"best baseline {best}: RMSE {baselines.scores[best]['rmse']:.4g}"
    )


if __name__ == "__main__":
    app()
