"""The response surfaces of a page of mixtures, for its script."""

from itertools import combinations
from typing import Any

import numpy as np
import torch

from geonode.calibration.mixture_file import MixtureFile
from geonode.report.calibration_data import packed
from geonode.report.kit import sample

WAVELENGTHS = 120
"""Wavelengths to choose from."""

FEW, OF_FEW, OF_MANY = 3, (5, 15), (3, 10)
"""Up to so many substances: amounts of the others and cells along each amount; those of more."""

WHOLE = 32_767
"""Largest score, as a whole number."""

LOST = 1e-7
"""Share of the squared signal that components which are left out may have."""


def surfaces(file: MixtureFile) -> dict[str, Any]:
    """Scores of mixtures in cells over the amounts of every two substances.

    The other substances have, in every step, the same share of their ranges. A signal is the mean
    and the sum of scores times loadings at the wavelength.
    """
    forward, design = file.calibration.surface, file.calibration.design
    if forward is None:
        return {"steps": 0, "wavelengths": 0}
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
    at = sample(len(file.series.axis), WAVELENGTHS)
    signal = scores @ forward.directions[at].T
    left, sizes, right = np.linalg.svd(signal, full_matrices=False)
    squares = np.cumsum(sizes**2)
    rank = int(np.searchsorted(squares, (1 - LOST) * squares[-1])) + 1
    largest = np.abs(left[:, :rank]).max(axis=0)  # scores are whole numbers of two bytes
    unit = file.series.labels["axis_unit"]
    return {
        "axis": packed(file.series.axis[at]),
        "axisUnit": "" if unit == "1" else unit,
        "wavelengths": len(at),
        "start": int(np.ptp(signal, axis=0).argmax()),
        "pairs": pairs,
        "steps": steps,
        "cells": cells,
        "rank": rank,
        "low": design.low,
        "ranges": design.ranges,
        "mean": packed(forward.mean[at], "<f4"),
        "loadings": packed(right[:rank].T * sizes[:rank] * largest / WHOLE, "<f4"),
        "scores": packed((left[:, :rank] / largest * WHOLE).round(), "<i2"),
    }
