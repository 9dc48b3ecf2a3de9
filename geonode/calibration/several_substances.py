"""Calibration of several substances, and what its page and tables say about it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from jaxtyping import Float
from scipy.special import stdtrit  # scipy.stats takes 0.3 s to import

from geonode.calibration.chance import Chance
from geonode.calibration.intervals import is_determined
from geonode.calibration.limits import Limit, precision_limit
from geonode.calibration.precision import PrecisionProfile
from geonode.compute.device import CPU, moved
from geonode.config import CalibrateParameters
from geonode.errors import MixtureError, ParameterError
from geonode.estimation.estimates import Estimate, Flag, Mapping, MapValues, Unknowns
from geonode.estimation.range import CURVE_NODES
from geonode.mixtures.design import Design
from geonode.mixtures.mixture import NAMES, MixtureCalibration
from geonode.posterior.prior import COVERAGE
from geonode.progress import Progress, silent
from geonode.spectra.series import Series
from geonode.wording import listed, number, percent, quantity

COMPARED = {"combined": "combined", **NAMES}
"""Names of all that is compared, for people."""

FITS_NOWHERE = "fits nowhere: unlike the samples, so there is no estimate"

LARGEST_OF_RANGE = 0.25
"""RMSEP over the range, from which a substance is not estimated."""


@dataclass(frozen=True, eq=False)
class SeveralSubstances:
    """Calibration of all substances of a series together."""

    series: Series
    calibration: MixtureCalibration
    chances: tuple[Chance, ...]
    """Test whether the amounts could be chance, of every substance."""
    level: float = COVERAGE
    """Probability that the sets of unknowns contain the amounts."""

    @classmethod
    def fit(
        cls, series: Series, parameters: CalibrateParameters, report: Progress = silent
    ) -> "SeveralSubstances":
        """Calibrate with the samples of a series; `report` is called for `steps` units.

        Raises:
            ParameterError: others than the level are not the defaults, which alone several
                substances have.
            MixtureError: the amounts cannot calibrate.
        """
        if other := parameters.model_dump(exclude_defaults=True, exclude={"level"}):
            key, value = next(iter(other.items()))
            expected = "none: several amounts are calibrated together; --target NAME takes one"
            raise ParameterError("parameters", f"calibrate.{key}", value, expected)
        calibration = MixtureCalibration.of(
            series.signal,
            series.amounts,
            series.substances,
            preprocessed=bool(series.preprocessing.steps),
            report=report,
        )
        tied = bool(calibration.design.tied)
        chances = Chance.of_each(series.amounts, series.signal, tied=tied)
        return cls(series, moved(calibration, CPU), chances, parameters.level)

    @staticmethod
    def steps(series: Series) -> int:
        """Units of work of `fit`; 1 where the amounts will be refused."""
        try:
            return int(Design.of(series.amounts, series.substances).folds.max()) + 1
        except MixtureError:
            return 1

    def estimates(self, spectra: Unknowns, names: Sequence[str]) -> list[Estimate]:
        """Estimates of all substances together."""
        mixtures = self.calibration.estimate(spectra, self.level)
        # Beyond what fits the surface may be singular.
        errors = np.full(mixtures.amounts.shape, np.inf)
        if mixtures.fits.any():
            errors[mixtures.fits] = self.calibration.precision(mixtures.amounts[mixtures.fits])[0]
        remarks = [
            "several mixtures fit" * (len(parts) > 1) if fits else FITS_NOWHERE
            for fits, parts in zip(mixtures.fits, mixtures.parts, strict=True)
        ]
        columns = names, mixtures.amounts.tolist(), mixtures.sets, mixtures.fits.tolist(), remarks
        each = zip(*columns, errors.tolist(), strict=True)
        return [
            Estimate(name, amounts, sets, fits, remark, standard_errors=standard_errors)
            for name, amounts, sets, fits, remark, standard_errors in each
        ]

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Weights of the methods and constants of the intervals of every substance."""
        calibration, radii = self.calibration, self.calibration.radii(self.level).tolist()
        facts = [("method", self.method), ("constants", "all of them in the calibration file")]
        for place, name in enumerate(self.series.substances):
            each = [
                f"{NAMES[key]} {number(weight, 4)}"
                for key, weight in zip(NAMES, calibration.weights[:, place].tolist(), strict=True)
                if weight
            ]
            facts.append((f"weights, {name}", listed(each)))
            law = f"variance of the rest {float(calibration.rest[place, place])!r}, "
            law += f"squared half width over variance {radii[place]!r}"
            facts.append((f"law of errors, {name}", law))
            chance = self.chances[place]
            facts.append(
                (f"chance, {name}", f"{'' if chance.is_likely else 'more than '}{chance.by}")
            )
        return facts

    def range_remark(self, estimate: Estimate) -> str | None:
        """Remark on amounts below the recommended limits, or beyond those of the samples."""
        design, series = self.calibration.design, self.series
        outside = design.are_outside(np.array([estimate.amounts]))[0]
        names = [series.substances[at] for at in np.flatnonzero(outside)]
        each = zip(self.limits, estimate.amounts, design.low, series.units, strict=True)
        below = [
            f"{name} {said}"
            for name, parts, (limit, *about) in zip(
                series.substances, estimate.sets, each, strict=True
            )
            if len(parts) == 1 and (said := limit.remark(*about))
        ]
        far = [f"outside the design in {listed(names)}: extrapolated"] * bool(names)
        return "; ".join([*below, *far]) or None

    @property
    def layers(self) -> dict[str, tuple[str, str]]:
        """The amount of every substance with its interval, and how far a pixel is off."""
        layers, level = {}, percent(self.level)
        safe = [re.sub(r"\W+", "_", name) for name in self.series.substances]
        for place, (name, unit) in enumerate(zip(safe, self.series.units, strict=True)):
            own = name if len({*safe}) == len(safe) else f"{name}_{place + 1}"
            of = self.series.substances[place]
            layers[f"amount_{own}"] = (unit, f"amount of {of}")
            layers[f"low{level}_{own}"] = (unit, f"lower end of the {level}% interval of {of}")
            layers[f"high{level}_{own}"] = (unit, f"upper end of the {level}% interval of {of}")
        return layers | {"misfit": ("1", "distance from the samples over the largest that fits")}

    def on(self, place: torch.device) -> Mapping:
        """Function that estimates the pixels of an image on a device."""
        # torch loads its linear algebra for a GPU at the first use, which has to be by one thread
        # alone: https://github.com/pytorch/pytorch/issues/90613
        torch.linalg.inv(torch.ones(1, 1, device=place))
        return partial(_pixels, moved(self.calibration, place), self.level)

    @property
    def counted(self) -> str:
        """Numbers of samples and substances."""
        several = len(self.series.substances)
        return f"{len(self.series.samples)} samples of {several} substances"

    @property
    def method(self) -> str:
        """The methods with the largest weights."""
        best = zip(self.calibration.verdict, self.series.substances, strict=True)
        methods = listed([f"{NAMES[key]} of {name}" for key, name in best])
        return f"all methods together, mostly {methods}"

    @property
    def centre(self) -> Float[np.ndarray, "substance"]:
        """Mean amounts of the samples."""
        return self.series.amounts.mean(axis=0)

    @property
    def pure(self) -> Float[np.ndarray, "wavelength substance"]:
        """Change of the signal per amount, by the response surface at the centre."""
        forward = self.calibration.surface
        assert forward  # without which nobody asks
        _, slopes, _ = forward.surface.at(torch.from_numpy(self.centre)[None])
        return forward.directions @ slopes[0].numpy()

    @property
    def pure_half_widths(self) -> Float[np.ndarray, "wavelength substance"]:
        """Half widths of the intervals of `pure`, by the law of the left-out residuals."""
        forward = self.calibration.surface
        assert forward  # as in `pure`
        surface = forward.surface
        relative = surface.slope_variances(torch.from_numpy(self.centre)[None])[0].sqrt().numpy()
        residuals = (surface.residuals / surface.relative.sqrt()[:, None]).numpy()
        scale = np.sqrt(np.mean((residuals @ forward.directions.T) ** 2, axis=0))
        freedom = max(self.calibration.design.compositions - len(relative) - 1, 3)
        return stdtrit(freedom, (1 + self.level) / 2) * scale[:, None] * relative

    @property
    def of_range(self) -> Float[np.ndarray, "substance"]:
        """RMSEP of the combined estimates over the range of the amounts."""
        return self.calibration.rmsep["combined"] / self.calibration.design.ranges

    def precision(self, place: int) -> PrecisionProfile:
        """Standard error of a substance over its amount, the others at their means."""
        low, high = self.series.amounts[:, place].min(), self.series.amounts[:, place].max()
        amounts = np.tile(self.centre, (CURVE_NODES, 1))
        amounts[:, place] = grid = np.linspace(low, high, CURVE_NODES)
        errors = self.calibration.precision(amounts)[0][:, place]
        return PrecisionProfile(grid, errors, float(np.trapezoid(1 / errors, grid)))

    @cached_property
    def limits(self) -> list[Limit]:
        """Recommended limits of detection and of quantification of every substance."""
        return [
            precision_limit(self.precision(place), name, unit, usable=name not in self._poor)
            for place, (name, unit) in enumerate(
                zip(self.series.substances, self.series.units, strict=True)
            )
        ]

    @property
    def _poor(self) -> list[str]:
        """Substances that are not estimated better than their range says."""
        return [
            self.series.substances[at] for at in np.flatnonzero(self.of_range > LARGEST_OF_RANGE)
        ]

    @property
    def _by_chance(self) -> list[str]:
        """Substances that could be chance, with the p-value."""
        return [
            f"{name} (p = {number(chance.p_value, 2)})"
            for name, chance in zip(self.series.substances, self.chances, strict=True)
            if chance.is_likely
        ]

    @property
    def is_sound(self) -> bool:
        """True if every substance is estimated better than by its range, and none by chance."""
        return not (self._poor or self._by_chance)

    @property
    def caution(self) -> str:
        """Sentence on substances not to rely on."""
        said = [f"do not rely on {listed(self._poor)}"] * bool(self._poor)
        said += [f"could be chance: {listed(self._by_chance)}"] * bool(self._by_chance)
        return f"{', '.join(said)}: see the verdict" if said else ""

    @property
    def is_usable(self) -> bool:
        """True if a substance is estimated better than by its range."""
        return len(self._poor) < len(self.series.substances)

    @property
    def sentence(self) -> str:
        """Sentence on the substances calibrated, and how far off each is."""
        series, errors = self.series, self.calibration.rmsep["combined"].tolist()
        errors_of_each = [
            f"{name} {quantity(error, unit)} ({number(100 * relative, 2)} % of its range)"
            for name, unit, error, relative in zip(
                series.substances, series.units, errors, self.of_range.tolist(), strict=True
            )
        ]
        warning = f" Do not rely on {listed(self._poor)}: the errors are too large."
        warning *= bool(self._poor)
        if self._by_chance:
            warning += f" Could be chance: {listed(self._by_chance)}; more mixtures would decide."
        summary = (
            f"{listed([*series.substances])} are calibrated together. Errors of left-out samples "
            f"(RMSEP): {listed(errors_of_each)}.{warning}"
        )
        return f"{summary} {self.calibration.design.without_surface}".rstrip()


def _pixels(calibration: MixtureCalibration, level: float, spectra: np.ndarray) -> MapValues:
    estimates = calibration.estimate(spectra, level)
    each = np.concatenate([estimates.amounts[..., None], estimates.intervals], axis=2)
    flags = Flag.AMBIGUOUS * (estimates.are_parts.sum(axis=1) > 1)
    flags = flags + Flag.OUTSIDE_THE_SAMPLES * estimates.outside.any(axis=1)
    of_each = estimates.amounts.T, estimates.intervals.swapaxes(0, 1), calibration.design.amounts.T
    determined = np.all([is_determined(*one) for one in zip(*of_each, strict=True)], axis=0)
    flags = flags + Flag.FITS_NOWHERE * ~estimates.fits + Flag.NOT_DETERMINED * ~determined
    layers = np.vstack([each.reshape(len(spectra), -1).T, estimates.misfit])
    return layers, flags.astype(np.uint8)
