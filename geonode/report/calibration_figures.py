"""Figures of the page of a calibration; its script fills those that follow a control."""

import altair as alt
import numpy as np
import pandas as pd
from jaxtyping import Int

from geonode.calibration.calibrated_file import CalibratedFile
from geonode.report.figures import metric_figure, spectra_figure, spectrum_chart
from geonode.report.kit import (
    INK,
    MODEL,
    MUTED,
    SECOND,
    Figure,
    band_layers,
    choice,
    concentration_x,
    concentration_y,
    keyed,
    sample,
    y_axis,
    zoom,
)
from geonode.spectra.series import labelled

DRAWN = 500
"""Wavelengths at which spectra are drawn, at most."""


def drawn_places(file: CalibratedFile) -> Int[np.ndarray, "drawn"]:
    """Wavelengths that are drawn: even ones, and that of the straight line."""
    return np.union1d(sample(len(file.series.axis), DRAWN), [file.place])


def figures(file: CalibratedFile) -> dict[str, Figure]:
    """All figures by name."""
    found = [
        _true(file),
        spectra_figure(file.series, drawn_places(file)),
        _curve(file),
        _residuals(file),
        _spectrum(file, "predicted", "predicted spectrum with its 90% interval", measured=False),
        _spectrum(file, "unknown", "an unknown spectrum and the nearest prediction", measured=True),
        _metric(file),
    ]
    return {figure.name: figure for figure in found}


def _true(file: CalibratedFile) -> Figure:
    """Estimated over true concentration of the left-out levels."""
    calibration, levels = file.calibration, file.series.concentrations
    methods = dict.fromkeys([file.calibration.method, "geonode"])
    names = {"geonode": "geonode, 90% set"}
    if calibration.method != "geonode":
        names[calibration.method] = f"{file.method}, 90% interval"
    colours = {names[key]: MODEL if key == "geonode" else SECOND for key in methods}
    estimated = [
        (key, level, value)
        for key in methods
        for level, value in zip(levels, calibration.verdict.by_key(key).estimates, strict=True)
    ]
    ends = [
        (key, level, low, high)
        for key in methods
        for level, parts in zip(levels, calibration.sets[key], strict=True)
        for low, high in parts
    ]
    label = labelled("concentration", file.unit)
    x = concentration_x("level", f"true {label}", levels)
    part = keyed(colours)
    layers = [
        alt.Chart(alt.NamedData("line"))
        .mark_line(color=MUTED, strokeDash=[6, 4], strokeWidth=1)
        .encode(x, concentration_y("level", f"estimated {label}", levels))
    ]
    for key in ("geonode", *(key for key in methods if key != "geonode")):
        thick, wanted = key == "geonode", f"datum.method == '{key}'"
        bars = alt.Chart(alt.NamedData("intervals")).transform_filter(wanted)
        bars = bars.mark_rule(strokeWidth=6 if thick else 1.5, opacity=0.35 if thick else 1)
        bars = bars.encode(x, concentration_y("low", f"estimated {label}", levels), y2="high")
        points = alt.Chart(alt.NamedData("estimates")).transform_filter(wanted)
        points = points.mark_point(
            shape="circle" if thick else "square", filled=thick, size=60, opacity=1
        )
        points = points.encode(
            x,
            concentration_y("estimated", f"estimated {label}", levels),
            tooltip=["method:N", "level:Q", "estimated:Q"],
        )
        layers += [part(names[key], bars), part(names[key], points)]
    tables = {
        "estimates": pd.DataFrame(estimated, columns=["method", "level", "estimated"]),
        "intervals": pd.DataFrame(ends, columns=["method", "level", "low", "high"]),
        "line": {"level": levels[[0, -1]]},
    }
    what = "left-out levels: estimated over true concentration, with 90% intervals"
    return Figure("true", what, alt.layer(*layers), tables, 400)


def _curve(file: CalibratedFile) -> Figure:
    """Signal over concentration at one wavelength."""
    label, predicted, line = file.series.signal_label, "geonode, 90% interval", "straight line"
    title = labelled("concentration", file.unit)
    x = concentration_x("concentration", title, file.series.concentrations)
    part = keyed({"measured": INK, predicted: MODEL, line: SECOND})
    along = alt.Chart(alt.NamedData("curve")).encode(x)
    points = alt.Chart(alt.NamedData("measured")).mark_point(filled=True, size=60, opacity=1)
    points = points.encode(x, y_axis("signal", label), tooltip=["concentration:Q", "signal:Q"])
    chart = alt.layer(
        *band_layers(along, part, predicted, label),
        part(line, along.mark_line(strokeDash=[6, 4]).encode(y_axis("line", label))),
        part("measured", points),
    )
    what = "signal over concentration at the chosen wavelength"
    return Figure("curve", what, chart, {"curve": {}, "measured": {}})


def _residuals(file: CalibratedFile) -> Figure:
    """Errors of the left-out levels by a method that the reader chooses."""
    levels = file.series.concentrations
    methods = sorted(
        file.calibration.verdict.methods, key=lambda method: method.key != file.calibration.method
    )
    rows = {
        "method": np.repeat([method.key for method in methods], len(levels)),
        "level": np.tile(levels, len(methods)),
        "error": np.concatenate([method.estimates - levels for method in methods]),
    }
    label = labelled("concentration", file.unit)
    options = {method.key: method.name for method in methods}
    base = alt.Chart().encode(concentration_x("level", label, levels))
    error = y_axis("error", f"estimated − true {label}", zero=True)
    points = base.mark_point(filled=True, size=60, color=SECOND, opacity=1)
    chart = (
        alt.layer(
            base.mark_rule(color=SECOND, strokeWidth=2).encode(error, y2=alt.Y2Datum(0)),
            points.encode(error, tooltip=["level:Q", "error:Q"]),
            data=alt.NamedData("residuals"),
        )
        .add_params(choice("method", "method", options, methods[0].key))
        .transform_filter("datum.method == method")
    )
    what = "estimated less true concentration of every left-out level"
    return Figure("residuals", what, chart, {"residuals": rows}, 260)


def _spectrum(file: CalibratedFile, name: str, what: str, *, measured: bool) -> Figure:
    """A predicted spectrum with its band."""
    chart = spectrum_chart(file.series, "predicted, 90% interval", measured=measured)
    chart = chart.properties(data=alt.NamedData("spectrum")).add_params(zoom())
    return Figure(name, what, chart, {"spectrum": {}})


def _metric(file: CalibratedFile) -> Figure:
    """Posterior of sqrt(g) between the end levels, beyond which the predictor extrapolates."""
    found = file.predictions.predicted.sqrt_metric
    assert found is not None  # the predictor has a posterior
    levels = file.series.concentrations
    inside = (file.places > levels[0]) & (file.places < levels[-1])
    table = {
        "concentration": file.places[inside],
        "sqrt_g": found[0][inside],
        "deviation": found[1][inside],
    }
    return metric_figure(pd.DataFrame(table), levels, file.unit)
