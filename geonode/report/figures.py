"""Figures of the report."""

import json
import math
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from geonode.report.data import FLAT, Report
from geonode.report.kit import (
    INK,
    MODEL,
    MUTED,
    SECOND,
    SHADE,
    Figure,
    band_layers,
    choice,
    concentration,
    heading,
    keyed,
    level_colours,
    marks,
    rows,
    x_axis,
    y_axis,
    zoom,
)
from geonode.spectra.series import labelled
from geonode.wording import number, per, quantity

NEGLIGIBLE = 1e-4
"""Density below which a posterior is not drawn, relative to the largest."""

CLIPPED = 99.0
"""Percentile of absolute values at which the colours of a map about zero saturate."""


def folds_figure(report: Report) -> Figure:
    """Measured and predicted spectrum of a left-out level, with a band."""
    notes = {name: _fold_note(report, name) for name in report.names}
    chart = (
        _spectrum_chart(report)
        .properties(title=heading(notes, "left_out"))
        .add_params(_level_choice(report, "left_out", "left out"), zoom())
        .transform_filter("datum.level == left_out")
    )
    what = "measured and predicted spectrum of the level that was left out"
    return Figure("folds", what, chart, 380)


def folds_panels(report: Report) -> Figure:
    """Every left-out spectrum and its prediction, one panel per level."""
    scores, unit = report.scores["folds"], report.series.unit
    titles = {
        name: [f"left out {name} {unit}", f"R² {number(scores[name]['r2'])}"]
        for name in report.names
    }
    expression = f"({json.dumps(titles, ensure_ascii=False)})[datum.label]"
    header = alt.Header(labelExpr=expression, labelPadding=4)
    facet = alt.Facet("level", type="nominal", title=None, header=header, sort=report.names)
    columns = math.ceil(math.sqrt(len(titles)))
    width, height = (230, 150) if columns <= 3 else (150, 105)
    chart = _spectrum_chart(report, columns=2)
    every = chart.properties(width=width, height=height).facet(facet, columns=columns)
    what = "left-out spectra and their predictions"
    return Figure("folds", what, every.resolve_axis(x="independent"))


def _spectrum_chart(report: Report, **legend: Any) -> Any:
    """Predicted spectra with their band, and the measured ones."""
    name, series = f"predicted, {report.band}", report.series
    part = keyed({"measured": INK, name: MODEL}, **legend)
    x, y = x_axis("wavelength", series.axis_label), y_axis("measured", series.signal_label)
    layers = band_layers(part, name, x, series.signal_label)
    return alt.layer(*layers, part("measured", "line", x, y), data=rows(report.predictions()))


def _fold_note(report: Report, name: str) -> list[str]:
    """Lines above the figure of a left-out level."""
    scores, unit = report.scores["folds"][name], report.series.labels["signal_unit"]
    rmse, largest = (quantity(scores.get(key), unit) for key in ("rmse", "max_error"))
    outside = ", extrapolated" if name in (report.names[0], report.names[-1]) else ""
    return [
        f"{name} {report.series.unit} left out{outside}",
        f"R² {number(scores.get('r2'))}, RMSE {rmse}, largest error {largest}",
    ]


def _level_choice(
    report: Report, name: str, label: str, start: int = 0, among: list[str] | None = None
) -> alt.Parameter:
    names = among or report.names
    options = {level: f"{level} {report.series.unit}" for level in names}
    return choice(name, label, options, names[start])


def map_figures(report: Report) -> list[Figure]:
    """Metric and Christoffel symbol by concentration and wavelength."""
    label = labelled("concentration", report.series.unit)
    low = concentration(alt.Y, "low", label, report.series.concentrations)
    cells = x_axis("left", report.series.axis_label), alt.X2("right"), low, alt.Y2("high")
    logarithmic = alt.Scale(type="log", scheme="cividis")
    limit = float(np.percentile(report.maps["christoffel"].abs(), CLIPPED)) or 1.0
    signed = alt.Scale(scheme="redblue", reverse=True, domain=[-limit, limit], clamp=True)
    figures = []
    for name, title, scale in (
        ("metric", "metric g", logarithmic),
        ("christoffel", "Christoffel symbol G", signed),
    ):
        bar = alt.Legend(title=title, gradientLength=220)
        colour = alt.Fill("value", type="quantitative").scale(scale).legend(bar)
        table = report.maps[["left", "right", "low", "high"]].assign(value=report.maps[name])
        what = f"map of the {title} by concentration and wavelength"
        figures.append(Figure(name, what, marks("rect", *cells, colour, table=table)))
    return figures


def paths_figure(report: Report, paths: pd.DataFrame) -> Figure:
    """Geodesics between two levels at some wavelengths."""
    lines = [name for name in paths["line"].unique() if name != FLAT]
    label = labelled("concentration", report.series.unit)
    x = x_axis("t", "affine parameter t")
    y = concentration(alt.Y, "concentration", label, report.series.concentrations)
    dashes: dict[str, Any] = {"strokeDash": [6, 4], "color": MUTED}
    first, last = (
        _level_choice(report, name, label, start)
        for name, label, start in (("first", "from", 0), ("last", "to", -1))
    )
    chart = (
        alt.layer(
            marks("line", x, y, level_colours("line", lines), where=alt.datum.line != FLAT),
            marks("line", x, y, where=alt.datum.line == FLAT, **dashes),
            data=rows(paths),
        )
        .add_params(first, last)
        .transform_filter("datum.source == first && datum.target == last")
    )
    what = "concentration along the geodesic between two levels"
    return Figure("geodesics", what, chart, 340)


def posterior_figure(report: Report) -> Figure:
    """Posterior density of the concentration of every left-out spectrum."""
    unit, levels, table = report.series.unit, report.series.concentrations, report.posterior
    largest = table.groupby("level")["density"].transform("max")
    table = table[table["density"] > NEGLIGIBLE * largest]
    true = dict(zip(report.names, levels.tolist(), strict=True))
    shown = [name for name in report.names if name in set(table["level"])]
    estimated = (report.scores.get("estimation") or {}).get("levels") or {}
    sets = [
        (name, low, high)
        for name in shown
        for low, high in (estimated.get(name) or {}).get("set90") or []
    ]
    label, chosen = labelled("concentration", unit), "datum.level == left_out"
    at, start = (concentration(alt.X, column, label, levels) for column in ("concentration", "low"))
    density = y_axis("density", labelled("density", per("1", unit)), zero=True)
    part = keyed({"density": MODEL, "90% set": SECOND, "true concentration": INK})
    ends = (start, alt.X2("high"), alt.YDatum(0))
    levels_shown = {"level": shown, "concentration": [true[name] for name in shown]}
    rule = {"table": levels_shown, "strokeDash": [6, 4], "strokeWidth": 2}
    parts = pd.DataFrame(sets, columns=["level", "low", "high"])
    chart = alt.layer(
        part("density", "area", at, density, table=table, where=chosen, opacity=SHADE),
        part("density", "line", at, density, table=table, where=chosen),
        part("90% set", "rule", *ends, table=parts, where=chosen, strokeWidth=6),
        part("true concentration", "rule", at, where=chosen, **rule),
    ).add_params(_level_choice(report, "left_out", "left out", among=shown))
    what = "posterior density of the concentration of the spectrum that was left out"
    return Figure("posterior", what, chart, 300)


def metric_figure(report: Report) -> Figure:
    """Mean and standard deviation of sqrt(g) over concentration."""
    table, unit = report.metric, report.series.unit
    mean, deviation = table["sqrt_g"], table["deviation"]
    low, high = np.maximum(mean - deviation, 0), mean + deviation
    drawn = {"concentration": table["concentration"], "predicted": mean, "low": low, "high": high}
    name, label = "posterior mean ± standard deviation", labelled("√g", per("1", unit))
    levels = report.series.concentrations
    x = concentration(alt.X, "concentration", labelled("concentration", unit), levels)
    layers = band_layers(keyed({name: MODEL}), name, x, label, zero=True)
    what = "posterior of the square root of the metric"
    return Figure("posterior_metric", what, alt.layer(*layers, data=rows(drawn)), 260)
