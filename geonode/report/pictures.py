"""Figures that the commands `predict` and `estimate` write as PNG."""

from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from jaxtyping import Float

from geonode.estimation.axis import prepared
from geonode.estimation.curve import Curve
from geonode.estimation.model import SpectralModel
from geonode.estimation.posterior import posterior
from geonode.estimation.predicting import PredictedBlock
from geonode.estimation.tables import EstimateRow
from geonode.posterior.prior import COVERAGE
from geonode.report.kit import (
    BAND,
    INK,
    MODEL,
    MUTED,
    SECOND,
    Figure,
    concentration,
    keyed,
    level_colours,
    marks,
    numbered,
    panels,
    per,
    sample,
    x_axis,
    y_axis,
)
from geonode.report.series_figures import by_level, spectrum_chart
from geonode.spectra.series import Series, labelled, level_names
from geonode.spectra.table import Spectra
from geonode.wording import number, quantity

MOST_SPECTRA = 12
"""Largest number of spectra in one figure."""

BANDS = 4
"""Largest number of spectra drawn with bands; more would hide each other."""

LINES = 5
"""Largest number of wavelengths whose geodesics are drawn."""

LONGEST_NAME = 20
_RIGHT = 0.5  # share of a panel beyond which the text of a mode is on its left


class PredictedSpectra:
    """Those of many predicted spectra that a figure shows, taken from their blocks."""

    def __init__(self, series: Series, count: int) -> None:
        """Of a series, with a number of predicted spectra."""
        self.series = series
        self._chosen = sample(count, MOST_SPECTRA)
        self._rows: list[tuple[float, np.ndarray, np.ndarray, np.ndarray]] = []
        self._band = ""

    def __call__(self, block: PredictedBlock) -> None:
        """Take what is shown of a block."""
        low, high, self._band = _band(block)
        for place in self._chosen - block.start:
            if 0 <= place < len(block.concentrations):
                level = float(block.concentrations[place])
                self._rows.append((level, block.signal[place], low[place], high[place]))

    def figure(self) -> Figure:
        """Predicted spectra over the measured ones; up to `BANDS` of them have bands."""
        series, axis = self.series, self.series.axis
        unit = series.labels["concentration_unit"]
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
            layers.append(marks("area", x, *ends, colour, table="predicted", opacity=BAND))
        chart = alt.layer(*layers).properties(width=620, height=340)
        return Figure("predicted", "predicted spectra over the measured ones", chart, tables)


def paths_between(series: Series, table: pd.DataFrame) -> Figure:
    """Concentration along geodesics, as of `between`, at up to `LINES` wavelengths."""
    shown = table.iloc[sample(len(table), LINES)].set_index("wavelength").filter(like="t=")
    names = [quantity(value, series.labels["axis_unit"], 4) for value in shown.index]
    along = {"t": np.array([float(name[2:]) for name in shown])}
    paths = by_level(names, along, {"concentration": shown.to_numpy()}, "line")
    label = labelled("concentration", series.labels["concentration_unit"])
    y = concentration(alt.Y, "concentration", label, series.concentrations)
    chart = marks("line", x_axis("t", "affine parameter t"), y, level_colours("line", names))
    size = chart.properties(width=420, height=340)
    return Figure("geodesic", "concentration along geodesics", size, {"paths": paths})


def estimates_figure(
    model: SpectralModel, curve: Curve, spectra: Spectra, rows: list[EstimateRow], *, scale: bool
) -> Figure:
    """Posterior density of the first spectra, with their credible sets and modes.

    A single spectrum is also drawn over the spectrum predicted at its mode.

    Args:
        model: model that predicts spectra.
        curve: curve of its predictions.
        spectra: measured spectra.
        rows: their estimates.
        scale: whether measured spectra may differ by a factor.
    """
    values = prepared(model.series, spectra.axis, spectra.values[:MOST_SPECTRA])
    density = posterior(curve, values) / np.diff(curve.edges)
    shown = rows[: len(values)]
    names = numbered([_panel_of_estimate(row) for row in shown])
    table = pd.concat(map(_density_rows, names, [curve] * len(names), density, shown))
    tables: dict[str, object] = {"posterior": table}
    chart = panels(_densities(model.series), "posterior", len(names), y="independent")
    if len(rows) > len(values):
        chart = chart.properties(title=f"first {len(values)} of {len(rows)} spectra")
    if len(rows) > 1:
        return Figure("estimates", "posterior densities of concentrations", chart, tables)
    fit, tables["fit"] = _fit(model, rows[0].mode, values[0], offset=curve.offset, scale=scale)
    both = alt.hconcat(chart, fit.properties(width=330, height=150)).resolve_scale(
        color="independent"
    )
    return Figure("estimate", "posterior density and fit of a spectrum", both, tables)


def _panel_of_estimate(row: EstimateRow) -> str:
    name = row.name if len(row.name) <= LONGEST_NAME else f"{row.name[: LONGEST_NAME - 1]}…"
    return name.replace("|", "/") + ("" if row.fits else " (fits nowhere)")


def _density_rows(
    panel: str, curve: Curve, density: Float[np.ndarray, "node"], row: EstimateRow
) -> pd.DataFrame:
    """Points of the density, of every part of the set, and the modes with their weights."""
    at = curve.concentrations
    parts = [pd.DataFrame({"kind": "density", "concentration": at, "density": density})]
    for place, (low, high) in enumerate(row.sets):
        inside = (low <= at) & (at <= high)
        points = {"concentration": at[inside], "density": density[inside]}
        parts.append(pd.DataFrame({"kind": "set", "part": str(place), **points}))
    modes, weights = np.array(row.modes).T
    heights = density[np.abs(at - modes[:, None]).argmin(axis=1)]
    labels = [
        f"{number(mode, 4)} ({weight:.2f})" for mode, weight in zip(modes, weights, strict=True)
    ]
    right = modes > curve.edges[0] + _RIGHT * (curve.edges[-1] - curve.edges[0])
    columns = {"concentration": modes, "density": heights, "label": labels}
    side = np.where(right, "right", "left")
    parts.append(pd.DataFrame({"kind": "mode", "side": side, **columns}))
    return pd.concat(parts).assign(panel=panel)


def _densities(series: Series) -> Any:
    """Density, set and modes of one panel."""
    unit = series.labels["concentration_unit"]
    density, mode = f"posterior density, shaded: {COVERAGE:.0%} set", "mode (weight)"
    part = keyed({density: SECOND, mode: MODEL}, columns=2)
    x = concentration(
        alt.X, "concentration", labelled("concentration", unit), series.concentrations
    )
    y = y_axis("density", per("density", unit), zero=True)
    kind, text = alt.datum.kind, alt.Text("label", type="nominal")
    away = alt.ExprRef("datum.side == 'right' ? -7 : 7")
    beside: dict[str, Any] = {"align": alt.ExprRef("datum.side"), "dx": away}
    triangle: dict[str, Any] = {"shape": "triangle-down", "filled": True, "size": 50, "opacity": 1}
    parts = alt.Detail("part", type="nominal")
    return alt.layer(
        part(density, "area", x, y, parts, where=kind == "set", opacity=BAND),
        part(density, "line", x, y, where=kind == "density", strokeWidth=1),
        part(mode, "point", x, y, where=kind == "mode", **triangle),
        marks("text", x, y, text, where=kind == "mode", fontSize=10, color=INK, **beside),
    )


def _fit(
    model: SpectralModel, mode: float, measured: np.ndarray, *, offset: bool, scale: bool
) -> tuple[Any, dict[str, np.ndarray]]:
    """A measured spectrum over the one predicted at its mode, times a factor, plus an offset."""
    series, block = model.series, PredictedBlock.of(model, np.array([mode]))
    low, high, band = _band(block)
    predicted = block.signal[0]
    design = np.stack([predicted, np.ones_like(predicted)], axis=1)[:, np.array([scale, offset])]
    rest = measured if scale else measured - predicted
    found = iter(np.linalg.lstsq(design, rest)[0].tolist())
    factor, constant = next(found) if scale else 1.0, next(found) if offset else 0.0
    name = f"predicted at {mode:.4g} {series.labels['concentration_unit']}"
    name += f", times {factor:.3g}" * scale + f", offset {constant:.2g}" * offset + f", {band}"
    lines = {"predicted": predicted, "low": low[0], "high": high[0]}
    table = {"wavelength": series.axis, "measured": measured}
    table |= {key: factor * line + constant for key, line in lines.items()}
    chart = spectrum_chart(series, name).properties(data=alt.NamedData("fit"))
    return chart, table


def _band(block: PredictedBlock) -> tuple[np.ndarray, np.ndarray, str]:
    """Lower and upper end of the bands about predictions, and their name."""
    if block.interval is not None:
        return *block.interval, f"{COVERAGE:.0%} interval"
    return block.signal - block.std, block.signal + block.std, "standard deviation"
