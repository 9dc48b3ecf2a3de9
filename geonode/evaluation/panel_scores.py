"""Scores of a series, in two independent parts."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from geonode.compute.device import Device, one_thread
from geonode.config import Parameters
from geonode.errors import GeonodeError
from geonode.estimation.series_fit import fit_series
from geonode.evaluation.comparison import Comparison
from geonode.evaluation.estimation import calibration_scores, estimate_left_out
from geonode.evaluation.panel_table import PanelRow
from geonode.evaluation.series_scores import coverage, series_scores, skill
from geonode.progress import Progress
from geonode.spectra.series import Series


class Job(NamedTuple):
    """One part of the scores of a series.

    Attributes:
        name: name of the series.
        part: a key of `PARTS`.
        series: series on its given chart.
        parameters: the blocks `metric`, `inner` and `decoders` are used.
        device: device to train on.
    """

    name: str
    part: str
    series: Series
    parameters: Parameters
    device: Device


def score_part(job: Job, report: Progress) -> dict[str, Any]:
    """Columns of the table by name, with the seconds of this part; or the error."""
    start = time.perf_counter()
    try:
        with one_thread():
            columns = PARTS[job.part](job, report)
    except GeonodeError as error:
        return {"error": str(error)}
    return columns | {"seconds": time.perf_counter() - start}


def row_of_parts(parts: list[dict[str, Any]], fingerprint: str) -> PanelRow:
    """Row of a series from the columns of all its parts, or with the error of one of them."""
    for part in parts:
        if "error" in part:
            return PanelRow(error=part["error"])
    columns = {name: value for part in parts for name, value in part.items()}
    chosen = columns["chosen_baseline_rmse"]
    columns["skill"] = None if chosen is None else skill(columns["rmse"], chosen)
    columns["seconds"] = sum(part["seconds"] for part in parts)
    return PanelRow(**columns, fingerprint=fingerprint)


def _of_predictor(job: Job, report: Progress) -> dict[str, Any]:
    """Columns about predicted spectra and estimated concentrations.

    As in the pipeline, but without the grid: path features come from the networks.

    Raises:
        TrainingError: as `fit_series`.
    """
    series, parameters = job.series, job.parameters
    blocks = (parameters.inner, parameters.metric, parameters.decoders)
    _, blend, features = fit_series(series, blocks, job.device, report)
    prediction = blend.left_out(series, features)
    measured, predicted = series.signal, prediction.spectra
    scores = series_scores(series.axis, series.concentrations, measured, predicted)
    widths = prediction.half_width
    held = None if widths is None else coverage(measured, predicted, widths)["90"]
    return {
        "q2": scores["q2"],
        "pooled_r2": scores["pooled_r2"],
        "interior_pooled_r2": scores["interior_pooled_r2"],
        "mean_r2": scores["mean_r2"],
        "rmse": scores["rmse"],
        "coverage90": held and held["all"],
        "coverage90_interior": held and held["interior"],
        "coverage90_ends": held and held["ends"],
        **_of_concentrations(series, report),
        "levels": len(series.concentrations),
        "wavelengths": len(series.axis),
    }


def _of_concentrations(series: Series, report: Progress) -> dict[str, Any]:
    """Columns about estimates of left-out concentrations."""
    summary = estimate_left_out(series, report).summary()
    places = ("coverage90", "coverage90_interior", "coverage90_ends")
    return {
        "concentration_error": summary["median_error_of_range"],
        "concentration_rmsep": summary["rmsep_of_range"],
        **{f"concentration_{place}": summary[place] for place in places},
    }


def _of_baselines(job: Job, report: Progress) -> dict[str, Any]:
    """Columns about the classical methods for spectra and for concentrations."""
    found = Comparison.of(job.series, report)
    return {
        "best_baseline": found.best,
        "best_baseline_rmse": found.rmse[found.best],
        "chosen_baseline_rmse": found.chosen_rmse,
        "baseline_rmse": found.rmse,
        **{
            f"{name}_error": scores["median_error_of_range"]
            for name, scores in calibration_scores(job.series).items()
        },
    }


PARTS: dict[str, Callable[[Job, Progress], dict[str, Any]]] = {
    "predictor": _of_predictor,
    "baselines": _of_baselines,
}
