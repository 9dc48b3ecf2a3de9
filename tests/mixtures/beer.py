"""Mixtures that obey Beer and Lambert's law, and others whose response bends."""

import numpy as np

AXIS = np.linspace(0, 1, 60)
PURE = np.exp(-(((AXIS - np.array([[0.3], [0.5], [0.75]])) / [[0.12], [0.2], [0.1]]) ** 2))


def amounts(samples, substances, seed=0):
    return np.random.default_rng(seed).uniform(0.0, 10.0, (samples, substances))


def spectra(known, noise=0.0, bend=0.0, seed=1):
    """Signal of amounts; with a bend, saturating and with an interaction of the first two."""
    known = np.atleast_2d(known)
    active = known / (1 + bend * known / 10)
    signal = active @ PURE[: known.shape[1]]
    if bend and known.shape[1] > 1:
        signal = signal + 0.02 * bend * np.outer(known[:, 0] * known[:, 1], PURE[2])
    return signal + noise * np.random.default_rng(seed).normal(size=signal.shape)
