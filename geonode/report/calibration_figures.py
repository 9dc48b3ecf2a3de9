"""Figures of the page of a calibration; its script fills those that follow a control."""

from typing import Any

import altair as alt
import numpy as np

from geonode.calibration.one_substance import OneSubstance
from geonode.calibration.verdict import NAMES
from geonode.report.kit import (
    INK,
    MODEL,
    MUTED,
    NAMED,
    SECOND,
    Figure,
    band_layers,
    choice,
    concentration,
    keyed,
    marks,
    x_axis,
    y_axis,
    zoom,
)
from geonode.report.live import drawn_places
from geonode.report.series_figures import by_level, spectrum_chart
from geonode.spectra.series import labelled
from geonode.wording import quantity

DOTS: dict[str, Any] = {"filled": True, "size": 60, "opacity": 1}
DASHES = [6, 4]


def true(model: OneSubstance) -> Figure:
    """Estimated over true concentration of the left-out levels."""
    found, levels = model.calibration, model.series.concentrations
    names = {"geonode": "geonode, 90% set"}
    if found.method != "geonode":
        names[found.method] = f"{model.method}, 90% interval"
    estimates = [
        (key, level, value)
        for key in names
        for level, value in zip(levels, found.verdict.by_key(key).estimates, strict=True)
    ]
    intervals = [
        (key, level, *ends)
        for key in names
        for level, parts in zip(levels, found.sets[key], strict=True)
        for ends in parts
    ]
    label = labelled("concentration", model.series.unit)
    x = concentration(alt.X, "level", f"true {label}", levels)
    estimated, low, same = (
        concentration(alt.Y, one, f"estimated {label}", levels)
        for one in ("estimated", "low", "level")
    )
    part = keyed({name: MODEL if key == "geonode" else SECOND for key, name in names.items()})
    layers = [marks("line", x, same, table="ends", color=MUTED, strokeDash=DASHES, strokeWidth=1)]
    thick, thin = {"strokeWidth": 6, "opacity": 0.35}, {"strokeWidth": 1.5}
    circle, square = DOTS, {"shape": "square", "filled": False, "size": 80, "opacity": 1}
    for key, name in names.items():
        bar, dot = (thick, circle) if key == "geonode" else (thin, square)
        where = alt.datum.method == key
        bars = {"table": "intervals", "where": where, **bar}
        points = {"table": "estimates", "where": where, "tooltip": True, **dot}
        layers.insert(1, part(name, "rule", x, low, alt.Y2("high"), **bars))  # below all points
        layers.append(part(name, "point", x, estimated, **points))

    def columns(names: tuple[str, ...], rows: list[Any]) -> dict[str, Any]:
        return dict(zip(names, zip(*rows, strict=True), strict=True))

    tables = {
        "estimates": columns(("method", "level", "estimated"), estimates),
        "intervals": columns(("method", "level", "low", "high"), intervals),
        "ends": {"level": levels[[0, -1]]},
    }
    what = "left-out levels: estimated over true concentration, with 90% intervals"
    return Figure("true", what, alt.layer(*layers), tables, 400)


def curve(model: OneSubstance) -> Figure:
    """Signal over concentration at one wavelength."""
    label, predicted, line = model.series.signal_label, "geonode, 90% interval", "straight line"
    title = labelled("concentration", model.series.unit)
    x = concentration(alt.X, "concentration", title, model.series.concentrations)
    signal, straight = y_axis("signal", label), y_axis("line", label)
    part = keyed({"measured": INK, predicted: MODEL, line: SECOND})
    chart = alt.layer(
        *band_layers(part, predicted, x, label),
        part(line, "line", x, straight, strokeDash=DASHES),
        part("measured", "point", x, signal, table="measured", tooltip=True, **DOTS),
    )
    what = "signal over concentration at the chosen wavelength"
    return Figure("curve", what, chart, {"curve": {}, "measured": {}})


def residuals(model: OneSubstance) -> Figure:
    """Errors of the left-out levels by a method that the reader chooses."""
    levels, used = model.series.concentrations, model.calibration.method
    methods = model.calibration.verdict.methods
    rows = {
        "method": np.repeat([method.key for method in methods], len(levels)),
        "level": np.tile(levels, len(methods)),
        "error": np.concatenate([method.estimates - levels for method in methods]),
    }
    label = labelled("concentration", model.series.unit)
    x, y = (
        concentration(alt.X, "level", label, levels),
        y_axis("error", f"estimated − true {label}"),
    )
    options = {method.key: method.name for method in methods}
    chart = (
        alt.layer(
            marks("rule", x, y, alt.Y2Datum(0), color=SECOND, strokeWidth=2),
            marks("point", x, y, color=SECOND, tooltip=True, **DOTS),
        )
        .add_params(choice("method", "method", options, used))
        .transform_filter("datum.method == method")
    )
    what = "estimated less true concentration of every left-out level"
    return Figure("residuals", what, chart, {"residuals": rows}, 260)


def regression(model: OneSubstance) -> Figure:
    """Regression vector over the axis, with the spectra in grey."""
    series, found, at = model.series, model.diagnostics, drawn_places(model)
    name, along = f"regression vector of {NAMES[found.key]}", {"wavelength": series.axis[at]}
    part = keyed({name: MODEL, "spectra": MUTED})
    x, each = x_axis("wavelength", series.axis_label), alt.Detail("level", type="nominal")
    signal, vector = y_axis("signal", series.signal_label), y_axis("vector", name)
    thin, dashed = {"strokeWidth": 0.8, "opacity": 0.7}, {"strokeDash": DASHES, "strokeWidth": 0.8}
    chart = alt.layer(
        part("spectra", "line", x, signal, each, table="spectra", **thin),
        alt.layer(
            part(name, "line", x, vector, table="vector"),
            marks("rule", vector, table="zero", color=MODEL, **dashed),
        ),
    ).resolve_scale(y="independent")
    levels = [f"{level:g}" for level in series.concentrations]
    tables = {
        "vector": along | {"vector": found.vector[at]},
        "spectra": by_level(levels, along, {"signal": series.signal[:, at]}),
        "zero": {"vector": [0.0]},
    }
    return Figure("regression", f"{name} over the axis, with the spectra", chart, tables, 300)


def influence(model: OneSubstance) -> Figure:
    """Q residual over leverage of every level, with their limits."""
    found = model.diagnostics
    x = x_axis("leverage", "leverage").scale(nice=True, zero=False, padding=24)
    y = y_axis("q", "Q residual", zero=True)
    dashed = {"color": SECOND, "strokeDash": DASHES, "strokeWidth": 1.5}
    chart = alt.layer(
        marks("point", x, y, color=MODEL, tooltip=True, **DOTS),
        marks("text", x, y, alt.Text("level", type="nominal"), table="named", color=INK, dy=-11),
        marks("rule", x, table="leverage_limit", **dashed),
        marks("rule", y, table="q_limit", **dashed),
    )
    levels = [quantity(level, model.series.unit) for level in model.series.concentrations.tolist()]
    samples = {"level": levels, "leverage": found.leverages, "q": found.residuals}
    named = found.inside if len(levels) > NAMED else np.zeros(len(levels), bool)
    tables = {
        "samples": samples,
        "named": {key: np.array(column)[~named] for key, column in samples.items()},
        "leverage_limit": {"leverage": [found.leverage_limit]},
        "q_limit": {"q": [found.residual_limit]},
    }
    what = "Q residual over leverage of every level, with 95% limits"
    return Figure("influence", what, chart, tables, 280)


def components(model: OneSubstance) -> Figure:
    """Error of left-out levels over the number of components."""
    found = model.diagnostics
    part = keyed({NAMES[key]: MODEL if key == found.key else SECOND for key in found.rmsecv})
    x = alt.X("components", type="quantitative").scale(nice=False, padding=20)
    x, y = x.axis(tickMinStep=1), y_axis("error", labelled("RMSECV", model.series.unit), zero=True)
    layers = [
        part(NAMES[key], kind, x, y, table=key, **style)
        for key in found.rmsecv
        for kind, style in (("line", {}), ("point", DOTS | {"tooltip": True}))
    ]
    layers.append(marks("rule", x, table="used", color=INK, strokeDash=DASHES, strokeWidth=1.5))
    tables: dict[str, Any] = {
        key: {"components": np.arange(1, len(errors) + 1), "error": errors}
        for key, errors in found.rmsecv.items()
    }
    tables["used"] = {"components": [found.components]}
    what = "error of left-out levels by number of components"
    return Figure("components", what, alt.layer(*layers), tables, 260)


def predicted(model: OneSubstance) -> Figure:
    """A predicted spectrum with its band."""
    chart = spectrum_chart(model.series, "predicted, 90% interval", measured=False)
    what = "predicted spectrum with its 90% interval"
    return Figure("predicted", what, chart.add_params(zoom()), {"spectrum": {}})
