"""Mixtures that obey Beer and Lambert's law, and others whose response bends."""

import numpy as np
import pandas as pd

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


# files of lead and zinc

NM = np.arange(400, 400 + 2 * len(AXIS), 2)
HEADERS = ("y_lead (ppm)", "y_zinc (ppm)")
KNOWN = amounts(14, 2)
UNKNOWN = np.clip(amounts(4, 2, seed=3), 1, 9)


def frame(signal, names=None):
    """Spectra in rows, of samples by name."""
    found = pd.DataFrame(signal, columns=[str(one) for one in NM])
    if names is not None:
        found.insert(0, "sample", [*names])
    return found


def table(known=KNOWN, headers=HEADERS, noise=5e-3):
    """Spectra in rows after their amounts."""
    found = frame(spectra(known, noise=noise))
    for at, header in enumerate(headers):
        found.insert(at, header, known[:, at], allow_duplicates=True)
    return found
