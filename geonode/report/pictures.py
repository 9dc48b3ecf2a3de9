"""Figures that the commands `predict` and `geodesic` write as PNG."""

import altair as alt
import numpy as np
import pandas as pd

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
from geonode.wording import percent, quantity

MOST_DRAWN = 12
"""Largest number of spectra in one figure."""

BANDS = 4
"""Largest number of spectra drawn with bands; more would hide each other."""

LINES = 5
"""Largest number of wavelengths whose geodesics are drawn."""


class PredictedSpectra:
    """Those of many predicted spectra that a figure shows, taken from their blocks."""

    def __init__(self, series: Series, count: int) -> None:
        """Of a series, with a number of predicted spectra."""
        self.series = series
        self._chosen = sample(count, MOST_DRAWN)
        self._rows: list[tuple[float, np.ndarray, np.ndarray, np.ndarray]] = []
        self._band = ""

    def __call__(self, block: PredictedBlock) -> None:
        """Take what is shown of a block."""
        if block.interval is None:
            low, high = block.signal - block.std, block.signal + block.std
            self._band = "standard deviation"
        else:
            (low, high), self._band = block.interval, f"{percent(block.level)}% interval"
        for place in self._chosen - block.start:
            if 0 <= place < len(block.concentrations):
                level = float(block.concentrations[place])
                self._rows.append((level, block.signal[place], low[place], high[place]))

    def figure(self) -> Figure:
        """Predicted spectra over the measured ones; up to `BANDS` of them have bands."""
        series, axis = self.series, self.series.axis
        unit = series.unit
        at = sample(len(axis), 1000)
        levels, *spectra = zip(*self._rows, strict=True)
        names = [f"{name} {unit}" for name in level_names(np.array(levels))]
        along, columns = {"wavelength": axis[at]}, ("signal", "low", "high")
        values = {name: np.array(one)[:, at] for name, one in zip(columns, spectra, strict=True)}
        measured = {"signal": series.signal[:, at]}
        tables = {
            "measured": by_level(level_names(series.concentrations), along, measured),
            "predicted": by_level(names, along, values),
        }
        few = len(names) <= BANDS
        title = "predicted, with " + self._band if few else "predicted"
        colour = level_colours("level", names, f"{title} (grey: measured)")
        x, y = x_axis("wavelength", series.axis_label), y_axis("signal", series.signal_label)
        low_end = y_axis("low", series.signal_label)
        each = alt.Detail("level", type="nominal")
        layers = [
            marks("line", x, y, each, color=MUTED, strokeWidth=0.7),
            marks("line", x, y, colour, table="predicted"),
        ]
        if few:
            ends = (low_end, alt.Y2("high"))
            layers.append(marks("area", x, *ends, colour, table="predicted", opacity=SHADE))
        chart = alt.layer(*layers).properties(width=620, height=340)
        return Figure("predicted", "predicted spectra over the measured ones", chart, tables)


def paths_between(series: Series, table: pd.DataFrame) -> Figure:
    """Concentration along geodesics, as of `between`, at up to `LINES` wavelengths."""
    shown = table.iloc[sample(len(table), LINES)].set_index("wavelength").filter(like="t=")
    names = [quantity(value, series.labels["axis_unit"], 4) for value in shown.index]
    along = {"t": np.array([float(name[2:]) for name in shown])}
    paths = by_level(names, along, {"concentration": shown.to_numpy()})
    label = labelled("concentration", series.labels["concentration_unit"])
    y = concentration(alt.Y, "concentration", label, series.concentrations)
    chart = marks("line", x_axis("t", "affine parameter t"), y, level_colours("level", names))
    size = chart.properties(width=420, height=340)
    return Figure("geodesic", "concentration along geodesics", size, {"paths": paths})
