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

OF_SURFACES = 120
"""Wavelengths of response surfaces."""

FEW, OF_FEW, OF_MANY = 3, (5, 15), (3, 10)
"""Up to so many substances: amounts of the others and cells along each amount; those of more."""

WHOLE = 32_767
"""Largest score, as a whole number."""

LOST = 1e-7
"""Share of the squared signal that components which are left out may have."""


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
    """Scores of mixtures in cells over the amounts of every two substances.

    The other substances have, in every step, the same share of their ranges. A signal is the mean
    and the sum of scores times loadings at the wavelength.
    """
    forward, design = model.calibration.forward, model.calibration.design
    count = len(design.names)
    pairs = [*combinations(range(count), 2)]
    steps, cells = OF_FEW if count <= FEW else OF_MANY
    if count == 2:
        steps = 1
    middles = (np.arange(cells) + 0.5) / cells
    shares = np.empty((len(pairs), steps, cells, cells, count))
    shares[:] = np.linspace(0, 1, steps)[:, None, None, None]
    for place, (one, other) in enumerate(pairs):
        shares[place, ..., one], shares[place, ..., other] = middles, middles[:, None]
    amounts = design.low + shares.reshape(-1, count) * design.ranges
    scores = forward.surface.at(torch.from_numpy(amounts))[0].numpy()
    at = sample(len(model.series.axis), OF_SURFACES)
    signal = scores @ forward.directions[at].T
    left, sizes, right = np.linalg.svd(signal, full_matrices=False)
    squares = np.cumsum(sizes**2)
    rank = int(np.searchsorted(squares, (1 - LOST) * squares[-1])) + 1
    largest = np.abs(left[:, :rank]).max(axis=0)  # scores are whole numbers of two bytes
    return {
        **_axis(model.series, at),
        "start": int(np.ptp(signal, axis=0).argmax()),
        "pairs": pairs,
        "steps": steps,
        "cells": cells,
        "rank": rank,
        "low": design.low,
        "ranges": design.ranges,
        "mean": _base64(forward.mean[at]),
        "loadings": _base64(right[:rank].T * sizes[:rank] * largest / WHOLE),
        "scores": _base64((left[:, :rank] / largest * WHOLE).round(), "<i2"),
    }


def _axis(series: Series, at: Int[np.ndarray, "drawn"]) -> dict[str, Any]:
    unit = series.labels["axis_unit"]
    return {"axis": series.axis[at], "axisUnit": "" if unit == "1" else unit}


def _base64(values: Float[np.ndarray, "..."], kind: str = "<f4") -> str:
    """Numbers, little-endian, in base64."""
    return base64.b64encode(np.ascontiguousarray(values, kind).tobytes()).decode()


def _fitted_line(model: OneSubstance, place: int) -> list[float | str]:
    """Intercept, slope and R² of the line at a wavelength, and its limit of detection in words."""
    line = Line.of(model.series, place)
    limit = line.limit()
    detection = limit_text(limit.detection, model.series.unit)
    if limit.detection is None:
        detection += f": {limit.said}"
    numbers = (line.intercept, line.slope, line.r2)
    return [*(float(f"{one:.6g}") for one in numbers), detection]
