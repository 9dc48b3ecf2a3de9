"""Calibration of one substance, and what its page and tables say about it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import zip_longest

import numpy as np
import torch
from jaxtyping import Float

from geonode.calibration.chance import Chance
from geonode.calibration.diagnostics import Diagnostics
from geonode.calibration.fit import Calibration
from geonode.calibration.intervals import is_determined, lengths_of
from geonode.calibration.limits import Limit, limits, precision_limit
from geonode.calibration.methods import (
    CALIBRATIONS,
    OF_ONE_WAVELENGTH,
    Linear,
    Polynomial,
    folds_of,
    keys_for,
    most_sensitive,
)
from geonode.calibration.precision import PrecisionProfile
from geonode.calibration.verdict import NAMES
from geonode.config import CalibrateParameters
from geonode.errors import ParameterError
from geonode.estimation.axis import shifts
from geonode.estimation.estimates import Estimate, Flag, Mapping, MapValues, Unknowns
from geonode.estimation.information import Information
from geonode.estimation.posterior import MISFIT, Law, Pairs
from geonode.learning.predicted import Predicted
from geonode.parameters_file import default_parameters
from geonode.posterior.next_levels import Proposal, propose
from geonode.posterior.prior import COVERAGE
from geonode.prediction.model import SpectralModel
from geonode.progress import Progress, silent
from geonode.spectra.component_regression import Fit
from geonode.spectra.preprocessed_pls import PreprocessedPLS
from geonode.spectra.series import Series, require_response
from geonode.spectra.table import MOST_LEVELS
from geonode.storage.table import cell_text
from geonode.ties import EQUAL
from geonode.wording import listed, number, percent, quantity

MOST_WITH_MIDDLES = 12
"""Largest number of levels between which predictions are tabulated too."""

PROPOSALS = 3
"""Number of concentrations that are proposed for the next measurement."""

PREDICTED = 65
"""Number of concentrations at which spectra are predicted for tables and figures."""

WORKING = (0.2, 0.1)
"""Largest standard errors, relative to the concentration, of the usual working ranges."""

COEFFICIENTS = "coefficients: table regression, calibration file"

LONGEST_IN_REMARK = 40
"""Characters of a name in a remark."""

REMARK_DIGITS = 4
"""Significant digits of the concentrations in a remark."""


@dataclass(frozen=True, eq=False)
class OneSubstance:
    """Calibration with the levels of a series, of which unknowns are single scans."""

    series: Series
    calibration: Calibration
    chance: Chance
    """Test whether its levels could be chance."""
    level: float = COVERAGE
    """Probability that the sets of unknowns contain the concentration."""
    working: tuple[float, ...] = WORKING
    """Largest relative standard errors of the working ranges that are given."""

    def __post_init__(self) -> None:
        curve, (levels, wavelengths) = self.calibration.curve, self.series.signal.shape
        if curve is not None:
            # The tail of F takes a time that grows with its degrees of freedom.
            freedom, spectra = curve.novelty.freedom, curve.novelty.spectra
            if not (1 <= freedom <= 2 * wavelengths and 1 <= spectra <= levels):
                raise ValueError("novelty: found more than levels and wavelengths give")

    @classmethod
    def fit(
        cls, series: Series, parameters: CalibrateParameters, report: Progress = silent
    ) -> "OneSubstance":
        """Calibrate with a series; `report` is called for `steps` units.

        Raises:
            ParameterError: there is no such method, it takes no part, or it allows no offset.
            TrainingError: all spectra are alike.
        """
        require_response(series.signal)
        method = parameters.method
        if parameters.allow_offset or parameters.allow_scale:
            if method not in ("auto", "geonode"):
                expected = "geonode, which alone allows offsets and factors"
                raise ParameterError("parameters", "calibrate.method", method, expected)
            if not series.preprocessing.keeps_offset_and_scale:
                raise ParameterError(
                    "parameters",
                    f"calibrate.allow_{'offset' if parameters.allow_offset else 'scale'}",
                    True,
                    f"neither, as the series is of {series.labels['signal']}, in which offsets "
                    "and factors are others",
                )
            method = "geonode"
        found = Calibration.fit(
            series.signal,
            series.concentrations,
            method=method,
            offset=parameters.allow_offset,
            scale=parameters.allow_scale,
            scans=series.scans,
            preprocessed=bool(series.preprocessing.steps),
            level=parameters.level,
            report=report,
        )
        means = series.concentrations, series.signal, series.replicates
        asked = {*WORKING, (parameters.precision or 100 * WORKING[0]) / 100}
        working = tuple(sorted(asked, reverse=True))
        return cls(series, found, Chance.of(*means), parameters.level, working)

    @staticmethod
    def steps(series: Series) -> int:
        """Units of work of `fit`."""
        levels = series.concentrations
        folds = folds_of(levels, np.arange(len(levels)), series.signal)
        own = keys_for(folds, preprocessed=bool(series.preprocessing.steps))
        takes_part = len(levels) <= MOST_LEVELS
        return len(own) + (int(folds.max()) + 1) * takes_part

    def estimates(self, spectra: Unknowns, names: Sequence[str]) -> list[Estimate]:
        """Estimates by the chosen method, and by geonode if it takes part."""
        geonode = self._by_geonode(spectra, names)
        found = geonode
        if self.calibration.law is not None:
            modes = np.array([one.amounts[0] for one in geonode]) if geonode else None
            amounts, ends = self.calibration.estimate(spectra, modes, self.level)
            each = zip(names, amounts.tolist(), ends.tolist(), strict=True)
            found = [Estimate(name, [at], [[(*parts,)]], True) for name, at, parts in each]
        # Infinite beyond the levels, where none is known.
        errors = np.nan_to_num(
            self.precision.at(np.array([one.amounts[0] for one in found])), nan=np.inf
        )
        return [
            replace(
                one,
                standard_errors=[error],
                **{"fits": beside.fits, "remark": beside.remark} if beside else {},
                by_geonode=beside,
            )
            for one, beside, error in zip_longest(found, geonode, errors.tolist())
        ]

    def _by_geonode(self, spectra: np.ndarray, names: Sequence[str]) -> list[Estimate]:
        """Estimates by geonode; none if it takes no part."""
        curve = self.calibration.curve
        if curve is None:
            return []
        found = self.calibration.by_geonode(spectra, self.level)
        shifted = shifts(curve, self.series, spectra)
        fits = found.fits & (shifted == 0)
        unit = "" if self.series.unit == "1" else self.series.unit
        numbers = [one.tolist() for one in (found.mode, found.p_value, fits, shifted)]
        return [
            Estimate(
                name,
                [mode],
                [sets],
                fit,
                _remark_of_geonode(name, sets, p_value, fit, shift, unit),
                _alternatives(modes) if len(sets) > 1 else (),
                p_value,
            )
            for name, sets, modes, mode, p_value, fit, shift in zip(
                names, found.sets, found.modes, *numbers, strict=True
            )
        ]

    @property
    def layers(self) -> dict[str, tuple[str, str]]:
        """The concentration with its interval, and whether a pixel fits if that is known."""
        unit, level = self.series.unit, percent(self.level)
        found = {
            "concentration": (unit, f"concentration by {self.method}"),
            f"low{level}": (unit, f"lower end of its {level}% interval"),
            f"high{level}": (unit, f"upper end of its {level}% interval"),
        }
        of_fit = {"p_value": ("1", "p-value of a misfit as large")}
        return found if self.calibration.curve is None else found | of_fit

    def on(self, place: torch.device) -> Mapping:
        """Function that estimates the pixels of an image; the curve of geonode is on a device."""
        curve = self.calibration.curve
        return partial(self._pixels, None if curve is None else Law(curve, place, self.level))

    def _pixels(self, law: Law | None, spectra: np.ndarray) -> MapValues:
        flags, of_fit = np.zeros(len(spectra), int), []
        if law is not None:
            found = law.summaries(spectra)
            flags = Flag.FITS_NOWHERE * (found.p_value < MISFIT)
            of_fit = [found.p_value]
        if law is not None and self.calibration.law is None:
            middle, low, high = found.mode, found.low, found.high
            flags = flags + Flag.AMBIGUOUS * found.disconnected
        else:
            modes = None if law is None else found.mode
            middle, ends = self.calibration.estimate(spectra, modes, self.level)
            low, high = ends.T
        levels = self.series.concentrations
        outside = ((middle < levels[0]) & (levels[0] > 0)) | (middle > levels[-1])
        determined = is_determined(middle, np.stack([low, high], axis=1), levels)
        flags = flags + Flag.OUTSIDE_THE_SAMPLES * outside + Flag.NOT_DETERMINED * ~determined
        return np.stack([middle, low, high, *of_fit]), flags.astype(np.uint8)

    @cached_property
    def precision(self) -> PrecisionProfile:
        """Standard error of what estimates over the concentration."""
        return PrecisionProfile.of(self.calibration)

    @cached_property
    def information(self) -> Information | None:
        """Information along the curve of geonode; None: there is no curve."""
        curve = self.calibration.curve
        return None if curve is None else Information.of(curve)

    @property
    def floor(self) -> Float[np.ndarray, "node"] | None:
        """Standard errors of `precision` by the law of errors alone; None without a curve."""
        if (found := self.information) is None:
            return None
        return np.interp(self.precision.concentrations, found.concentrations, found.errors())

    @property
    def telling(self) -> list[int]:
        """Places of the most telling wavelengths; none without a curve."""
        low, high = self.series.concentrations[[0, -1]]
        return self.information.telling(low, high).tolist() if self.information else []

    @cached_property
    def recommended(self) -> Limit:
        """Recommended limit of detection and of quantification."""
        about = self.method, self.series.unit
        return precision_limit(self.precision, *about, usable=self.is_usable)

    @cached_property
    def limits(self) -> list[Limit]:
        """Limits of detection and of quantification, the recommended one first."""
        return [self.recommended, *limits(self.series, self.calibration)]

    @property
    def counted(self) -> str:
        """Number of levels."""
        return f"{len(self.series.concentrations)} levels"

    @property
    def method(self) -> str:
        """Name, for people, of the method that estimates."""
        return NAMES[self.calibration.method]

    @cached_property
    def place(self) -> int:
        """Place of the most sensitive wavelength, that of the lines."""
        return most_sensitive(self.series.concentrations, self.series.signal)

    def at(self, place: int) -> str:
        """A wavelength with its unit."""
        return quantity(float(self.series.axis[place]), self.series.labels["axis_unit"], 4)

    @cached_property
    def sentence(self) -> str:
        """The verdict with its warnings, and the method that estimates if it is another one."""
        wavelengths = dict.fromkeys(OF_ONE_WAVELENGTH, self.at(self.place))
        best = self.calibration.fitted["single_wavelength"].option
        wavelengths["single_wavelength"] = self.at(best)
        verdict = self.calibration.verdict
        said = [verdict.sentence(self.series.unit, wavelengths), *self.calibration.warnings]
        if verdict.chosen is None or verdict.chosen.key != self.calibration.method:
            said.insert(1, f"Unknown spectra are estimated by {self.method}.")
        return " ".join([*said, *[self.chance.sentence] * (not self.chance.is_clear)])

    @property
    def is_sound(self) -> bool:
        """True if a method can be used, and neither chance nor the errors give a warning."""
        found = self.calibration
        return bool(found.verdict.chosen) and not (found.warnings or self.chance.is_likely)

    @property
    def caution(self) -> str:
        """Why estimates are to be doubted, in short."""
        if not self.is_usable:
            return "no method can be used: see the verdict"
        if self.chance.is_likely:
            return f"could be chance (p = {number(self.chance.p_value, 2)}): see the verdict"
        return "see the warnings of the calibration" if self.calibration.warnings else ""

    @property
    def is_usable(self) -> bool:
        """True if what estimates beats a guess, or is geonode with narrow sets in parts."""
        found = self.calibration
        if found.verdict.chosen or found.verdict.counts(found.verdict.by_key(found.method)):
            return True
        length = np.median(lengths_of(found.sets[found.method]))
        return found.law is None and bool(2 * length < np.ptp(found.concentrations))

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Method, what it consists of, its constants, and its law of errors."""
        found, told = self.calibration, [("method", self.method)]
        weights = found.verdict.combination.weights if found.method == "combined" else {}
        for key, one in found.fitted.items():
            if key != found.method and not weights.get(key):
                continue
            weight = f"weight {number(weights[key], 4)}, " if weights else ""
            told.append((f"method, {NAMES[key]}", weight + self._described(one.fit, one.option)))
        if found.curve is not None:
            weight = f"weight {number(weights.get('geonode'), 4)}, " if weights else ""
            where = "nodes, scores and covariances: curve in the calibration file"
            told.append(("method, geonode", weight + where))
        told.append(("chance", self.chance.sentence))
        if (law := found.law) is None:
            return [*told, ("law of errors", "that of the curve, in the calibration file")]
        (a, b), (c, d) = law.inside, law.beyond
        said = (
            f"variance {a!r} + {b!r} c² from {law.low!r} to {law.high!r}, {c!r} + {d!r} c² beyond, "
            f"times 1 + leverage; {law.freedom} degrees of freedom, "
            f"t = {law.quantile(self.level)!r}"
        )
        return [*told, ("law of errors", said)]

    def _described(self, fit: Fit, option: int) -> str:
        """Constants of a method, or where they stand."""
        if isinstance(fit, Polynomial):
            numbers = f"{fit.constant!r} + {fit.slope!r} x + {fit.curvature!r} x²"
            x = f"x = (concentration - {fit.centre!r}) / {fit.span!r}"
            return f"signal at {self.at(fit.place)} = {numbers}, {x}"
        if isinstance(fit, PreprocessedPLS):
            each = [
                f"{name} (weight {number(of.weight, 4)}) with {len(of.sizes)} components"
                for name, of in fit.members.items()
            ]
            return f"{listed(each)}; {COEFFICIENTS}"
        assert isinstance(fit, Linear)
        if fit.rotation is None:
            return f"at {self.at(option)}; {COEFFICIENTS}"
        components = int(np.isfinite(fit.sizes[: option + 1]).sum())
        return f"{components} components; {COEFFICIENTS}"

    def range_remark(self, estimate: Estimate) -> str | None:
        """Remark on an estimate below the recommended limits or beyond the levels, else None."""
        levels, (concentration,) = self.series.concentrations, estimate.amounts
        below = self.recommended.remark(concentration, levels[0], self.series.unit)
        if below and not estimate.is_ambiguous:  # of several parts there is no amount
            return below
        if levels[0] <= concentration <= levels[-1] or (levels[0] == 0 > concentration):
            return None
        side, end = ("above", -1) if concentration > levels[-1] else ("below", 0)
        level = quantity(float(levels[end]), self.series.unit)
        return f"{side} the range: beyond the level of {level}, extrapolated"

    @cached_property
    def places(self) -> Float[np.ndarray, "target"]:
        """Concentrations of `predictions`: those of `tabulated`, and others along the curve."""
        levels, curve = self.series.concentrations, self.calibration.curve
        nodes = (
            np.linspace(levels[0], levels[-1], PREDICTED) if curve is None else curve.concentrations
        )
        inside = nodes[(nodes >= levels[0]) & (nodes <= levels[-1])]
        even = inside[np.linspace(0, len(inside) - 1, PREDICTED).round().astype(int)]
        return np.union1d(self.tabulated, even)

    @cached_property
    def tabulated(self) -> Float[np.ndarray, "target"]:
        """The levels and, unless there are many, the midpoints between neighbours."""
        levels = self.series.concentrations
        middles = (levels[1:] + levels[:-1]) / 2
        return levels if len(levels) > MOST_WITH_MIDDLES else np.union1d(levels, middles)

    @cached_property
    def proposals(self) -> list[Proposal]:
        """Concentrations to measure next."""
        return propose(self.series.concentrations, self.series.signal, PROPOSALS)

    @cached_property
    def diagnostics(self) -> Diagnostics:
        """Of the method that estimates if it is one of components, else of PLS."""
        levels = self.series.concentrations
        used = self.calibration.method
        entry = CALIBRATIONS.get(used)
        key = used if entry and (entry.components or entry.preprocessing) else "pls"
        folds = folds_of(levels, np.arange(len(levels)), self.series.signal)
        fitted = self.calibration.fitted[key]
        return Diagnostics.of(key, fitted, self.series.signal, levels, folds)

    @cached_property
    def predictions(self) -> Predicted:
        """Spectra at `places` by the posterior over metrics."""
        parameters = default_parameters({"preset": "fast", "device": "cpu"})
        return SpectralModel.fit(self.series, parameters).predict(self.places)


def _alternatives(modes: Pairs) -> list[float]:
    """Modes of the parts of a set whose probabilities are within a factor of two, ascending."""
    least = (1 - EQUAL) * modes[0][1] / 2
    return sorted(at for at, weight in modes if weight >= least)


def _remark_of_geonode(
    name: str, parts: Pairs, p_value: float, fits: bool, shift: float, unit: str
) -> str:
    """Warnings about the numbers of a spectrum; empty for none."""
    name = " ".join(name.split())
    name = name if len(name) <= LONGEST_IN_REMARK else f"{name[: LONGEST_IN_REMARK - 1]}…"
    if shift:
        return (
            f"{name} fits nowhere as it is, but close if its axis is off by about {shift:.3g}: "
            "check the calibration of the instrument."
        )
    if not fits:
        return (
            f"{name} fits nowhere (p = {p_value:.2g}): no concentration of the model gives such a "
            "spectrum, so there is no estimate."
        )
    if len(parts) > 1:
        each = cell_text(parts, REMARK_DIGITS).replace("; ", " or ")
        fit = "both fit" if len(parts) == 2 else "all fit"
        return f"{name} is ambiguous: {each} {unit}: {fit}; dilute and measure again."
    return ""
