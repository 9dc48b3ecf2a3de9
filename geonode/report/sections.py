"""Sections of the page, in order."""

import math
from collections.abc import Mapping
from typing import Any

from geonode.report.data import Report, drawn
from geonode.report.figures import (
    error_figure,
    folds_figure,
    map_figures,
    paths_figure,
    posterior_figure,
    posterior_metric_figure,
    rmse_figure,
    spectra_figure,
    training_figure,
)
from geonode.report.html_parts import Part, Section, Table, Verdict
from geonode.report.unmeasured import unmeasured
from geonode.report.verdicts import verdicts
from geonode.spectra.chart import Chart
from geonode.wording import difference, listed, number, quantity, share, signed

ABSENT = "not measured"


FOLD_SCORES = ("r2", "rmse", "mae", "max_error", "pearson", "peak_position_error")
"""Scores of a fold shown in the table; all are in validate.json."""


def header(report: Report) -> Section:
    """Summary section: the measured series and the main results."""
    series, unit = report.series, report.level_unit
    levels = f"{len(report.names)} levels: {listed(report.names)} {unit}"
    low, high = (quantity(end, report.axis_unit, 4) for end in series.axis[[0, -1]].tolist())
    facts = [
        ["source", report.source],
        ["levels", levels],
        ["axis", f"{series.labels['axis'].replace('_', ' ')}, {low} to {high}"],
        ["wavelengths", number(len(series.axis))],
        ["spectra", series.signal_label],
        ["scans", number(int(report.scans.sum()))],
        ["chart given", _chart(series.chart, unit)],
        ["chart learned", _chart(report.chart, unit)],
    ]
    return Section(
        "summary",
        f"{report.source}: every spectrum predicted from the others",
        [
            "Each level was left out in turn, its spectrum was predicted from the others, and the "
            "prediction was compared with what was measured. With a mouse, drag over a "
            "figure to zoom in and double-click to return.",
            verdicts(report),
            Table("the series", [], facts),
        ],
    )


def sections(report: Report) -> list[Section]:
    """All sections after the header."""
    return [
        _data(report),
        _folds(report),
        _errors(report),
        _scores(report),
        _maps(report),
        _paths(report),
        _posterior(report),
        _training(report),
        _machine(report),
        Section(
            "unmeasured",
            "What was not measured",
            [
                "Limits of the numbers above, with reasons.",
                [Verdict(sentence) for sentence in unmeasured(report)],
            ],
        ),
    ]


def _chart(chart: Chart, unit: str) -> str:
    if chart.kappa == math.inf:
        return "linear"
    return "logarithmic" if chart.kappa == 0 else f"asinh, kappa {quantity(chart.kappa, unit)}"


def _data(report: Report) -> Section:
    count, shown = len(report.series.axis), len(drawn(report.series))
    thinned = f" {number(shown)} of {number(count)} points are drawn." if shown < count else ""
    noise = report.metrics["spectra"].get("replicate_noise")
    repeats = (
        f"Scans of one level differ by {quantity(noise, report.signal_unit)} (standard deviation "
        "of one scan): a smaller error cannot be distinguished from noise."
        if noise is not None
        else "No level was scanned twice, so the noise of a scan is not known."
    )
    share_of = report.metrics["spectra"].get("non_monotonic_share")
    rising = (
        f" At {share(share_of)} of the wavelengths the signal both rises and falls with "
        "concentration."
        if share_of is not None
        else ""
    )
    opening = (
        "The measured spectrum of every level, averaged over its scans: the brighter the line, "
        "the higher the concentration."
    )
    return Section(
        "data", "The data", [opening + thinned, repeats + rising, spectra_figure(report)]
    )


def _folds(report: Report) -> Section:
    band = report.predictions.band
    promise = (
        "the shaded band should hold the measured line at nine of ten wavelengths"
        if band == "90% interval"
        else f"the shaded band is the {band} of the members and promises nothing"
    )
    opening = (
        "The measured spectrum of one level and the one predicted without having seen it: the "
        f"closer the lines, the better; {promise}."
    )
    return Section("folds", "Leave one out", [opening, folds_figure(report)])


def _errors(report: Report) -> Section:
    return Section(
        "errors",
        "Error by wavelength",
        [
            "Where predictions are too high (red) and too low (blue), one row for every level "
            "left out; colours saturate at the largest 1 % of errors.",
            error_figure(report),
            "The error of every left-out level in one number: shorter is better. The first and "
            "the last level are extrapolated, which is harder.",
            rmse_figure(report),
        ],
    )


def _scores(report: Report) -> Section:
    unit = report.signal_unit
    rows = [("geonode", report.scores), *report.scores["baselines"].items()]
    published = report.scores.get("published_method")
    if published:
        rows.append(("published method: perceptrons on paths", published))
    rows.sort(key=lambda row: row[1]["rmse"])
    place = next(place for place, row in enumerate(rows) if row[1] is report.scores)
    titles = [_with_unit("RMSE", unit), "Q²", "pooled R²", "interior R²"]
    against = Table(
        "all levels, smallest error first",
        ["method", *titles],
        [[name.replace("_", " "), *_four(found)] for name, found in rows],
        frozenset({place}),
    )
    baselines = report.scores["baselines"]
    better = sum(found["rmse"] < report.scores["rmse"] for found in baselines.values())
    opening = (
        "Every method predicted every level from the others: the smaller the RMSE and the nearer "
        "Q² and R² to 1, the better. Q² is 0 for the mean of the other spectra; R² flatters where "
        f"all spectra have one shape. {_counted(better)} of {len(baselines)} baselines "
        f"{'has' if better == 1 else 'have'} a smaller error than geonode."
    )
    parts: list[Part] = [opening, against, _fold_table(report)]
    bands = report.scores.get("bands") or {}
    if bands:
        parts.append(
            Table(
                f"parts of the axis ({report.axis_unit})",
                ["part", *titles],
                [[name, *_four(found)] for name, found in bands.items()],
            )
        )
    return Section("scores", "Scores against every baseline", parts)


def _four(scores: Mapping[str, float | None]) -> list[str]:
    """RMSE, Q², pooled and interior R². Q² of the mean is 0 but for rounding, and shown as 0."""
    ratios = (scores.get(key) for key in ("q2", "pooled_r2", "interior_pooled_r2"))
    rounded = (None if ratio is None else round(ratio, 9) for ratio in ratios)
    return [number(scores.get("rmse")), *map(number, rounded)]


def _counted(count: int) -> str:
    return "None" if count == 0 else number(count)


def _fold_table(report: Report) -> Table:
    unit, axis_unit = report.signal_unit, report.axis_unit
    titles = (
        *("R²", _with_unit("RMSE", unit), _with_unit("mean error", unit)),
        *(_with_unit("largest error", unit), "correlation"),
        _with_unit("peak moved by", axis_unit),
    )
    rows = [
        [f"{name} {report.level_unit}", *(number(fold.get(key)) for key in FOLD_SCORES)]
        for name, fold in report.scores["folds"].items()
    ]
    return Table("geonode, every left-out level", ["left out", *titles], rows)


def _with_unit(name: str, unit: str) -> str:
    return name if unit == "1" else f"{name} ({unit})"


def _maps(report: Report) -> Section:
    metric, symbol = map_figures(report)
    learned: list[Part] = []
    if report.posterior_metric is not None:
        learned = [
            "The learned geometry of the predictor: √g is the distance between two concentrations "
            "per unit of concentration. The line is the posterior mean over all metrics, the band "
            "the standard deviation; in every metric the range of the measured levels has length "
            "2.",
            posterior_metric_figure(report, report.posterior_metric),
        ]
    return Section(
        "geometry",
        "Metric and Christoffel symbol",
        [
            *learned,
            "The metric networks of the published method, one number at every wavelength. "
            "Where the metric g is large, a small step in concentration changes the spectrum much "
            "(learned from all levels, in the units of the learned chart; the colour scale is "
            "logarithmic).",
            metric,
            "The rate of change of the metric: G = ½ ∂ ln g / ∂x bends the geodesics; where it is "
            "zero (white) they are straight.",
            symbol,
        ],
    )


def _paths(report: Report) -> Section:
    if report.paths is None:
        parts: list[Part] = [
            "No trajectories are stored: set geodesics.time_points in the parameters to the "
            "number of points wanted (11, say) and run the pipeline again."
        ]
    else:
        parts = [
            "Concentration along the shortest path between two levels, at some wavelengths: the "
            "further a line is from the dashed one, the more the metric bends it.",
            paths_figure(report, report.paths),
        ]
    return Section("geodesics", "Geodesics", parts)


def _posterior(report: Report) -> Section:
    parts: list[Part] = []
    if report.posteriors:
        parts += [
            "The posterior density of the concentration of a left-out spectrum: the curve should "
            "be high at the true value (dashed), and the 90 % set (thick line) should reach it.",
            posterior_figure(report, report.posteriors),
        ]
    estimation = report.scores.get("estimation")
    if estimation:
        parts += _estimates(report, estimation)
    if not parts:
        parts = ["Concentrations were not estimated from spectra in this run."]
    return Section("posterior", "Concentration of every left-out spectrum", parts)


def _estimates(report: Report, estimation: dict[str, Any]) -> list[Part]:
    unit = report.level_unit
    sentence = (
        "The most probable concentration is off by "
        f"{quantity(estimation.get('median_absolute_error'), unit)} (median) and "
        f"{quantity(estimation.get('mean_absolute_error'), unit)} (mean); the 90 % sets hold the "
        f"true value of {share(estimation.get('coverage90'))} of the levels. A p-value below 0.01 "
        "means that the spectrum resembles none that geonode expects."
    )
    calibrations = report.scores.get("calibrations") or {}
    if calibrations:
        by = [
            f"{name.replace('_', ' ')} {quantity(found.get('median_absolute_error'), unit)}"
            for name, found in calibrations.items()
        ]
        sentence += f" Classical calibrations are off by (median) {listed(by)}."
    true = dict(zip(report.names, report.series.concentrations.tolist(), strict=True))
    rows = [
        [
            f"{name} {unit}",
            number(found.get("mode")),
            number(found.get("mean")),
            signed(difference(found.get("mode"), true[name]), "1"),
            _set(found.get("set90")),
            {True: "yes", False: "no"}.get(found.get("disconnected"), "undefined"),
            number(found.get("p_value"), 2),
        ]
        for name, found in (estimation.get("levels") or {}).items()
        if name in true
    ]
    titles = ("most probable", "mean", "error", "90 % set", "several parts", "p-value")
    return [sentence, Table(f"concentrations ({unit})", ["true", *titles], rows)]


def _set(parts: list[list[float]] | None) -> str:
    if not parts:
        return "undefined"
    return "; ".join(f"{number(low)} to {number(high)}" for low, high in parts)


def _training(report: Report) -> Section:
    parts: list[Part] = [
        "Losses during the training, one line for every level left out and one for all levels, "
        "averaged over the members: lines should fall and then flatten."
    ]
    for place, (what, log) in enumerate(report.training.items()):
        parts += [f"Training of {what}.", training_figure(report, place, log)]
    if not report.training:
        parts = ["Nothing was trained in this run."]
    return Section("training", "Training", parts)


def _machine(report: Report) -> Section:
    environment, summary = report.metrics["env"], report.metrics["summary"]
    named = ("device", "name", "training", "geometry", "processor", "cores", "system", "torch")
    machine = [[key, _plain(environment.get(key))] for key in named]
    seconds = [[name, number(found)] for name, found in (summary.get("seconds") or {}).items()]
    parts: list[Part] = [
        "The machine that computed this page's numbers.",
        Table("this run", [], machine),
    ]
    if seconds:
        parts += [
            "Seconds of a stage are those of its whole command, start included.",
            Table("every stage", ["stage", "seconds"], seconds),
            f"Largest memory of a stage: {number(summary.get('peak_mb'), absent=ABSENT)} MB.",
        ]
    else:
        parts.append("Time and memory are not on record.")
    return Section("machine", "Device and time", parts)


def _plain(value: object) -> str:
    return ABSENT if value is None else str(value)
