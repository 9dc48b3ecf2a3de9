"""Transfer of a calibration to another instrument or day, by standards measured on both.

Standards whose concentrations are levels of the calibration have spectra on both. With five levels
or more, three corrections are compared by the errors of levels left out in turn, with everything
fitted without them: none; slope and bias (`checks.Correction`); and piecewise direct
standardisation, which makes spectra of the second instrument those of the first before anything is
estimated:

    x1_j - mean x1_j = (x2_(j-w .. j+w) - mean) b_j,    w wavelengths to both sides

b_j is a regression on the leading principal components of the window, as windows have more
wavelengths than there are standards. Width and number of components are tried, too.

Intervals of what is transferred are at least as wide as the errors s of the n levels left out say,
+- t s, t the quantile of their level of Student's distribution with n - 1 degrees of freedom.

Source: Y. Wang, D. J. Veltkamp and B. R. Kowalski, Anal. Chem. 63 (1991) 2750.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from jaxtyping import Float
from scipy.special import stdtrit  # scipy.stats takes 0.3 s to import

from geonode.calibration.checks import Correction, EndsOfSamples, Spectra, compared, corrected_parts
from geonode.calibration.intervals import OfSamples
from geonode.estimation.estimates import Estimate
from geonode.spectra.series import Series
from geonode.ties import first_smallest

FEWEST_ON_BOTH = 5

CORRECTION_KINDS = "without a correction", "by slope and bias", "piecewise"

WIDTHS, COMPONENTS = (0, 1, 3, 6), (1, 2, 3)
"""Wavelengths to both sides that are tried, and numbers of components."""

SIMPLER = 1.5
"""Times the error of a correction up to which the next simpler one is better: the errors of so few
are not sure."""


@dataclass(frozen=True, eq=False)
class Piecewise:
    """Spectra of a second instrument as the first would have measured them."""

    offset: Float[np.ndarray, "wavelength"]
    """Of the spectra made."""
    bands: Float[np.ndarray, "wavelength window"]
    """Of every wavelength of the first instrument, the factors of those about it on the second."""

    @classmethod
    def fit(cls, second: Spectra, first: Spectra, half: int, components: int) -> "Piecewise":
        """Fit to spectra of the same standards on both instruments.

        Args:
            second: on the second instrument, on the axis of the calibration.
            first: on the first one.
            half: wavelengths to both sides.
            components: of every window, at most.
        """
        windows = _windows(second, 2 * half + 1)
        centre, goal = windows.mean(axis=0), first.mean(axis=0)
        deviations = (windows - centre).transpose(1, 0, 2)
        left, sizes, right = np.linalg.svd(deviations, full_matrices=False)
        most = min(components, sizes.shape[1])
        there = sizes[:, :most] > 1e-9 * sizes[:, :1]
        inverse = np.where(there, 1 / np.where(there, sizes[:, :most], 1), 0)
        along = np.einsum("wsk,sw->wk", left[:, :, :most], first - goal) * inverse
        bands = np.einsum("wk,wkb->wb", along, right[:, :most])
        return cls(goal - np.sum(centre * bands, axis=1), bands)

    def spectra(self, second: Spectra) -> Spectra:
        """Spectra as the first instrument would have measured them."""
        windows = _windows(second, self.bands.shape[1])
        return self.offset + np.einsum("uwk,wk->uw", windows, self.bands)


@dataclass(frozen=True, eq=False)
class Transfer:
    """Correction of the spectra of another instrument, or none, as standards left out have it."""

    file: str  # of the standards
    names: list[str]  # of their spectra
    known: OfSamples  # their concentrations
    estimated: OfSamples  # theirs by the calibration alone
    corrected: OfSamples  # theirs by the correction
    piecewise: Piecewise | None
    """None: nothing corrects better than nothing."""
    error: float
    """Root mean square error of the levels left out (unit of the concentrations)."""
    levels: int  # their number
    tried: dict[str, float]
    """The same by this and other corrections."""

    def spectra(self, second: Spectra) -> Spectra:
        """Spectra that are estimated, of those that were measured."""
        return self.piecewise.spectra(second) if self.piecewise else second

    def applied(
        self, estimates: OfSamples, ends: EndsOfSamples, level: float
    ) -> tuple[OfSamples, EndsOfSamples]:
        """Estimates, and intervals of a level that are wide enough."""
        half = self.error * stdtrit(self.levels - 1, (1 + level) / 2)
        least = estimates[:, None] + half * np.array([-1.0, 1.0])
        low, high = np.minimum(ends[:, 0], least[:, 0]), np.maximum(ends[:, 1], least[:, 1])
        return estimates, np.stack([low, high], axis=1)

    def of(self, estimate: Estimate, level: float) -> Estimate:
        """Estimate of one substance, with sets of a level that are wide enough."""
        parts = corrected_parts(estimate, self.applied, level)
        errors = [max(error, self.error) for error in estimate.standard_errors]
        return replace(estimate, sets=[parts], standard_errors=errors)

    def sentence(self, unit: str) -> str:
        """Sentence on what is corrected, by which standards, and its worth."""
        by, than = f"by {len(self.known)} standards ({self.file})", compared(self.tried, unit)
        if self.piecewise is None:
            return f"not corrected {by}, as nothing is better{than}"
        return (
            f"corrected {by}: of spectra that piecewise direct standardisation made those of the "
            f"first instrument, windows of {self.piecewise.bands.shape[1]} wavelengths{than}"
        )


def correction_by(
    about: tuple[str, list[str], OfSamples, OfSamples],
    second: Spectra,
    series: Series,
    by: Callable[[Spectra], Float[np.ndarray, "spectrum"]],
) -> Correction | Transfer:
    """Correction by standards: the best for levels left out, or a line if there are too few.

    Args:
        about: file and names of the standards, their concentrations and estimates of these.
        second: their spectra, on the axis of the series and preprocessed as that was.
        series: what was calibrated with, of one substance.
        by: estimates of the calibration.

    Raises:
        SpectraError: it is a line, and the standards determine none.
    """
    _, _, known, estimated = about
    levels, _, place = np.intersect1d(known, series.concentrations, return_indices=True)
    count = len(levels)
    if count < FEWEST_ON_BOTH:
        return Correction(*about)
    first = series.signal[place]
    means = np.stack([second[known == level].mean(axis=0) for level in levels])
    windows = [*product(WIDTHS, COMPONENTS)]
    without = [np.arange(count) != one for one in range(count)]
    made = [
        Piecewise.fit(means[rest], first[rest], *one).spectra(means[~rest])[0]
        for rest in without
        for one in windows
    ]
    plain = np.stack([np.ones(count), by(means)], axis=1)
    lines = [plain[~rest] @ np.linalg.lstsq(plain[rest], levels[rest])[0] for rest in without]
    estimates = [plain[:, 1:], np.array(lines), by(np.stack(made)).reshape(count, -1)]
    away = np.concatenate(estimates, axis=1) - levels[:, None]
    errors = np.sqrt(np.mean(away**2, axis=0))
    worth = errors * SIMPLER ** np.minimum(np.arange(len(errors)), 2)
    best = int(first_smallest(worth, size=float(errors[0])))
    of_kinds = [*errors[:2].tolist(), float(errors[2:].min())]
    tried = dict(zip(CORRECTION_KINDS, of_kinds, strict=True))
    if best == 1:
        return Correction(*about, tried)
    piecewise = Piecewise.fit(means, first, *windows[best - 2]) if best else None
    corrected = by(piecewise.spectra(second)) if piecewise else estimated
    return Transfer(*about, corrected, piecewise, float(errors[best]), count, tried)


def _windows(spectra: np.ndarray, width: int) -> Float[np.ndarray, "spectrum wavelength window"]:
    """Values about every wavelength; beyond the ends those of the ends."""
    half = width // 2
    padded = np.pad(spectra, ((0, 0), (half, half)), mode="edge")
    return np.lib.stride_tricks.sliding_window_view(padded, width, axis=1)
