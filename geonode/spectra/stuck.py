"""Values at which a detector was stuck: flat tops at its ceiling, and one number instead of a band.

Rounding makes tops flat too. Within n values beside n equal ones a rounded parabola falls by at
most ((3 n - 1) / (n - 1))^2 rounding steps, 16 for three. Baselines that are exactly zero are usual
where nothing absorbs. A number that most of a spectrum has is therefore suspect only where lower
levels have a band, and higher ones too if there are some.
"""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Bool, Float

FLAT = 3
"""Neighbouring values, all the largest of their spectrum, that show a detector at its ceiling."""

STEEP = 20.0
"""Rounding steps by which a flat top falls that is none of a rounded band."""

BAND = 0.05
"""Signal instead of which there is one number, as a share of the range of all values."""

Values = Float[np.ndarray, "spectrum wavelength"]


def flat_tops(values: Values) -> Iterator[tuple[int, int]]:
    """Spectrum and first wavelength of every flat top, but of spectra that are flat throughout."""
    top = values == np.nanmax(values, axis=1, keepdims=True, initial=-np.inf)
    run = np.lib.stride_tricks.sliding_window_view(np.pad(top, ((0, 0), (0, FLAT - 1))), FLAT, 1)
    starts = run.all(axis=2) & ~top.all(axis=1, keepdims=True)
    first = np.argwhere(starts & ~np.pad(starts, ((0, 0), (1, 0)))[:, :-1]).tolist()
    step = np.diff(np.unique(values[np.isfinite(values)])).min(initial=np.inf) if first else 0.0
    for spectrum, start in first:
        after = top[spectrum, start:]
        length = len(after) if after.all() else int(after.argmin())
        beside = values[spectrum, max(start - length, 0) : start + 2 * length]
        if values[spectrum, start] - np.nanmin(beside) > STEEP * step:
            yield spectrum, start


def stuck(
    levels: Float[np.ndarray, "spectrum"], values: Values
) -> Bool[np.ndarray, "spectrum wavelength"]:
    """Whether values are those of a detector at its ceiling, or of a dark one.

    Args:
        levels: concentrations of the spectra.
        values: finite.
    """
    found = np.zeros(values.shape, dtype=bool)
    for spectrum, _ in flat_tops(values):
        found[spectrum] = values[spectrum] == values[spectrum].max()
    for spectrum, row in enumerate(values):
        same = row == np.median(row)
        if same.mean() <= 0.5 or levels[spectrum] == levels.min():  # a blank may be zero throughout
            continue
        band = np.abs(values - np.median(row)) > BAND * np.ptp(values)
        sides = levels < levels[spectrum], levels > levels[spectrum]
        seen = [band[side].any(axis=0) for side in sides if side.any()]
        if same.all() or (same & np.all(seen, axis=0)).sum() >= FLAT:
            found[spectrum] |= same
    return found
