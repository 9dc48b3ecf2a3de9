"""Verdicts: the main results of a report in words."""

from geonode.report.data import Report
from geonode.report.page import Verdict
from geonode.wording import number, quantity, share

PROMISED = 0.9
"""Nominal coverage of the intervals."""


_WORDS = {True: "Better.", False: "Worse."}


def verdicts(report: Report) -> list[Verdict]:
    """Results in words, with worse results as plainly as better ones."""
    scores, unit = report.scores, report.signal_unit
    rmse, best = scores["rmse"], scores["best_baseline_rmse"]
    name = scores["best_baseline"].replace("_", " ")
    interior = number(scores.get("interior_pooled_r2"))
    found = [
        Verdict(
            f"Q² is {number(scores.get('q2'))}: 1 for perfect predictions, 0 for the mean of the "
            f"other spectra. Pooled R² is {number(scores.get('pooled_r2'))} over all levels and "
            f"{interior} without the lowest and the highest, which are extrapolated; RMSE is "
            f"{quantity(rmse, unit)}."
        ),
        Verdict(
            f"The best of {len(scores['baselines'])} classical baselines, {name}, has RMSE "
            f"{quantity(best, unit)} and pooled R² "
            f"{number(scores['baselines'][scores['best_baseline']].get('pooled_r2'))}: the error "
            f"of geonode is {_times(rmse, best)}. This baseline was picked afterwards, knowing the "
            "answers.",
            *_comparison(rmse, best),
        ),
    ]
    skill = scores.get("skill")
    if skill is not None:
        more = "smaller" if skill > 0 else "larger"
        found.append(
            Verdict(
                f"Skill is {number(skill)}: the error is {share(abs(skill))} {more} than that of "
                "the baseline that would have been chosen without knowing the answers (RMSE "
                f"{quantity(scores['chosen_baseline_rmse'], unit)}).",
                *_comparison(-skill, 0.0),
            )
        )
    return [*found, _coverage_verdict(report)]


def _comparison(error: float, other: float) -> tuple[bool | None, str]:
    """Whether an error is smaller than another, and the word for it."""
    return (None, "Equal.") if error == other else (error < other, _WORDS[error < other])


def _times(error: float, other: float) -> str:
    if error == 0 or other == 0:
        return f"{number(error)} against {number(other)}"
    if error == other:
        return "the same"
    ratio = error / other
    return f"{number(max(ratio, 1 / ratio))} times {'smaller' if ratio < 1 else 'larger'}"


def _coverage_verdict(report: Report) -> Verdict:
    held = (report.scores.get("coverage") or {}).get("90")
    if held is None:
        return Verdict("No intervals were calibrated: how far to trust a prediction is not known.")
    return Verdict(
        f"The 90 % intervals hold {share(held['all'])} of the measured points "
        f"({share(held['interior'])} between the ends, {share(held['ends'])} at the two ends), "
        f"and are ±{quantity(held['half_width'], report.signal_unit)} wide on average.",
        held["all"] >= PROMISED,
        "As promised." if held["all"] >= PROMISED else "Less than promised.",
    )
