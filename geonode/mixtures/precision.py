"""How well the amounts of a composition are told: standard errors and correlations.

Fisher's information of the forward model, at a composition, has the inverse V. With the weights of
the other methods it gives the covariance M of estimates (`mixtures.mixture`), here at amounts in
place of spectra. M is scaled as its 90% sets are: half of a set is 1.645 standard errors.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from geonode.mixtures.mixture import MixtureCalibration

NORMAL = 1.6449
"""Half width of a 90% interval of a normal error, in standard errors."""

MAP = 21
"""Amounts of each of the two substances of a map."""


class AmountPrecision(NamedTuple):
    """Precision of the amounts of one spectrum at some compositions."""

    amounts: Float[np.ndarray, "point substance"]
    standard_errors: Float[np.ndarray, "point substance"]
    correlations: Float[np.ndarray, "point substance substance"]
    """Of the errors: near 1 or -1 where the spectrum tells two substances only together."""


def precision_at(
    calibration: MixtureCalibration, amounts: Float[np.ndarray, "point substance"]
) -> AmountPrecision:
    """Precision at compositions."""
    covariance = calibration.covariance_at(amounts)
    sizes = np.sqrt(np.einsum("pss->ps", covariance))
    correlations = covariance / (sizes[:, :, None] * sizes[:, None])
    return AmountPrecision(amounts, sizes * np.sqrt(calibration.radii) / NORMAL, correlations)


def precision_map(calibration: MixtureCalibration, first: int, second: int) -> AmountPrecision:
    """Precision over the amounts of two substances (places), the others at their means.

    Points are in rows of the first substance, `MAP` by `MAP`.
    """
    design = calibration.design
    each = [np.linspace(design.low[one], design.high[one], MAP) for one in (first, second)]
    points = np.tile(design.amounts.mean(axis=0), (MAP**2, 1))
    points[:, [first, second]] = np.stack(np.meshgrid(*each, indexing="ij"), -1).reshape(-1, 2)
    return precision_at(calibration, points)
