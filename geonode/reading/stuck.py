"""Values at which a detector was stuck: flat tops at its ceiling, and one number instead of a band.

Rounding makes tops flat too: within n values beside n equal ones a parabola then falls by at most
((3 n - 1) / (n - 1))^2 rounding steps, 16 for three. Baselines may be zero. A number that most of a
spectrum has is suspect only where lower levels have a band, and higher ones if there are some.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float

FLAT, STEEP = 3, 20.0
"""Fewest equal values of a flat top, and the rounding steps by which no rounded band falls."""

BAND_SHARE = 0.05
"""Signal of a band, as a share of the range of all values."""


def flat_tops(values: Float[np.ndarray, "spectrum wavelength"]) -> Iterator[tuple[int, int]]:
    """Spectrum and first wavelength of every flat top, but of spectra that are flat throughout."""
    step = np.diff(np.unique(values[np.isfinite(values)][:100_000])).min(initial=np.inf)
    for spectrum, row in enumerate(values):
        top = np.pad(row == np.nanmax(row, initial=-np.inf), 1)
        for start, end in np.flatnonzero(top[1:] != top[:-1]).reshape(-1, 2).tolist():
            beside = row[max(2 * start - end, 0) : 2 * end - start]
            if end - start >= FLAT and row[start] - np.nanmin(beside) > STEEP * step:
                yield spectrum, start


def stuck(
    values: Float[np.ndarray, "spectrum wavelength"],
    levels: Float[np.ndarray, "spectrum"] | None,
) -> Bool[np.ndarray, "spectrum wavelength"]:
    """Whether finite values are of a detector at its ceiling, or, at known levels, a dark one."""
    found = np.zeros(values.shape, dtype=bool)
    for spectrum, _ in flat_tops(values):
        found[spectrum] = values[spectrum] == values[spectrum].max()
    if levels is None:
        return found
    same = values == np.median(values, axis=1, keepdims=True)
    # A blank may well be zero throughout.
    for spectrum in np.flatnonzero((same.mean(axis=1) > 0.5) & (levels > levels.min())).tolist():
        band = np.abs(values - np.median(values[spectrum])) > BAND_SHARE * np.ptp(values)
        sides = levels < levels[spectrum], levels > levels[spectrum]
        seen = np.all([band[side].any(axis=0) for side in sides if side.any()], axis=0)
        if same[spectrum].all() or (same[spectrum] & seen).sum() >= FLAT:
            found[spectrum] |= same[spectrum]
    return found
