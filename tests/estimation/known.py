"""Curves whose predictions are a formula."""

import numpy as np

from geonode.estimation.covariances import Covariances
from geonode.estimation.curve import Curve
from geonode.estimation.novelty import Novelty
from geonode.estimation.range import CURVE_NODES
from geonode.learning.folds import leave_one_out

W = np.linspace(0, 1, 40)
LEVELS = [0.0, 10.0, 20.0, 30.0, 40.0, 60.0]


def straight(concentrations):
    """A peak that grows."""
    return 0.2 + np.asarray(concentrations)[:, None] / 60 * np.exp(-((W - 0.4) ** 2) / 0.05)


def bent(concentrations):
    """A peak that grows and shrinks again, the same at 30 - d and 30 + d, as it moves."""
    distance = (np.asarray(concentrations)[:, None] - 30) / 30
    return 0.2 + np.exp(-((W - 0.4 - 0.1 * distance**2) ** 2) / 0.05) * (1 - 0.5 * distance**2)


def holds(intervals, concentration):
    """Whether a concentration is in one of some intervals."""
    return any(low <= concentration <= high for low, high in intervals)


def noise(count, size, seed=0):
    """Errors without direction, one row each."""
    return size * np.random.default_rng(seed).normal(size=(count, len(W)))


def whole(series):
    """The fold that leaves nothing out."""
    return leave_one_out(len(series.concentrations))[-1]


def curve_by(formula, covariance, masses=(0.9, 0.9), offset=False):
    """The curve of a formula from 0 to 60, with even nodes and prior.

    Args:
        formula: spectra (target, wavelength) of concentrations.
        covariance: S (direction, direction) of all nodes, in any directions, as rows (row,
            wavelength) whose outer products add up to it.
        masses: between the levels, which are from 10 to 50, and beyond.
        offset: whether a constant is allowed.
    """
    nodes, width = np.linspace(0, 60, CURVE_NODES), 60 / (CURVE_NODES - 1)
    edges = np.concatenate([[0], (nodes[1:] + nodes[:-1]) / 2, [60]])
    spectra = formula(nodes)
    if offset:
        spectra = spectra - spectra.mean(axis=1, keepdims=True)
        covariance = covariance - covariance.mean(axis=1, keepdims=True)
    _, sizes, right = np.linalg.svd(spectra, full_matrices=False)
    basis = right[sizes > 1e-6 * sizes[0]]
    rows = covariance @ basis.T
    both = np.repeat((rows.T @ rows)[None], 2, axis=0)
    places, terms = np.linspace(0, 1, CURVE_NODES), np.zeros((CURVE_NODES, 1, len(basis)))
    between = (nodes >= 10) & (nodes <= 50)
    return Curve(
        nodes,
        edges,
        between,
        np.ones(CURVE_NODES, dtype=bool),
        np.zeros(len(W)),
        basis,
        spectra @ basis.T,
        Covariances.of(both, np.array([0.0, 1.0]), places, terms),
        np.log(np.diff(edges) / width),
        6,
        Novelty(1e-4, 5.0, 6),
        offset,
        np.where(between, *masses),
    )
