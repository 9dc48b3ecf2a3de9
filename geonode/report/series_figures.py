"""Figures that the pages of a calibration and of a pipeline share; they need no pandas."""

from typing import Any

import altair as alt
import numpy as np
from jaxtyping import Float, Int

from geonode.report.kit import (
    INK,
    MODEL,
    Figure,
    band_layers,
    concentration,
    keyed,
    level_colours,
    marks,
    per,
    x_axis,
    y_axis,
    zoom,
)
from geonode.spectra.series import Series, labelled, level_names

Columns = dict[str, Any]
"""Columns of a table by name, of equal length."""


def by_level(
    names: list[str],
    along: dict[str, Float[np.ndarray, "wavelength"]],
    values: dict[str, Float[np.ndarray, "..."]],
    of: str = "level",
) -> Columns:
    """Columns of the spectra of levels, one row per level and wavelength.

    Args:
        names: of the levels.
        along: columns that are the same for every level, by name.
        values: other columns.
        of: name of the column of the names.
    """
    (count,) = {len(one) for one in along.values()}
    columns = {name: np.tile(one, len(names)) for name, one in along.items()}
    columns |= {name: one.ravel() for name, one in values.items()}
    return {of: np.repeat(names, count), **columns}


def spectra_figure(series: Series, drawn: Int[np.ndarray, "chosen"]) -> Figure:
    """Measured spectra of all levels, at some of the wavelengths."""
    unit = series.labels["concentration_unit"]
    names = [f"{name} {unit}".removesuffix(" 1") for name in level_names(series.concentrations)]
    along = {"wavelength": series.axis[drawn]}
    rows = by_level(names, along, {"signal": series.signal[:, drawn]})
    x, y = x_axis("wavelength", series.axis_label), y_axis("signal", series.signal_label)
    chart = marks("line", x, y, level_colours("level", names)).add_params(zoom())
    return Figure("spectra", "measured spectra of all levels", chart, {"spectra": rows}, 380)


def spectrum_chart(series: Series, name: str, *, measured: bool = True, **more: Any) -> Any:
    """Predicted spectrum with its band, and the measured one.

    Args:
        series: series whose labels stand at the axes.
        name: what the prediction and its band are called.
        measured: whether a measured spectrum is drawn.
        more: properties of the legend.

    Returns:
        Chart of the columns wavelength, measured, predicted, low and high.
    """
    part = keyed(({"measured": INK} if measured else {}) | {name: MODEL}, **more)
    x, label = x_axis("wavelength", series.axis_label), series.signal_label
    layers = band_layers(part, name, x, label)
    if measured:
        layers.append(part("measured", "line", x, y_axis("measured", label)))
    return alt.layer(*layers)


def metric_figure(table: Columns, levels: Float[np.ndarray, "level"], unit: str) -> Figure:
    """Mean and standard deviation of sqrt(g) over concentration.

    Args:
        table: columns concentration, sqrt_g and deviation.
        levels: measured concentrations.
        unit: unit of the concentrations.
    """
    mean, deviation = table["sqrt_g"], table["deviation"]
    low, high = np.maximum(mean - deviation, 0), mean + deviation
    rows = {"concentration": table["concentration"], "predicted": mean, "low": low, "high": high}
    name, label = "posterior mean ± standard deviation", per("√g", unit)
    x = concentration(alt.X, "concentration", labelled("concentration", unit), levels)
    chart = alt.layer(*band_layers(keyed({name: MODEL}), name, x, label, zero=True))
    what = "posterior of the square root of the metric"
    return Figure("posterior_metric", what, chart, {"metric": rows}, 260)
