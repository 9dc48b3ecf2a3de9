"""Data of figures that follow sliders, for the script of the page."""

import base64
from itertools import combinations
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int

from geonode.calibration.limits import Line
from geonode.calibration.one_substance import OneSubstance
from geonode.calibration.several_substances import SeveralSubstances
from geonode.report.calibration_tables import limit_text
from geonode.report.kit import sample
from geonode.spectra.series import Series

AT_MOST, MOST_NUMBERS = 500, 30_000
"""Wavelengths at which spectra are drawn, at most, and numbers of all predicted spectra."""

CELLS, OF_SURFACES, SURFACE_NUMBERS = 12, 120, 100_000
"""Cells of a response surface along an amount, its wavelengths at most, and numbers of all."""


def drawn_places(model: OneSubstance) -> Int[np.ndarray, "drawn"]:
    """Wavelengths that are drawn: even ones, and that of the straight line."""
    most = min(AT_MOST, MOST_NUMBERS // len(model.places))
    return np.union1d(sample(len(model.series.axis), most), [model.place])


def curves(model: OneSubstance) -> dict[str, Any]:
    """Signals over concentration: measured, predicted, and straight lines, by wavelength."""
    series, drawn, predictions = model.series, drawn_places(model), model.predictions
    _, half = predictions.band
    return {
        **_axis(model.series, drawn),
        "levels": series.concentrations,
        "measured": _base64(series.signal[:, drawn]),
        "places": model.places,
        "predicted": _base64(predictions.spectra[:, drawn]),
        "half": _base64(half[:, drawn]),
        "lines": [_fitted_line(model, place) for place in drawn.tolist()],
    }


def surfaces(model: SeveralSubstances) -> dict[str, Any]:
    """Signals in cells over the amounts of every two substances, at means of the others."""
    forward, design = model.calibration.forward, model.calibration.design
    count = len(design.names)
    pairs = [*combinations(range(count), 2)]
    amounts = np.tile(model.centre, (len(pairs), CELLS, CELLS, 1))
    middles = (np.arange(CELLS) + 0.5) / CELLS
    for place, (one, other) in enumerate(pairs):
        amounts[place, ..., one] = design.low[one] + middles * design.ranges[one]
        amounts[place, ..., other] = (design.low[other] + middles * design.ranges[other])[:, None]
    scores = forward.surface.at(torch.from_numpy(amounts.reshape(-1, count)))[0].numpy()
    most = max(2, min(OF_SURFACES, SURFACE_NUMBERS // len(scores)))
    at = sample(len(model.series.axis), most)
    signal = forward.mean[at] + scores @ forward.directions[at].T
    return {
        **_axis(model.series, at),
        "start": int(np.ptp(signal, axis=0).argmax()),
        "pairs": pairs,
        "cells": CELLS,
        "low": design.low,
        "ranges": design.ranges,
        "signal": _base64(signal),
    }


def _axis(series: Series, at: Int[np.ndarray, "drawn"]) -> dict[str, Any]:
    unit = series.labels["axis_unit"]
    return {"axis": series.axis[at], "axisUnit": "" if unit == "1" else unit}


def _base64(values: Float[np.ndarray, "..."]) -> str:
    """Numbers as little-endian floats of four bytes, in base64."""
    return base64.b64encode(np.ascontiguousarray(values, "<f4").tobytes()).decode()


def _fitted_line(model: OneSubstance, place: int) -> list[float | str]:
    """Intercept, slope and R² of the line at a wavelength, and its limit of detection in words."""
    line = Line.of(model.series, place)
    limit = line.limit()
    detection = limit_text(limit.detection, model.series.unit)
    if limit.detection is None:
        detection += f": {limit.said}"
    numbers = (line.intercept, line.slope, line.r2)
    return [*(float(f"{one:.6g}") for one in numbers), detection]
