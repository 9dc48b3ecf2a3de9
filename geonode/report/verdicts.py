"""The main results of a run in words, and what it did not measure."""

from geonode.report.data import Report
from geonode.report.page import Verdict
from geonode.wording import listed, number, quantity, share

PROMISED = 0.9
"""Nominal coverage of the intervals."""

REASONS = {
    "r2": "the measured spectrum is constant, or varies much less than the others, as a blank does",
    "pearson": "one of the two spectra is constant",
    "peak_position_error": "the measured spectrum varies too little for a peak",
}
"""Why a score of a spectrum may be undefined."""


def verdicts(report: Report) -> list[Verdict]:
    """Results in words, with worse results as plainly as better ones."""
    scores, unit = report.scores, report.signal_unit
    rmse, best = scores["rmse"], scores["best_baseline_rmse"]
    baseline = scores["baselines"][scores["best_baseline"]]
    name = scores["best_baseline"].replace("_", " ")
    ratio = max(rmse, best) / min(rmse, best) if min(rmse, best) > 0 else None
    size = "smaller" if rmse < best else "larger"
    compared = "the same" if rmse == best else f"{size} by a factor of {number(ratio)}"
    found = [
        Verdict(
            f"Q² is {number(scores.get('q2'))}: 1 for perfect predictions, 0 for the mean of the "
            f"other spectra. Pooled R² is {number(scores.get('pooled_r2'))} over all levels and "
            f"{number(scores.get('interior_pooled_r2'))} without the lowest and the highest, which "
            f"are extrapolated; RMSE is {quantity(rmse, unit)}."
        ),
        Verdict(
            f"The best of {len(scores['baselines'])} classical baselines, {name}, has RMSE "
            f"{quantity(best, unit)} and pooled R² {number(baseline.get('pooled_r2'))}: the error "
            f"of geonode is {compared}. This baseline was picked afterwards, knowing the answers.",
            *_comparison(rmse, best),
        ),
    ]
    skill = scores.get("skill")
    if skill is not None:
        found.append(
            Verdict(
                f"Skill is {number(skill)}: the error is {share(abs(skill))} "
                f"{'smaller' if skill > 0 else 'larger'} than that of the baseline that would have "
                "been chosen without knowing the answers (RMSE "
                f"{quantity(scores['chosen_baseline_rmse'], unit)}).",
                *_comparison(-skill, 0.0),
            )
        )
    held = (scores.get("coverage") or {}).get("90")
    if held is None:
        none = "No intervals were calibrated: how far to trust a prediction is not known."
        return [*found, Verdict(none)]
    good = held["all"] >= PROMISED
    sentence = (
        f"The 90% intervals hold {share(held['all'])} of the measured points "
        f"({share(held['interior'])} between the ends, {share(held['ends'])} at the two ends); "
        f"on average they are ±{quantity(held['half_width'], unit)} wide."
    )
    return [*found, Verdict(sentence, good, "As promised." if good else "Less than promised.")]


def _comparison(error: float, other: float) -> tuple[bool | None, str]:
    """Whether an error is smaller than another, and the word for it."""
    if error == other:
        return None, "Equal."
    return (True, "Better.") if error < other else (False, "Worse.")


def unmeasured(report: Report) -> list[Verdict]:
    """Sentences about everything that was not measured."""
    scores, geodesics = report.scores, report.metrics["geodesics"]
    environment = report.metrics["env"]
    solved, checked, lost = (
        geodesics.get(key) or 0 for key in ("geodesics", "checked_on_network", "unconverged")
    )
    found = {
        "Replicate noise: every level was scanned once, so it is not known how much of the error "
        "is noise of the measurement.": report.metrics["spectra"].get("replicate_noise") is None,
        "Other preparations: this is one series. How far another batch, instrument or day would "
        "differ from it was not measured.": True,
        f"Masked wavelengths: {len(report.masked)} were left out because a value was missing; "
        "nothing is predicted there.": bool(report.masked),
        **dict.fromkeys(_undefined_scores(report), True),
        "Pooled R²: undefined, because no measured spectrum varies.": scores.get("pooled_r2")
        is None,
        "Intervals: none were calibrated (inner.members is 0), so their coverage was not measured; "
        "the band in the figures is a standard deviation and promises nothing.": not scores.get(
            "coverage"
        ),
        "Skill: there are too few levels to choose a baseline without knowing the "
        "answer.": scores.get("chosen_baseline_rmse") is None,
        "Concentrations: estimating a concentration from its spectrum was not "
        "tested.": not scores.get("estimation"),
        f"Geodesics: {number(lost)} of {number(solved)} miss their target by more than the "
        "tolerance; features made of them are off by as much.": lost > 0,
        f"Geodesics on the network itself: {number(checked)} of {number(solved)} were integrated "
        "again; the others were checked on the grid alone.": checked < solved,
        "Trajectories: none are stored (geodesics.time_points is 0).": report.paths is None,
        f"Other devices: this run was computed on {environment.get('name')} "
        f"({environment.get('device')}) alone.": bool(environment),
        "Device: the machine was not described.": not environment,
        "Time: not on record.": not report.metrics["benchmark"],
        "Speed against the sequential way: not measured here (`make benchmark` does).": True,
    }
    return [Verdict(sentence) for sentence, missing in found.items() if missing]


def _undefined_scores(report: Report) -> list[str]:
    sentences = []
    for key, reason in REASONS.items():
        folds = report.scores["folds"].items()
        without = [name for name, fold in folds if fold.get(key) is None]
        every = len(without) == len(report.names)
        where = "any level" if every else f"{listed(without)} {report.level_unit}"
        label = "R²" if key == "r2" else key.replace("_", " ")
        if without:
            sentences.append(f"Score “{label}”: not given for {where}, because {reason}.")
    return sentences
