"""Figure of the leave-one-out predictions, one panel per level."""

import math

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from geonode.report.png_style import DPI, MEASURED, MODEL, styled
from geonode.spectra.series import Series, level_names

WIDEST = 1200
"""Largest width (pixels): figures of many panels have fewer dots per inch, to keep files small."""


@styled
def folds_figure(
    series: Series,
    predicted: Float[np.ndarray, "level wavelength"],
    band: tuple[str, Float[np.ndarray, "level wavelength"]],
    scores_r2: list[float | None],
) -> Figure:
    """Draw every left-out spectrum and its prediction.

    Args:
        series: the measured series.
        predicted: row i is the spectrum predicted with level i left out.
        band: name and half width of the band about the prediction (unit of the spectra).
        scores_r2: R2 of every prediction, None where it is undefined.
    """
    axis, levels = series.axis, series.concentrations
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
        panel.plot(axis, series.signal[i], color=MEASURED, lw=2, label="measured")
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
