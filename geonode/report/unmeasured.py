"""List of everything that a run did not measure, with reasons."""

from collections.abc import Iterator

from geonode.report.data import Report
from geonode.wording import listed, number

REASONS = {
    "r2": "the measured spectrum is constant, or varies much less than the others, as a blank",
    "mape": "a measured value is zero, crosses zero, or is too small to divide by",
    "pearson": "one of the two spectra is constant",
    "spectral_angle": "one of the two spectra is zero",
    "cosine": "one of the two spectra is zero",
    "ssim": "the measured spectrum is constant or too short",
    "wasserstein": "a spectrum has no positive area, or too much below zero",
    "jensen_shannon": "a spectrum has no positive area, or too much below zero",
    "peak_position_error": "the measured spectrum varies too little for a peak",
    "fwhm_error": "a peak does not fall to half its height on both sides inside the axis, or the "
    "spectrum varies too little for a peak",
}
"""Reasons for undefined scores of a spectrum."""


def unmeasured(report: Report) -> list[str]:
    """Sentences about everything not measured."""
    return [
        *_of_the_series(report),
        *_of_the_scores(report),
        *_of_the_estimation(report),
        *_of_the_geodesics(report),
        *_of_the_machine(report),
    ]


def _of_the_series(report: Report) -> Iterator[str]:
    if report.metrics["spectra"].get("replicate_noise") is None:
        yield (
            "Replicate noise: every level was scanned once, so how much of the error is noise of "
            "the measurement is not known."
        )
    yield (
        "Other preparations: this is one series. How far another batch, instrument or day would "
        "differ from it was not measured."
    )
    if report.masked:
        yield (
            f"Masked wavelengths: {len(report.masked)} were left out because a value was missing; "
            "nothing is predicted there."
        )


def _of_the_scores(report: Report) -> Iterator[str]:
    scores = report.scores
    for key, reason in REASONS.items():
        without = [name for name, fold in scores["folds"].items() if fold.get(key) is None]
        if without:
            label = "R²" if key == "r2" else key.replace("_", " ")
            where = (
                "any level"
                if len(without) == len(report.names)
                else f"{listed(without)} {report.level_unit}"
            )
            yield f"Score “{label}”: not given for {where}, because {reason}."
    for key, label in (("pooled_r2", "Pooled R²"), ("interior_pooled_r2", "Interior R²")):
        if scores.get(key) is None:
            yield f"{label}: undefined, because no measured spectrum varies."
    if scores.get("coverage") is None:
        yield (
            "Intervals: none were calibrated (inner.members is 0), so coverage was not measured; "
            "the band in the figures is a standard deviation and promises nothing."
        )
    if scores.get("chosen_baseline_rmse") is None:
        yield "Skill: there are too few levels to choose a baseline without knowing the answer."
    elif scores.get("skill") is None:
        yield "Skill: undefined, because the chosen baseline is exact."


def _of_the_estimation(report: Report) -> Iterator[str]:
    if not report.scores.get("estimation"):
        yield "Concentrations: estimating a concentration from its spectrum was not tested."
    elif not len(report.posterior):
        yield "Posterior densities of the concentrations were not written."


def _of_the_geodesics(report: Report) -> Iterator[str]:
    found = report.metrics["geodesics"]
    solved, checked, lost = (
        found.get(key) for key in ("geodesics", "checked_on_network", "unconverged")
    )
    if lost:
        yield (
            f"Geodesics: {number(lost)} of {number(solved)} miss their target by more than the "
            "tolerance; features made of them are off by as much."
        )
    if solved is not None and checked is not None and checked < solved:
        yield (
            f"Geodesics on the network itself: {number(checked)} of {number(solved)} were "
            "integrated again; the others were checked on the grid alone."
        )
    if report.paths is None:
        yield "Trajectories: none are stored (geodesics.time_points is 0)."
    for what in ("the metric", "the decoders"):
        if what not in report.training:
            yield f"Training of {what}: nothing was trained, so there is no log."


def _of_the_machine(report: Report) -> Iterator[str]:
    environment, summary = report.metrics["env"], report.metrics["summary"]
    if environment:
        yield (
            f"Other devices: this run was computed on {environment.get('name')} "
            f"({environment.get('device')}) alone."
        )
    else:
        yield "Device: the machine was not described."
    if not summary:
        yield "Time: not on record."
    yield "Speed against the sequential way: not measured here (`make benchmark` does)."
