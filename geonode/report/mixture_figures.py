"""Figures of the page of a calibration of several substances."""

from itertools import combinations, pairwise
from typing import Any

import altair as alt
import numpy as np
from jaxtyping import Float
from scipy.spatial import ConvexHull

from geonode.calibration.mixture_file import METHODS, MixtureFile
from geonode.report.calibration_figures import DASHES, DOTS, DRAWN
from geonode.report.kit import (
    INK,
    LINE,
    MODEL,
    MUTED,
    SECOND,
    Figure,
    band_layers,
    keyed,
    marks,
    sample,
    wrapped,
    x_axis,
    y_axis,
    zoom,
)
from geonode.spectra.series import labelled
from geonode.wording import number

FAR = 10.0
"""Times the smallest RMSEP, beyond which the bar of a method is cut."""


def of_substance(file: MixtureFile, place: int) -> list[Figure]:
    """Left-out estimates, errors of the methods, and the spectrum of one substance."""
    pure = [_pure(file, place)] if file.calibration.surface else []
    return [_true(file, place), _methods(file, place), *pure]


def of_pairs(file: MixtureFile) -> tuple[list[Figure], list[Figure]]:
    """Response surfaces and designs, of every two substances."""
    pairs = [*combinations(range(len(file.series.substances)), 2)]
    return [_surface(file, *pair) for pair in pairs], [_design(file, *pair) for pair in pairs]


def _true(file: MixtureFile, place: int) -> Figure:
    """Left-out estimates over measured amounts of one substance, with intervals."""
    found, name = file.calibration, file.series.named[place]
    measured = file.series.amounts[:, place]
    combined, pls = "combined, 90% interval", "PLS"
    x = x_axis("measured", f"measured {name}").scale(nice=False, zero=False, padding=8)
    estimated, low, other, same = (
        y_axis(field, f"estimated {name}") for field in ("estimated", "low", "pls", "measured")
    )
    part = keyed({combined: MODEL, pls: SECOND})
    hollow = {"shape": "square", "filled": False, "size": 36, "opacity": 1}
    chart = alt.layer(
        marks("line", x, same, table="ends", color=MUTED, strokeDash=DASHES, strokeWidth=1),
        part(combined, "rule", x, low, alt.Y2("high"), strokeWidth=1.5, opacity=0.6),
        part(pls, "point", x, other, **hollow),
        part(combined, "point", x, estimated, tooltip=True, **DOTS | {"size": 36}),
    )
    ends = found.left_out_intervals[:, place]
    samples = {
        "sample": file.series.samples,
        "measured": measured,
        "estimated": found.left_out["combined"][:, place],
        "low": ends[:, 0],
        "high": ends[:, 1],
        "pls": found.left_out["preprocessed_pls"][:, place],
    }
    tables = {"samples": samples, "ends": {"measured": [measured.min(), measured.max()]}}
    what = f"{name}: left-out estimates over measured amounts, with 90% intervals"
    return Figure(f"true_{place}", what, chart, tables, 300)


def _methods(file: MixtureFile, place: int) -> Figure:
    """Errors of left-out samples by method, whose labels have the numbers."""
    errors = {key: float(of[place]) for key, of in file.calibration.rmsep.items()}
    shown = {key: errors[key] for key in METHODS if key in errors}
    best, most = file.calibration.verdict[place], FAR * min(shown.values())
    table = {
        "method": [f"{METHODS[key]} {number(error, 3)}" for key, error in shown.items()],
        "error": [min(error, most) for error in shown.values()],
        "kind": ["all" if key == "combined" else "best" if key == best else "" for key in shown],
    }
    title = labelled("RMSEP", file.series.units[place])
    x = x_axis("error", title).scale(domain=[0, min(most, max(shown.values())) or 1.0])
    y = alt.Y("method", type="nominal").sort(None).title(None)
    colour = alt.Color("kind", type="nominal").legend(None)
    scale = alt.Scale(domain=["all", "best", ""], range=[MODEL, SECOND, MUTED])
    chart = alt.layer(marks("bar", x, y, colour.scale(scale), height={"band": 0.6}))
    what = f"errors of {file.series.named[place]} in left-out samples by method"
    return Figure(f"methods_{place}", what, chart, {"methods": table}, 300)


def _pure(file: MixtureFile, place: int) -> Figure:
    """Spectrum of one substance: derivative of the signal by its amount, at the centre."""
    series, at = file.series, sample(len(file.series.axis), DRAWN)
    name, unit = series.substances[place], series.units[place]
    x, line = x_axis("wavelength", series.axis_label), "change, 90% interval"
    title = f"d {series.labels['signal']} / d {labelled(name, unit)}"
    chart = alt.layer(
        *band_layers(keyed({line: MODEL}), line, x, title),
        marks("rule", alt.YDatum(0), table="ends", color=MUTED, strokeDash=DASHES),
    ).add_params(zoom())
    found, half = file.pure[at, place], file.pure_half_widths[at, place]
    ends = {"low": found - half, "high": found + half}
    tables = {
        "pure": {"wavelength": series.axis[at], "predicted": found, **ends},
        "ends": {"predicted": [0.0]},
    }
    what = f"spectrum of {name}: change of the signal per amount at the mean composition"
    return Figure(f"pure_{place}", what, chart, tables, 300)


def _axes(file: MixtureFile, one: int, other: int) -> tuple[alt.X, alt.Y]:
    """Axes of the amounts of two substances."""
    x, y = x_axis("x", file.series.named[one]), y_axis("y", file.series.named[other])
    return x.scale(nice=False, zero=False, padding=8), y.scale(nice=False, zero=False, padding=8)


def _samples(file: MixtureFile, one: int, other: int) -> dict[str, Any]:
    amounts = file.series.amounts
    return {"sample": file.series.samples, "x": amounts[:, one], "y": amounts[:, other]}


def _surface(file: MixtureFile, one: int, other: int) -> Figure:
    """Signal over the amounts of two substances; the script gives its cells."""
    x, y = _axes(file, one, other)
    labels = file.series.labels
    title = wrapped(labelled(labels["signal"], labels["signal_unit"]))
    signal = alt.Color("signal", type="quantitative").scale(scheme="viridis", zero=False)
    signal = signal.legend(title=title, gradientLength=alt.ExprRef("width / 2"))
    chart = alt.layer(
        marks("rect", x, y, alt.X2("x2"), alt.Y2("y2"), signal),
        marks("point", x, y, table="samples", color=INK, stroke="white", tooltip=True, **DOTS),
    )
    what = f"signal over the amounts of {file.series.named[one]} and {file.series.named[other]}"
    tables = {"cells": {}, "samples": _samples(file, one, other)}
    return Figure(f"surface_{one}_{other}", what, chart, tables, 320)


def _design(file: MixtureFile, one: int, other: int) -> Figure:
    """Amounts of two substances in the samples, their hull, and the estimates of unknowns."""
    x, y = _axes(file, one, other)
    names, colours = file.series.named, {"samples": INK}
    tables: dict[str, Any] = {
        "samples": _samples(file, one, other),
        "hull": _hull(file.series.amounts[:, [one, other]]),
    }
    if found := [each for _, of_file in file.unknowns for each in of_file if each.fits]:
        x_of, y_of = ([each.numbers[at][0] for each in found] for at in (one, other))
        tables["unknowns"] = {"sample": [each.name for each in found], "x": x_of, "y": y_of}
        colours["unknowns"] = MODEL
    part = keyed(colours)
    ends = alt.X2("x2"), alt.Y2("y2")
    chart = alt.layer(
        marks("rule", x, y, *ends, table="hull", color=LINE, strokeWidth=2),
        *(part(key, "point", x, y, table=key, tooltip=True, **DOTS) for key in colours),
    )
    what = f"amounts of {names[one]} and {names[other]} in the samples, and their convex hull"
    return Figure(f"design_{one}_{other}", what, chart, tables, 260)


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
