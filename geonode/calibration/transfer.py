"""Transfer of a calibration to another instrument or day, by standards measured on both.

Three corrections are compared by the errors of standards that are left out in turn, with everything
fitted without them: none; slope and bias, a line of the known amounts over the estimates; and
piecewise direct standardisation, which makes spectra of the second instrument those of the first
before anything is estimated:

    x1_j - mean x1_j = (x2_(j-w .. j+w) - mean) b_j,    w wavelengths to both sides

b_j is a regression on the leading principal components of the window, as windows have more
wavelengths than there are standards. Width and number of components are tried, too.

Source: Y. Wang, D. J. Veltkamp and B. R. Kowalski, Anal. Chem. 63 (1991) 2750.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from jaxtyping import Float

from geonode.errors import SpectraError
from geonode.ties import first_smallest
from geonode.wording import number

FEWEST_ON_BOTH = 5

WIDTHS, COMPONENTS = (0, 1, 3, 6), (1, 2, 3)
"""Wavelengths to both sides that are tried, and numbers of components."""

SIMPLER = 1.5
"""Times the error of a correction up to which none is better: the errors of so few are not sure."""

Standards = Float[np.ndarray, "standard wavelength"]
ByCalibration = Callable[[Float[np.ndarray, "unknown wavelength"]], Float[np.ndarray, "unknown"]]


@dataclass(frozen=True, eq=False)
class Transfer:
    """Correction of spectra of a second instrument, and of the amounts estimated from them."""

    offset: Float[np.ndarray, "wavelength"]
    """Of corrected spectra."""
    bands: Float[np.ndarray, "wavelength window"]
    """Of every wavelength of the first instrument, the factors of those about it on the second; of
    one wavelength, of the same one."""
    intercept: float
    slope: float
    """Corrected amounts are intercept + slope times the estimate."""
    kind: str
    """None, slope and bias, or piecewise."""
    before: float
    """Root mean square error of the standards without a correction (unit of the amounts)."""
    after: float
    """The same by the correction, each standard left out of it."""
    standards: int
    """Their number."""

    @classmethod
    def fit(
        cls,
        second: Standards,
        first: Standards,
        amounts: Float[np.ndarray, "standard"],
        by: ByCalibration,
    ) -> "Transfer":
        """Choose a correction by standards.

        Args:
            second: spectra of the standards on the second instrument, on the axis of the
                calibration.
            first: of the same standards on the first.
            amounts: known ones.
            by: estimates of the calibration.

        Raises:
            SpectraError: there are fewer than five standards.
        """
        count = len(second)
        if count < FEWEST_ON_BOTH:
            raise SpectraError(
                f"found {count} standards with spectra on both instruments, expected "
                f"{FEWEST_ON_BOTH} or more; measure more, or correct by slope and bias"
            )
        choices = [("none", 0, 0), ("slope and bias", 0, 0)]
        choices += [("piecewise", *one) for one in product(WIDTHS, COMPONENTS)]
        away = np.empty((count, len(choices)))
        for one, place in np.ndindex(away.shape):
            rest = np.arange(count) != one
            found = _fitted(choices[place], second[rest], first[rest], amounts[rest], by)
            estimates = found.amounts(by(found.spectra(second[[one]])))
            away[one, place] = estimates[0] - amounts[one]
        errors = np.sqrt(np.mean(away**2, axis=0))
        worth = errors * np.where(np.arange(len(choices)) == 0, 1, SIMPLER)
        best = int(first_smallest(worth, size=float(errors[0])))
        found = _fitted(choices[best], second, first, amounts, by)
        return replace(found, before=float(errors[0]), after=float(errors[best]))

    def spectra(
        self, second: Float[np.ndarray, "unknown wavelength"]
    ) -> Float[np.ndarray, "unknown wavelength"]:
        """Standards as the first instrument would have measured them."""
        return self.offset + np.einsum(
            "uwk,wk->uw", _windows(second, self.bands.shape[1]), self.bands
        )

    def amounts(self, estimates: Float[np.ndarray, "*unknown"]) -> Float[np.ndarray, "*unknown"]:
        """Corrected amounts, or ends of intervals."""
        return self.intercept + self.slope * estimates

    @property
    def sentence(self) -> str:
        """What is corrected, and what it is worth."""
        errors = f"(RMSEP of {self.standards} standards {number(self.before, 2)}"
        if self.kind == "none":
            return f"No correction for the second instrument is better than none {errors})."
        how = {
            "slope and bias": f"Estimates are corrected by slope {number(self.slope, 4)} and bias "
            f"{number(self.intercept, 3)}",
            "piecewise": "Standards are made those of the first instrument by piecewise direct "
            f"standardisation, windows of {self.bands.shape[1]} wavelengths",
        }[self.kind]
        return f"{how} {errors}; {number(self.after, 2)} by it, each left out of it)."


def _fitted(
    choice: tuple[str, int, int],
    second: Standards,
    first: Standards,
    amounts: np.ndarray,
    by: ByCalibration,
) -> Transfer:
    """One correction, its errors not known."""
    kind, half, components = choice
    offset, bands = np.zeros(second.shape[1]), np.ones((second.shape[1], 1))
    intercept, slope = 0.0, 1.0
    if kind == "slope and bias":
        estimates = by(second)
        away, size = estimates - estimates.mean(), float(np.ptp(estimates))
        if size:
            slope = float(away @ amounts / (away @ away))
        intercept = float(amounts.mean() - slope * estimates.mean())
    if kind == "piecewise":
        windows = _windows(second, 2 * half + 1)
        centre, goal = windows.mean(axis=0), first.mean(axis=0)
        deviations = (windows - centre).transpose(1, 0, 2)
        left, sizes, right = np.linalg.svd(deviations, full_matrices=False)
        most = min(components, sizes.shape[1])
        there = sizes[:, :most] > 1e-9 * sizes[:, :1]
        inverse = np.where(there, 1 / np.where(there, sizes[:, :most], 1), 0)
        along = np.einsum("wsk,sw->wk", left[:, :, :most], first - goal) * inverse
        bands = np.einsum("wk,wkb->wb", along, right[:, :most])
        offset = goal - np.sum(centre * bands, axis=1)
    return Transfer(offset, bands, intercept, slope, kind, np.nan, np.nan, len(second))


def _windows(spectra: np.ndarray, width: int) -> Float[np.ndarray, "spectrum wavelength window"]:
    """Values about every wavelength; beyond the ends those of the ends."""
    half = width // 2
    padded = np.pad(spectra, ((0, 0), (half, half)), mode="edge")
    return np.lib.stride_tricks.sliding_window_view(padded, width, axis=1)
