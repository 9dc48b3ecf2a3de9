"""Calibration of several substances: every method, weighed by what it errs on left-out samples.

The forward model, PLS, PLS2, reweighted PLS and CLS are refitted without every fold of compositions.
The weight of a method for a substance is its root mean square error to the power -6, so that the
best one estimates nearly alone where others are far behind, and equals share. The verdict names
the method with the largest weight.

With e the error of the combined estimates of an unknown, W the weights of the forward model and I
its information there, and R the second moment of the left-out errors of the rest, the covariance is

    M = W I^-1 W + (1 - W) R (1 - W),    joint region: e^T M^-1 e <= t,    one substance: e_j^2 / M_jj <= t_j

and t follows from the same ratios of the samples left out, by the quantile of the F distribution and
by that of the ratios themselves. Where another minimum of the forward model is nearly as likely, the
region has another part around it.
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.stats import f as f_distribution
from threadpoolctl import threadpool_limits

from geonode.compute.device import in_threads, one_thread
from geonode.errors import MixtureError
from geonode.mixtures import inverse
from geonode.mixtures.design import Design
from geonode.mixtures.forward import ForwardModel
from geonode.mixtures.inverse import Inverse, fit_inverse
from geonode.progress import Progress, silent
from geonode.spectra.sheet import require_size

NAMES = {"geonode": "geonode", **inverse.METHODS}
"""Names of all methods for people."""

POWER = 6.0
COVERAGE = 0.9
PRIOR, EXPECTED = 4.0, 1.5
"""Samples that the prior of the ratios counts for, and their mean ratio."""

LARGEST_RATIO = 25.0
FURTHEST = 3.0
"""Times the largest distance of a sample left out that a spectrum may have."""

AT_ONCE = 64
"""Unknowns of a batch."""

Amounts = Float[np.ndarray, "unknown substance"]


@dataclass(frozen=True, eq=False)
class Found:
    """Estimates of unknowns by every method.

    Attributes:
        by_method: amounts; those of geonode at the lowest minimum.
        others: amounts at all minima of the forward model.
        above: how much L is larger at these than at the lowest one.
        covariance: inverse of the information of the forward model.
        distance: squared, from the forward model, as of `Modes`.
        beyond: squared residual that the scores do not have.
    """

    by_method: dict[str, Amounts]
    others: Float[np.ndarray, "unknown start substance"]
    above: Float[np.ndarray, "unknown start"]
    covariance: Float[np.ndarray, "unknown substance substance"]
    distance: Float[np.ndarray, "unknown"]
    beyond: Float[np.ndarray, "unknown"]

    @classmethod
    def of(
        cls,
        forward: ForwardModel,
        linear: dict[str, Inverse],
        spectra: Float[np.ndarray, "unknown wavelength"],
    ) -> "Found":
        """Estimates of spectra."""
        scores = forward.scores(spectra)
        parts = [forward.modes(scores[start : start + AT_ONCE]) for start in range(0, len(scores), AT_ONCE)]
        amounts, loss, information, distance = (torch.cat(part) for part in zip(*parts, strict=True))
        best = loss.argmin(1)
        each = torch.arange(len(best))
        away = spectra - forward.mean
        beyond = np.sum(away**2, axis=1) - np.sum(scores.numpy() ** 2, axis=1)
        by_method = {"geonode": amounts[each, best].numpy()}
        by_method |= {key: one.estimates(spectra) for key, one in linear.items()}
        return cls(
            by_method,
            amounts.numpy(),
            (loss - loss[each, best][:, None]).numpy(),
            torch.linalg.inv(information[each, best]).numpy(),
            distance[each, best].numpy(),
            beyond,
        )


@dataclass(frozen=True, eq=False)
class Regions:
    """Bounds of what is likely, from samples left out.

    Attributes:
        joint: t of the joint region.
        each: t of every substance.
    """

    joint: float
    each: Float[np.ndarray, "substance"]

    @classmethod
    def of(
        cls,
        design: Design,
        errors: Float[np.ndarray, "sample substance"],
        covariance: Float[np.ndarray, "sample substance substance"],
    ) -> "Regions":
        """Bounds by the errors of samples, with their covariance by the law."""
        substances = errors.shape[1]
        joint = np.einsum("nd,nd->n", errors, np.linalg.solve(covariance, errors[..., None])[..., 0])
        each = errors**2 / np.einsum("ndd->nd", covariance)
        freedom = max(design.compositions - substances - 1 + PRIOR, 3)
        bounds = [
            _bound(ratios, size, freedom)
            for ratios, size in ((joint, substances), *((one, 1) for one in each.T))
        ]
        return cls(bounds[0], np.array(bounds[1:]))


def _bound(ratios: np.ndarray, size: int, freedom: int) -> float:
    """Ninety-percent quantile of ratios: geometric mean of that of F and that of the ratios."""
    clipped = np.minimum(ratios / size, LARGEST_RATIO).sum()
    scale = (EXPECTED * PRIOR + clipped) / (PRIOR + len(ratios))
    by_law = size * scale * f_distribution.ppf(COVERAGE, size, freedom)
    place = min(len(ratios), int(np.ceil((len(ratios) + 1) * COVERAGE))) - 1
    return float(np.sqrt(by_law * np.sort(ratios)[place]))


@dataclass(frozen=True, eq=False)
class MixtureEstimates:
    """Estimated amounts of unknowns, with 90% regions.

    Attributes:
        amounts: of every substance.
        covariance: M, of their errors.
        radius: t; the joint region is (c - part)^T M^-1 (c - part) <= t, around every part.
        parts: of every unknown, centres of the parts of its region; the first is `amounts`.
        sets: of every unknown and substance, the intervals of the 90% set, ascending.
        fits: whether a spectrum is like those of the samples; else its numbers mean nothing.
        outside: which amounts are beyond those of the samples.
    """

    amounts: Amounts
    covariance: Float[np.ndarray, "unknown substance substance"]
    radius: float
    parts: list[Float[np.ndarray, "part substance"]]
    sets: list[list[list[tuple[float, float]]]]
    fits: Bool[np.ndarray, "unknown"]
    outside: Bool[np.ndarray, "unknown substance"]

    @property
    def intervals(self) -> Float[np.ndarray, "unknown substance 2"]:
        """Lowest and highest amount of every set."""
        ends = [[(parts[0][0], parts[-1][1]) for parts in one] for one in self.sets]
        return np.array(ends).reshape(*self.amounts.shape, 2)

    def holds(self, true: Amounts) -> Bool[np.ndarray, "unknown"]:
        """Whether the joint regions hold amounts."""
        found = np.zeros(len(true), dtype=bool)
        for place, (centres, covariance) in enumerate(zip(self.parts, self.covariance, strict=True)):
            errors = true[place] - centres
            ratios = np.einsum("pd,dp->p", errors, np.linalg.solve(covariance, errors.T))
            found[place] = ratios.min() <= self.radius
        return found

    def hold(self, true: Amounts) -> Bool[np.ndarray, "unknown substance"]:
        """Whether the sets of every substance hold amounts."""
        found = [
            [any(low <= one <= high for low, high in parts) for one, parts in zip(*row, strict=True)]
            for row in zip(true, self.sets, strict=True)
        ]
        return np.array(found).reshape(true.shape)


@dataclass(frozen=True, eq=False)
class MixtureCalibration:
    """All methods fitted to samples of several substances, and their weights.

    Attributes:
        design: of the samples.
        forward: forward model of all samples.
        linear: the other methods, by key of `NAMES`.
        left_out: amounts of the samples by fits without their fold, by key of `NAMES`; "combined"
            with the weights that the other folds give.
        weights: of every method and substance; they sum to 1 over the methods.
        rest: R, second moment of the errors of the methods other than geonode.
        regions: bounds of what is likely.
        furthest: largest distance, and largest residual beyond the scores, of a spectrum that fits.
    """

    design: Design
    forward: ForwardModel
    linear: dict[str, Inverse]
    left_out: dict[str, Float[np.ndarray, "sample substance"]]
    weights: dict[str, Float[np.ndarray, "substance"]]
    rest: Float[np.ndarray, "substance substance"]
    regions: Regions
    furthest: tuple[float, float]

    @classmethod
    def of(
        cls,
        spectra: Float[np.ndarray, "sample wavelength"],
        amounts: Float[np.ndarray, "sample substance"],
        names: tuple[str, ...] | None = None,
        report: Progress = silent,
    ) -> "MixtureCalibration":
        """Fit all methods to samples, and weigh them by samples left out.

        Args:
            spectra: of the samples.
            amounts: theirs, none negative; need not lie on a grid.
            names: of the substances; None: "substance 1" and so on.
            report: called after every fold.

        Raises:
            MixtureError: as `Design.of`, or there are not as many spectra, or they are all equal.
            SpectraError: numbers are of no usual size.
        """
        design = Design.of(amounts, names)
        _require_spectra(spectra, len(amounts))
        folds = design.folds

        def without(out: np.ndarray) -> Found:
            return Found.of(*_fitted(design.without(out), spectra[~out]), spectra[out])

        each = [folds == fold for fold in range(folds.max() + 1)]
        left_out = {key: np.empty_like(design.amounts) for key in NAMES}
        covariance = np.empty((*amounts.shape, amounts.shape[1]))
        beyond = 0.0
        for out, found in zip(each, in_threads(without, each, report), strict=True):
            covariance[out], beyond = found.covariance, max(beyond, found.beyond.max())
            for key, values in found.by_method.items():
                left_out[key][out] = values
        squares = np.stack([(left_out[key] - design.amounts) ** 2 for key in NAMES])
        of_fold = np.stack([squares[:, out].sum(axis=1) for out in each], axis=1)
        others = _weights(of_fold.sum(axis=1, keepdims=True) - of_fold)[:, folds]
        estimates = np.stack([left_out[key] for key in NAMES])
        left_out["combined"] = (others * estimates).sum(axis=0)
        weights = _weights(of_fold.sum(axis=1))
        errors = estimates - design.amounts
        of_rest = (weights[1:, None] * errors[1:]).sum(axis=0) / weights[1:].sum(axis=0)
        rest = of_rest.T @ of_rest / len(errors[0])
        combined = left_out["combined"] - design.amounts
        covariances = _combined(weights[0], covariance, rest)
        regions = Regions.of(design, combined, covariances)
        with one_thread(), threadpool_limits(1):
            forward, linear = _fitted(design, spectra)
        by_key = dict(zip(NAMES, weights, strict=True))
        furthest = FURTHEST * float(forward.distances.max()), FURTHEST * beyond
        return cls(design, forward, linear, left_out, by_key, rest, regions, furthest)

    @property
    def rmsep(self) -> dict[str, Float[np.ndarray, "substance"]]:
        """Root mean square errors of samples left out, by method and "combined"."""
        return {
            key: np.sqrt(np.mean((values - self.design.amounts) ** 2, axis=0))
            for key, values in self.left_out.items()
        }

    @property
    def verdict(self) -> tuple[str, ...]:
        """Key of the method with the largest weight, of every substance."""
        keys, weights = [*self.weights], np.stack([*self.weights.values()])
        return tuple(keys[place] for place in weights.argmax(axis=0))

    def by_geonode(self, spectra: Float[np.ndarray, "unknown wavelength"]) -> Amounts:
        """Amounts of unknowns by the forward model alone."""
        return Found.of(self.forward, self.linear, spectra).by_method["geonode"]

    def estimate(self, spectra: Float[np.ndarray, "unknown wavelength"]) -> MixtureEstimates:
        """Amounts of unknowns, with their regions.

        Raises:
            MixtureError: spectra have other wavelengths than the samples, or are not finite.
            SpectraError: they are of no usual size.
        """
        if spectra.shape[1] != len(self.forward.mean) or not np.isfinite(spectra).all():
            raise MixtureError(
                f"spectra: found {spectra.shape[1]} wavelengths, or NaN, expected "
                f"{len(self.forward.mean)} finite numbers each"
            )
        require_size(spectra)
        with one_thread(), threadpool_limits(1):
            found = Found.of(self.forward, self.linear, spectra)
        amounts = sum(self.weights[key] * values for key, values in found.by_method.items())
        covariance = _combined(self.weights["geonode"], found.covariance, self.rest)
        moved = self.weights["geonode"] * (found.others - found.by_method["geonode"][:, None])
        parts, sets = [], []
        for place, centre in enumerate(amounts):
            likely = moved[place, found.above[place] <= self.regions.joint / 2]
            parts.append(centre + _apart(likely, covariance[place], self.regions.joint))
            half = np.sqrt(self.regions.each * np.diag(covariance[place]))
            sets.append([_joined(part, width) for part, width in zip(parts[-1].T, half, strict=True)])
        return MixtureEstimates(
            amounts,
            covariance,
            self.regions.joint,
            parts,
            sets,
            (found.distance <= self.furthest[0]) & (found.beyond <= self.furthest[1]),
            self.design.are_outside(amounts),
        )


def _fitted(design: Design, spectra: np.ndarray) -> tuple[ForwardModel, dict[str, Inverse]]:
    return ForwardModel.of(design, spectra), fit_inverse(spectra, design.amounts, design.composition)


def _weights(squares: Float[np.ndarray, "method *rest"]) -> Float[np.ndarray, "method *rest"]:
    """Weights by the sums of squared errors of every method."""
    ratio = squares.min(axis=0) + np.finfo(float).tiny
    weights = (ratio / (squares + np.finfo(float).tiny)) ** (POWER / 2)
    return weights / weights.sum(axis=0)


def _combined(
    weights: Float[np.ndarray, "substance"],
    covariance: Float[np.ndarray, "unknown substance substance"],
    rest: Float[np.ndarray, "substance substance"],
) -> Float[np.ndarray, "unknown substance substance"]:
    """M of unknowns."""
    of_rest = (1 - weights)[:, None] * rest * (1 - weights)
    return weights[:, None] * covariance * weights + of_rest


def _apart(moved: np.ndarray, covariance: np.ndarray, radius: float) -> Float[np.ndarray, "part d"]:
    """Of minima relative to the lowest one, those in no region of another; first zero."""
    kept = [np.zeros(moved.shape[1])]
    for one in moved:
        apart = np.stack(kept) - one
        if np.einsum("pd,dp->p", apart, np.linalg.solve(covariance, apart.T)).min() > radius:
            kept.append(one)
    return np.stack(kept)


def _joined(centres: np.ndarray, half: float) -> list[tuple[float, float]]:
    """Intervals around centres, ascending, joined where they overlap."""
    found: list[tuple[float, float]] = []
    for centre in sorted(centres.tolist()):
        low = centre - half
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], centre + half)
        else:
            found.append((low, centre + half))
    return found


def _require_spectra(spectra: np.ndarray, count: int) -> None:
    """Refuse spectra that are none of the samples.

    Raises:
        MixtureError, SpectraError: as `MixtureCalibration.of`.
    """
    if len(spectra) != count or not np.isfinite(spectra).all():
        raise MixtureError(
            f"samples: found {len(spectra)} spectra of {count} samples, or NaN, expected finite "
            "spectra, one of each"
        )
    require_size(spectra)
    if not np.ptp(spectra, axis=0).any():
        raise MixtureError("spectra: found the same one in all samples, expected some that differ")
