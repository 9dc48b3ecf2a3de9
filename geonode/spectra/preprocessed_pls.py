"""PLS on several preprocessings of the same spectra, combined by the errors of samples left out.

What varies in samples beside a concentration, such as path, scatter and baselines, each leaves its
own traces, and which preprocessing takes them off depends on the samples. So there is a PLS of 1 to
20 components on each of `PREPROCESSINGS`, with the number of components of the smallest mean
absolute error of samples left out, and estimates are their mean with weights

    w ~ error^-8

Weights and numbers of components of an estimate without a fold are those of the other folds, each
left out in turn too. The mean of absolute errors lets no single outlying sample decide. List, power
and mean were chosen on simulated samples (`research.mixture_classes`).

Most preprocessings are linear, and the rest are after the division of SNV: an estimate is linear in
the spectrum where no SNV takes part.

Sources: A. Savitzky and M. J. E. Golay, Anal. Chem. 36 (1964) 1627 (smoothing, derivatives);
R. J. Barnes, M. S. Dhanoa and S. J. Lister, Appl. Spectrosc. 43 (1989) 772 (SNV, detrending);
L. Xu et al., Anal. Chim. Acta 616 (2008) 138 (ensembles of preprocessings).
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from geonode.spectra.component_regression import (
    ROUNDING_OF_SPECTRA,
    Fit,
    Fitted,
    LeftOut,
    Scores,
    pls_components,
)
from geonode.spectra.preprocessing import standard_normal_variate
from geonode.ties import EQUAL, first_smallest

MOST_COMPONENTS = 20
"""Everything that varies in samples takes components."""

WEIGHT_POWER = 8
"""Of the inverse error of a preprocessing, its weight."""

LEAST_WEIGHT = 0.01
"""Of the largest weight, the least that counts."""

MOST_AT_ONCE = 20_000_000
"""Numbers of spectra up to which preprocessings are tried at once: each takes several copies."""

WINDOW, DEGREE = 11, 2
"""Wavelengths and degree of the polynomials that smooth."""

Spectra = Float[np.ndarray, "sample wavelength"]


def _filtered(spectra: Spectra, derivative: int = 0) -> Spectra:
    """Smoothed spectra, or a derivative of them over the place in the axis."""
    # As scipy.signal.savgol_filter with "interp", whose import takes longer than a calibration.
    place, half = np.arange(WINDOW) - WINDOW // 2, WINDOW // 2
    powers = [np.polynomial.Polynomial.basis(power) for power in range(DEGREE + 1)]
    derived = np.stack([one.deriv(derivative)(place) for one in powers], axis=1)
    fit = derived @ np.linalg.pinv(np.vander(place, DEGREE + 1, increasing=True))
    inside = spectra.shape[1] - WINDOW + 1
    middle = sum(one * spectra[:, at : at + inside] for at, one in enumerate(fit[half]))
    first, last = spectra[:, :WINDOW] @ fit[:half].T, spectra[:, -WINDOW:] @ fit[half + 1 :].T
    found = np.concatenate([first, middle, last], axis=1)
    rounding = ROUNDING_OF_SPECTRA * np.abs(spectra).max(axis=1, keepdims=True)
    return np.where(np.abs(found) > rounding, found, 0)  # SNV would make it large


def _detrended(spectra: Spectra) -> Spectra:
    """Spectra less their parabola over the axis."""
    basis, _ = np.linalg.qr(np.vander(np.linspace(-1, 1, spectra.shape[1]), DEGREE + 1))
    return spectra - spectra @ basis @ basis.T


def _without_mean(spectra: Spectra) -> Spectra:
    return spectra - spectra.mean(axis=1, keepdims=True)


def _normalised(spectra: Spectra) -> Spectra:
    """SNV; zero for a spectrum without shape."""
    return np.nan_to_num(standard_normal_variate(spectra))


AS_MEASURED, REWEIGHTED = "as measured", "wavelengths reweighted"

TIMES, STEP_HANDICAP, FEWEST = 2, 1.5, 40
"""Times that wavelengths are weighted anew, the factor of the errors then, as weights see samples
that are left out only from what follows, and the fewest samples for it."""

PREPROCESSINGS: dict[str, tuple[Callable[[Spectra], Spectra], ...]] = {
    AS_MEASURED: (),
    REWEIGHTED: (),
    "centred": (_without_mean,),
    "smoothed": (_filtered,),
    "detrended": (_detrended,),
    "first derivative": (partial(_filtered, derivative=1),),
    "second derivative": (partial(_filtered, derivative=2),),
    "SNV": (_normalised,),
    "SNV, detrended": (_normalised, _detrended),
    "SNV of the first derivative": (partial(_filtered, derivative=1), _normalised),
    "SNV of the second derivative": (partial(_filtered, derivative=2), _normalised),
}
"""Steps of every preprocessing, the simplest first."""


def preprocessed(name: str, spectra: Spectra) -> Spectra:
    """Spectra after the steps of a preprocessing."""
    for step in PREPROCESSINGS[name]:
        spectra = step(spectra)
    return spectra


class Member(NamedTuple):
    """PLS on one preprocessing."""

    weight: float
    centre: Float[np.ndarray, "wavelength"]
    """Mean preprocessed spectrum of the samples."""
    rotation: Float[np.ndarray, "wavelength component"]
    """Whose products with deviations from it are the scores of the components."""
    sizes: Float[np.ndarray, "component"]
    """Squared scores of the samples, summed."""
    slopes: Float[np.ndarray, "component"]
    """Of the concentration over the scores."""


@dataclass(frozen=True, eq=False)
class PreprocessedPLS(Fit):
    """Mean of PLS on several preprocessings."""

    count: int
    """Of the samples."""
    mean: float
    """Of their concentrations."""
    members: dict[str, Member]
    """By name of the preprocessing."""

    def estimates(
        self, spectra: Float[np.ndarray, "unknown wavelength"]
    ) -> Float[np.ndarray, "unknown option"]:
        """Concentrations of spectra, the one option."""
        each = [one.weight * (scores @ one.slopes) for one, scores in self._scores(spectra)]
        return self.mean + np.sum(each, axis=0)[:, None]

    def leverages(
        self, spectra: Float[np.ndarray, "unknown wavelength"]
    ) -> Float[np.ndarray, "unknown option"]:
        """Weighted means of the leverages on the preprocessings, the one option."""
        each = [one.weight * (scores**2 @ (1 / one.sizes)) for one, scores in self._scores(spectra)]
        return 1 / self.count + np.sum(each, axis=0)[:, None]

    def _scores(self, spectra: np.ndarray) -> "list[tuple[Member, np.ndarray]]":
        """Of every member, the scores of spectra."""
        return [
            (one, (preprocessed(name, spectra) - one.centre) @ one.rotation)
            for name, one in self.members.items()
        ]

    def slopes_at(
        self, spectrum: Float[np.ndarray, "wavelength"]
    ) -> Float[np.ndarray, "wavelength"]:
        """Derivative of the concentration over the signal: regression vector, but for SNV."""
        steps = 1e-4 * (np.abs(spectrum).max() or 1.0) * np.eye(len(spectrum))
        moved = self.estimates(spectrum + steps) - self.estimates(spectrum - steps)
        return moved[:, 0] / (2 * steps[0, 0])


def fit_preprocessed(
    targets: Float[np.ndarray, "sample target"],
    spectra: Spectra,
    folds: Int[np.ndarray, "sample"],
    *,
    nested: bool = True,
    preprocessings: Collection[str] = PREPROCESSINGS,
) -> list[Fitted]:
    """Fit to samples, one by one of several targets, with the one option.

    Args:
        targets: of the samples.
        spectra: theirs; those of fewer than `WINDOW` wavelengths are taken as measured.
        folds: of samples that are left out together, from 0 on, at least two.
        nested: whether weights and numbers of components of `left_out` are those of the other
            folds too; else those of all.
        preprocessings: to be tried.
    """
    from geonode.compute.threads import in_threads  # noqa: PLC0415 - torch, for those who fit

    centred = targets - targets.mean(axis=0)

    def on(name: str) -> list[tuple[LeftOut, Member]]:
        if name == REWEIGHTED:
            return [_left_out_reweighted(spectra, target, folds) for target in centred.T]
        scores = Scores(preprocessed(name, spectra), folds)
        return [_with_best_number(scores, target, nested=nested) for target in centred.T]

    names = [*preprocessings] if spectra.shape[1] >= WINDOW else [AS_MEASURED]
    if not nested or len(spectra) < FEWEST:
        names = [name for name in names if name != REWEIGHTED]
    run = in_threads if spectra.size <= MOST_AT_ONCE else map
    by_target = zip(*run(on, names), strict=True)
    return [
        _combined(dict(zip(names, of_target, strict=True)), target, mean, folds, spectra.shape[1])
        for of_target, target, mean in zip(by_target, centred.T, targets.mean(axis=0), strict=True)
    ]


def _with_best_number(
    scores: Scores, target: np.ndarray, *, nested: bool
) -> tuple[LeftOut, Member]:
    """Estimates left out, and the fit to all by the best number of components, with its error."""
    left_out = scores.left_out(target, pls_components, MOST_COMPONENTS, nested=nested)
    errors = np.abs(left_out.estimates - target[:, None]).mean(axis=0)
    best = int(first_smallest(errors, size=float(np.ptp(target))))
    (rotation,), (sizes,), (slopes,) = scores.fits(
        target, [()], pls_components, best + 1
    ).components
    there = np.isfinite(sizes)
    rotation = scores.of_wavelengths(rotation[:, there])
    error = float(errors[best])
    return left_out, Member(error, scores.centre, rotation, sizes[there], slopes[there])


def reweighted(
    spectra: Spectra, target: Float[np.ndarray, "sample"], folds: Int[np.ndarray, "sample"]
) -> tuple[LeftOut, Member]:
    """PLS by wavelengths weighted by the size of their coefficients in the fit before, and so on.

    Wavelengths that say nothing about a concentration fade, which matters where much else varies.
    Source: A. Rinnan, M. Andersson, C. Ridder and S. B. Engelsen, J. Chemometrics 28 (2014) 439.

    Args:
        spectra: of the samples.
        target: theirs, of mean zero.
        folds: of samples that are left out together, from 0 on.

    Returns:
        Estimates of samples left out, but not from the weights, and the fit to all with its error.
    """
    weights = np.ones(spectra.shape[1])
    for _ in range(1 + TIMES):
        scores = Scores(spectra * weights, folds)
        left_out, member = _with_best_number(scores, target, nested=False)
        rotation = weights[:, None] * member.rotation
        size = np.abs(rotation @ member.slopes)
        weights = size / (size.max(initial=0) or 1.0)
    return left_out, member._replace(centre=spectra.mean(axis=0), rotation=rotation)


def _left_out_reweighted(
    spectra: Spectra, target: np.ndarray, folds: np.ndarray
) -> tuple[LeftOut, Member]:
    """As every preprocessing, with one option, whose errors inside have the handicap."""
    estimates, leverages = np.empty((2, len(target), 1))
    inner = np.full((int(folds.max()) + 1, len(target), 1), np.nan)
    for fold in range(len(inner)):
        out = folds == fold
        _, others = np.unique(folds[~out], return_inverse=True)
        known, mean = target[~out], target[~out].mean()
        inside, fit = reweighted(spectra[~out], known - mean, others)
        at = fit.rotation.shape[1] - 1
        inner[fold, ~out, 0] = known + STEP_HANDICAP * (inside.estimates[:, at] + mean - known)
        scores = (spectra[out] - fit.centre) @ fit.rotation
        estimates[out, 0] = mean + scores @ fit.slopes
        leverages[out, 0] = 1 / len(known) + np.sum(scores**2 / fit.sizes, axis=1)
    _, whole = reweighted(spectra, target, folds)
    return LeftOut(estimates, leverages, inner), whole._replace(weight=STEP_HANDICAP * whole.weight)


def _combined(
    parts: dict[str, tuple[LeftOut, Member]],
    target: np.ndarray,
    mean: float,
    folds: np.ndarray,
    wavelengths: int,
) -> Fitted:
    """Fit whose members still have their error as weight."""
    size = float(np.ptp(target)) or 1.0
    weights = _weights_by_errors(np.array([member.weight for _, member in parts.values()]), size)
    members = {
        name: member._replace(weight=float(weight))
        for (name, (_, member)), weight in zip(parts.items(), weights, strict=True)
        if weight
    }
    estimates, leverages, errors = [], [], []
    for left_out, _ in parts.values():
        of_others = np.nanmean(np.abs(left_out.inner - target[:, None]), axis=1)
        best = first_smallest(of_others, size=size)
        errors.append(np.take_along_axis(of_others, best[:, None], axis=1)[:, 0])
        own = np.arange(len(folds)), best[folds]
        estimates.append(left_out.estimates[own])
        leverages.append(left_out.leverages[own])
    shares = _weights_by_errors(np.stack(errors), size)[:, folds]
    return Fitted(
        PreprocessedPLS(len(target), float(mean), members),
        wavelengths,
        0,
        mean + np.sum(shares * estimates, axis=0),
        np.sum(shares * leverages, axis=0),
    )


def _weights_by_errors(
    errors: Float[np.ndarray, "member *fold"], size: float
) -> Float[np.ndarray, "member *fold"]:
    """Weights that sum to 1; errors that are rounding are equal."""
    errors = np.maximum(errors, EQUAL * size)
    weights = (errors.min(axis=0) / errors) ** WEIGHT_POWER
    weights = np.where(weights < LEAST_WEIGHT, 0, weights)
    return weights / weights.sum(axis=0)
