"""Drift in the order of measuring, by a permutation test on the scans of one level.

With d_i the deviation of a scan from the mean of its level, and t_i its place in the file less the
mean place of that level, the statistic is the squared norm of sum t_i d_i. Without a drift all
orders of the scans within their levels are equally likely, whatever their noise is, so that the
test is exact: P. Good, Permutation, Parametric and Bootstrap Tests of Hypotheses, 3rd edition,
Springer 2005.
"""

from collections.abc import Iterator

import numpy as np

from geonode.spectra.table import SpectraTable

ORDERS = 1999
"""Random orders that are compared with that of the file."""

UNLIKELY_ORDER = 0.01
"""Probability of such an order without a drift, below which it is reported."""

MOST_DEVIATIONS = 1_000_000
"""Deviations that are looked at; of more, evenly spaced wavelengths."""


def drifts(table: SpectraTable) -> Iterator[str]:
    """A line if scans of the same levels drift in the order of the file."""
    away = table.replicates.deviations
    away = away[:, :: 1 + away.size // MOST_DEVIATIONS]
    random, orders = np.random.default_rng(0), list[np.ndarray]()
    for places in table.places:
        if len(places) > 1:
            order = np.tile(np.array(places) - np.mean(places), (ORDERS + 1, 1))
            order[1:] = random.permuted(order[1:], axis=1)
            orders.append(order)
    if not orders:
        return
    sizes = np.square(np.concatenate(orders, axis=1) @ away).sum(axis=1)
    chance = float(np.mean(sizes >= sizes[0] * (1 - 1e-9)))
    if chance < UNLIKELY_ORDER:
        yield (
            f"scans of the same levels drift in the order of the file (p = {chance:.1g}); if they "
            "were measured in it, intervals do not cover the drift: measure levels in random order "
            "and a standard repeatedly"
        )
