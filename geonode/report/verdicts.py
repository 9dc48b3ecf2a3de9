"""Verdicts: the main results of a report in words."""

from geonode.report.data import Report
from geonode.report.page import Verdict
from geonode.wording import number, quantity, share

PROMISED = 0.9
"""Nominal coverage of the intervals."""


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
