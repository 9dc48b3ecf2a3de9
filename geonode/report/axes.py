"""Axes, colours and ticks of the figures of the report."""

import math
from typing import Any

import numpy as np
from jaxtyping import Float
from plotly.colors import sample_colorscale

from geonode.report.data import Report
from geonode.report.figure import (
    Selector,
    numbers,
    text,
    titled,
)
from geonode.wording import number

VISIBLE = (0.2, 0.9)
"""Part of viridis that is visible on a dark and on a light page."""

CLIPPED = 99.0
"""Percentile of absolute values at which the colours of a map around zero saturate."""

SMALL_RANGE = 3.0  # ratio of two values below which an axis is linear


MOST_DECADES = 8


NAMED_TICKS = 25


def colours_of(count: int) -> list[str]:
    """Some number of colours, from dark to light."""
    low, high = VISIBLE
    places = np.linspace(low, high, count) if count > 1 else np.array([(low + high) / 2])
    return list(sample_colorscale("Viridis", places.tolist()))


def bar() -> dict[str, Any]:
    """Layout of a colour bar above the figure, where narrow screens have room for it."""
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


def around_zero(values: Float[np.ndarray, "..."]) -> dict[str, Any]:
    """Colours of a map centred at zero."""
    limit = float(f"{np.percentile(np.abs(values), CLIPPED):.3g}") or 1.0
    blue_to_red = [[0, "#2166ac"], [0.25, "#92c5de"], [0.5, "#f7f7f7"], [0.75, "#f4a582"]]
    return {
        "colorscale": [*blue_to_red, [1, "#b2182b"]],
        "zmin": -limit,
        "zmax": limit,
        "colorbar": bar(),
    }


def concentration_axis(
    report: Report, concentrations: Float[np.ndarray, "..."]
) -> tuple[Float[np.ndarray, "..."], dict[str, Any]]:
    """Positions of concentrations on the chart of the series, and the layout of their axis."""
    chart = report.series.chart
    label = f"concentration ({report.level_unit})"
    if chart.kappa == math.inf:
        return concentrations, titled(label, type="linear")
    if chart.kappa == 0:
        return concentrations, titled(label, type="log")
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


def logarithmic_ticks(values: Float[np.ndarray, "..."]) -> dict[str, Any]:
    """Ticks of a logarithmic colour bar."""
    low, high = np.log10(values.min()), np.log10(values.max())
    ticks = low + (high - low) * np.linspace(0.05, 0.95, 5)  # labels at the ends would be cut
    return {"tickvals": numbers(ticks), "ticktext": [number(10**tick, 2) for tick in ticks]}


def scale(of_folds: list[list[float]]) -> dict[str, Any]:
    """Logarithmic axis with few ticks, or linear for a small range or values below zero."""
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


def spaced(name: str) -> str:
    """Name with blanks instead of underscores."""
    return name.replace("_", " ")


def level_selector(
    report: Report, label: str, first: str = "0", shown: list[int] | None = None
) -> Selector:
    """Selector of a level, of all levels or of those shown."""
    levels = range(len(report.names)) if shown is None else shown
    options = [(str(level), f"{report.names[level]} {report.level_unit}") for level in levels]
    return Selector(label, options, first)


def level_axis(report: Report) -> dict[str, Any]:
    """Axis of the left-out levels."""
    label = f"left out ({report.level_unit})"
    return titled(label, type="category", dtick=math.ceil(len(report.names) / NAMED_TICKS))


def unit_or_none(unit: str) -> str:
    """Unit, empty for the unit "1"."""
    return "" if unit == "1" else unit


def or_nan(value: float | None) -> float:
    """Value, or NaN for None."""
    return math.nan if value is None else value
