"""The evidence for all smoothers against refits, one smoother and one level at a time."""

import numpy as np
import pytest
import torch

from geonode.posterior import evidence
from geonode.posterior.evidence import NEAR, FittedSmoothers
from geonode.posterior.smoothers import dictionary
from tests.posterior.kriging import Kriging

LEVELS = np.array([5.0, 8.0, 20.0, 31.0, 60.0])
AXIS = np.arange(30.0)
SPECTRA = 3 * np.outer(LEVELS / (LEVELS + 25), np.exp(-(((AXIS - 12) / 5) ** 2)))
SPECTRA += 0.05 * np.random.default_rng(1).normal(size=SPECTRA.shape)
TARGETS = np.array([0.5, 25.0, 75.0])
COUNT = len(LEVELS)


def by_refits(target, spectra):
    """Features of all smoothers and context of a target."""
    total = ((spectra - spectra.mean(axis=0)) ** 2).sum() / (COUNT - 1)
    kriging, known = Kriging(LEVELS, np.array([target])), np.arange(COUNT)
    description = dictionary()
    errors, scale, likelihood, variance, predicted, spread, near = [], [], [], [], [], [], []
    distance, beyond = [], []
    for smoother, chart in enumerate(description.chart.tolist()):
        alone, unsure = [], []
        for level in range(COUNT):
            kept = np.delete(known, level)
            weights, left = kriging.predict(smoother, kept, level)
            alone.append(((spectra[level] - weights @ spectra[kept]) ** 2).sum() / total)
            unsure.append(left + float(description.noise[smoother]))
        errors.append(alone)
        spread.append(np.mean(unsure))
        system, freedom = (
            kriging.system(smoother, known),
            COUNT - description.coefficients[smoother],
        )
        inverse = np.linalg.inv(system)[:COUNT, :COUNT]
        covariance = system[:COUNT, :COUNT]
        terms = kriging.terms(smoother, known)
        # a constant term takes the mean spectrum, and the digits that it would cost
        seen = spectra - spectra.mean(axis=0) if (terms[:, 0] == 1).all() else spectra
        scale.append(np.einsum("iw,ij,jw->", seen, inverse, seen) / int(freedom) / total)
        basis, _ = np.linalg.qr(terms)
        determinants = [covariance, basis.T @ np.linalg.solve(covariance, basis)]
        logarithms = sum(np.linalg.slogdet(matrix)[1] for matrix in determinants)
        likelihood.append(-(int(freedom) * np.log(scale[-1]) + logarithms) / 2 / COUNT)
        weights, at_target = kriging.predict(smoother, known, COUNT)
        variance.append(at_target)
        predicted.append(weights @ spectra)
        *places, place = kriging.places[chart]
        ends = np.interp(place, places, known)
        if place < places[0]:
            ends = max((place - places[0]) / (places[1] - places[0]), -0.5)
        if place > places[-1]:
            ends = COUNT - 1 + min((place - places[-1]) / (places[-1] - places[-2]), 0.5)
        window = np.exp(-(((known - ends) / NEAR) ** 2) / 2)
        near.append(np.array(alone) @ window / window.sum())
        nearest = np.abs(np.array(places) - place).min()
        distance.append(np.log1p(nearest / float(description.length[smoother])))
        beyond.append(np.log1p(max(abs(place) - 1, 0)))
    errors, predicted = np.array(errors), np.array(predicted)
    log_error, within = np.log(errors.mean(axis=1)), np.array(scale) * np.array(variance)
    best = log_error.min()
    share = np.exp(-4 * (log_error - best)) / np.exp(-4 * (log_error - best)).sum()
    average = share @ predicted
    apart = ((predicted - average) ** 2).sum(axis=1) / total
    from_mean = ((predicted - spectra.mean(axis=0)) ** 2).sum(axis=1) / total
    features = [
        *(log_error - best, np.log(errors).mean(axis=1) - best, np.log(near) - best),
        *(np.array(likelihood) - max(likelihood), np.log(within) - best, np.log(variance)),
        *(np.log(apart) - best, np.log(from_mean)),
        *(np.log(errors[:, 0]) - best, np.log(errors[:, -1]) - best, distance, beyond),
        *(np.log(scale) - best, np.log(spread)),
    ]
    eigenvalues = np.linalg.svd(spectra - spectra.mean(axis=0))[1] ** 2
    context = [
        *(0.5, 0.2, float(5 < target < 60), float(target <= 5), np.log(12) / 5, 0, best / 4),
        np.log((average**2).sum() / total) / 4,
        *(np.log(eigenvalues[1:3] / eigenvalues[0]) / 4),
        np.log(total / (spectra.mean(axis=0) ** 2).sum()) / 4,
        *((target - 5) / 55, np.log(target / 5) / 4, 0, np.log1p(share @ apart)),
        (share @ np.log(within) - best) / 4,
    ]
    return np.stack(features, axis=1), np.array(context, dtype=float)


@pytest.mark.parametrize(("place", "pedestal"), [(0, 0.0), (1, 0.0), (2, 1e5)])
def test_evidence_is_that_of_refits(place, pedestal):
    spectra = SPECTRA + pedestal
    fitted = FittedSmoothers.of(torch.from_numpy(LEVELS)[None], torch.from_numpy(spectra)[None])
    found = fitted.evidence(torch.from_numpy(TARGETS)[None])
    features, context = by_refits(TARGETS[place], spectra)
    if pedestal:
        context[10] = np.log(1e-10) / 4  # the least that is told apart
    np.testing.assert_allclose(found.context[place], context, rtol=1e-6, atol=1e-9)
    features[:, 3] = features[:, 3].clip(min=-20)
    atol = 1e-3 if pedestal else 1e-5  # what it leaves of the digits of a mean function {c}
    np.testing.assert_allclose(found.features[place].T, features, rtol=1e-5, atol=atol)


def test_evidence_does_not_depend_on_how_many_axes_are_worked_on_at_once(monkeypatch):
    levels, spectra = torch.from_numpy(LEVELS)[None], torch.from_numpy(SPECTRA)[None]
    found = []
    for at_once in (2**18, 1):
        monkeypatch.setattr(evidence, "PRODUCTS", at_once)
        fitted = FittedSmoothers.of(levels, spectra)
        found.append(fitted.evidence(torch.from_numpy(TARGETS)[None]).features)
    torch.testing.assert_close(*found, rtol=1e-6, atol=1e-9)


def test_blanks_are_marked_in_the_context():
    levels, targets = torch.tensor([[0.0, 0.5, 20.0, 40.0]]), torch.tensor([[0.0, 0.2, 30.0]])
    spectra = torch.from_numpy(SPECTRA[:4])[None]
    context = FittedSmoothers.of(levels.double(), spectra).evidence(targets.double()).context
    assert context[:, 5].tolist() == [1, 1, 1]  # the lowest level is one
    assert context[:, 13].tolist() == [1, 0, 0]  # and so is the first target
    assert context[:, 2:4].tolist() == [[0, 1], [1, 0], [1, 0]]
    assert torch.isfinite(context).all()
