"""Figures of leave-one-out predictions, drawn without pyplot and written as reproducible PNG.

Figures do not depend on the reader's matplotlib settings: the same numbers give the same bytes.
Colours are those of Okabe and Ito, Color Universal Design (2008), for colour-blind readers.
"""

import math
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import numpy as np
from jaxtyping import Float
from matplotlib import style
from matplotlib.colors import CenteredNorm, LogNorm
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.mathtext import MathTextParser
from matplotlib.text import Text
from matplotlib.ticker import NullFormatter

from geonode.spectra.series import Series, level_names
from geonode.storage.atomic import replacing

MEASURED, MODEL, BASELINE = "#000000", "#D55E00", "#0072B2"  # black, vermillion, blue

DPI = 110
WIDEST = 1200
"""Largest width (pixels): figures of many panels have fewer dots per inch, to keep files small."""

STYLE = {
    "figure.dpi": DPI,
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.labelsize": 9,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.1,
}

CLIPPED = 99.0
"""Percentile of the absolute errors at which the colours of the error map saturate."""

ROWS = 400
"""Largest number of rows of a heat map of the metric, as there are no more pixels."""

_styled = style.context(["default", STYLE])  # a context manager that also decorates functions

Arguments = ParamSpec("Arguments")


def drawn(make: Callable[Arguments, Figure]) -> Callable[Arguments, Figure]:
    """Decorator of figures: sets the common style, and shows labels that are no formula as text."""

    @wraps(make)
    @_styled
    def made(*given: Arguments.args, **named: Arguments.kwargs) -> Figure:
        figure = make(*given, **named)
        for text in figure.findobj(Text):
            label = text.get_text()
            if "$" in label and not _is_formula(label):
                text.set_parse_math(False)
        return figure

    return made


def _is_formula(text: str) -> bool:
    try:
        MathTextParser("path").parse(text)
    except ValueError:
        return False
    return True


@drawn
def folds_figure(
    series: Series,
    predicted: Float[np.ndarray, "level wavelength"],
    band: tuple[str, Float[np.ndarray, "level wavelength"]],
    scores_r2: list[float | None],
) -> Figure:
    """Draw every left-out spectrum and its prediction, one panel per level.

    Args:
        series: the measured series.
        predicted: row i is the spectrum predicted with level i left out.
        band: name and half width of the band about the prediction (unit of the spectra).
        scores_r2: R2 of every prediction, None where it is undefined.
    """
    axis, levels, measured = series.axis, series.concentrations, series.signal
    name_of_band, half_width = band
    columns = math.ceil(math.sqrt(len(levels)))
    rows = math.ceil(len(levels) / columns)
    width, height, line_break = (2.9, 2.2, ", ") if columns <= 3 else (1.9, 1.6, "\n")
    size = (width * columns + 0.4, height * rows + 0.8)
    layout = ConstrainedLayoutEngine(w_pad=0.1)  # inches: room for the tick labels at the corners
    figure = Figure(figsize=size, dpi=min(DPI, WIDEST / size[0]), layout=layout)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    panels = grid.ravel()[: len(levels)]
    for unused in grid.ravel()[len(levels) :]:
        unused.remove()
    for lowest in panels[-columns:]:
        lowest.tick_params(labelbottom=True)
    for i, (panel, name, r2) in enumerate(zip(panels, level_names(levels), scores_r2, strict=True)):
        edges = (predicted[i] - half_width[i], predicted[i] + half_width[i])
        panel.plot(axis, measured[i], color=MEASURED, lw=2, label="measured")
        panel.plot(axis, predicted[i], color=MODEL, label="predicted")
        panel.fill_between(axis, *edges, color=MODEL, alpha=0.3, lw=0, label=name_of_band)
        score = "R² undefined" if r2 is None else f"R² = {r2:.3f}".replace("-", "−")
        unit = series.labels["concentration_unit"]
        panel.set_title(f"left out {name} {unit}{line_break}{score}")
        panel.margins(x=0)
    figure.supxlabel(series.axis_label, fontsize=10)
    figure.supylabel(series.signal_label, fontsize=10)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=3)
    return figure


@drawn
def error_figure(
    series: Series,
    predicted: Float[np.ndarray, "level wavelength"],
    baseline: str,
    baseline_predicted: Float[np.ndarray, "level wavelength"],
) -> Figure:
    """Draw the error by wavelength: of every left-out level, and over all of them.

    Args:
        series: the measured series.
        predicted: row i is the spectrum predicted with level i left out.
        baseline: name of the baseline to compare with, a key of `BASELINES`.
        baseline_predicted: its predictions.
    """
    map_height = min(max(0.3 * len(series.concentrations), 2.2), 7.0)
    figure = Figure(figsize=(7.2, map_height + 2.6), layout="constrained")
    by_level, over_levels = figure.subplots(
        2, 1, sharex=True, gridspec_kw={"height_ratios": [map_height, 2.0]}
    )
    mesh = _draw_errors(by_level, series, predicted - series.signal)
    label = f"error, {series.signal_label}"
    figure.colorbar(mesh, ax=by_level, extend="both", aspect=7 * map_height, label=label)
    _draw_rmse(over_levels, series, baseline_predicted, baseline.replace("_", " "), BASELINE, "--")
    _draw_rmse(over_levels, series, predicted, "geonode", MODEL, "-")
    over_levels.set_ylim(bottom=0)
    over_levels.margins(x=0)
    over_levels.set_xlabel(series.axis_label)
    over_levels.set_ylabel(f"RMSE, {series.signal_label}")
    over_levels.set_title("(b) RMSE over the left-out levels", loc="left")
    over_levels.legend(loc="lower right", bbox_to_anchor=(1, 1), borderaxespad=0, ncols=2)
    figure.align_ylabels()
    return figure


def _draw_errors(panel: Any, series: Series, error: np.ndarray) -> Any:
    """Draw the errors of every left-out level as a heat map, which is returned."""
    places = np.arange(len(error))
    norm = CenteredNorm(halfrange=float(np.percentile(np.abs(error), CLIPPED)))
    mesh = panel.pcolormesh(series.axis, places, error, shading="nearest", cmap="RdBu_r", norm=norm)
    panel.set_yticks(places, level_names(series.concentrations))
    panel.set_ylabel(f"left-out level ({series.labels['concentration_unit']})")
    panel.set_title("(a) predicted − measured", loc="left")
    return mesh


def _draw_rmse(
    panel: Any, series: Series, predicted: np.ndarray, label: str, colour: str, dashes: str
) -> None:
    rmse = np.sqrt(np.mean((predicted - series.signal) ** 2, axis=0))
    panel.plot(series.axis, rmse, color=colour, ls=dashes, label=label)


@drawn
def metric_figure(
    axis: Float[np.ndarray, "wavelength"],
    axis_label: str,
    level_unit: str,
    concentrations: Float[np.ndarray, "node"],
    metric: Float[np.ndarray, "node wavelength"],
    symbol: Float[np.ndarray, "node wavelength"],
    levels: Float[np.ndarray, "concentration"],
) -> Figure:
    """Draw heat maps of a metric and of its Christoffel symbol.

    Args:
        axis: spectral axis.
        axis_label: name and unit of the axis.
        level_unit: unit of concentrations.
        concentrations: concentrations of the rows, ascending.
        metric: g in chart units.
        symbol: Christoffel symbol in chart units.
        levels: measured concentrations, marked at the edge.
    """
    figure = Figure(figsize=(7.2, 5.4), layout="constrained")
    panels = figure.subplots(2, 1, sharex=True, sharey=True)
    rows = np.unique(np.linspace(0, len(concentrations) - 1, ROWS).astype(int))
    limit = float(np.percentile(np.abs(symbol), CLIPPED)) or 1.0  # of a flat metric all are zero
    low, high = float(metric.min()), float(metric.max())
    scales: tuple[dict[str, Any], ...] = (
        {"cmap": "cividis", "norm": LogNorm(low, high if high > low else 2 * low)},
        {"cmap": "RdBu_r", "norm": CenteredNorm(halfrange=limit)},
    )
    titles = ("(a) metric g", "(b) Christoffel symbol G = ½ ∂ ln g / ∂x")
    for panel, values, scale, title in zip(panels, (metric, symbol), scales, titles, strict=True):
        mesh = panel.pcolormesh(
            axis, concentrations[rows], values[rows], shading="nearest", **scale
        )
        extend = "both" if values is symbol else "neither"
        bar = figure.colorbar(mesh, ax=panel, aspect=14, extend=extend, label="chart units")
        if values is metric:
            bar.ax.yaxis.set_major_formatter("{x:g}")
            bar.ax.yaxis.set_minor_formatter("{x:g}" if high < 20 * low else NullFormatter())
        panel.set_title(title, loc="left")
        panel.set_ylabel(f"concentration ({level_unit})")
        panel.margins(0)
        panel.plot(np.full(len(levels), axis[-1]), levels, "<", color="black", ms=5, clip_on=False)
    panels[1].set_xlabel(axis_label)
    return figure


@_styled
def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, whole or not at all.

    Raises:
        ArtifactError: the operating system refuses.
    """
    with replacing(path) as temporary:
        figure.savefig(temporary, format="png", metadata={"Software": None})
