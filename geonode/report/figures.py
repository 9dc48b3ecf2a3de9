"""The figures of the page.

Colours are those of Okabe and Ito, Color Universal Design (2008), and viridis: colour-blind readers
can tell them apart, and they read on a light page and on a dark one.
"""

import math
from typing import Any

import numpy as np
from jaxtyping import Float
from plotly.colors import sample_colorscale

from geonode.report.data import Paths, Posterior, PosteriorMetric, Report, Training, drawn, sample
from geonode.report.figure import (
    INK,
    MUTED,
    Figure,
    Selector,
    numbers,
    text,
    titled,
)
from geonode.report.wording import difference, number, quantity, signed

MODEL, BAND, SECOND = "#d55e00", "rgba(213,94,0,0.3)", "#0072b2"
NAMED = 12
"""Most lines that are named one by one; more are told apart by a colour bar."""

VISIBLE = (0.2, 0.9)
"""Part of viridis that is neither too dark for a dark page nor too bright for a light one."""

CLIPPED = 99.0
"""Percentile of absolute values at which the colours of a map around zero saturate."""

SMALL_RANGE = 3.0  # between two values, that a linear axis shows well
MOST_DECADES = 8
NAMED_TICKS = 25
ERROR_COLUMNS = 300
MAP_DIGITS = 3  # of numbers that are seen as colours

RAMP = [
    [place, sample_colorscale("Viridis", [VISIBLE[0] + place * (VISIBLE[1] - VISIBLE[0])])[0]]
    for place in np.linspace(0, 1, 9).tolist()
]


def spectra_figure(report: Report) -> Figure:
    """Measured spectra of all levels."""
    series, at = report.series, drawn(report.series)
    axis = numbers(series.axis[at])
    colours = _colours(len(report.names))
    few = len(report.names) <= NAMED
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": text(f"{name} {report.level_unit}"),
            "x": axis,
            "y": numbers(spectrum[at]),
            "line": {"color": colour, "width": 1.6},
            "showlegend": few,
        }
        for name, spectrum, colour in zip(report.names, series.signal, colours, strict=True)
    ]
    if not few:
        traces.append(_colour_bar(report, series.axis[0], series.signal[0, 0]))
    layout = {"xaxis": titled(series.axis_label), "yaxis": titled(series.signal_label)}
    what, caption = (
        "measured spectra",
        "" if few else f"Colours: concentration, {report.level_unit}.",
    )
    return Figure("spectra", what, traces, layout, 440, caption=caption)


def folds_figure(report: Report) -> Figure:
    """Measured and predicted spectrum of a left-out level, with a band."""
    series, found, at = report.series, report.predictions, drawn(report.series)
    axis = numbers(series.axis[at])
    band = text(found.band)
    edge = {"width": 0, "color": MODEL}
    line: dict[str, Any] = {"type": "scatter", "mode": "lines", "x": axis}
    traces = [
        {**line, "line": edge, "showlegend": False, "hoverinfo": "skip"},
        {
            **line,
            "name": band,
            "line": edge,
            "fill": "tonexty",
            "fillcolor": BAND,
            "hoverinfo": "skip",
        },
        {**line, "name": "measured", "line": {"color": INK, "width": 2.4}},
        {**line, "name": "predicted", "line": {"color": MODEL, "width": 1.6}},
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
    return Figure("folds", what, traces, layout, 440, [_levels(report, "left out")], choices)


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
        **_around_zero(error),
    }
    layout = {
        "xaxis": titled(series.axis_label),
        "yaxis": _level_axis(report),
    }
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
        "y": numbers(np.array([_or_nan(fold.get("rmse")) for fold in folds])),
        "marker": {"color": MODEL},
        "hovertemplate": "%{x}: %{y}<extra></extra>",
    }
    layout = {
        "xaxis": _level_axis(report),
        "yaxis": titled(f"RMSE, {report.series.signal_label}", rangemode="tozero"),
    }
    return Figure("rmse", "root mean square error of every left-out level", [trace], layout, 300)


def map_figures(report: Report) -> list[Figure]:
    """Metric and Christoffel symbol by concentration and wavelength."""
    maps, series = report.maps, report.series
    places, axis = _concentration_axis(report, maps.concentrations)
    layout = {"xaxis": titled(series.axis_label), "yaxis": axis}
    common = {
        "type": "heatmap",
        "x": numbers(maps.axis),
        "y": numbers(places),
        "hovertemplate": "%{x}, %{y}: %{z}<extra></extra>",
    }
    # Colours are those of log g: so many times more is as far, wherever on the scale.
    metric = {
        **common,
        "z": numbers(np.log10(maps.metric), MAP_DIGITS),
        "colorscale": "Cividis",
        "colorbar": {**_bar(), **_logarithmic_ticks(maps.metric)},
    }
    symbol = {
        **common,
        "z": numbers(maps.symbol, MAP_DIGITS),
        **_around_zero(maps.symbol),
    }
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
    edge: dict[str, Any] = {"type": "scatter", "mode": "lines", "x": places, "line": {"width": 0}}
    traces: list[dict[str, Any]] = [
        {**edge, "y": numbers(low), "showlegend": False, "hoverinfo": "skip"},
        {**edge, "y": numbers(high), "fill": "tonexty", "fillcolor": BAND, "name": "± deviation"},
        {
            "type": "scatter",
            "mode": "lines",
            "name": "mean",
            "x": places,
            "y": numbers(metric.mean),
            "line": {"color": MODEL, "width": 2},
        },
    ]
    unit = _unit(report.level_unit)
    layout = {
        "xaxis": titled(f"concentration ({unit})" if unit else "concentration"),
        "yaxis": titled(f"√g (1/{unit})" if unit else "√g", rangemode="tozero"),
    }
    what = "posterior mean and standard deviation of the square root of the metric"
    return Figure("posterior-metric", what, traces, layout, 360)


def paths_figure(report: Report, paths: Paths) -> Figure:
    """Geodesics between two levels at some wavelengths."""
    line: dict[str, Any] = {"type": "scatter", "mode": "lines", "x": numbers(paths.times)}
    colours = _colours(len(paths.axis))
    traces = [
        {
            **line,
            "name": text(f"{number(value, 4)} {_unit(report.axis_unit)}".strip()),
            "line": {"color": colour, "width": 2},
        }
        for value, colour in zip(paths.axis.tolist(), colours, strict=True)
    ]
    straight = {"color": MUTED, "width": 1.4, "dash": "dash"}
    traces.append({**line, "name": "flat metric", "line": straight})
    choices: dict[str, dict[str, Any]] = {}
    for pair, (source, target) in enumerate(zip(paths.source, paths.target, strict=True)):
        curves = np.concatenate([paths.concentrations[pair], paths.flat[pair, None]])
        places, axis = _concentration_axis(report, curves)
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
    selectors = [_levels(report, "from"), _levels(report, "to", last)]
    what = "concentration along the geodesic between two levels"
    return Figure("geodesics", what, traces, layout, 420, selectors, choices)


def posterior_figure(report: Report, posteriors: dict[str, Posterior]) -> Figure:
    """Posterior density of the concentration of a left-out spectrum."""
    estimated = (report.scores.get("estimation") or {}).get("levels") or {}
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "posterior density",
            "line": {"color": MODEL, "width": 2},
            "fill": "tozeroy",
            "fillcolor": BAND,
        },
        {
            "type": "scatter",
            "mode": "lines",
            "name": "90 % set",
            "line": {"color": SECOND, "width": 7},
            "hoverinfo": "skip",
        },
        {
            "type": "scatter",
            "mode": "lines",
            "name": "true concentration",
            "line": {"color": INK, "width": 2, "dash": "dash"},
        },
    ]
    choices = {}
    for level, name in enumerate(report.names):
        if name in posteriors:
            choices[str(level)] = _posterior_choice(
                report, level, posteriors[name], estimated.get(name) or {}
            )
    shown = [level for level in range(len(report.names)) if str(level) in choices]
    _, axis = _concentration_axis(report, report.series.concentrations)
    layout = {
        "xaxis": axis,
        "yaxis": titled(f"density (1/{report.level_unit})", rangemode="tozero"),
    }
    what = "posterior density of the concentration of the spectrum that was left out"
    selector = _levels(report, "left out", str(shown[0]), shown)
    return Figure("posterior", what, traces, layout, 400, [selector], choices)


def _posterior_choice(
    report: Report, level: int, posterior: Posterior, estimate: dict[str, Any]
) -> dict[str, Any]:
    unit = report.level_unit
    true = float(report.series.concentrations[level])
    points, _ = _concentration_axis(report, posterior.concentrations)
    edges = np.array([[low, high, math.nan] for low, high in estimate.get("set90") or []])
    ends, _ = _concentration_axis(report, edges.reshape(-1))
    line, _ = _concentration_axis(report, np.array([true, true]))
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
    """Loss terms over the epochs of a training, one line a fold."""
    folds = len(log.epochs)
    names = [*(f"{name} {report.level_unit}" for name in report.names), "all levels"]
    colours = [*_colours(folds - 1), INK]
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": text(name),
            "x": log.epochs[fold],
            "line": {"color": colours[fold], "width": 1.4},
            "showlegend": folds - 1 <= NAMED or fold == folds - 1,
        }
        for fold, name in enumerate(names)
    ]
    choices = {
        str(term): {
            "y": [numbers(np.array(values)) for values in of_folds],
            "yaxis": titled(_spaced(name), **_scale(of_folds)),
            "note": "",
        }
        for term, (name, of_folds) in enumerate(log.terms.items())
    }
    options = [(str(term), _spaced(name)) for term, name in enumerate(log.terms)]
    layout = {"xaxis": titled("epoch"), "yaxis": {}}
    selector = Selector("quantity", options, "0")
    what = "loss over the epochs of training, one line a fold"
    return Figure(f"training-{place}", what, traces, layout, 400, [selector], choices)


def _colours(count: int) -> list[str]:
    low, high = VISIBLE
    places = np.linspace(low, high, count) if count > 1 else np.array([(low + high) / 2])
    return list(sample_colorscale("Viridis", places.tolist()))


def _colour_bar(report: Report, x: float, y: float) -> dict[str, Any]:
    """An invisible point that brings a colour bar of the levels, by their order."""
    last = len(report.names) - 1
    ticks = sample(last + 1, 6).tolist()
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [float(x)],
        "y": [float(y)],
        "hoverinfo": "skip",
        "showlegend": False,
        "marker": {
            "size": 0.1,
            "color": [0],
            "cmin": 0,
            "cmax": last,
            "colorscale": RAMP,
            "showscale": True,
            "colorbar": {
                **_bar(),
                "tickvals": ticks,
                "ticktext": [text(report.names[tick]) for tick in ticks],
            },
        },
    }


def _bar() -> dict[str, Any]:
    """A colour bar above the figure, where a narrow screen has room for it."""
    return {
        "orientation": "h",
        "thickness": 12,
        "x": 0.5,
        "xanchor": "center",
        "y": 1,
        "yanchor": "bottom",
        "ypad": 12,
        "outlinewidth": 0,
        "exponentformat": "power",
    }


def _around_zero(values: Float[np.ndarray, "..."]) -> dict[str, Any]:
    limit = float(f"{np.percentile(np.abs(values), CLIPPED):.3g}") or 1.0
    blue_to_red = [[0, "#2166ac"], [0.25, "#92c5de"], [0.5, "#f7f7f7"], [0.75, "#f4a582"]]
    return {
        "colorscale": [*blue_to_red, [1, "#b2182b"]],
        "zmin": -limit,
        "zmax": limit,
        "colorbar": _bar(),
    }


def _concentration_axis(
    report: Report, concentrations: Float[np.ndarray, "..."]
) -> tuple[Float[np.ndarray, "..."], dict[str, Any]]:
    """Where concentrations are drawn, and the axis there: on the chart of the series."""
    chart = report.series.chart
    label = f"concentration ({report.level_unit})"
    if chart.kappa == math.inf:
        return concentrations, titled(label, type="linear")
    if chart.kappa == 0:
        return concentrations, titled(label, **_logarithmic_axis(chart.low, chart.high))
    places = np.unique(_spread(report.series.positions))
    names = [text(report.names[place]) for place in places]
    ticks = numbers(report.series.positions[places])
    return chart.position(concentrations), titled(label, tickvals=ticks, ticktext=names)


def _spread(positions: Float[np.ndarray, "level"]) -> list[int]:
    """Levels whose labels do not overlap."""
    chosen = [0]
    for level, position in enumerate(positions):
        if position - positions[chosen[-1]] > 0.15:
            chosen.append(level)
    return chosen


def _logarithmic_ticks(values: Float[np.ndarray, "..."]) -> dict[str, Any]:
    """Ticks of a colour bar whose colours are those of logarithms."""
    low, high = np.log10(values.min()), np.log10(values.max())
    ticks = low + (high - low) * np.linspace(0.05, 0.95, 5)  # labels at the ends would be cut
    return {"tickvals": numbers(ticks), "ticktext": [number(10**tick, 2) for tick in ticks]}


def _scale(of_folds: list[list[float]]) -> dict[str, Any]:
    """A logarithmic axis with few ticks, or a linear one for a small range or values below zero."""
    values = [value for fold in of_folds for value in fold]
    low, high = min(values), max(values)
    if low <= 0 or high / low < SMALL_RANGE:
        return {"type": "linear"}
    return _logarithmic_axis(low, high)


def _logarithmic_axis(low: float, high: float) -> dict[str, Any]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = {1: (1, 2, 5), 2: (1, 2, 5), 3: (1, 3)}.get(last - first, (1,))
    powers = range(first, last + 1, math.ceil((last - first) / MOST_DECADES))
    ticks = [float(f"{step}e{power}") for power in powers for step in steps]
    return {"type": "log", "tickvals": ticks, "ticktext": [number(tick, 1) for tick in ticks]}


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _levels(
    report: Report, label: str, first: str = "0", shown: list[int] | None = None
) -> Selector:
    levels = range(len(report.names)) if shown is None else shown
    options = [(str(level), f"{report.names[level]} {report.level_unit}") for level in levels]
    return Selector(label, options, first)


def _level_axis(report: Report) -> dict[str, Any]:
    label = f"left out ({report.level_unit})"
    return titled(label, type="category", dtick=math.ceil(len(report.names) / NAMED_TICKS))


def _unit(unit: str) -> str:
    return "" if unit == "1" else unit


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value
