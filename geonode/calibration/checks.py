"""Checks of a calibration in use: controls, validation, and correction by standards.

A control is a sample of known concentration among the unknowns. Its z is the error over half of
what `TWO_SIGMA` of the errors stay within by the law of errors, so that |z| is above 2 as rarely as
for a normal law, however few the levels. It warns from there on, and fails above 3, or if its
spectrum fits nowhere.

Validation samples were never calibrated with. RMSEP is the root mean square of their errors, bias
the mean of these, slope that of the line of the estimates over the known concentrations. It fails
if fewer intervals contain what is known than chance allows (binomial).

Standards measured on another day or instrument correct the estimates e by a line, known = a + b e,
by least squares. A half width w of an interval becomes sqrt((b w)^2 + (t s)^2 (1/n + (e - mean)^2
/ sum (e_i - mean)^2)), with s the residual deviation of n standards and t the 95% quantile of
Student's distribution with n - 2 degrees of freedom (of intervals of 90%).

Source: ISO 12099:2017 (bias, slope, RMSEP, and the correction).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import bdtr, stdtrit  # scipy.stats takes 0.3 s to import

from geonode.calibration.intervals import OfSamples, are_covered
from geonode.errors import SpectraError
from geonode.estimation.estimates import Estimate
from geonode.mixtures.mixture import joined
from geonode.ties import EQUAL
from geonode.wording import listed, number, percent, quantity

FEWEST_STANDARDS = 3
"""Of a correction by slope and bias: a line and what is left to judge it by."""

SOME_NAMES = 5
"""Of spectra, in a sentence."""

UNLIKELY_FEW = 0.01
"""Probability of so few intervals that contain what is known, below which a validation fails."""

TWO_SIGMA = 0.9545
"""Probability within two standard deviations of a normal law."""

WARNS, FAILS = 2.0, 3.0
"""Sizes of z above which a control warns, and fails."""

SAME_SPECTRA = 1e-12  # largest difference of equal spectra, relative to the largest value

EndsOfSamples = Float[np.ndarray, "sample 2"]
Spectra = Float[np.ndarray, "spectrum wavelength"]


@dataclass(frozen=True)
class Control:
    """A sample of known concentration among the unknowns."""

    file: str  # of its spectrum
    name: str  # of the spectrum, and of the substance if there are several
    known: float  # its concentration
    estimate: Estimate  # as for unknowns
    place: int  # of the substance
    standard_error: float
    """Half of what 95.45% of the errors stay within."""
    z: float  # error over this standard error; of several parts, from the middle of the nearest

    @classmethod
    def of(
        cls, file: str, name: str, known: float, estimate: Estimate, wide: Estimate, place: int
    ) -> "Control":
        """Control by its fields, and by the estimate with a set of the level `TWO_SIGMA`."""
        middle = estimate.amounts[place]
        first, last = min(wide.sets[place], key=lambda ends: max(ends[0] - known, known - ends[1]))
        if not first <= middle <= last:
            middle = (first + last) / 2
        half = last - middle if known > middle else middle - first
        error = float(max(half / 2, EQUAL * abs(middle), np.finfo(float).tiny))
        return cls(file, name, known, estimate, place, error, float((middle - known) / error))

    @property
    def passed(self) -> bool:
        """True if the spectrum fits, and what is known is not too far off."""
        return self.estimate.fits and abs(self.z) <= FAILS

    @property
    def warns(self) -> bool:
        """True if it passed, farther off than all but one sound control in twenty-two."""
        return self.passed and abs(self.z) > WARNS

    def sentence(self, unit: str) -> str:
        """The outcome, with the numbers."""
        outcome = f"control {self.name} ({self.file}) {'passed' if self.passed else 'failed'}"
        known = quantity(self.known, unit)
        if not self.estimate.fits:
            return f"{outcome}: its spectrum fits nowhere, known {known}"
        amount, *ends = self.estimate.numbers[self.place]
        low, high = map(number, ends)
        each = self.estimate.alternatives or [amount]
        estimated = " or ".join(quantity(likely, unit) for likely in each)
        numbers = f"{outcome}: found {estimated} ({low} to {high}), known {known}"
        off = f"{numbers}, {number(abs(self.z), 2)} standard errors off"
        return f"{off}; a warning: of sound controls one in 22 is" if self.warns else off


@dataclass(frozen=True, eq=False)
class Validation:
    """Samples of known concentration that the calibration does not know."""

    file: str  # their file, and the substance if there are several
    known: OfSamples  # their concentrations
    estimates: list[Estimate]  # as for unknowns
    place: int  # of the substance
    level: float  # of the intervals

    @cached_property
    def estimated(self) -> OfSamples:
        """Estimated concentrations."""
        return np.array([estimate.amounts[self.place] for estimate in self.estimates])

    @cached_property
    def covered(self) -> Bool[np.ndarray, "sample"]:
        """True where the interval, or a part of the set, contains the known concentration."""
        return are_covered(self.known, [estimate.sets[self.place] for estimate in self.estimates])

    @property
    def fails(self) -> bool:
        """True if chance leaves so few intervals that contain what is known in less than 1%."""
        return bool(
            round(bdtr(self.covered.sum(), len(self.covered), self.level), 9) < UNLIKELY_FEW
        )

    @property
    def rmsep(self) -> float:
        """Root mean square error of prediction."""
        return float(np.sqrt(np.mean((self.estimated - self.known) ** 2)))

    @property
    def bias(self) -> float:
        """Mean error."""
        return float(np.mean(self.estimated - self.known))

    @property
    def slope(self) -> float | None:
        """Slope of the estimates over what is known; None for one concentration."""
        away = self.known - self.known.mean()
        return float(away @ self.estimated / (away @ away)) if np.ptp(self.known) else None

    def sentence(self, unit: str) -> str:
        """The scores in words."""
        said = (
            f"validation with {len(self.known)} spectra ({self.file}): RMSEP "
            f"{quantity(self.rmsep, unit)}, bias {quantity(self.bias, unit)}, slope "
            f"{number(self.slope, absent='not known')}, {self.covered.sum()} of {len(self.known)} "
            f"inside their {percent(self.level)}% intervals"
        )
        wrong = sum(not estimate.fits for estimate in self.estimates)
        said = f"{said}; {wrong} fit nowhere" if wrong else said
        few = f"chance leaves so few in less than {UNLIKELY_FEW:.0%} of validations"
        return f"{said}; it failed: {few}" if self.fails else said


@dataclass(frozen=True, eq=False)
class Correction:
    """Line from estimates to concentrations, by standards."""

    file: str  # of the standards
    names: list[str]  # of their spectra
    known: OfSamples  # their concentrations
    estimated: OfSamples  # theirs by the calibration alone
    tried: dict[str, float] = field(default_factory=dict)
    """RMSEP of levels left out by this and other corrections, where these were tried."""

    def __post_init__(self) -> None:
        levels = len(np.unique(self.known))
        if levels < 2 or len(self.known) < FEWEST_STANDARDS:
            raise SpectraError(
                f"{self.file}: found {len(self.known)} standards of {levels} concentrations, "
                f"expected {FEWEST_STANDARDS} or more, of two or more"
            )
        if not self.slope > 0:
            raise SpectraError(
                f"{self.file}: found estimates that do not rise with the concentrations of the "
                "standards, expected some that do; no line corrects them, calibrate again"
            )

    @cached_property
    def slope(self) -> float:
        """Factor b of the estimates."""
        away = self.estimated - self.estimated.mean()
        return float(away @ self.known / (away @ away)) if np.ptp(self.estimated) else 0.0

    @cached_property
    def intercept(self) -> float:
        """Constant a (unit of the concentrations)."""
        return float(self.known.mean() - self.slope * self.estimated.mean())

    @property
    def corrected(self) -> OfSamples:
        """Estimates of the standards, corrected."""
        return self.intercept + self.slope * self.estimated

    def spectra(self, second: Spectra) -> Spectra:
        """Spectra that are estimated: those that were measured."""
        return second

    @cached_property
    def deviation(self) -> float:
        """Deviation s of the standards from the line (unit of the concentrations)."""
        left = self.known - self.corrected
        return float(np.sqrt(left @ left / (len(left) - 2)))

    def line_errors(self, estimates: OfSamples) -> OfSamples:
        """Standard errors of the line at estimates."""
        away = self.estimated - self.estimated.mean()
        share = 1 / len(away) + (estimates - self.estimated.mean()) ** 2 / (away @ away)
        return self.deviation * np.sqrt(share)

    def applied(
        self, estimates: OfSamples, ends: EndsOfSamples, level: float
    ) -> tuple[OfSamples, EndsOfSamples]:
        """Corrected estimates and intervals of a level."""
        quantile = stdtrit(len(self.known) - 2, (1 + level) / 2)
        of_line = quantile * self.line_errors(estimates)
        middle = self.intercept + self.slope * estimates
        half = self.slope * np.abs(ends - estimates[:, None])
        half = np.hypot(half, of_line[:, None])
        return middle, middle[:, None] + half * np.array([-1.0, 1.0])

    def of(self, estimate: Estimate, level: float) -> Estimate:
        """Corrected estimate of one substance; what geonode finds beside it is not corrected.

        The level is that of its set.
        """
        (amount,), parts = estimate.amounts, corrected_parts(estimate, self.applied, level)
        alternatives = self.intercept + self.slope * np.array(estimate.alternatives)
        before = " (before the correction)" if estimate.is_ambiguous else ""
        return replace(
            estimate,
            amounts=[float(self.intercept + self.slope * amount)],
            sets=[parts],
            alternatives=alternatives.tolist() if len(parts) > 1 else (),
            remark=f"{estimate.remark}{before}",
            standard_errors=[
                float(np.hypot(self.slope * error, self.line_errors(np.array([amount]))[0]))
                for error in estimate.standard_errors
            ],
            uncorrected=estimate.amounts,
        )

    def sentence(self, unit: str) -> str:
        """Sentence on the correction: its line, and what it leaves of the standards."""
        return (
            f"corrected by {len(self.known)} standards ({self.file}): {number(self.slope, 4)} "
            f"times the estimate, plus {quantity(self.intercept, unit)}; what is left of the "
            f"standards: {quantity(self.deviation, unit, 2)}{compared(self.tried, unit)}"
        )


def corrected_parts(
    estimate: Estimate,
    applied: Callable[[OfSamples, EndsOfSamples, float], tuple[OfSamples, EndsOfSamples]],
    level: float,
) -> list[tuple[float, float]]:
    """Parts of a set as `applied` makes them; of several each is about its own middle."""
    (amount,), (parts,) = estimate.amounts, estimate.sets
    ends = np.array(parts)
    about = np.array([amount]) if len(parts) == 1 else ends.mean(axis=1)
    return joined(applied(about, ends, level)[1].tolist())


def compared(tried: dict[str, float], unit: str) -> str:
    """Errors of levels left out by the corrections that were tried, to be added to a sentence."""
    each = [f"{quantity(error, unit, 2)} {how}" for how, error in tried.items()]
    return f"; RMSEP of levels left out in turn: {listed(each)}" if each else ""


def not_independent(
    file: str,
    names: Sequence[str],
    spectra: Spectra,
    others: Float[np.ndarray, "scan wavelength"],
    done: str,
) -> str:
    """Sentence on spectra of a file that are among others, with which something was done."""
    apart = np.array([np.abs(others - one).max(axis=1).min() for one in spectra])
    same = apart <= SAME_SPECTRA * np.abs(spectra).max(axis=1)
    if not same.any():
        return ""
    found = [name for name, known in zip(names, same, strict=True) if known]
    some = listed(found[:SOME_NAMES]) + (" and others" if len(found) > SOME_NAMES else "")
    return f"{file}: {done} with {some} too, which can judge or correct nothing; take others"
