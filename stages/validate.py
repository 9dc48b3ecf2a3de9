"""Score the leave-one-out predictions against the measured spectra and the classical baselines."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from geonode.config import Parameters
from stages.command import progress, stage, write_scores
from stages.paths import DATA, DECODERS, DEVICE, GEODESICS, METRIC, PLOTS, SPECTRA


@stage("validate")
def app(parameters: Parameters) -> str:  # noqa: ARG001
    """Score leave-one-out predictions and compare them with classical baselines."""
    import numpy as np

    from geonode.compute.device import Device
    from geonode.evaluation.baselines import BASELINES
    from geonode.evaluation.evaluate import (
        CHOSEN_BASELINE,
        GEONODE,
        PUBLISHED,
        by_baselines,
        by_calibrations,
        by_kind,
        by_model,
        estimate_left_out,
        metric_csv,
    )
    from geonode.evaluation.scores import skill
    from geonode.geometry.solved import read_features
    from geonode.prediction.model import SpectralModel
    from geonode.storage.document import write_text
    from geonode.storage.lineage import consistent_artifacts
    from geonode.ties import first_smallest

    place = Device.read(DEVICE).reference
    with consistent_artifacts(SPECTRA, METRIC, GEODESICS, DECODERS):
        model = SpectralModel.read(DATA, place)
        series = model.series
        if "path" in model.blend.decoders:
            features = read_features(GEODESICS, series, model.blend.training)
            model = replace(model, features=features)
    found = by_model(model)
    ours, published = found[GEONODE], found.get(PUBLISHED)
    with progress("predicting with the baselines", 2 * len(series.concentrations)) as report:
        classical = by_baselines(series, report)
    with progress("estimating left-out concentrations", len(series.concentrations)) as report:
        estimated = estimate_left_out(series, report, place=place)
    calibrations = by_calibrations(series)
    rmse = {name: one.scores["rmse"] for name, one in classical.items()}
    best = BASELINES[int(first_smallest(np.array([rmse[name] for name in BASELINES])))]
    chosen = rmse.get(CHOSEN_BASELINE)
    scores, coverage = ours.scores, ours.coverage
    content = {
        **scores,
        "baselines": {name: _without(classical[name].scores, "folds") for name in BASELINES},
        "best_baseline": best,
        "best_baseline_rmse": rmse[best],
        "chosen_baseline_rmse": chosen,
        "skill": None if chosen is None else skill(scores["rmse"], chosen),
        "coverage": coverage,
        "coverage90": coverage and coverage["90"]["all"],
        "estimation": estimated.summary(),
        "calibrations": {
            name: _without(asdict(one.concentrations), "q2") for name, one in calibrations.items()
        },
        "kinds": by_kind(model, found),
        "published_method": published
        and _without(published.scores, "folds", "mean_r2", "undefined_r2"),
    }
    write_scores("validate", content)
    write_scores("summary", _summary(content))
    write_text(PLOTS / "predictions.csv", ours.csv())
    write_text(PLOTS / "wavelengths.csv", ours.by_wavelength())
    write_text(PLOTS / "posterior.csv", estimated.csv())
    write_text(PLOTS / "metric_posterior.csv", metric_csv(model))
    pooled = "undefined" if scores["pooled_r2"] is None else f"{scores['pooled_r2']:.4f}"
    return (
        f"leave-one-out: pooled R2 {pooled}, RMSE {scores['rmse']:.4g}; "
        f"best baseline {best}: RMSE {rmse[best]:.4g}"
    )


def _without(scores: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in scores.items() if key not in keys}


def _summary(found: dict[str, Any]) -> dict[str, float | None]:
    """The few scores by which runs are compared: spectra, their 90% intervals, estimates."""
    coverage = (found["coverage"] or {}).get("90", {})
    estimated = found["estimation"]
    return {
        **{name: found[name] for name in ("q2", "pooled_r2", "interior_pooled_r2", "rmse")},
        "best_baseline_rmse": found["best_baseline_rmse"],
        "skill": found["skill"],
        "coverage90_interior": coverage.get("interior"),
        "coverage90_ends": coverage.get("ends"),
        "concentration_error": estimated.get("median_error_of_range"),
        "concentration_coverage90": estimated.get("coverage90"),
        "pls_error": found["calibrations"]["pls"]["median_error_of_range"],
    }


if __name__ == "__main__":
    app()
