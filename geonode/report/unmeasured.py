"""What a run did not measure, and why."""

from geonode.report.data import Report
from geonode.wording import listed, number

REASONS = {
    "r2": "the measured spectrum is constant, or varies much less than the others, as a blank does",
    "pearson": "one of the two spectra is constant",
    "peak_position_error": "the measured spectrum varies too little for a peak",
}
"""Why a score of a spectrum may be undefined."""


def unmeasured(report: Report) -> list[str]:
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
    return [sentence for sentence, missing in found.items() if missing]


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
