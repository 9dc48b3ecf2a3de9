"""Figures of predicted spectra and of estimated concentrations."""

import math
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib import colormaps
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure

from geonode.estimation.axis import prepared
from geonode.estimation.curve import CREDIBLE, Curve
from geonode.estimation.model import SpectralModel
from geonode.estimation.posterior import posterior
from geonode.estimation.predicting import PredictedBlock
from geonode.estimation.tables import EstimateRow
from geonode.learning.blend import COVERAGE
from geonode.report.png_style import MEASURED, MODEL, SECOND, styled
from geonode.spectra.reading import Spectra
from geonode.spectra.series import Series, level_names

MOST_SPECTRA = 12
"""Largest number of spectra in one figure."""

BANDS = 4
"""Largest number of spectra drawn with bands; more would hide each other."""

_GREY = "#999999"
_RIGHT = 0.35  # share of a panel beyond which the text of a mode is on its left
_BRIGHTEST = 0.8  # of viridis on white


@styled
def predicted_figure(series: Series, block: PredictedBlock) -> Figure:
    """Draw predicted spectra over the measured ones, up to `BANDS` of them with bands.

    Args:
        series: the measured spectra.
        block: predicted spectra of ascending concentrations.
    """
    unit = series.labels["concentration_unit"]
    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    panel = figure.subplots()
    for place, spectrum in enumerate(series.signal):
        label = None if place else "measured levels"
        panel.plot(series.axis, spectrum, color=_GREY, lw=0.6, zorder=2.5, label=label)
    names, few = level_names(block.concentrations), len(block.concentrations) <= BANDS
    shades = LinearSegmentedColormap.from_list(
        "shades", colormaps["viridis"](np.linspace(0, _BRIGHTEST, 256))
    )
    scale = Normalize(block.concentrations[0], block.concentrations[-1])
    name_of_band, ends = _band(block)
    for place, name in enumerate(names):
        colour = shades(scale(block.concentrations[place])) if len(names) > 1 else MODEL
        label = f"predicted at {name} {unit}" if few else None
        panel.plot(series.axis, block.signal[place], color=colour, label=label)
        if few:
            label = None if place else name_of_band
            low, high = ends[:, place]
            panel.fill_between(series.axis, low, high, color=colour, alpha=0.25, lw=0, label=label)
    if not few:
        shown = ScalarMappable(scale, shades)
        figure.colorbar(shown, ax=panel, label=f"predicted concentration ({unit})")
    panel.margins(x=0)
    panel.set_xlabel(series.axis_label)
    panel.set_ylabel(series.signal_label)
    panel.legend(loc="best")
    return figure


@styled
def estimates_figure(
    model: SpectralModel, curve: Curve, spectra: Spectra, rows: list[EstimateRow], *, scale: bool
) -> Figure:
    """Draw the posterior density of the first spectra, their credible sets and modes.

    A single spectrum is also drawn over the spectrum predicted at its mode.

    Args:
        model: model that predicts spectra.
        curve: curve of its predictions.
        spectra: measured spectra.
        rows: their estimates.
        scale: whether measured spectra may differ by a factor.
    """
    unit = model.series.labels["concentration_unit"]
    values = prepared(model.series, spectra.axis, spectra.values[:MOST_SPECTRA])
    probability = posterior(curve, values)
    if len(rows) == 1:
        figure = Figure(figsize=(9.0, 3.6), layout="constrained")
        density, fit = figure.subplots(1, 2)
        _draw_posterior(density, curve, probability[0], rows[0])
        density.set_xlabel(f"concentration ({unit})")
        density.set_ylabel(f"posterior density (per {unit})")
        _draw_fit(fit, model, rows[0].mode, values[0], offset=curve.offset, scale=scale)
        return figure
    columns = math.ceil(math.sqrt(len(values)))
    lines = math.ceil(len(values) / columns)
    figure = Figure(figsize=(2.6 * columns + 0.6, 1.9 * lines + 0.8), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    for panel in panels[len(values) :]:
        panel.remove()
    for panel, row, of_row in zip(panels, rows, probability, strict=False):
        _draw_posterior(panel, curve, of_row, row)
    if len(rows) > len(values):
        figure.suptitle(f"first {len(values)} of {len(rows)} spectra", fontsize=9)
    figure.supxlabel(f"concentration ({unit}); shaded: {CREDIBLE:.0%} set", fontsize=9)
    figure.supylabel(f"posterior density (per {unit})", fontsize=9)
    return figure


def _band(block: PredictedBlock) -> tuple[str, np.ndarray]:
    """Name and ends of the band about predicted spectra."""
    if block.interval is None:
        return "standard deviation", block.signal + np.array([-1, 1])[:, None, None] * block.std
    return f"{COVERAGE:.0%} interval", block.interval


def _draw_posterior(panel: Any, curve: Curve, probability: np.ndarray, row: EstimateRow) -> None:
    density = probability / np.diff(curve.edges)
    panel.stairs(density, curve.edges, color=SECOND, lw=1.0)
    for low, high in row.sets:
        taken = (low <= curve.concentrations) & (curve.concentrations <= high)
        shaded = np.where(taken, density, 0.0)
        panel.stairs(shaded, curve.edges, fill=True, color=SECOND, alpha=0.3, lw=0)
    first, last = curve.edges[[0, -1]]
    for at, weight in row.modes:
        height = density[np.abs(curve.concentrations - at).argmin()]
        panel.plot([at], [height], "v", color=MODEL, ms=4, clip_on=False)
        on_right = at > first + _RIGHT * (last - first)
        panel.annotate(
            f"{at:.4g} ({weight:.2f})",
            (at, height),
            xytext=(-3 if on_right else 3, 4),
            textcoords="offset points",
            ha="right" if on_right else "left",
            fontsize=7,
        )
    panel.set_xlim(first, last)
    panel.set_ylim(0, 1.2 * float(density.max()))
    verdict = "" if row.fits else " (fits nowhere)"
    name = row.name if len(row.name) <= 20 else f"{row.name[:19]}…"
    panel.set_title(name + verdict)


def _draw_fit(
    panel: Any, model: SpectralModel, mode: float, measured: np.ndarray, **allowed: bool
) -> None:
    series, block = model.series, PredictedBlock.of(model, np.array([mode]))
    name_of_band, ends = _band(block)
    factor, constant = _fitted(block.signal[0], measured, **allowed)
    label = f"predicted at {mode:.4g} {series.labels['concentration_unit']}"
    if allowed["scale"]:
        label += f", times {factor:.3g}"
    if allowed["offset"]:
        label += f", offset {constant:.2g}"
    edges = factor * ends[:, 0] + constant
    panel.fill_between(series.axis, *edges, color=MODEL, alpha=0.25, lw=0, label=name_of_band)
    panel.plot(series.axis, factor * block.signal[0] + constant, color=MODEL, label=label)
    panel.plot(series.axis, measured, color=MEASURED, lw=0.8, label="measured")
    panel.margins(x=0)
    panel.set_xlabel(series.axis_label)
    panel.set_ylabel(series.signal_label)
    panel.legend(loc="best")


def _fitted(
    predicted: Float[np.ndarray, "wavelength"],
    measured: Float[np.ndarray, "wavelength"],
    *,
    offset: bool,
    scale: bool,
) -> tuple[float, float]:
    """Factor and constant that take a prediction to a spectrum, by least squares."""
    ones = np.ones_like(predicted)
    if scale and offset:
        factor, constant = np.linalg.lstsq(np.stack([predicted, ones], axis=1), measured)[0]
        return float(factor), float(constant)
    if scale:
        return float(predicted @ measured / (predicted @ predicted)), 0.0
    return 1.0, float(np.mean(measured - predicted)) if offset else 0.0
