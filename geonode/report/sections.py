"""The report of a run: its sections, in order."""

import math
from collections.abc import Mapping
from typing import Any

from geonode.report.data import Report
from geonode.report.figures import (
    error_figure,
    folds_figure,
    map_figures,
    paths_figure,
    posterior_figure,
)
from geonode.report.page import Part, Section, Verdict, escaped, page, parts_html
from geonode.report.series_figures import metric_figure, spectra_figure
from geonode.report.table import Cell, Table
from geonode.spectra.chart import Chart
from geonode.spectra.series import labelled
from geonode.wording import difference, listed, number, quantity, share, signed

ABSENT = "not measured"

PROMISED = 0.9
"""Nominal coverage of the intervals."""

FOLD_SCORES = ("r2", "rmse", "mae", "max_error", "pearson", "peak_position_error")
"""Scores of a fold shown in the table; all are in validate.json."""


def report_page(report: Report) -> str:
    """HTML page of a report.

    Args:
        report: content of the page.
    """
    sections = [
        _data(report),
        _folds(report),
        _errors(report),
        _scores(report),
        _geometry(report),
        _paths(report),
        _posterior(report),
        _machine(report),
        _unmeasured(report),
    ]
    return page(f"{report.source}: leave-one-out report", _first(report), sections)


def _first(report: Report) -> str:
    """The measured series and the main results."""
    series, unit = report.series, report.level_unit
    low, high = (quantity(end, report.axis_unit, 4) for end in series.axis[[0, -1]].tolist())
    facts: list[list[Cell]] = [
        ["source", report.source],
        ["levels", f"{len(report.names)} levels: {listed(report.names)} {unit}"],
        ["axis", f"{series.labels['axis'].replace('_', ' ')}, {low} to {high}"],
        ["wavelengths", number(len(series.axis))],
        ["spectra", series.signal_label],
        ["scans", number(report.metrics["spectra"].get("scans"))],
        ["chart of concentration", _chart(series.chart, unit)],
        ["chart of the learned metric", _chart(report.chart, unit)],
    ]
    title = f"{report.source}: every spectrum predicted from the others"
    parts: list[Part] = [
        "Each level was left out in turn, its spectrum was predicted from the others, and the "
        "prediction was compared with the measurement. In figures of spectra, Alt and the mouse "
        "wheel zoom, dragging moves, and a double click returns.",
        _verdicts(report),
        Table("series", "the series", [], facts),
    ]
    return f"<h1>{escaped(title)}</h1>\n{parts_html(parts)}"


def _chart(chart: Chart, unit: str) -> str:
    if chart.kappa == math.inf:
        return "linear"
    return "logarithmic" if chart.kappa == 0 else f"asinh, kappa {quantity(chart.kappa, unit)}"


def _verdicts(report: Report) -> list[Verdict]:
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
            f"The best of {len(scores['baselines'])} simple methods, chosen with hindsight, is "
            f"{name}: RMSE {quantity(best, unit)}, pooled R² {number(baseline.get('pooled_r2'))}. "
            f"The error of geonode is {compared}.",
            *_comparison(rmse, best),
        ),
    ]
    skill = scores.get("skill")
    if skill is not None:
        found.append(
            Verdict(
                f"Skill is {number(skill)}: the error is {share(abs(skill))} "
                f"{'smaller' if skill > 0 else 'larger'} than that of the simple method that would "
                "have been chosen without hindsight (RMSE "
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


def _data(report: Report) -> Section:
    count, shown = len(report.series.axis), len(report.drawn)
    told = ["The measured spectrum of every level, averaged over its scans."]
    if shown < count:
        told.append(f"{number(shown)} of {number(count)} points are drawn.")
    noise = report.metrics["spectra"].get("replicate_noise")
    if noise is None:
        told.append("No level was scanned twice, so the noise of a scan is not known.")
    else:
        told.append(
            f"Scans of one level differ by {quantity(noise, report.signal_unit)} (standard "
            "deviation of one scan): a smaller error cannot be told from noise."
        )
    turning = report.metrics["spectra"].get("non_monotonic_share")
    if turning is not None:
        told.append(
            f"At {share(turning)} of the wavelengths the signal both rises and falls with "
            "concentration, by more than its noise."
        )
    figure = spectra_figure(report.series, report.drawn)
    return Section("data", "The data", [" ".join(told), figure])


def _folds(report: Report) -> Section:
    promise = (
        "the shaded band should hold the measured line at nine of ten wavelengths"
        if report.band == "90% interval"
        else f"the shaded band is the {report.band} of the members and promises nothing"
    )
    opening = (
        "The measured spectrum of one level, and the spectrum predicted from the other levels. The "
        f"closer the lines, the better; {promise}."
    )
    return Section("folds", "Leave one out", [opening, folds_figure(report)])


def _errors(report: Report) -> Section:
    opening = (
        "Where predictions are too high (red) and too low (blue), one row for every level left "
        "out. The colours saturate at the largest 1 % of errors."
    )
    return Section("errors", "Error by wavelength", [opening, error_figure(report)])


def _scores(report: Report) -> Section:
    scores, unit, baselines = report.scores, report.signal_unit, report.scores["baselines"]
    methods = [("geonode", scores), *baselines.items()]
    if scores.get("published_method"):
        methods.append(("published method: perceptrons on paths", scores["published_method"]))
    methods.sort(key=lambda method: float(f"{method[1]['rmse']:.9g}"))  # equals as they were
    place = next(place for place, (_, found) in enumerate(methods) if found is scores)
    titles = [labelled("RMSE", unit), "Q²", "pooled R²", "interior R²"]
    better = sum(found["rmse"] < scores["rmse"] for found in baselines.values())
    parts: list[Part] = [
        "Every method predicted every level from the others: the smaller the RMSE and the nearer "
        "Q² and R² are to 1, the better. Q² is 0 for the mean of the other spectra; R² flatters "
        f"where all spectra have one shape. {number(better) if better else 'None'} of "
        f"{len(baselines)} simple methods {'has' if better == 1 else 'have'} a smaller error than "
        "geonode.",
        Table(
            "methods",
            "all levels, smallest error first",
            ["method", *titles],
            [[name.replace("_", " "), *_four(found)] for name, found in methods],
            frozenset({place}),
        ),
        _levels(report),
    ]
    if bands := scores.get("bands"):
        rows: list[list[Cell]] = [[name, *_four(found)] for name, found in bands.items()]
        title = f"parts of the axis ({report.axis_unit})"
        parts.append(Table("parts", title, ["part", *titles], rows))
    return Section("scores", "Scores beside those of simple methods", parts)


def _four(scores: Mapping[str, float | None]) -> list[Cell]:
    """RMSE, Q², pooled and interior R². Q² of the mean is 0 but for rounding, and shown as 0."""
    ratios = (scores.get(key) for key in ("q2", "pooled_r2", "interior_pooled_r2"))
    rounded = (None if ratio is None else round(ratio, 9) for ratio in ratios)
    return [number(scores.get("rmse")), *map(number, rounded)]


def _levels(report: Report) -> Table:
    """Scores of every level; undefined where a measured spectrum varies too little for them."""
    unit = report.signal_unit
    errors = [labelled(name, unit) for name in ("RMSE", "mean error", "largest error")]
    shape = ["correlation", labelled("peak moved by", report.axis_unit)]
    rows: list[list[Cell]] = [
        [f"{name} {report.level_unit}", *(number(fold.get(key)) for key in FOLD_SCORES)]
        for name, fold in report.scores["folds"].items()
    ]
    columns, kinds = ["left out", "R²", *errors, *shape], list(report.scores["kinds"].values())
    if {"posterior", "path"} <= kinds[0].keys():
        alone = [labelled(f"RMSE, {name} alone", unit) for name in ("posterior", "paths")]
        columns += [*alone, "weight of the paths"]
        for row, one in zip(rows, kinds, strict=True):
            row += [number(one["posterior"]), number(one["path"]), share(one["weight_of_paths"])]
    return Table("levels", "geonode, every left-out level", columns, rows)


def _geometry(report: Report) -> Section:
    metric, symbol = map_figures(report)
    learned: list[Part] = []
    if report.metrics["metric"].get("learning") == "flat":
        learned += [
            "This run learned no metric for the maps: they are those of a flat one, and its "
            "geodesics are straight on the chart of concentration."
            + (" The metric of the predictions is the figure of √g." if len(report.metric) else "")
        ]
    if len(report.metric):
        levels, unit = report.series.concentrations, report.level_unit
        learned += [
            "The geometry of the predictor: √g is the distance between two concentrations per unit "
            "of concentration. The line is the posterior mean over all metrics, the band its "
            "standard deviation; in every metric the range of the measured levels has length 2.",
            metric_figure(dict(report.metric), levels, unit),
        ]
    return Section(
        "geometry",
        "Metric and Christoffel symbol",
        [
            *learned,
            "The metric of the published method, one value at every wavelength, learned from all "
            "levels. Where g is large, a small step in concentration changes the spectrum much. "
            "It is in units of the learned chart, and its colours are logarithmic.",
            metric,
            "The rate of change of the metric, G = ½ ∂ ln g / ∂x, bends the geodesics; where it is "
            "zero (white) they are straight.",
            symbol,
        ],
    )


def _paths(report: Report) -> Section:
    if report.paths is None:
        missing = (
            "No trajectories are stored: set geodesics.time_points in the parameters to the "
            "number of points wanted (11, say) and run the pipeline again."
        )
        return Section("geodesics", "Geodesics", [missing])
    opening = (
        "Concentration along the shortest path between two levels, at some wavelengths: the "
        "further a line is from the dashed one, the more the metric bends it."
    )
    return Section("geodesics", "Geodesics", [opening, paths_figure(report, report.paths)])


def _posterior(report: Report) -> Section:
    parts: list[Part] = []
    if len(report.posterior):
        parts += [
            "The posterior density of the concentration of a left-out spectrum: it should be high "
            "at the true value (dashed), and the 90% set (thick line) should contain it.",
            posterior_figure(report),
        ]
    if estimation := report.scores.get("estimation"):
        parts += _estimates(report, estimation)
    if not parts:
        parts = ["Concentrations were not estimated from spectra in this run."]
    return Section("posterior", "Concentration of every left-out spectrum", parts)


def _estimates(report: Report, estimation: dict[str, Any]) -> list[Part]:
    unit = report.level_unit
    sentence = (
        "The most probable concentration is off by "
        f"{quantity(estimation.get('median_absolute_error'), unit)} (median) and "
        f"{quantity(estimation.get('mean_absolute_error'), unit)} (mean); the 90% sets hold the "
        f"true value of {share(estimation.get('coverage90'))} of the levels. A p-value below 0.01 "
        "means that the spectrum resembles none that geonode expects."
    )
    if calibrations := report.scores.get("calibrations"):
        by = [
            f"{name.replace('_', ' ')} {quantity(found.get('median_absolute_error'), unit)}"
            for name, found in calibrations.items()
        ]
        sentence += f" Classical calibrations are off by (median) {listed(by)}."
    true = dict(zip(report.names, report.series.concentrations.tolist(), strict=True))
    rows: list[list[Cell]] = [
        [
            f"{name} {unit}",
            number(found.get("mode")),
            number(found.get("mean")),
            signed(difference(found.get("mode"), true[name]), "1"),
            "; ".join(f"{number(low)} to {number(high)}" for low, high in found.get("set90") or [])
            or "undefined",
            found.get("disconnected", "undefined"),
            number(found.get("p_value"), 2),
        ]
        for name, found in (estimation.get("levels") or {}).items()
        if name in true
    ]
    columns = ["true", "most probable", "mean", "error", "90% set", "several parts", "p-value"]
    return [sentence, Table("concentrations", f"concentrations ({unit})", columns, rows)]


def _machine(report: Report) -> Section:
    environment, benchmark = report.metrics["env"], report.metrics["benchmark"]
    named = ("device", "name", "training", "geometry", "processor", "cores", "system", "torch")
    machine: list[list[Cell]] = [[key, str(environment.get(key, ABSENT))] for key in named]
    parts: list[Part] = ["The machine that ran the pipeline.", Table("run", "", [], machine)]
    if benchmark:
        stages: list[list[Cell]] = [
            [name, number(found["seconds"]), number(found["peak_mb"], absent=ABSENT)]
            for name, found in [*benchmark["stages"].items(), ("all", benchmark)]
        ]
        title = "every stage: seconds of its whole command, and the most memory it needed"
        parts.append(Table("stages", title, ["stage", "seconds", "memory (MB)"], stages))
    return Section("machine", "Device and time", parts)


def _unmeasured(report: Report) -> Section:
    """What was not measured, with reasons."""
    scores, geodesics = report.scores, report.metrics["geodesics"]
    masked = report.metrics["spectra"].get("masked_wavelengths") or 0
    solved, checked, lost = (
        geodesics.get(key) or 0 for key in ("geodesics", "checked_on_network", "unconverged")
    )
    found = {
        "Replicate noise: every level was scanned once, so it is not known how much of the error "
        "is noise of the measurement.": report.metrics["spectra"].get("replicate_noise") is None,
        "Other preparations: this is one series. How far another batch, instrument or day would "
        "differ from it was not measured.": True,
        f"Masked wavelengths: {masked} were left out because a value was missing; nothing is "
        "predicted there.": masked > 0,
        "Intervals: none were calibrated (inner.members is 0), so their coverage was not measured; "
        "the band in the figures is a standard deviation and promises nothing.": not scores.get(
            "coverage"
        ),
        "Skill: there are too few levels to choose a simple method without hindsight.": scores.get(
            "chosen_baseline_rmse"
        )
        is None,
        "Concentrations: estimating a concentration from its spectrum was not "
        "tested.": not scores.get("estimation"),
        f"Geodesics: {number(lost)} of {number(solved)} miss their target by more than the "
        "tolerance; features made of them are off by as much.": lost > 0,
        f"Geodesics on the network itself: {number(checked)} of {number(solved)} were integrated "
        "again; the others were checked on the grid alone.": checked < solved,
    }
    sentences = [Verdict(sentence) for sentence, missing in found.items() if missing]
    return Section("unmeasured", "What was not measured", [sentences])
