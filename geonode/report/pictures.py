"""Figures that the commands `predict` and `geodesic` write as PNG."""

import altair as alt
import numpy as np
import pandas as pd
from jaxtyping import Float

from geonode.prediction.model import SpectralModel
from geonode.prediction.predicting import PredictedBlock
from geonode.report.kit import (
    MUTED,
    SHADE,
    Figure,
    by_level,
    concentration,
    level_colours,
    marks,
    sample,
    x_axis,
    y_axis,
)
from geonode.spectra.series import Series, labelled, level_names
from geonode.wording import quantity

MOST_DRAWN = 12
"""Largest number of spectra in one figure."""

BANDS = 4
"""Largest number of spectra drawn with bands; more would hide each other."""

LINES = 5
"""Largest number of wavelengths whose geodesics are drawn."""


def predicted_spectra(
    model: SpectralModel, concentrations: Float[np.ndarray, "target"], level: float
) -> Figure:
    """Spectra predicted at some of the concentrations, over the measured ones.

    Up to `BANDS` of them have bands, intervals of a level.
    """
    shown = concentrations[sample(len(concentrations), MOST_DRAWN)]
    block, series = PredictedBlock.of(model, shown, 0), model.series
    signal, (band, half) = block.predicted.spectra, block.predicted.band(level)
    at = sample(len(series.axis), 1000)
    names = [f"{name} {series.unit}" for name in level_names(shown)]
    along = {"wavelength": series.axis[at]}
    ends = {"signal": signal, "low": signal - half, "high": signal + half}
    values = {name: spectra[:, at] for name, spectra in ends.items()}
    predicted, measured = by_level(names, along, values), {"signal": series.signal[:, at]}
    measured = by_level(level_names(series.concentrations), along, measured)
    few = len(names) <= BANDS
    title = f"predicted, with {band}" if few else "predicted"
    colour = level_colours("level", names, f"{title} (grey: measured)")
    x, y = x_axis("wavelength", series.axis_label), y_axis("signal", series.signal_label)
    each = alt.Detail("level", type="nominal")
    layers = [
        marks("line", x, y, each, table=measured, color=MUTED, strokeWidth=0.7),
        marks("line", x, y, colour, table=predicted),
    ]
    if few:
        band_ends = y_axis("low", series.signal_label), alt.Y2("high")
        layers.append(marks("area", x, *band_ends, colour, table=predicted, opacity=SHADE))
    chart = alt.layer(*layers).properties(width=620, height=340)
    return Figure("predicted", "predicted spectra over the measured ones", chart)


def paths_between(series: Series, table: pd.DataFrame) -> Figure:
    """Concentration along geodesics, as of `between`, at up to `LINES` wavelengths."""
    shown = table.iloc[sample(len(table), LINES)].set_index("wavelength").filter(like="t=")
    names = [quantity(value, series.labels["axis_unit"], 4) for value in shown.index]
    along = {"t": np.array([float(name[2:]) for name in shown])}
    paths = by_level(names, along, {"concentration": shown.to_numpy()})
    label = labelled("concentration", series.labels["concentration_unit"])
    y = concentration(alt.Y, "concentration", label, series.concentrations)
    x, colours = x_axis("t", "affine parameter t"), level_colours("level", names)
    chart = marks("line", x, y, colours, table=paths).properties(width=420, height=340)
    return Figure("geodesic", "concentration along geodesics", chart)
