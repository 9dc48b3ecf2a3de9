"""Figures of the report."""

import json
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from geonode.report.data import NEGLIGIBLE, Paths, Report
from geonode.report.kit import (
    BAND,
    INK,
    MODEL,
    MUTED,
    SECOND,
    Figure,
    choice,
    concentration_x,
    concentration_y,
    keyed,
    level_colours,
    sample,
    wrapped,
    x_axis,
    y_axis,
    zoom,
)
from geonode.spectra.series import Series, labelled, level_names
from geonode.wording import difference, number, quantity, signed

ERROR_COLUMNS = 150
CLIPPED = 99.0
"""Percentile of absolute values at which the colours of a map about zero saturate."""


def spectra_figure(series: Series, drawn: Int[np.ndarray, "chosen"]) -> Figure:
    """Measured spectra of all levels, at some of the wavelengths."""
    unit = series.labels["concentration_unit"]
    names = [f"{name} {unit}".removesuffix(" 1") for name in level_names(series.concentrations)]
    rows = {
        "level": np.repeat(names, len(drawn)),
        "wavelength": np.tile(series.axis[drawn], len(names)),
        "signal": series.signal[:, drawn].ravel(),
    }
    chart = (
        alt.Chart(alt.NamedData("spectra"))
        .mark_line()
        .encode(
            x_axis("wavelength", series.axis_label),
            y_axis("signal", series.signal_label),
            level_colours("level", names),
        )
        .add_params(zoom())
    )
    return Figure("spectra", "measured spectra of all levels", chart, {"spectra": rows}, 380)


def folds_figure(report: Report) -> Figure:
    """Measured and predicted spectrum of a left-out level, with a band."""
    series, at = report.series, report.drawn
    predicted, half_width = report.predicted[:, at], report.half_width[:, at]
    rows = {
        "level": np.repeat(report.names, len(at)),
        "wavelength": np.tile(series.axis[at], len(report.names)),
        "measured": series.signal[:, at].ravel(),
        "predicted": predicted.ravel(),
        "low": (predicted - half_width).ravel(),
        "high": (predicted + half_width).ravel(),
    }
    of_model = f"predicted, {report.band}"
    part = keyed({"measured": INK, of_model: MODEL})
    base = alt.Chart().encode(x_axis("wavelength", series.axis_label))
    label = series.signal_label
    band = base.mark_area(opacity=BAND).encode(y_axis("low", label), alt.Y2("high"))
    lines = [
        part("measured", base.mark_line().encode(y_axis("measured", label))),
        part(of_model, base.mark_line().encode(y_axis("predicted", label))),
    ]
    notes = {name: _fold_note(report, name) for name in report.names}
    chart = (
        alt.layer(part(of_model, band).add_params(zoom()), *lines)
        .properties(data=alt.NamedData("folds"), title=_note("left_out", notes))
        .add_params(_level_choice(report, "left_out", "left out"))
        .transform_filter("datum.level == left_out")
    )
    what = "measured and predicted spectrum of the level that was left out"
    return Figure("folds", what, chart, {"folds": rows}, 380)


def _fold_note(report: Report, name: str) -> list[str]:
    scores = report.scores["folds"][name]
    rmse = quantity(scores.get("rmse"), report.signal_unit)
    largest = quantity(scores.get("max_error"), report.signal_unit)
    outside = ", extrapolated" if name in (report.names[0], report.names[-1]) else ""
    return [
        f"{name} {report.level_unit} left out{outside}",
        f"R² {number(scores.get('r2'))}, RMSE {rmse}, largest error {largest}",
    ]


def _note(parameter: str, notes: dict[str, list[str]]) -> alt.TitleParams:
    """Title of a chart about what is chosen, in lines."""
    of_all = json.dumps(notes, ensure_ascii=False)
    return alt.TitleParams(text=alt.ExprRef(f"({of_all})[{parameter}]"))


def _level_choice(
    report: Report, name: str, label: str, options: list[str] | None = None
) -> alt.Parameter:
    options = options or report.names
    return choice(name, label, options, [f"{level} {report.level_unit}" for level in options])


def error_figure(report: Report) -> Figure:
    """Error by wavelength and left-out level."""
    series = report.series
    at = sample(len(series.axis), ERROR_COLUMNS)
    error = (report.predicted - series.signal)[:, at]
    left, right = _edges(series.axis[at])
    rows = {
        "level": np.repeat(report.names, len(at)),
        "left": np.tile(left, len(report.names)),
        "right": np.tile(right, len(report.names)),
        "value": error.ravel(),
    }
    title = wrapped(f"left out ({report.level_unit})")
    chart = (
        alt.Chart(alt.NamedData("error"))
        .mark_rect()
        .encode(
            x_axis("left", series.axis_label),
            alt.X2("right"),
            alt.Y("level", type="nominal").title(title).sort(None),
            _around_zero(error, f"predicted − measured, {series.signal_label}"),
        )
    )
    what = "error by wavelength and left-out level"
    height = round(min(40 + 22 * len(report.names), 480))
    return Figure("error", what, chart, {"error": rows}, height)


def _edges(centres: Float[np.ndarray, "cell"]) -> Float[np.ndarray, "2 cell"]:
    """Lower and upper ends of cells, half-way between their centres."""
    middles = (centres[1:] + centres[:-1]) / 2
    return np.stack([[centres[0], *middles], [*middles, centres[-1]]])


def _around_zero(values: Float[np.ndarray, "..."], title: str) -> alt.Fill:
    """Colours of a map, centred at zero: too low is blue and too high is red."""
    limit = float(np.percentile(np.abs(values), CLIPPED)) or 1.0
    scale = alt.Scale(scheme="redblue", reverse=True, domain=[-limit, limit], clamp=True)
    bar = alt.Legend(title=wrapped(title), gradientLength=220, titleOrient="left")
    return alt.Fill("value", type="quantitative").scale(scale).legend(bar)


def rmse_figure(report: Report) -> Figure:
    """RMSE of every left-out level."""
    errors = [report.scores["folds"][name].get("rmse") for name in report.names]
    title = wrapped(f"left out ({report.level_unit})")
    axis = alt.Axis(labelAngle=0, labelOverlap=True)
    chart = (
        alt.Chart(alt.NamedData("rmse"))
        .mark_bar(color=MODEL)
        .encode(
            alt.X("level", type="nominal").sort(None).title(title).axis(axis),
            y_axis("rmse", f"RMSE, {report.series.signal_label}", zero=True),
        )
    )
    rows = {"level": report.names, "rmse": pd.Series(errors, dtype=float)}
    what = "root mean square error of every left-out level"
    return Figure("rmse", what, chart, {"rmse": rows}, 220)


def map_figures(report: Report) -> list[Figure]:
    """Metric and Christoffel symbol by concentration and wavelength."""
    maps, label = report.maps, labelled("concentration", report.level_unit)
    (left, right), (low, high) = _edges(maps.axis), _edges(maps.concentrations)
    rows, columns = maps.metric.shape
    cells = {
        **{"left": np.tile(left, rows), "right": np.tile(right, rows)},
        **{"low": np.repeat(low, columns), "high": np.repeat(high, columns)},
    }
    chart = (
        alt.Chart(alt.NamedData("map"))
        .mark_rect()
        .encode(
            x_axis("left", report.series.axis_label),
            alt.X2("right"),
            concentration_y("low", label, report.series.concentrations),
            alt.Y2("high"),
        )
    )
    bar = alt.Legend(title="metric g", gradientLength=220, titleOrient="left")
    logarithmic = alt.Scale(type="log", scheme="cividis")
    metric = alt.Fill("value", type="quantitative").scale(logarithmic).legend(bar)
    symbol = _around_zero(maps.symbol, "Christoffel symbol G")
    return [
        Figure(
            name,
            f"heat map of the {what}",
            chart.encode(colour),
            {"map": cells | {"value": values.ravel()}},
        )
        for name, what, values, colour in (
            ("metric", "metric g", maps.metric, metric),
            ("christoffel", "Christoffel symbol G", maps.symbol, symbol),
        )
    ]


def metric_figure(table: pd.DataFrame, levels: np.ndarray, unit: str) -> Figure:
    """Mean and standard deviation of sqrt(g) over concentration.

    Args:
        table: columns concentration, sqrt_g and deviation.
        levels: measured concentrations.
        unit: unit of the concentrations.
    """
    mean, deviation = table["sqrt_g"], table["deviation"]
    rows = table[["concentration", "sqrt_g"]].assign(
        low=(mean - deviation).clip(lower=0), high=mean + deviation
    )
    name, label = "posterior mean ± standard deviation", labelled("√g", f"1/{unit}" * (unit != "1"))
    part = keyed({name: SECOND})
    base = alt.Chart().encode(
        concentration_x("concentration", labelled("concentration", unit), levels)
    )
    chart = alt.layer(
        part(name, base.mark_area(opacity=BAND).encode(y_axis("low", label, zero=True), y2="high")),
        part(name, base.mark_line().encode(y_axis("sqrt_g", label, zero=True))),
        data=alt.NamedData("metric"),
    )
    return Figure(
        "posterior_metric",
        "posterior of the square root of the metric",
        chart,
        {"metric": rows},
        260,
    )


def paths_figure(report: Report, paths: Paths) -> Figure:
    """Geodesics between two levels at some wavelengths."""
    unit = "" if report.axis_unit == "1" else report.axis_unit
    names = [f"{number(value, 4)} {unit}".strip() for value in paths.axis.tolist()]
    pairs, of_levels = len(paths.source), np.array(report.names)
    along = np.concatenate([paths.concentrations, paths.flat[:, None]], axis=1)
    shape = along.shape
    rows = {
        "source": np.repeat(of_levels[paths.source], shape[1] * shape[2]),
        "target": np.repeat(of_levels[paths.target], shape[1] * shape[2]),
        "line": np.tile(np.repeat([*names, "flat metric"], shape[2]), pairs),
        "t": np.tile(paths.times, pairs * shape[1]),
        "concentration": along.ravel(),
    }
    label = labelled("concentration", report.level_unit)
    base = (
        alt.Chart()
        .mark_line()
        .encode(
            x_axis("t", "affine parameter t"),
            concentration_y("concentration", label, report.series.concentrations),
        )
    )
    flat = base.mark_line(strokeDash=[6, 4], color=MUTED)
    away = np.abs(along - along[:, -1:]).max(axis=(1, 2))
    notes = {
        f"{report.names[source]}|{report.names[target]}": [
            f"From {report.names[source]} to {report.names[target]} {report.level_unit}: at most "
            f"{quantity(float(one), report.level_unit)} from the dashed line of a flat metric"
        ]
        for source, target, one in zip(paths.source, paths.target, away, strict=True)
    }
    notes |= {f"{name}|{name}": ["Choose two different levels."] for name in report.names}
    chosen = [_level_choice(report, "first", "from"), _level_choice(report, "last", "to")]
    chosen[1].param["value"] = report.names[-1]
    chart = (
        alt.layer(
            base.encode(level_colours("line", names)).transform_filter(
                "datum.line != 'flat metric'"
            ),
            flat.transform_filter("datum.line == 'flat metric'"),
        )
        .properties(data=alt.NamedData("geodesics"), title=_note("first + '|' + last", notes))
        .add_params(*chosen)
        .transform_filter("datum.source == first && datum.target == last")
    )
    what = "concentration along the geodesic between two levels"
    return Figure("geodesics", what, chart, {"geodesics": rows}, 340)


def posterior_figure(report: Report) -> Figure:
    """Posterior density of the concentration of every left-out spectrum."""
    unit, levels = report.level_unit, report.series.concentrations
    true = dict(zip(report.names, levels.tolist(), strict=True))
    estimated = (report.scores.get("estimation") or {}).get("levels") or {}
    table = report.posterior
    largest = table.groupby("level")["density"].transform("max")
    table = table[table["density"] > NEGLIGIBLE * largest]
    shown = [name for name in report.names if name in set(table["level"])]
    sets = [
        (name, low, high)
        for name in shown
        for low, high in (estimated.get(name) or {}).get("set90") or []
    ]
    labels = {"density": MODEL, "90% set": SECOND, "true concentration": INK}
    part, label = keyed(labels), labelled("concentration", unit)
    at = concentration_x("concentration", label, levels)
    density = y_axis("density", labelled("density", f"1/{unit}" * (unit != "1")), zero=True)
    chosen = "datum.level == left_out"
    curve = alt.Chart(alt.NamedData("posterior")).encode(at, density).transform_filter(chosen)
    ends = alt.Chart(alt.NamedData("sets"))
    ends = ends.mark_rule(strokeWidth=6).transform_filter(chosen)
    ends = ends.encode(concentration_x("low", label, levels), x2="high", y=alt.YDatum(0))
    rule = alt.Chart(alt.NamedData("true")).mark_rule(strokeDash=[6, 4], strokeWidth=2)
    chart = (
        alt.layer(
            part("density", curve.mark_area(opacity=BAND)),
            part("density", curve.mark_line()),
            part("90% set", ends),
            part("true concentration", rule.encode(at).transform_filter(chosen)),
        )
        .properties(title=_note("left_out", _estimate_notes(report, shown, true, estimated)))
        .add_params(_level_choice(report, "left_out", "left out", shown))
    )
    what = "posterior density of the concentration of the spectrum that was left out"
    tables = {
        "posterior": table,
        "sets": pd.DataFrame(sets, columns=["level", "low", "high"]),
        "true": {"level": shown, "concentration": [true[name] for name in shown]},
    }
    return Figure("posterior", what, chart, tables, 300)


def _estimate_notes(
    report: Report, shown: list[str], true: dict[str, float], estimated: dict[str, Any]
) -> dict[str, list[str]]:
    unit, notes = report.level_unit, {}
    for name in shown:
        notes[name] = [f"true concentration {name} {unit}"]
        if found := estimated.get(name):
            notes[name].append(
                f"most probable {quantity(found.get('mode'), unit)} "
                f"(error {signed(difference(found.get('mode'), true[name]), unit)}), "
                f"mean {quantity(found.get('mean'), unit)}"
            )
    return notes


def training_figure(report: Report, what: str) -> Figure:
    """Loss over the epochs of a training, one line per fold."""
    log, names = report.training[what], [*report.names, "none"]
    rows = log.assign(level=[names[int(fold)] for fold in log["fold"]])
    positive = bool((log["loss"] > 0).all())
    scale = alt.Scale(type="log") if positive else alt.Scale(zero=False)
    chart = (
        alt.Chart(alt.NamedData("training"))
        .mark_line()
        .encode(
            x_axis("epoch", "epoch"),
            alt.Y("loss", type="quantitative").title("loss").scale(scale),
            level_colours("level", names, f"left out ({report.level_unit})"),
        )
    )
    name = what.removeprefix("the ")
    return Figure(
        f"training_{name}",
        f"loss over the epochs of training {what}",
        chart,
        {"training": rows},
        300,
    )
