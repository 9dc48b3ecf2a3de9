"""Figures of the pages of calibrations."""

import textwrap
from itertools import pairwise
from typing import Any

import altair as alt
import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.spatial import ConvexHull

from geonode.calibration.calibration_file import CalibrationFile
from geonode.calibration.limits import Line
from geonode.calibration.one_substance import OneSubstance
from geonode.calibration.several_substances import SeveralSubstances
from geonode.calibration.verdict import NAMES
from geonode.report.calibration_tables import limit_text
from geonode.report.kit import (
    INK,
    LINE,
    MODEL,
    MUTED,
    SECOND,
    Figure,
    band_layers,
    choice,
    concentration,
    keyed,
    marks,
    rows,
    sample,
    sliding,
    unfolded,
    wrapped,
    x_axis,
    y_axis,
    zoom,
)
from geonode.spectra.series import labelled
from geonode.wording import number, per, percent, quantity

DOTS: dict[str, Any] = {"filled": True, "size": 60, "opacity": 1, "tooltip": True}
HOLLOW = DOTS | {"shape": "square", "filled": False}
DASHES = [6, 4]
ENDS = {"low": "datum.predicted - datum.half", "high": "datum.predicted + datum.half"}
"""Of a band, in expressions."""

NOTE_LETTERS = 48
"""Longest line above a figure."""

AT_MOST, OF_PREDICTIONS = 500, 30_000
"""Wavelengths at which spectra are drawn, at most, and numbers of all predicted spectra."""

HEAT_ROWS, HEAT_COLUMNS = 32, 120
"""Cells of the map of information, at most."""

CELLS, OF_SURFACES = 12, 120
"""Cells of a response surface along an amount, and its wavelengths at most."""

MOST_MARKS = 600
"""Levels or samples of a figure, at most."""


def left_out(
    name: str,
    amount: str,
    true: Float[np.ndarray, "sample"],
    estimates: dict[str, tuple[Any, Any]],
    size: int,
) -> Figure:
    """Left-out estimates over true amounts, and the line where both are the same.

    Args:
        name: of the figure.
        amount: name of the amount with its unit.
        true: of every sample.
        estimates: by the name in the legend, at most two: amounts, and the parts of the set of
            every sample or None; the first ones are drawn as dots, the others as squares.
        size: of dots.
    """
    every, shown = true, sample(len(true), MOST_MARKS)
    true = true[shown]
    x = concentration(alt.X, "true", f"true {amount}", every)
    y, low, same = (
        concentration(alt.Y, name, f"estimated {amount}", every)
        for name in ("estimated", "low", "true")
    )
    part = keyed(dict(zip(estimates, (MODEL, SECOND), strict=False)))
    dashed = {"color": MUTED, "strokeDash": DASHES, "strokeWidth": 1}
    bars, points = (
        [marks("line", x, same, table={"true": [every.min(), every.max()]}, **dashed)],
        [],
    )
    styles = [
        (DOTS, {"strokeWidth": 6, "opacity": 0.35}),
        (HOLLOW, {"strokeWidth": 1.5}),
    ]
    for (dot, bar), (label, (amounts, sets)) in zip(styles, estimates.items(), strict=False):
        dots = {"true": true, "estimated": amounts[shown]}
        points.append(part(label, "point", x, y, table=dots, **dot | {"size": size}))
        if sets is not None:
            parts_of = [sets[at] for at in shown]
            ends = [(at, *part) for at, parts in zip(true, parts_of, strict=True) for part in parts]
            columns = dict(zip(("true", "low", "high"), zip(*ends, strict=True), strict=True))
            bars.append(part(label, "rule", x, low, alt.Y2("high"), table=columns, **bar))
    what = f"left-out estimates over true {amount}, with intervals"
    return Figure(name, what, alt.layer(*bars, *points), 400 if size > 40 else 300)


def curve(model: OneSubstance) -> Figure:
    """Signal over concentration at a wavelength that the reader chooses."""
    series, at, predictions = model.series, drawn_places(model), model.predictions
    lines = [Line.of(series, place) for place in at.tolist()]
    fits = {name: [getattr(line, name) for line in lines] for name in ("intercept", "slope")}
    band, half = predictions.band(model.level)
    bands = {"predicted": predictions.spectra[:, at].T, "half": half[:, at].T}
    scans = {"at": np.arange(len(at)), "signal": series.signal[:, at].T}
    predicted, straight, amount = f"geonode, {band}", "straight line", "concentration"
    levels, place = series.concentrations, "wavelength"
    x = concentration(alt.X, amount, labelled(amount, series.unit), levels)
    signal, fitted = (y_axis(name, series.signal_label) for name in ("signal", "fitted"))
    part = keyed({"measured": INK, predicted: MODEL, straight: SECOND})
    expected = alt.layer(
        *band_layers(part, predicted, x, series.signal_label),
        part(straight, "line", x, fitted, strokeDash=DASHES),
    )
    expected = unfolded(expected, place, amount, model.places, "predicted", "half")
    line = f"datum.intercept + datum.slope * datum.{amount}"
    measured = part("measured", "point", x, signal, table=scans, **DOTS)
    chart = alt.layer(
        expected.transform_calculate(**ENDS, fitted=line),
        unfolded(measured, place, amount, levels, "signal"),
        data=rows({"at": np.arange(len(at)), **bands, **fits}),
    )
    notes = [_line_note(model, line) for line in lines]
    chart = sliding(chart, place, "wavelength", notes, int((at < model.place).sum()))
    what = "signal over concentration at the chosen wavelength"
    return Figure("curve", what, chart)


def _line_note(model: OneSubstance, line: Line) -> list[str]:
    """Wavelength, straight line, and its limit of detection."""
    limit, unit = line.limit(), model.series.unit
    detection = limit_text(limit.detection, unit)
    detection += f": {limit.said}" if limit.detection is None else ""
    fitted = f"{number(line.intercept)} + {number(line.slope)} × concentration"
    text = f"{model.at(line.place)}: line {fitted}, R² {number(line.r2)}"
    return textwrap.wrap(f"{text}; limit of detection {detection}", NOTE_LETTERS)


def residuals(model: OneSubstance) -> Figure:
    """Errors of the left-out levels by a method that the reader chooses."""
    shown = sample(len(model.series.signal), MOST_MARKS)
    levels, used = model.series.concentrations[shown], model.calibration.method
    methods = model.calibration.verdict.methods
    errors = {
        "method": np.repeat([method.key for method in methods], len(levels)),
        "level": np.tile(levels, len(methods)),
        "error": np.concatenate([method.estimates[shown] - levels for method in methods]),
    }
    label = labelled("concentration", model.series.unit)
    x = concentration(alt.X, "level", label, levels)
    y = y_axis("error", f"estimated − true {label}")
    options = {method.key: method.name for method in methods}
    chart = (
        alt.layer(
            marks("rule", x, y, alt.Y2Datum(0), color=SECOND, strokeWidth=2),
            marks("point", x, y, color=SECOND, **DOTS),
            data=rows(errors),
        )
        .add_params(choice("method", "method", options, used))
        .transform_filter("datum.method == method")
    )
    what = "estimated less true concentration of every left-out level"
    return Figure("residuals", what, chart, 260)


def regression(model: OneSubstance) -> Figure:
    """Regression vector over the axis."""
    series, diagnostics, at = model.series, model.diagnostics, drawn_places(model)
    name = f"regression vector of {NAMES[diagnostics.key]}"
    unit = per(series.unit, series.labels["signal_unit"])
    x, y = x_axis("wavelength", series.axis_label), y_axis("vector", labelled(name, unit))
    vector = {"wavelength": series.axis[at], "vector": diagnostics.vector[at]}
    chart = alt.layer(
        marks("rule", y, table={"vector": [0.0]}, color=MUTED, strokeDash=DASHES),
        marks("line", x, y, table=vector, color=MODEL),
    )
    return Figure("regression", f"{name} over the axis", chart, 300)


def influence(model: OneSubstance) -> Figure:
    """Q residual over leverage of every level, with their limits."""
    diagnostics = model.diagnostics
    x = x_axis("leverage", "leverage").scale(nice=True, zero=False, padding=24)
    y = y_axis("q", "Q residual", zero=True)
    dashed = {"color": SECOND, "strokeDash": DASHES, "strokeWidth": 1.5}
    levels = [quantity(level, model.series.unit) for level in model.series.concentrations.tolist()]
    shown = sample(len(levels), MOST_MARKS)
    samples = {
        "level": np.array(levels)[shown],
        "leverage": diagnostics.leverages[shown],
        "q": diagnostics.residuals[shown],
    }
    chart = alt.layer(
        marks("point", x, y, table=samples, color=MODEL, **DOTS),
        marks("rule", x, table={"leverage": [diagnostics.leverage_limit]}, **dashed),
        marks("rule", y, table={"q": [diagnostics.residual_limit]}, **dashed),
    )
    what = "Q residual over leverage of every level, with 95% limits"
    return Figure("influence", what, chart, 280)


def component_errors(model: OneSubstance) -> Figure:
    """Error of left-out levels over the number of components."""
    diagnostics = model.diagnostics
    part = keyed(
        {NAMES[key]: MODEL if key == diagnostics.key else SECOND for key in diagnostics.rmsecv}
    )
    x = alt.X("components", type="quantitative").scale(nice=False, padding=20)
    x, y = x.axis(tickMinStep=1), y_axis("error", labelled("RMSECV", model.series.unit), zero=True)
    layers = [
        part(NAMES[key], kind, x, y, table=table, **style)
        for key, errors in diagnostics.rmsecv.items()
        for table in [{"components": np.arange(1, len(errors) + 1), "error": errors}]
        for kind, style in (("line", {}), ("point", DOTS))
    ]
    used = {"components": [diagnostics.components]}
    layers.append(marks("rule", x, table=used, color=INK, strokeDash=DASHES, strokeWidth=1.5))
    what = "error of left-out levels by number of components"
    return Figure("components", what, alt.layer(*layers), 260)


def predicted(model: OneSubstance) -> Figure:
    """Predicted spectrum with its band at a concentration that the reader chooses."""
    (band, half), at = model.predictions.band(model.level), drawn_places(model)
    name, series = f"predicted, {band}", model.series
    bands = {
        "predicted": model.predictions.spectra[:, at],
        "half": half[:, at],
    }
    x = x_axis("wavelength", series.axis_label)
    notes = [[quantity(place, series.unit, 4)] for place in model.places.tolist()]
    layers = band_layers(keyed({name: MODEL}), name, x, series.signal_label)
    chart = alt.layer(*layers, data=rows({"at": np.arange(len(notes)), **bands}))
    chart = unfolded(chart, "place", "wavelength", series.axis[at], *bands)
    chart = chart.transform_calculate(**ENDS).add_params(zoom())
    chart = sliding(chart, "place", "concentration", notes, len(notes) // 2)
    return Figure("predicted", f"predicted spectrum with its {band}", chart)


def precision(model: OneSubstance) -> Figure:
    """Standard error of an estimate over the concentration, and its floor."""
    profile, unit = model.precision, model.series.unit
    own, alone, floor = model.method, "by the law of errors alone", model.floor
    shown = sample(len(profile.concentrations), AT_MOST)
    x = concentration(
        alt.X, "concentration", labelled("concentration", unit), model.series.concentrations
    )
    y = y_axis("error", labelled("standard error", unit), zero=True)
    part = keyed({own: MODEL} | ({} if floor is None else {alone: SECOND}))
    at = profile.concentrations[shown]
    errors = {"concentration": at, "error": profile.standard_errors[shown]}
    layers = [part(own, "line", x, y, table=errors)]
    if floor is not None:
        errors = {"concentration": at, "error": floor[shown]}
        layers.append(part(alone, "line", x, y, table=errors, strokeDash=DASHES))
    what = "standard error of an estimate over the concentration"
    return Figure("precision", what, alt.layer(*layers), 260)


def telling(model: OneSubstance) -> Figure:
    """Information about the concentration over concentrations and wavelengths."""
    information, series = model.information, model.series
    assert information is not None  # there is a curve
    levels = series.concentrations
    inside = np.flatnonzero(
        (levels[0] <= information.concentrations) & (information.concentrations <= levels[-1])
    )
    rows = inside[sample(len(inside), HEAT_ROWS + 1)]
    columns = sample(len(series.axis), HEAT_COLUMNS + 1)
    ends = np.meshgrid(information.concentrations[rows], series.axis[columns], indexing="ij")
    part = np.sqrt(information.by_wavelength[np.ix_(rows[:-1], columns[:-1])])
    table = {
        "wavelength": ends[1][:-1, :-1].ravel(),
        "wavelength2": ends[1][:-1, 1:].ravel(),
        "concentration": ends[0][:-1, :-1].ravel(),
        "concentration2": ends[0][1:, :-1].ravel(),
        "information": part.ravel(),
    }
    amount = labelled("concentration", series.unit)
    x = x_axis("wavelength", series.axis_label)
    y = concentration(alt.Y, "concentration", amount, levels)
    colour = alt.Color("information", type="quantitative").scale(scheme="viridis")
    colour = colour.legend(title=wrapped("1 / standard error by this wavelength"))
    ends_of = alt.X2("wavelength2"), alt.Y2("concentration2")
    chart = alt.layer(marks("rect", x, y, *ends_of, colour, table=table))
    what = "information of every wavelength about the concentration"
    return Figure("telling", what, chart, 300)


def pure_spectrum(model: SeveralSubstances, place: int) -> Figure:
    """Spectrum of one substance: derivative of the signal by its amount, at the centre."""
    series, at = model.series, sample(len(model.series.axis), AT_MOST)
    name, unit = series.substances[place], series.units[place]
    x, line = x_axis("wavelength", series.axis_label), f"change, {percent(model.level)}% interval"
    unit = per(series.labels["signal_unit"], unit)
    title = labelled(f"d {series.labels['signal']} / d {name}", unit)
    slopes, half = model.pure[at, place], model.pure_half_widths[at, place]
    ends = {"low": slopes - half, "high": slopes + half}
    zero = {"table": {"predicted": [0.0]}, "color": MUTED, "strokeDash": DASHES}
    chart = alt.layer(
        *band_layers(keyed({line: MODEL}), line, x, title),
        marks("rule", alt.YDatum(0), **zero),
        data=rows({"wavelength": series.axis[at], "predicted": slopes, **ends}),
    ).add_params(zoom())
    what = f"spectrum of {name}: change of the signal per amount at the mean composition"
    return Figure(f"pure_{place}", what, chart, 300)


def _pair_axes(model: SeveralSubstances, first: int, second: int) -> tuple[alt.X, alt.Y]:
    """Axes of the amounts of two substances."""
    x, y = x_axis("x", model.series.named[first]), y_axis("y", model.series.named[second])
    return x.scale(nice=False, zero=False, padding=8), y.scale(nice=False, zero=False, padding=8)


def _pair_amounts(model: SeveralSubstances, first: int, second: int) -> dict[str, Any]:
    shown = sample(len(model.series.amounts), MOST_MARKS)
    amounts, names = model.series.amounts[shown], [model.series.samples[at] for at in shown]
    return {"sample": names, "x": amounts[:, first], "y": amounts[:, second]}


def surface(model: SeveralSubstances, first: int, second: int) -> Figure:
    """Signal over the amounts of two substances, at means of the others and a wavelength."""
    forward, design = model.calibration.surface, model.calibration.design
    assert forward  # there is a surface
    middles = (np.arange(CELLS) + 0.5) / CELLS
    amounts = np.tile(model.centre, (CELLS, CELLS, 1))
    amounts[..., first] = design.low[first] + middles * design.ranges[first]
    amounts[..., second] = (design.low[second] + middles * design.ranges[second])[:, None]
    scores = forward.surface.at(torch.from_numpy(amounts.reshape(CELLS**2, -1)))[0].numpy()
    at = sample(len(model.series.axis), OF_SURFACES)
    signals = forward.mean[at] + scores @ forward.directions[at].T
    x, y = _pair_axes(model, first, second)
    series = model.series
    colour = alt.Color("signal", type="quantitative").scale(scheme="viridis", zero=False)
    colour = colour.legend(
        title=wrapped(series.signal_label), gradientLength=alt.ExprRef("width / 2")
    )
    table = {"at": np.arange(len(at)), "signal": signals.T}
    cells = marks("rect", x, y, alt.X2("x2"), alt.Y2("y2"), colour, table=table)
    cells = unfolded(cells, "wavelength", "cell", np.arange(CELLS**2.0), "signal")
    edges = {"x": (first, f"datum.cell % {CELLS}"), "y": (second, f"floor(datum.cell / {CELLS})")}
    for name, (place, cell) in edges.items():
        low, step = float(design.low[place]), float(design.ranges[place]) / CELLS
        cells = cells.transform_calculate(
            **{name: f"{low} + {step} * ({cell})", f"{name}2": f"{low} + {step} * ({cell} + 1)"}
        )
    samples = _pair_amounts(model, first, second)
    points = marks("point", x, y, table=samples, color=INK, stroke="white", **DOTS)
    unit = series.labels["axis_unit"]
    notes = [[quantity(place, unit, 5)] for place in series.axis[at].tolist()]
    start = int(np.ptp(signals, axis=0).argmax())
    chart = sliding(alt.layer(cells, points), "wavelength", "wavelength", notes, start)
    what = f"signal over the amounts of {series.named[first]} and {series.named[second]}"
    return Figure(f"surface_{first}_{second}", what, chart, 320)


def design(file: CalibrationFile[SeveralSubstances], first: int, second: int) -> Figure:
    """Amounts of two substances in the samples, their hull, and the estimates of unknowns."""
    x, y = _pair_axes(file.model, first, second)
    names, colours = file.series.named, {"samples": INK}
    tables = {"samples": _pair_amounts(file.model, first, second)}
    estimates = [one for _, of_file in file.unknowns for one in of_file if one.fits][:MOST_MARKS]
    if estimates:
        x_of, y_of = ([one.numbers[at][0] for one in estimates] for at in (first, second))
        tables["unknowns"] = {"sample": [one.name for one in estimates], "x": x_of, "y": y_of}
        colours["unknowns"] = MODEL
    part = keyed(colours)
    ends, hull = (alt.X2("x2"), alt.Y2("y2")), _hull(file.series.amounts[:, [first, second]])
    chart = alt.layer(
        marks("rule", x, y, *ends, table=hull, color=LINE, strokeWidth=2),
        *(part(key, "point", x, y, table=table, **DOTS) for key, table in tables.items()),
    )
    what = f"amounts of {names[first]} and {names[second]} in the samples, and their convex hull"
    return Figure(f"design_{first}_{second}", what, chart, 260)


def _hull(amounts: Float[np.ndarray, "sample 2"]) -> dict[str, list[float]]:
    """Sides of the convex hull of amounts."""
    low, ranges = amounts.min(axis=0), np.ptp(amounts, axis=0)
    scaled = (amounts - low) / ranges
    if np.linalg.matrix_rank(scaled - scaled.mean(axis=0), tol=1e-6) < 2:
        corners = amounts[[scaled[:, 0].argmin(), scaled[:, 0].argmax()]]  # on a line
    else:
        corners = amounts[ConvexHull(scaled).vertices]
    sides = [(*a, *b) for a, b in pairwise([*corners.tolist(), corners[0].tolist()])]
    return {name: [side[at] for side in sides] for at, name in enumerate(("x", "y", "x2", "y2"))}


def drawn_places(model: OneSubstance) -> Int[np.ndarray, "drawn"]:
    """Wavelengths that are drawn: even ones, and that of the straight line."""
    most = min(AT_MOST, OF_PREDICTIONS // len(model.places))
    return np.union1d(sample(len(model.series.axis), most), [model.place])
