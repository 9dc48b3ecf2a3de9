"""Limits of detection and of quantification, or the reason why a method has none.

One wavelength: 3.3 s / b and 10 s / b, with b the slope and s either the residual standard
deviation of the calibration line or the standard deviation of scans of the blank. L. A. Currie,
Nomenclature in evaluation of analytical methods including detection and quantification capabilities
(IUPAC Recommendations 1995), Pure Appl. Chem. 67 (1995) 1699, sections 3.7 and 4.1, for errors of
one size and risks of 5%.

The same line by DIN 32645:2008-11 (calibration line method), for one measurement of an unknown and
a risk of 1%: the decision limit x_D (Nachweisgrenze) and the limit of determination x_Q
(Bestimmungsgrenze, relative uncertainty 1 / k with k = 3), with n levels, their mean m and sum of
squares Q about it:

    x_D = s / b t_99% sqrt(1 + 1/n + m^2 / Q)
    x_Q = k s / b t_99.5% sqrt(1 + 1/n + (x_Q - m)^2 / Q)

PLS. The limit depends on what else is in a blank, and so on its leverage h0:

    3.3 sqrt(var_x / SEN^2 (1 + h0) + h0 var_y),     SEN = 1 / |b|,

with b the regression vector, var_x the variance of the signal and var_y that of the calibration
concentrations. h0 runs from h0min = mean^2 / sum y_i^2 to the largest h_i + h0min (1 - (y_i /
mean)^2), with y_i the levels about their mean and h_i their leverages. The limit is the upper end
of this interval, as nothing tells what else is in an unknown. F. Allegrini and A. C.
Olivieri, Anal. Chem. 86 (2014) 7858; A. C. Olivieri et al., Pure Appl. Chem. 78 (2006) 633.

geonode: the lowest concentration whose predicted spectrum, taken for that of an unknown, has an
interval that excludes zero, as all higher ones up to the highest level have.

A method that does not count by the rule of `verdict` has no limit. Nor is there one where errors
are those of rounding, above the highest level, or, without a blank, lower than the lowest level by
more than the range of the levels.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from geonode.calibration.fit import Calibration
from geonode.calibration.intervals import EXACT
from geonode.calibration.methods import Linear, most_sensitive
from geonode.calibration.precision import PrecisionProfile
from geonode.estimation.curve import Curve
from geonode.estimation.posterior import estimate
from geonode.spectra.component_regression import Fitted
from geonode.spectra.series import Series
from geonode.wording import quantity

DETECTION, QUANTIFICATION = 3.3, 10.0
"""Multiples of the standard deviation of a concentration near zero."""

RISK, UNCERTAINTY = 0.01, 3
"""By DIN 32645: the risk of a false positive, and k."""

GUESSED = "left-out levels are not estimated well enough for a limit"

ONLY_ROUNDING = "errors are those of rounding: equal scans, or exact numbers"

FEWEST_SCANS = 3
"""Of the blank, for a standard deviation of its own."""

SIGNIFICANT = 0.05
"""Probability of a slope as large by chance, above which the slope is taken for zero."""


@dataclass(frozen=True)
class Limit:
    """Limits by one method, in units of concentration."""

    method: str  # by which
    said: str  # how it was found, or why there is none
    detection: float | None = None  # limit of detection; None: there is none
    quantification: float | None = None  # limit of quantification; None: there is none

    def remark(self, amount: float, lowest: float, unit: str) -> str:
        """Remark on an amount below a limit; empty for others.

        A limit that the lowest amount calibrated with reaches is one at most.
        """
        named = {
            "not detected: below the limit of detection": self.detection,
            "< LOQ: below the limit of quantification": self.quantification,
        }
        for said, limit in named.items():
            if limit and max(lowest, amount) < limit:
                return f"{said}, {quantity(limit, unit, 2)}"
        return ""


def limits(series: Series, calibration: Calibration) -> list[Limit]:
    """Limits by every method that takes part.

    Args:
        series: what was measured.
        calibration: of its levels.
    """
    verdict, of_pls = calibration.verdict, calibration.fitted["pls"]
    line = Line.of(series, most_sensitive(series.concentrations, series.signal))
    better = {method.name for method in verdict.methods if verdict.counts(method)}
    multivariate = [pls_limit(series, of_pls)]
    if calibration.curve is not None:
        multivariate.append(curve_limit(series, calibration.curve))
    return [line.limit(), line.din_limit(), line.blank_limit()] + [
        one if one.method in better else Limit(one.method, GUESSED) for one in multivariate
    ]


def precision_limit(profile: PrecisionProfile, method: str, unit: str, *, usable: bool) -> Limit:
    """Limits of what estimates: where 3.3 and 10 standard errors reach the concentration.

    The profile is that of a method, which need not be usable.
    """
    name, (first, last) = f"precision profile of {method}", profile.concentrations[[0, -1]]
    if not usable:
        return Limit(name, GUESSED)
    if profile.standard_errors.max() <= EXACT * last:
        return Limit(name, ONLY_ROUNDING)
    ranges = [profile.working_range(1 / factor) for factor in (DETECTION, QUANTIFICATION)]
    detection, quantification = (None if one is None else one[0] for one in ranges)
    said = (
        "recommended, as it is of the method that estimates and of its left-out errors: 3.3 and 10 "
        "standard errors of an unknown"
    )
    if detection is None:
        return Limit(name, "the standard error is too large everywhere")
    if detection <= first:
        lowest = quantity(float(first), unit)
        said += f"; the limits are at most the lowest amount calibrated with, {lowest}"
    return Limit(name, said, detection, quantification)


@dataclass(frozen=True)
class Line:
    """Straight line of the signal at one wavelength over the concentration, by least squares.

    Source: K. Danzer and L. A. Currie, Guidelines for calibration in analytical chemistry (IUPAC
    Recommendations), Pure Appl. Chem. 70 (1998) 993, section 4.
    """

    series: Series  # whose levels they are
    place: int  # of the wavelength
    intercept: float  # signal without analyte (signal unit)
    slope: float  # signal per unit of concentration
    deviation: float  # residual standard deviation s_y/x (signal unit)
    r2: float  # share of the variance of the signal that the line explains
    p_value: float  # probability of a slope as far from zero by chance: two-sided t test

    @classmethod
    def of(cls, series: Series, place: int) -> "Line":
        """Fit a line to the levels, three or more."""
        from scipy.stats import linregress  # noqa: PLC0415 - 0.3 s, which saved ones do not need

        levels, signal = series.concentrations, series.signal[:, place]
        if not np.ptp(signal):
            return cls(series, place, float(signal[0]), 0.0, 0.0, 0.0, 1.0)
        found = linregress(levels, signal)
        slope, intercept = float(found.slope), float(found.intercept)
        residuals = signal - intercept - slope * levels
        deviation = float(np.sqrt(residuals @ residuals / (len(levels) - 2)))
        r2, p_value = float(found.rvalue) ** 2, float(found.pvalue)
        return cls(series, place, intercept, slope, deviation, r2, p_value)

    @property
    def is_sloped(self) -> bool:
        """True if the slope differs from zero."""
        return self.p_value < SIGNIFICANT

    @property
    def relative_error(self) -> float | None:
        """Relative standard error of the line (% RSE): of the levels read back, but the blank.

        Source: US EPA, SW-846 method 8000D (2018), section 11.5.
        """
        levels = self.series.concentrations
        known = levels > 0
        freedom = int(known.sum()) - 2
        if not self.is_sloped or freedom < 1:
            return None
        read = (self.series.signal[known, self.place] - self.intercept) / self.slope
        return float(100 * np.sqrt(np.sum((read / levels[known] - 1) ** 2) / freedom))

    @property
    def of_one_scan(self) -> float:
        """Standard deviation of one scan, not of a mean, about the line (unit of concentration)."""
        replicates, levels = self.series.replicates, np.arange(len(self.series.signal))
        excess = np.zeros(1) if replicates is None else replicates.excess(levels)[:, self.place]
        return float(np.hypot(self.deviation, np.linalg.norm(excess))) / abs(self.slope)

    def limit(self) -> Limit:
        """Limits from the residuals of the line."""
        name, levels = "straight line", self.series.concentrations
        if reason := self._says_nothing():
            return Limit(name, reason)
        deviation = self.of_one_scan
        if DETECTION * deviation >= np.median(levels):
            said = "no limit: it would exceed half of your standards"
            return Limit(name, f"{said} (the response is curved, or noisy)")
        said = (
            "3.3 s/b and 10 s/b, s: residual standard deviation of the line, for one scan; "
            "curvature counts as s"
        )
        return _limit(self.series, name, said, deviation)

    def din_limit(self) -> Limit:
        """Decision limit and limit of determination by DIN 32645."""
        name, levels = "straight line, DIN 32645", self.series.concentrations
        found = self.limit()
        if found.detection is None:
            return Limit(name, found.said)
        deviation, freedom = self.of_one_scan, len(levels) - 2
        mean, size, once = levels.mean(), np.sum((levels - levels.mean()) ** 2), 1 + 1 / len(levels)
        decision = stdtrit(freedom, 1 - RISK) * np.sqrt(once + mean**2 / size)
        # The second equation squared, for x_Q over the deviation.
        factor = UNCERTAINTY * stdtrit(freedom, 1 - RISK / 2)
        terms = (
            1 - (factor * deviation) ** 2 / size,
            2 * factor**2 * deviation * mean / size,
            -(factor**2) * (once + mean**2 / size),
        )
        root = np.sqrt(max(terms[1] ** 2 - 4 * terms[0] * terms[2], 0))
        determination = (root - terms[1]) / (2 * terms[0]) if terms[0] > 0 else np.inf
        said = (
            "decision limit (Nachweisgrenze; twice it is the Erfassungsgrenze) and limit of "
            "determination, risk 1%, k = 3, one measurement, equal errors at all levels"
        )
        factors = float(decision), float(determination)
        return _limit(self.series, name, said, deviation, factors)

    def blank_limit(self) -> Limit:
        """Limits from scans of the blank: what the instrument alone could do."""
        name, replicates = "scans of the blank", self.series.replicates
        if self.series.concentrations[0] > 0:
            return Limit(name, "no blank was measured")
        scans = 0 if replicates is None else int(replicates.scans[0])
        if replicates is None or scans < FEWEST_SCANS:
            found = "once" if scans < 2 else f"{scans} times"
            expected = f"expected {FEWEST_SCANS} scans or more"
            return Limit(name, f"the blank was scanned {found}, {expected}")
        if reason := self._says_nothing():
            return Limit(name, reason)
        of_blank = replicates.deviations[replicates.level == 0, self.place]
        deviation = float(np.sqrt(of_blank @ of_blank / (scans - 1))) / abs(self.slope)
        said = f"3.3 s/b and 10 s/b, s: {scans} scans of the blank; preparation not included"
        return _limit(self.series, name, said, deviation)

    def _says_nothing(self) -> str | None:
        """Why the line says nothing near zero; None: it does."""
        if not self.is_sloped:
            return f"the slope does not differ from zero (p = {self.p_value:.2g})"
        steps = np.diff(self.series.signal[:3, self.place]) * np.sign(self.slope)
        if (steps > 0).all():
            return None
        unit = self.series.unit
        low, high = (quantity(self.series.concentrations[at], unit) for at in (0, 2))
        verb = "rise" if self.slope > 0 else "fall"
        return f"from {low} to {high} the signal does not {verb} as the line does"


def _limit(
    series: Series,
    name: str,
    said: str,
    deviation: float,
    factors: tuple[float, float] = (DETECTION, QUANTIFICATION),
) -> Limit:
    """Limits from the standard deviation of a concentration near zero."""
    first, top = series.concentrations[[0, -1]].tolist()
    if deviation <= EXACT * top:
        return Limit(name, ONLY_ROUNDING)
    detection, quantification = (factor * deviation for factor in factors)
    if detection >= top:
        return Limit(name, "the limit is above the highest level")
    if detection < first - (top - first):
        return Limit(name, "no blank was measured, and the lowest level is far above the limit")
    if detection < first:
        said += "; no level is as low: extrapolated"
    if quantification >= top:
        return Limit(name, f"{said}; the LOQ is above all levels", detection)
    return Limit(name, said, detection, quantification)


def pls_limit(series: Series, fitted: Fitted) -> Limit:
    """Limits of PLS, for the highest leverage of a blank.

    Args:
        series: what was measured.
        fitted: PLS of its levels.
    """
    name, noise = "PLS", None if series.replicates is None else series.replicates.noise
    if noise is None:
        return Limit(name, "no level was scanned twice: the noise is not known")
    fit, levels = fitted.fit, series.concentrations
    assert isinstance(fit, Linear) and fit.rotation is not None  # of components
    components = int(np.isfinite(fit.sizes[: fitted.option + 1]).sum())
    freedom = len(levels) - 1 - components
    if freedom <= 0:
        return Limit(name, "as many components as levels: nothing is left to judge by")
    residuals = levels - fitted.estimates(series.signal)
    of_levels = residuals @ residuals / freedom
    vector = fit.rotation[:, :components] @ fit.slopes[:components]
    of_signal = np.mean(noise**2) * (vector @ vector)
    mean, y = levels.mean(), levels - levels.mean()
    leverages = fitted.leverages_of(series.signal) - 1 / len(levels)
    lowest = mean**2 / (y @ y)
    highest = max(lowest, np.max(leverages + lowest * (1 - (y / mean) ** 2)))
    deviation = float(np.sqrt(of_signal * (1 + highest) + highest * of_levels))
    said = (
        f"Olivieri's, {components} components, highest leverage of a blank; noise of single scans, "
        "equal and independent at all wavelengths; residuals of the levels stand for their own "
        "errors"
    )
    return _limit(series, name, said, deviation)


def curve_limit(series: Series, curve: Curve) -> Limit:
    """Smallest concentration that the posterior distinguishes from zero."""
    name, unit = "geonode", series.unit
    if series.concentrations[0] > 0:
        return Limit(name, "no blank was measured")
    inside = curve.inside & (curve.concentrations > 0)
    if not inside.any():
        return Limit(name, "the levels are too far apart")
    places = curve.concentrations[inside]
    found = estimate(curve, curve.spectra(inside))
    with_zero = np.array([intervals[0][0] <= curve.edges[0] for intervals in found.sets])
    if with_zero[-1]:
        return Limit(name, "the 90% set of the highest level itself holds zero")
    first = int(np.flatnonzero(with_zero)[-1]) + 1 if with_zero.any() else 0
    if first and places[first - 1] > series.concentrations[-2]:
        level = quantity(float(places[first - 1]), unit)
        return Limit(name, f"the 90% set of {level} still holds zero")
    said = "lowest concentration whose interval excludes zero; detected at most half the time"
    return Limit(name, said, float(places[first]))
