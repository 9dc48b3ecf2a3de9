"""The report of a run: its sections, in order."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from geonode.report.data import Report
from geonode.report.figures import (
    folds_figure,
    map_figures,
    metric_figure,
    paths_figure,
    posterior_figure,
)
from geonode.report.kit import spectra_figure
from geonode.report.page import Page, Part, Section, Statement
from geonode.spectra.chart import Chart
from geonode.spectra.series import labelled
from geonode.storage.table import Column, Table
from geonode.wording import difference, listed, number, quantity, share

AVERAGED = (
    "The measured spectrum of every level, averaged over its scans. Another batch, instrument or "
    "day may differ from this series; how far was not measured."
)


OVERALL = {"rmse": "RMSE", "q2": "Q²", "pooled_r2": "pooled R²"}
OVERALL |= {"interior_pooled_r2": "interior R²"}
OF_LEVELS = {"r2": "R²", "rmse": "RMSE", "mae": "mean error", "max_error": "largest error"}
OF_LEVELS |= {"pearson": "correlation"}
OF_KINDS = {"posterior": "RMSE, posterior alone", "path": "RMSE, paths alone"}
OF_KINDS |= {"weight_of_paths": "weight of the paths"}
"""Titles of scores by their keys in metrics: of all levels, of one, and of the predictors."""


def report_page(report: Report) -> Page:
    """Page of a report."""
    lead: list[Part] = [
        "Each level was left out in turn, its spectrum was predicted from the others, and the "
        "prediction was compared with the measurement. In figures of spectra, Alt and the mouse "
        "wheel zoom, dragging moves, and a double click returns.",
        _statements(report),
        _series_facts(report),
    ]
    sections = [
        Section("data", "The data", [AVERAGED, spectra_figure(report.series, report.drawn)]),
        Section("folds", "Leave one out", _folds(report)),
        Section("scores", "Scores beside those of simple methods", _scores_of_methods(report)),
        Section("geometry", "Metric and Christoffel symbol", _geometry(report)),
        Section("geodesics", "Geodesics", _paths(report)),
        Section("posterior", "Concentration of every left-out spectrum", _posterior(report)),
        Section("device", "Device", _device(report)),
    ]
    heading = f"{report.source}: every spectrum predicted from the others"
    return Page(f"{report.source}: leave-one-out report", heading, lead, sections)


def _series_facts(report: Report) -> Table:
    series, unit = report.series, report.series.unit
    axis_unit, signal_unit = series.labels["axis_unit"], series.labels["signal_unit"]
    about = report.metrics["spectra"]
    low, high = (quantity(end, axis_unit, 4) for end in series.axis[[0, -1]].tolist())
    facts = [
        ("source", report.source),
        ("levels", f"{len(report.names)} levels: {listed(report.names)} {unit}"),
        ("axis", f"{series.labels['axis'].replace('_', ' ')}, {low} to {high}"),
        ("wavelengths", number(len(series.axis))),
        ("spectra", series.signal_label),
        ("scans", number(about.get("scans"))),
        ("noise of one scan", quantity(about.get("replicate_noise"), signal_unit)),
        ("wavelengths left out", number(about.get("masked_wavelengths") or 0)),
        ("wavelengths where the signal rises and falls", share(about.get("non_monotonic_share"))),
        ("chart of concentration", _chart_text(series.chart, unit)),
        ("chart of the learned metric", _chart_text(report.chart, unit)),
    ]
    return Table.of_facts("series", facts)


def _chart_text(chart: Chart, unit: str) -> str:
    if chart.kappa == math.inf:
        return "linear"
    return "logarithmic" if chart.kappa == 0 else f"asinh, kappa {quantity(chart.kappa, unit)}"


def _statements(report: Report) -> list[Statement]:
    """Results in words, with worse results as plainly as better ones."""
    scores, unit = report.scores, report.series.labels["signal_unit"]
    rmse, best = scores["rmse"], scores["best_baseline_rmse"]
    baseline = scores["baselines"][scores["best_baseline"]]
    name = scores["best_baseline"].replace("_", " ")
    ratio = max(rmse, best) / min(rmse, best) if min(rmse, best) > 0 else None
    size = "smaller" if rmse < best else "larger"
    compared = "the same" if rmse == best else f"{size} by a factor of {number(ratio)}"
    statements = [
        Statement(
            f"Q² is {number(scores.get('q2'))}: 1 for perfect predictions, 0 for the mean of the "
            f"other spectra. Pooled R² is {number(scores.get('pooled_r2'))} over all levels and "
            f"{number(scores.get('interior_pooled_r2'))} without the lowest and the highest, which "
            f"are extrapolated; RMSE is {quantity(rmse, unit)}."
        ),
        Statement(
            f"The best of {len(scores['baselines'])} simple methods, chosen with hindsight, is "
            f"{name}: RMSE {quantity(best, unit)}, pooled R² {number(baseline.get('pooled_r2'))}. "
            f"The error of geonode is {compared}.",
            *_comparison(rmse, best),
        ),
    ]
    skill = scores.get("skill")
    if skill is not None:
        statements.append(
            Statement(
                f"Skill is {number(skill)}: the error is {share(abs(skill))} "
                f"{'smaller' if skill > 0 else 'larger'} than that of the simple method that would "
                "have been chosen without hindsight (RMSE "
                f"{quantity(scores['chosen_baseline_rmse'], unit)}).",
                *_comparison(-skill, 0.0),
            )
        )
    coverage = (scores.get("coverage") or {}).get("90")
    if coverage is None:
        absent = "No intervals were calibrated: how far to trust a prediction is not known."
        return [*statements, Statement(absent)]
    good = coverage["all"] >= 0.9
    sentence = (
        f"The 90% intervals contain {share(coverage['all'])} of the measured points "
        f"({share(coverage['interior'])} between the ends, {share(coverage['ends'])} at the two "
        f"ends); on average they are ±{quantity(coverage['half_width'], unit)} wide."
    )
    word = "As promised." if good else "Less than promised."
    return [*statements, Statement(sentence, good, word)]


def _comparison(error: float, other: float) -> tuple[bool | None, str]:
    """True where an error is smaller than another, and the word for it."""
    if error == other:
        return None, "Equal."
    return (True, "Better.") if error < other else (False, "Worse.")


def _folds(report: Report) -> list[Part]:
    promise = (
        "the shaded band should contain the measured line at nine of ten wavelengths"
        if report.band == "90% interval"
        else f"the shaded band is the {report.band} of the members and promises nothing"
    )
    opening = (
        "The measured spectrum of one level, and the spectrum predicted from the other levels. The "
        f"closer the lines, the better; {promise}."
    )
    return [opening, folds_figure(report)]


def _scores_of_methods(report: Report) -> list[Part]:
    scores, unit = report.scores, report.series.labels["signal_unit"]
    baselines = scores["baselines"]
    methods = [("geonode", scores), *baselines.items()]
    if scores.get("published_method"):
        methods.append(("published method: perceptrons on paths", scores["published_method"]))
    methods.sort(key=lambda method: float(f"{method[1]['rmse']:.9g}"))  # equals as they were
    place = next(place for place, (_, score) in enumerate(methods) if score is scores)
    better = sum(score["rmse"] < scores["rmse"] for score in baselines.values())
    names = Column("method", [name.replace("_", " ") for name, _ in methods])
    columns = [names, *_columns([score for _, score in methods], OVERALL, unit)]
    return [
        "Every method predicted every level from the others: the smaller the RMSE and the nearer "
        "Q² and R² are to 1, the better. Q² is 0 for the mean of the other spectra; R² flatters "
        f"where all spectra have one shape. {number(better) if better else 'None'} of "
        f"{len(baselines)} simple methods {'has' if better == 1 else 'have'} a smaller error than "
        "geonode.",
        Table("methods", "all levels, smallest error first", columns, frozenset({place})),
        _scores_of_levels(report),
    ]


def _columns(
    rows: Sequence[Mapping[str, float | None]], titles: dict[str, str], unit: str
) -> list[Column]:
    """Scores by key. Q² of the mean is 0 but for rounding, and shown as 0."""

    def text(key: str, score: float | None) -> str:
        return number(0.0 if key in OVERALL and abs(score or 1.0) < 1e-9 else score)

    units = dict.fromkeys(("rmse", "mae", "max_error", "posterior", "path"), unit)
    return [
        Column(title, [text(key, row.get(key)) for row in rows], units.get(key, "1"))
        for key, title in titles.items()
    ]


def _scores_of_levels(report: Report) -> Table:
    """Scores of every level; undefined where a measured spectrum varies too little for them."""
    folds, unit = report.scores["folds"], report.series.labels["signal_unit"]
    moved = labelled("peak moved by", report.series.labels["axis_unit"])
    titles = OF_LEVELS | {"peak_position_error": moved}
    kinds = [report.scores["kinds"][name] for name in folds]
    columns = [Column("left out", [f"{name} {report.series.unit}" for name in folds])]
    columns += _columns([*folds.values()], titles, unit)
    if {"posterior", "path"} <= kinds[0].keys():
        columns += _columns(kinds, OF_KINDS, unit)
    return Table("levels", "geonode, every left-out level", columns)


def _geometry(report: Report) -> list[Part]:
    metric, symbol = map_figures(report)
    learned: list[Part] = []
    if report.metrics["metric"].get("learning") == "flat":
        learned += [
            "This run learned no metric for the maps: they are those of a flat one, and its "
            "geodesics are straight on the chart of concentration."
            + (" The metric of the predictions is the figure of √g." if len(report.metric) else "")
        ]
    if len(report.metric):
        learned += [
            "The geometry of the predictor: √g is the distance between two concentrations per unit "
            "of concentration. The line is the posterior mean over all metrics, the band its "
            "standard deviation; in every metric the range of the measured levels has length 2.",
            metric_figure(report),
        ]
    return [
        *learned,
        "The metric of the published method, one value at every wavelength, learned from all "
        "levels. Where g is large, a small step in concentration changes the spectrum much. It is "
        "in units of the learned chart, and its colours are logarithmic.",
        metric,
        "The rate of change of the metric, G = ½ ∂ ln g / ∂x, bends the geodesics; where it is "
        "zero (white) they are straight.",
        symbol,
    ]


def _paths(report: Report) -> list[Part]:
    if report.paths is None:
        return [
            "No trajectories are stored: set geodesics.time_points in the parameters to the "
            "number of points wanted (11, say) and run the pipeline again."
        ]
    counts = report.metrics["geodesics"]
    solved, checked, lost = (
        number(counts.get(key) or 0) for key in ("geodesics", "checked_on_network", "unconverged")
    )
    return [
        "Concentration along the shortest path between two levels, at some wavelengths: the "
        "further a line is from the dashed one, the more the metric bends it.",
        paths_figure(report, report.paths),
        f"{lost} of {solved} geodesics miss their target by more than the tolerance; {checked} "
        "were integrated again on the network itself, the others checked on the grid alone.",
    ]


def _posterior(report: Report) -> list[Part]:
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
    return parts


def _estimates(report: Report, estimation: dict[str, Any]) -> list[Part]:
    unit = report.series.unit
    sentence = (
        "The most probable concentration is off by "
        f"{quantity(estimation.get('median_absolute_error'), unit)} (median) and "
        f"{quantity(estimation.get('mean_absolute_error'), unit)} (mean); the 90% sets contain the "
        f"true value of {share(estimation.get('coverage90'))} of the levels. A p-value below 0.01 "
        "means that the spectrum resembles none that geonode expects."
    )
    if calibrations := report.scores.get("calibrations"):
        by = [
            f"{name.replace('_', ' ')} {quantity(score.get('median_absolute_error'), unit)}"
            for name, score in calibrations.items()
        ]
        sentence += f" Classical calibrations are off by (median) {listed(by)}."
    true = dict(zip(report.names, report.series.concentrations.tolist(), strict=True))
    levels = {
        name: level for name, level in (estimation.get("levels") or {}).items() if name in true
    }
    away = [difference(level.get("mode"), true[name]) for name, level in levels.items()]
    sets = [level.get("set90") or [] for level in levels.values()]
    columns = [
        Column("true", [f"{name} {unit}" for name in levels]),
        Column("most probable", [number(level.get("mode")) for level in levels.values()]),
        Column("mean", [number(level.get("mean")) for level in levels.values()]),
        Column("error", away),
        Column("90% set", [parts or "undefined" for parts in sets], digits=3),
        Column("several parts", [level.get("disconnected") for level in levels.values()]),
        Column("p-value", [number(level.get("p_value"), 2) for level in levels.values()]),
    ]
    return [sentence, Table("concentrations", f"concentrations ({unit})", columns)]


def _device(report: Report) -> list[Part]:
    described = report.metrics["device"]
    facts = [(key, str(described.get(key))) for key in ("device", "name", "training", "geometry")]
    about = "What ran the pipeline, and its precision; metrics/benchmark.json has times and memory."
    return [about, Table.of_facts("run", facts)]
