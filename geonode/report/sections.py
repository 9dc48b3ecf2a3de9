"""The report of a run: its sections, in order."""

import math
from collections.abc import Mapping
from typing import Any

from geonode.report.data import Report
from geonode.report.figures import (
    error_figure,
    folds_figure,
    map_figures,
    metric_figure,
    paths_figure,
    posterior_figure,
)
from geonode.report.kit import spectra_figure
from geonode.report.page import Page, Part, Section, Statement
from geonode.spectra.chart import Chart
from geonode.storage.table import Column, Table
from geonode.wording import difference, listed, number, quantity, share, signed

WHERE = (
    "Where predictions are too high (red) and too low (blue), one row for every level left out. "
    "The colours saturate at the largest 1 % of errors."
)


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
        Section("data", "The data", _data(report)),
        Section("folds", "Leave one out", _folds(report)),
        Section("errors", "Error by wavelength", [WHERE, error_figure(report)]),
        Section("scores", "Scores beside those of simple methods", _scores_of_methods(report)),
        Section("geometry", "Metric and Christoffel symbol", _geometry(report)),
        Section("geodesics", "Geodesics", _paths(report)),
        Section("posterior", "Concentration of every left-out spectrum", _posterior(report)),
        Section("device", "Device", _device(report)),
        Section("unmeasured", "What was not measured", [_unmeasured(report)]),
    ]
    heading = f"{report.source}: every spectrum predicted from the others"
    return Page(f"{report.source}: leave-one-out report", heading, lead, sections)


def _series_facts(report: Report) -> Table:
    series, unit = report.series, report.series.unit
    axis_unit = series.labels["axis_unit"]
    low, high = (quantity(end, axis_unit, 4) for end in series.axis[[0, -1]].tolist())
    facts = [
        ("source", report.source),
        ("levels", f"{len(report.names)} levels: {listed(report.names)} {unit}"),
        ("axis", f"{series.labels['axis'].replace('_', ' ')}, {low} to {high}"),
        ("wavelengths", number(len(series.axis))),
        ("spectra", series.signal_label),
        ("scans", number(report.metrics["spectra"].get("scans"))),
        ("chart of concentration", _chart_text(series.chart, unit)),
        ("chart of the learned metric", _chart_text(report.chart, unit)),
    ]
    return Table.of_facts("series", "the series", facts)


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
    found = [
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
        found.append(
            Statement(
                f"Skill is {number(skill)}: the error is {share(abs(skill))} "
                f"{'smaller' if skill > 0 else 'larger'} than that of the simple method that would "
                "have been chosen without hindsight (RMSE "
                f"{quantity(scores['chosen_baseline_rmse'], unit)}).",
                *_comparison(-skill, 0.0),
            )
        )
    held = (scores.get("coverage") or {}).get("90")
    if held is None:
        said = "No intervals were calibrated: how far to trust a prediction is not known."
        return [*found, Statement(said)]
    good = held["all"] >= 0.9
    sentence = (
        f"The 90% intervals hold {share(held['all'])} of the measured points "
        f"({share(held['interior'])} between the ends, {share(held['ends'])} at the two ends); "
        f"on average they are ±{quantity(held['half_width'], unit)} wide."
    )
    return [*found, Statement(sentence, good, "As promised." if good else "Less than promised.")]


def _comparison(error: float, other: float) -> tuple[bool | None, str]:
    """Whether an error is smaller than another, and the word for it."""
    if error == other:
        return None, "Equal."
    return (True, "Better.") if error < other else (False, "Worse.")


def _data(report: Report) -> list[Part]:
    about, count, shown = report.metrics["spectra"], len(report.series.axis), len(report.drawn)
    told = ["The measured spectrum of every level, averaged over its scans."]
    if shown < count:
        told.append(f"{number(shown)} of {number(count)} points are drawn.")
    if (noise := about.get("replicate_noise")) is None:
        told.append("No level was scanned twice, so the noise of a scan is not known.")
    else:
        said = quantity(noise, report.series.labels["signal_unit"])
        told.append(
            f"Scans of one level differ by {said} (standard deviation of one scan): a smaller "
            "error cannot be told from noise."
        )
    if (turning := about.get("non_monotonic_share")) is not None:
        told.append(
            f"At {share(turning)} of the wavelengths the signal both rises and falls with "
            "concentration, by more than its noise."
        )
    return [" ".join(told), spectra_figure(report.series, report.drawn)]


def _folds(report: Report) -> list[Part]:
    promise = (
        "the shaded band should hold the measured line at nine of ten wavelengths"
        if report.band == "90% interval"
        else f"the shaded band is the {report.band} of the members and promises nothing"
    )
    opening = (
        "The measured spectrum of one level, and the spectrum predicted from the other levels. The "
        f"closer the lines, the better; {promise}."
    )
    return [opening, folds_figure(report)]


def _scores_of_methods(report: Report) -> list[Part]:
    scores, unit, baselines = (
        report.scores,
        report.series.labels["signal_unit"],
        report.scores["baselines"],
    )
    methods = [("geonode", scores), *baselines.items()]
    if scores.get("published_method"):
        methods.append(("published method: perceptrons on paths", scores["published_method"]))
    methods.sort(key=lambda method: float(f"{method[1]['rmse']:.9g}"))  # equals as they were
    place = next(place for place, (_, found) in enumerate(methods) if found is scores)
    better = sum(found["rmse"] < scores["rmse"] for found in baselines.values())
    names = Column("method", [name.replace("_", " ") for name, _ in methods])
    columns = [names, *_score_columns([found for _, found in methods], unit)]
    parts: list[Part] = [
        "Every method predicted every level from the others: the smaller the RMSE and the nearer "
        "Q² and R² are to 1, the better. Q² is 0 for the mean of the other spectra; R² flatters "
        f"where all spectra have one shape. {number(better) if better else 'None'} of "
        f"{len(baselines)} simple methods {'has' if better == 1 else 'have'} a smaller error than "
        "geonode.",
        Table("methods", "all levels, smallest error first", columns, frozenset({place})),
        _scores_of_levels(report),
    ]
    if bands := scores.get("bands"):
        title = f"parts of the axis ({report.series.labels['axis_unit']})"
        columns = [Column("part", [*bands]), *_score_columns([*bands.values()], unit)]
        parts.append(Table("parts", title, columns))
    return parts


def _score_columns(found: list[Mapping[str, float | None]], unit: str) -> list[Column]:
    """RMSE, Q², pooled and interior R². Q² of the mean is 0 but for rounding, and shown as 0."""
    columns = [Column("RMSE", [number(one.get("rmse")) for one in found], unit)]
    ratios = {"Q²": "q2", "pooled R²": "pooled_r2", "interior R²": "interior_pooled_r2"}
    for name, key in ratios.items():
        values = (one.get(key) for one in found)
        rounded = (None if value is None else round(value, 9) for value in values)
        columns.append(Column(name, [*map(number, rounded)]))
    return columns


def _scores_of_levels(report: Report) -> Table:
    """Scores of every level; undefined where a measured spectrum varies too little for them."""
    folds, unit = report.scores["folds"], report.series.labels["signal_unit"]
    columns = [Column("left out", [f"{name} {report.series.unit}" for name in folds])]
    columns += [
        Column(name, [number(fold.get(key)) for fold in folds.values()], unit_of_score)
        for key, name, unit_of_score in (
            ("r2", "R²", "1"),
            ("rmse", "RMSE", unit),
            ("mae", "mean error", unit),
            ("max_error", "largest error", unit),
            ("pearson", "correlation", "1"),
            ("peak_position_error", "peak moved by", report.series.labels["axis_unit"]),
        )
    ]
    kinds = [report.scores["kinds"][name] for name in folds]
    if {"posterior", "path"} <= kinds[0].keys():
        columns += [
            Column(f"RMSE, {name} alone", [number(one[kind]) for one in kinds], unit)
            for kind, name in (("posterior", "posterior"), ("path", "paths"))
        ]
        weights = [share(one["weight_of_paths"]) for one in kinds]
        columns.append(Column("weight of the paths", weights))
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
    return [
        "Concentration along the shortest path between two levels, at some wavelengths: the "
        "further a line is from the dashed one, the more the metric bends it.",
        paths_figure(report, report.paths),
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
    found = {name: of for name, of in (estimation.get("levels") or {}).items() if name in true}
    away = [difference(of.get("mode"), true[name]) for name, of in found.items()]
    sets = [of.get("set90") or [] for of in found.values()]
    columns = [
        Column("true", [f"{name} {unit}" for name in found]),
        Column("most probable", [number(of.get("mode")) for of in found.values()]),
        Column("mean", [number(of.get("mean")) for of in found.values()]),
        Column("error", [signed(one, "1") for one in away]),
        Column("90% set", [one or "undefined" for one in sets], digits=3),
        Column("several parts", [of.get("disconnected", "undefined") for of in found.values()]),
        Column("p-value", [number(of.get("p_value"), 2) for of in found.values()]),
    ]
    return [sentence, Table("concentrations", f"concentrations ({unit})", columns)]


def _device(report: Report) -> list[Part]:
    described = report.metrics["device"]
    facts = [(key, str(described.get(key))) for key in ("device", "name", "training", "geometry")]
    about = "What ran the pipeline, and its precision; metrics/benchmark.json has times and memory."
    return [about, Table.of_facts("run", "", facts)]


def _unmeasured(report: Report) -> list[Statement]:
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
    return [Statement(sentence) for sentence, missing in found.items() if missing]
