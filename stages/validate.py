"""Score the leave-one-out predictions against the measured spectra and the classical baselines."""

from typing import TYPE_CHECKING, Any

from geonode.config import Parameters
from stages.command import progress, stage
from stages.paths import DATA, DECODERS, GEODESICS, METRIC, METRICS, PLOTS, SPECTRA

if TYPE_CHECKING:
    import numpy as np

    from geonode.learning.blend import Blend
    from geonode.spectra.series import Series


@stage("validate")
def app(parameters: Parameters) -> str:
    """Score leave-one-out predictions and compare them with classical baselines."""
    from geonode.estimation.model import SpectralModel
    from geonode.evaluation.comparison import Comparison
    from geonode.evaluation.estimation import calibration_scores, estimate_left_out
    from geonode.evaluation.series_scores import band_scores, coverage, series_scores
    from geonode.evaluation.tables import metric_csv, posterior_csv, predictions_csv
    from geonode.geometry.solved import read_features
    from geonode.storage.document import write_metrics, write_text
    from geonode.storage.lineage import consistent_artifacts

    with consistent_artifacts(SPECTRA, METRIC, GEODESICS, DECODERS):
        model = SpectralModel.read(DATA)
        series, blend = model.series, model.blend
        features = read_features(GEODESICS, series, blend.training)
    levels, measured = series.concentrations, series.signal

    prediction = blend.left_out(series, features)
    predicted, half_width = prediction.spectra, prediction.half_width
    held = None if half_width is None else coverage(measured, predicted, half_width)
    bands = parameters.validation.bands
    scores = series_scores(series.axis, levels, measured, predicted)
    with progress("predicting with the baselines", 2 * len(levels)) as report:
        baselines = Comparison.of(series, report)
    with progress("estimating left-out concentrations", len(levels)) as report:
        estimated = estimate_left_out(series, report)
    found = {
        **scores,
        "bands": band_scores(series.axis, levels, measured, predicted, bands),
        **baselines.summary(scores["rmse"]),
        "coverage": held,
        "coverage90": held["90"]["all"] if held else None,
        "estimation": estimated.summary(),
        "calibrations": calibration_scores(series),
        "published_method": _published(series, blend, features),
    }
    write_metrics(METRICS / "validate.json", found)
    write_metrics(METRICS / "summary.json", _summary(found))
    write_text(PLOTS / "predictions.csv", predictions_csv(series, prediction))
    write_text(PLOTS / "posterior.csv", posterior_csv(estimated))
    write_text(PLOTS / "metric_posterior.csv", metric_csv(model))
    best = baselines.best
    pooled = "undefined" if scores["pooled_r2"] is None else f"{scores['pooled_r2']:.4f}"
    return (
        f"leave-one-out: pooled R2 {pooled}, RMSE {scores['rmse']:.4g}; "
        f"best baseline {best}: RMSE {baselines.rmse[best]:.4g}"
    )


def _published(
    series: "Series", blend: "Blend", features: "np.ndarray"
) -> dict[str, float | None] | None:
    """Scores of the published method; None where it was not trained."""
    from geonode.evaluation.series_scores import series_scores

    if "path" not in blend.decoders:
        return None
    spectra = blend.only("path").left_out(series, features).spectra
    scores = series_scores(series.axis, series.concentrations, series.signal, spectra)
    return {key: scores[key] for key in ("q2", "pooled_r2", "interior_pooled_r2", "rmse")}


def _summary(found: dict[str, Any]) -> dict[str, float | None]:
    """The few scores by which runs are compared: spectra, their 90% intervals, estimates."""
    held = (found["coverage"] or {}).get("90", {})
    estimated = found["estimation"]
    return {
        **{name: found[name] for name in ("q2", "pooled_r2", "interior_pooled_r2", "rmse")},
        "best_baseline_rmse": found["best_baseline_rmse"],
        "skill": found["skill"],
        "coverage90_interior": held.get("interior"),
        "coverage90_ends": held.get("ends"),
        "concentration_error": estimated.get("median_error_of_range"),
        "concentration_coverage90": estimated.get("coverage90"),
        "pls_error": found["calibrations"]["pls"]["median_error_of_range"],
    }


if __name__ == "__main__":
    app()
