"""Calibration of several substances: every method, weighed by what it errs on left-out samples.

The forward model, PLS on preprocessings, reweighted PLS and CLS are refitted without every fold of
compositions. The weight of a method for a substance is its root mean square error to the power -6,
so that the best one estimates nearly alone where others are far behind, and equals share. Small
errors of few samples may be luck, and of flexible methods more often (`CANDIDATE_HANDICAPS`). The
verdict names the method with the largest weight. Where a spectrum has several likely minima, the
error of the forward model is that of the nearest one: all point estimates fail there, and its
region has them all.

Unknowns are estimated by the mean of the linear fits without every fold, and by the median of the
forward models of all samples and of some folds (L. Breiman, Machine Learning 24 (1996) 123): few
samples choose components, lengths and laws by luck, and the average of many choices errs less.

With W the weights of the forward model, V the covariance of its amounts, and R the second moment of
the left-out errors of the rest (for a sample left out, of the other folds), errors e have

    M = W V W + (1 - W) R (1 - W),    joint region: e^T M^-1 e <= t,    sets: e_j^2 / M_jj <= t_j

In R, products of errors of two substances are averaged as if `RATIO_PRIOR` more samples had none:
those of few samples are large by luck. t follows from the same ratios of the samples left out,
half by the F distribution and half by their own quantile. The region has a part around every
likely minimum.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy.special import fdtri, ndtri  # scipy.stats takes 0.3 s to import

from geonode.compute.threads import in_threads, one_thread
from geonode.mixtures import inverse
from geonode.mixtures.design import ROUNDING, Design
from geonode.mixtures.forward import ForwardModel, Modes, Span
from geonode.mixtures.inverse import Inverse, fit_inverse
from geonode.parameter_types import require_level
from geonode.posterior.prior import COVERAGE
from geonode.progress import Progress, silent
from geonode.spectra.arrays import real_array
from geonode.spectra.preprocessed_pls import AS_MEASURED, PREPROCESSINGS
from geonode.ties import EQUAL, first_largest, first_smallest

NAMES = {"geonode": "geonode", **inverse.METHODS}
"""Names of all methods for people."""

POWER = 6.0
CANDIDATE_HANDICAPS = np.array([1.1, 1.0, 1.2, 1.0])
"""Factors of the errors of methods, in the order of `NAMES`."""

MEMBERS = 10
"""Most forward models without a fold of which a median is taken."""

RATIO_PRIOR, RATIO_EXPECTED, LARGEST_RATIO = 4.0, 1.5, 25.0
"""Samples that a prior counts for, their mean ratio, and the largest ratio that counts."""

WIDER = 1.06
"""Factor of the joint t for every further substance: on 160 simulated mixtures 90% hold so."""

LIKELY = 3.0
"""Largest difference of L from the lowest minimum, up to which another is one as well."""

FURTHEST = 3.0
"""Times the largest residual of a sample left out that a spectrum may have."""

Amounts = Float[np.ndarray, "unknown substance"]
Covariances = Float[np.ndarray, "unknown substance substance"]


@dataclass(frozen=True, eq=False)
class MixtureEstimates:
    """Estimated amounts of unknowns, with regions of a level."""

    amounts: Amounts  # of every substance
    covariance: Covariances  # M
    radius: float  # t; the joint region is e^T M^-1 e <= t, for e from every part
    half: Amounts  # half widths of the sets about every part
    centres: Float[np.ndarray, "unknown start substance"]
    """Where the region may have parts; the first are `amounts`."""
    are_parts: Bool[np.ndarray, "unknown start"]  # where it has
    misfit: Float[np.ndarray, "unknown"]
    """Distance of a spectrum from those of the samples, over the largest one that fits."""
    outside: Bool[np.ndarray, "unknown substance"]  # amounts beyond those of the samples

    @property
    def fits(self) -> Bool[np.ndarray, "unknown"]:
        """True where a spectrum is like those of the samples; else its numbers mean nothing."""
        return self.misfit <= 1

    @property
    def parts(self) -> list[Float[np.ndarray, "part substance"]]:
        """Centres of the parts of every region; the first is that of `amounts`."""
        return [centres[kept] for centres, kept in zip(self.centres, self.are_parts, strict=True)]

    @property
    def sets(self) -> list[list[list[tuple[float, float]]]]:
        """Of every unknown and substance, the intervals of the set, ascending."""
        return [
            [
                joined(np.stack([centres - width, centres + width], axis=1).tolist())
                for centres, width in zip(one.T, of_one, strict=True)
            ]
            for one, of_one in zip(self.parts, self.half, strict=True)
        ]

    @property
    def intervals(self) -> Float[np.ndarray, "unknown substance 2"]:
        """Lowest and highest amount of every set."""
        others = np.where(self.are_parts[..., None], self.centres, self.amounts[:, None])
        ends = others.min(axis=1) - self.half, others.max(axis=1) + self.half
        return np.stack(ends, axis=2)

    def holds(self, true: Amounts) -> Bool[np.ndarray, "unknown"]:
        """True where the joint region of a sample contains its amounts."""
        ratios = [
            _ratios(one - parts, covariance).min()
            for one, parts, covariance in zip(true, self.parts, self.covariance, strict=True)
        ]
        return np.array(ratios) <= self.radius


@dataclass(frozen=True, eq=False)
class MixtureCalibration:
    """All methods fitted to samples of several substances, and their weights."""

    design: Design  # of the samples
    forward: ForwardModel | Span
    """Forward model of all samples, with its members; where `Design.without_surface` says why there
    is none, their span, and "geonode" is no method."""
    linear: dict[str, Inverse]
    """The other methods, by key of `NAMES`, means of the fits without a fold."""
    left_out: dict[str, Float[np.ndarray, "sample substance"]]
    """Amounts of the samples by fits without their fold, by key of `NAMES`; "combined" with the
    weights that the other folds give."""
    spread: Float[np.ndarray, "sample substance substance"]  # M of the samples left out
    weights: Float[np.ndarray, "method substance"]  # they sum to 1 over the methods
    rest: Float[np.ndarray, "substance substance"]  # R
    joint_ratios: Float[np.ndarray, "sample"]  # e^T M^-1 e of the samples left out
    ratios: Float[np.ndarray, "sample substance"]  # e_j^2 / M_jj of these
    furthest: tuple[float, float]
    """Largest distance and largest residual beyond the scores of a spectrum that fits."""

    @classmethod
    @one_thread()
    def of(
        cls,
        spectra: Any,
        amounts: Any,
        names: tuple[str, ...] | None = None,
        *,
        preprocessed: bool = False,
        report: Progress = silent,
    ) -> "MixtureCalibration":
        """Fit all methods to samples, and weigh them by samples left out.

        Args:
            spectra: of the samples, array-like of shape (sample, wavelength).
            amounts: theirs, of shape (sample, substance), none negative; need not lie on a grid.
            names: of the substances; None: "substance 1" and so on.
            preprocessed: whether the spectra are preprocessed, so that no further preprocessings
                are tried.
            report: called after every fold.

        Raises:
            MixtureError: as `Design.of` and `ForwardModel.of`.
            SpectraError: as `real_array`, or there are not as many spectra.
        """
        amounts = real_array(amounts, "amounts", sample=None, substance=None)
        spectra = real_array(spectra, "spectra", sample=len(amounts), wavelength=None)
        design = Design.of(amounts, names, spectra)
        folds = design.folds
        each = [folds == fold for fold in range(folds.max() + 1)]
        tried = [AS_MEASURED] if preprocessed else [*PREPROCESSINGS]
        has_surface = not design.without_surface

        def without(
            out: np.ndarray,
        ) -> tuple[ForwardModel | Span, dict[str, Inverse], Modes, np.ndarray]:
            kept, its = design.without(out), spectra[~out]
            forward = ForwardModel.of(kept, its) if has_surface else Span.of(its, amounts.shape[1])
            linear = fit_inverse(spectra[~out], kept.amounts, kept.composition, tried)
            return forward, linear, *_estimated(forward, linear, spectra[out])

        estimates = np.empty((len(NAMES), *amounts.shape))
        nearest, (distance, beyond) = np.empty_like(amounts), np.empty((2, len(amounts)))
        covariance = np.empty((*amounts.shape, amounts.shape[1]))
        fits = in_threads(without, each, report)
        for out, (_, _, modes, found) in zip(each, fits, strict=True):
            estimates[:, out], covariance[out] = found, modes.covariance
            distance[out], beyond[out] = modes.distance, modes.beyond
            away = np.sum(((modes.amounts - amounts[out, None]) / design.ranges) ** 2, axis=2)
            place = first_smallest(np.where(modes.above <= LIKELY, away, np.inf))
            nearest[out] = modes.amounts[np.arange(len(place)), place]
        errors = np.concatenate([nearest[None], estimates[1:]]) - amounts
        # Errors that are rounding are equal.
        squares = np.maximum(errors**2, (EQUAL * design.ranges) ** 2)
        of_folds = np.stack([np.sum(squares[:, out], axis=1) for out in each], axis=1)
        total = of_folds.sum(axis=1, keepdims=True)
        handicap = np.where(has_surface | (np.arange(len(NAMES)) > 0), CANDIDATE_HANDICAPS, np.inf)
        others = _weights(total - of_folds, handicap)[:, folds]
        weights = _weights(total, handicap)[:, 0]
        of_rest = np.sum(weights[1:, None] * errors[1:], axis=0) / weights[1:].sum(axis=0)
        rest = _second_moment(of_rest) + design.rounding
        rests = np.stack([_second_moment(of_rest[~out]) for out in each]) + design.rounding
        if design.tied:
            rest, rests = rest * np.eye(len(rest)), rests * np.eye(len(rest))
        missed = np.sum(others * errors, axis=0)
        spread = _spread(weights[0], covariance, rests[folds])
        ratios = _ratios(missed, spread), missed**2 / np.einsum("ndd->nd", spread)
        members: Any = tuple(fit[0] for fit in fits[:: -(-len(fits) // MEMBERS)])
        if has_surface:
            # An even number, so that the median of all is one of them.
            forward: Any = ForwardModel.of(design, spectra, members[: len(members) // 2 * 2])
            most = forward.furthest
        else:
            forward, most = Span.of(spectra, amounts.shape[1]), float(distance.max())
        linear = {key: Inverse.mean([fit[1][key] for fit in fits]) for key in inverse.METHODS}
        rounding = ROUNDING**2 * float(np.square(spectra).sum(axis=1).max())
        furthest = FURTHEST * most, FURTHEST * float(beyond.max()) + rounding
        left_out = dict(zip(NAMES, estimates, strict=True))
        if not has_surface:
            del left_out["geonode"]
        left_out["combined"] = np.sum(others * estimates, axis=0)
        return cls(design, forward, linear, left_out, spread, weights, rest, *ratios, furthest)

    def radius(self, level: float = COVERAGE) -> float:
        """Bound t of the joint region of a level."""
        return _bound(self.joint_ratios, self.design, self.ratios.shape[1], level)

    def radii(self, level: float = COVERAGE) -> Float[np.ndarray, "substance"]:
        """Bounds t_j of every substance, for sets of a level."""
        return np.array([_bound(one, self.design, 1, level) for one in self.ratios.T])

    @property
    def surface(self) -> ForwardModel | None:
        """Forward model; None where `Design.without_surface` says why."""
        return self.forward if isinstance(self.forward, ForwardModel) else None

    @property
    def rmsep(self) -> dict[str, Float[np.ndarray, "substance"]]:
        """Root mean square errors of samples left out, by method and "combined"."""
        return {
            key: np.sqrt(np.mean((values - self.design.amounts) ** 2, axis=0))
            for key, values in self.left_out.items()
        }

    def left_out_intervals(
        self, level: float = COVERAGE
    ) -> Float[np.ndarray, "sample substance 2"]:
        """Ends of the intervals of a level about the combined amounts of samples left out."""
        half = np.sqrt(self.radii(level) * np.einsum("sdd->sd", self.spread))
        return self.left_out["combined"][..., None] + half[..., None] * [-1, 1]

    @property
    def verdict(self) -> tuple[str, ...]:
        """Key of the method with the largest weight, of every substance."""
        return tuple([*NAMES][place] for place in first_largest(self.weights.T))

    @one_thread()
    def precision(self, amounts: Amounts) -> tuple[Amounts, Covariances]:
        """Standard errors of estimates at given amounts, and the correlations of these errors.

        V is the inverse of Fisher's information, and sets are scaled to a normal law.
        """
        of_forward = np.zeros((len(amounts), amounts.shape[1], amounts.shape[1]))
        if self.surface:
            of_forward = np.linalg.inv(self.surface.information(amounts)) + self.design.rounding
        covariance = _spread(self.weights[0], of_forward, self.rest)
        sizes = np.sqrt(np.einsum("udd->ud", covariance))
        correlations = covariance / (sizes[:, :, None] * sizes[:, None])
        return sizes * np.sqrt(self.radii()) / ndtri((1 + COVERAGE) / 2), correlations

    @one_thread()
    def by_method(self, spectra: Float[np.ndarray, "unknown wavelength"]) -> dict[str, Amounts]:
        """Amounts of unknowns by every method, by key of `NAMES`."""
        found = dict(zip(NAMES, _estimated(self.forward, self.linear, spectra)[1], strict=True))
        return {key: amounts for key, amounts in found.items() if key in self.left_out}

    @one_thread()
    def estimate(self, spectra: Any, level: float = COVERAGE) -> MixtureEstimates:
        """Amounts of unknowns, with their regions.

        Args:
            spectra: array-like of shape (unknown, wavelength).
            level: probability of the regions.

        Raises:
            ParameterError: the level is none.
            SpectraError: as `real_array`, or spectra have other wavelengths than the samples.
        """
        wavelengths = len(self.forward.mean)
        spectra = real_array(spectra, "spectra", unknown=None, wavelength=wavelengths)
        modes, found = _estimated(self.forward, self.linear, spectra)
        amounts = np.sum(self.weights[:, None] * found, axis=0)
        covariance = _spread(self.weights[0], modes.covariance, self.rest)
        moved = self.weights[0] * (modes.amounts - modes.amounts[:, :1])
        radius = self.radius(level)
        half = np.sqrt(self.radii(level) * np.einsum("udd->ud", covariance))
        tiny = np.finfo(float).tiny
        away, beyond = (
            one / max(most, tiny)
            for one, most in zip((modes.distance, modes.beyond), self.furthest, strict=True)
        )
        return MixtureEstimates(
            amounts,
            covariance,
            radius,
            half,
            amounts[:, None] + moved,
            _distinct(moved, modes.above <= LIKELY, covariance, radius),
            np.maximum(away, beyond),
            self.design.are_outside(amounts),
        )


def _estimated(
    forward: ForwardModel | Span, linear: dict[str, Inverse], spectra: np.ndarray
) -> tuple[Modes, Float[np.ndarray, "method unknown substance"]]:
    """Minima of the forward model, and amounts by every method."""
    others = [linear[key].estimates(spectra) for key in inverse.METHODS]
    modes = forward.modes(spectra)
    return modes, np.stack([modes.amounts[:, 0], *others])


def _weights(
    squares: Float[np.ndarray, "method *rest"], handicap: Float[np.ndarray, "method"]
) -> Float[np.ndarray, "method *rest"]:
    """Weights of methods by the sums of their squared errors."""
    sizes = ((squares.T + np.finfo(float).tiny) * handicap**2).T
    weights = (sizes.min(axis=0) / sizes) ** (POWER / 2)
    return weights / weights.sum(axis=0)


def _second_moment(errors: np.ndarray) -> Float[np.ndarray, "substance substance"]:
    """R of left-out errors."""
    products = errors.T @ errors
    own = np.diag(np.diag(products))
    return own / len(errors) + (products - own) / (len(errors) + RATIO_PRIOR)


def _spread(weights: np.ndarray, covariance: Covariances, rest: np.ndarray) -> Covariances:
    """M of unknowns."""
    of_rest = (1 - weights)[:, None] * rest * (1 - weights)
    return weights[:, None] * covariance * weights + of_rest


def _ratios(errors: np.ndarray, covariance: np.ndarray) -> Float[np.ndarray, "*unknown"]:
    """e^T M^-1 e of errors, with one M or one for each."""
    return np.sum(errors * np.linalg.solve(covariance, errors[..., None])[..., 0], axis=-1)


def _bound(ratios: np.ndarray, design: Design, size: int, level: float) -> float:
    """Quantile of a level: geometric mean of that of F and that of the ratios themselves."""
    require_level("calibration", level)
    clipped = np.minimum(ratios / size, LARGEST_RATIO).sum()
    scale = (RATIO_EXPECTED * RATIO_PRIOR + clipped) / (RATIO_PRIOR + len(ratios))
    freedom = max(design.compositions - len(design.names) - 1 + RATIO_PRIOR, 3)
    by_law = size * scale * fdtri(size, freedom, level)
    place = min(len(ratios), int(np.ceil((len(ratios) + 1) * level))) - 1
    return float(WIDER ** (size - 1) * np.sqrt(by_law * np.sort(ratios)[place]))


def _distinct(
    moved: np.ndarray, likely: np.ndarray, covariance: Covariances, radius: float
) -> Bool[np.ndarray, "unknown start"]:
    """True for likely minima in no region of one before; the first is the lowest one."""
    apart = moved[:, :, None] - moved[:, None]
    in_region = _ratios(apart, covariance[:, None, None]) <= radius
    kept = likely.copy()
    for one in range(1, moved.shape[1]):
        kept[:, one] &= ~(kept[:, :one] & in_region[:, one, :one]).any(axis=1)
    return kept


def joined(intervals: list[list[float]]) -> list[tuple[float, float]]:
    """Intervals, ascending, joined where they overlap."""
    found: list[tuple[float, float]] = []
    for low, high in sorted(intervals):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found
