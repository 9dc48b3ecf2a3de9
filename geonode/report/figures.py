"""Figures of the page.

Colours are those of Okabe and Ito, Color Universal Design (2008), and viridis, for colour-blind
readers and for light and dark pages.
"""

import math
from typing import Any

import numpy as np

from geonode.report.axes import (
    around_zero,
    bar,
    colours_of,
    concentration_axis,
    level_axis,
    level_selector,
    logarithmic_ticks,
    or_nan,
    scale,
    spaced,
    unit_or_none,
)
from geonode.report.data import Paths, Posterior, PosteriorMetric, Report, Training, drawn, sample
from geonode.report.figure import (
    INK,
    MUTED,
    Figure,
    Selector,
    curve,
    numbers,
    text,
    titled,
)
from geonode.wording import difference, number, quantity, signed

MODEL, BAND, SECOND = "#d55e00", "rgba(213,94,0,0.3)", "#0072b2"
NAMED = 12
"""Largest number of lines in the legend; of more, some are named."""

ERROR_COLUMNS = 300
MAP_DIGITS = 3  # of numbers shown as colours


def spectra_figure(report: Report) -> Figure:
    """Measured spectra of all levels."""
    series, at = report.series, drawn(report.series)
    axis = numbers(series.axis[at])
    colours, named = colours_of(len(report.names)), sample(len(report.names), NAMED)
    traces = [
        curve(
            colour,
            1.6,
            name=text(f"{name} {report.level_unit}"),
            x=axis,
            y=numbers(spectrum[at]),
            showlegend=level in named,
        )
        for level, (name, spectrum, colour) in enumerate(
            zip(report.names, series.signal, colours, strict=True)
        )
    ]
    layout = {"xaxis": titled(series.axis_label), "yaxis": titled(series.signal_label)}
    return Figure("spectra", "measured spectra", traces, layout, 440)


def folds_figure(report: Report) -> Figure:
    """Measured and predicted spectrum of a left-out level, with a band."""
    series, found, at = report.series, report.predictions, drawn(report.series)
    axis = numbers(series.axis[at])
    traces = [
        *band(text(found.band), x=axis, hoverinfo="skip"),
        curve(INK, 2.4, name="measured", x=axis),
        curve(MODEL, 1.6, name="predicted", x=axis),
    ]
    choices = {}
    for level, name in enumerate(report.names):
        predicted, half_width = found.predicted[level, at], found.half_width[level, at]
        edges = (predicted - half_width, predicted + half_width)
        spectra = (*edges, found.measured[level, at], predicted)
        choices[str(level)] = {
            "y": [numbers(spectrum) for spectrum in spectra],
            "note": _fold_note(report, name),
        }
    layout = {"xaxis": titled(series.axis_label), "yaxis": titled(series.signal_label)}
    what = "measured and predicted spectrum of the level that was left out"
    return Figure("folds", what, traces, layout, 440, [level_selector(report, "left out")], choices)


def band(name: str, **more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Traces of the lower and the upper edge of a band, with the area between them."""
    low = curve(MODEL, 0, showlegend=False, **more | {"hoverinfo": "skip"})
    return low, curve(MODEL, 0, name=name, fill="tonexty", fillcolor=BAND, **more)


def _fold_note(report: Report, name: str) -> str:
    scores = report.scores["folds"][name]
    rmse = quantity(scores.get("rmse"), report.signal_unit)
    largest = quantity(scores.get("max_error"), report.signal_unit)
    outside = "; extrapolated" if name in (report.names[0], report.names[-1]) else ""
    return (
        f"{name} {report.level_unit} left out{outside}: R² {number(scores.get('r2'))}, "
        f"RMSE {rmse}, largest error {largest}"
    )


def error_figure(report: Report) -> Figure:
    """Error by wavelength and left-out level."""
    series, found = report.series, report.predictions
    error = found.predicted - found.measured
    columns = sample(len(series.axis), ERROR_COLUMNS)
    trace = {
        "type": "heatmap",
        "x": numbers(series.axis[columns]),
        "y": report.names,
        "z": numbers(error[:, columns], MAP_DIGITS),
        "hovertemplate": "%{y}, %{x}: %{z}<extra></extra>",
        **around_zero(error),
    }
    layout = {"xaxis": titled(series.axis_label), "yaxis": level_axis(report)}
    height = round(min(260 + 18 * len(report.names), 640))
    what = "error by wavelength and left-out level"
    caption = f"Colours: predicted − measured, {series.signal_label}."
    return Figure("error", what, [trace], layout, height, caption=caption)


def rmse_figure(report: Report) -> Figure:
    """RMSE of every left-out level."""
    folds = [report.scores["folds"][name] for name in report.names]
    trace = {
        "type": "bar",
        "x": report.names,
        "y": numbers(np.array([or_nan(fold.get("rmse")) for fold in folds])),
        "marker": {"color": MODEL},
        "hovertemplate": "%{x}: %{y}<extra></extra>",
    }
    layout = {
        "xaxis": level_axis(report),
        "yaxis": titled(f"RMSE, {report.series.signal_label}", rangemode="tozero"),
    }
    return Figure("rmse", "root mean square error of every left-out level", [trace], layout, 300)


def map_figures(report: Report) -> list[Figure]:
    """Metric and Christoffel symbol by concentration and wavelength."""
    maps, series = report.maps, report.series
    places, axis = concentration_axis(report, maps.concentrations)
    layout = {"xaxis": titled(series.axis_label), "yaxis": axis}
    common = {
        "type": "heatmap",
        "x": numbers(maps.axis),
        "y": numbers(places),
        "hovertemplate": "%{x}, %{y}: %{z}<extra></extra>",
    }
    # Colours are of log g, so that equal ratios have equal distances.
    metric = {
        **common,
        "z": numbers(np.log10(maps.metric), MAP_DIGITS),
        "colorscale": "Cividis",
        "colorbar": {**bar(), **logarithmic_ticks(maps.metric)},
    }
    symbol = {**common, "z": numbers(maps.symbol, MAP_DIGITS), **around_zero(maps.symbol)}
    return [
        Figure(name, f"heat map of the {what}", [trace], layout, 420, caption=f"Colours: {what}.")
        for name, what, trace in (
            ("metric", "metric g", metric),
            ("christoffel", "Christoffel symbol G", symbol),
        )
    ]


def posterior_metric_figure(report: Report, metric: PosteriorMetric) -> Figure:
    """Mean and spread of sqrt(g) over concentration."""
    low = (metric.mean - metric.deviation).clip(min=0)
    high = metric.mean + metric.deviation
    places = numbers(metric.concentrations)
    edges = band("± deviation", x=places)
    for edge, values in zip(edges, (low, high), strict=True):
        edge["y"] = numbers(values)
    traces = [*edges, curve(MODEL, 2, name="mean", x=places, y=numbers(metric.mean))]
    unit = unit_or_none(report.level_unit)
    layout = {
        "xaxis": titled(f"concentration ({unit})" if unit else "concentration"),
        "yaxis": titled(f"√g (1/{unit})" if unit else "√g", rangemode="tozero"),
    }
    what = "posterior mean and standard deviation of the square root of the metric"
    return Figure("posterior-metric", what, traces, layout, 360)


def paths_figure(report: Report, paths: Paths) -> Figure:
    """Geodesics between two levels at some wavelengths."""
    times, unit = numbers(paths.times), unit_or_none(report.axis_unit)
    traces = [
        curve(colour, 2, name=text(f"{number(value, 4)} {unit}".strip()), x=times)
        for value, colour in zip(paths.axis.tolist(), colours_of(len(paths.axis)), strict=True)
    ]
    traces.append(curve(MUTED, 1.4, line={"dash": "dash"}, name="flat metric", x=times))
    choices: dict[str, dict[str, Any]] = {}
    for pair, (source, target) in enumerate(zip(paths.source, paths.target, strict=True)):
        curves = np.concatenate([paths.concentrations[pair], paths.flat[pair, None]])
        places, axis = concentration_axis(report, curves)
        names = (report.names[source], report.names[target])
        away = float(np.abs(paths.concentrations[pair] - paths.flat[pair]).max())
        choices[f"{source}|{target}"] = {
            "y": numbers(places),
            "note": (
                f"From {names[0]} to {names[1]} {report.level_unit}; at most "
                f"{quantity(away, report.level_unit)} from the dashed line."
            ),
        }
    same = "Choose two different levels."
    for level in range(len(report.names)):
        choices[f"{level}|{level}"] = {"y": [[] for _ in traces], "note": same}
    layout = {"xaxis": titled("affine parameter t"), "yaxis": axis}
    last = str(len(report.names) - 1)
    selectors = [level_selector(report, "from"), level_selector(report, "to", last)]
    what = "concentration along the geodesic between two levels"
    return Figure("geodesics", what, traces, layout, 420, selectors, choices)


def posterior_figure(report: Report, posteriors: dict[str, Posterior]) -> Figure:
    """Posterior density of the concentration of a left-out spectrum."""
    estimated = (report.scores.get("estimation") or {}).get("levels") or {}
    traces = [
        curve(MODEL, 2, name="posterior density", fill="tozeroy", fillcolor=BAND),
        curve(SECOND, 7, name="90 % set", hoverinfo="skip"),
        curve(INK, 2, line={"dash": "dash"}, name="true concentration"),
    ]
    shown = [level for level, name in enumerate(report.names) if name in posteriors]
    choices = {
        str(level): _posterior_choice(report, level, posteriors[name], estimated.get(name) or {})
        for level, name in enumerate(report.names)
        if level in shown
    }
    _, axis = concentration_axis(report, report.series.concentrations)
    layout = {
        "xaxis": axis,
        "yaxis": titled(f"density (1/{report.level_unit})", rangemode="tozero"),
    }
    what = "posterior density of the concentration of the spectrum that was left out"
    selector = level_selector(report, "left out", str(shown[0]), shown)
    return Figure("posterior", what, traces, layout, 400, [selector], choices)


def _posterior_choice(
    report: Report, level: int, posterior: Posterior, estimate: dict[str, Any]
) -> dict[str, Any]:
    unit = report.level_unit
    true = float(report.series.concentrations[level])
    points, _ = concentration_axis(report, posterior.concentrations)
    edges = np.array([[low, high, math.nan] for low, high in estimate.get("set90") or []])
    ends, _ = concentration_axis(report, edges.reshape(-1))
    line, _ = concentration_axis(report, np.array([true, true]))
    top = float(posterior.density.max())
    note = f"true: {report.names[level]} {unit}"
    if estimate:
        note += (
            f"; most probable: {quantity(estimate.get('mode'), unit)}; "
            f"mean: {quantity(estimate.get('mean'), unit)}; "
            f"error: {signed(difference(estimate.get('mode'), true), unit)}"
        )
    return {
        "x": [numbers(points), numbers(ends), numbers(line)],
        "y": [
            numbers(posterior.density),
            [None if math.isnan(end) else 0 for end in ends],
            numbers(np.array([0.0, top])),
        ],
        "note": note,
    }


def training_figure(report: Report, place: int, log: Training) -> Figure:
    """Loss terms over the epochs of a training, one line per fold."""
    folds = len(log.epochs)
    names = [*(f"{name} {report.level_unit}" for name in report.names), "all levels"]
    colours = [*colours_of(folds - 1), INK]
    traces = [
        curve(
            colours[fold],
            1.4,
            name=text(name),
            x=log.epochs[fold],
            showlegend=folds - 1 <= NAMED or fold == folds - 1,
        )
        for fold, name in enumerate(names)
    ]
    choices = {
        str(term): {
            "y": [numbers(np.array(values)) for values in of_folds],
            "yaxis": titled(spaced(name), **scale(of_folds)),
            "note": "",
        }
        for term, (name, of_folds) in enumerate(log.terms.items())
    }
    options = [(str(term), spaced(name)) for term, name in enumerate(log.terms)]
    layout = {"xaxis": titled("epoch"), "yaxis": {}}
    selector = Selector("quantity", options, "0")
    what = "loss over the epochs of training, one line a fold"
    return Figure(f"training-{place}", what, traces, layout, 400, [selector], choices)
