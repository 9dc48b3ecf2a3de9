import numpy as np
import pytest
import torch

from geonode.mixtures.design import Design
from geonode.mixtures.surface import MOST_KEPT, TREND, Smoother, Smoothers, Surface, _means
from geonode.posterior.charts import positions
from tests.mixtures import beer

KNOWN = beer.amounts(11, 2)
TWICE = np.concatenate([KNOWN, KNOWN[:4], KNOWN[:2]])
ENDS = np.stack([KNOWN.min(axis=0), KNOWN.max(axis=0)])
OTHER = Smoother((8, 2), (3.0, 0.6), 1e-1)


def kernel(smoother, known, at):
    """The formula of the module, written down for NumPy."""
    levels = torch.from_numpy(np.sort(known.T, axis=1).copy())
    total = 1.0
    low, high = known.min(axis=0), known.max(axis=0)
    for place, (chart, length) in enumerate(zip(smoother.charts, smoother.lengths, strict=True)):
        here, there = (
            positions(levels, torch.from_numpy(one.T.copy())).targets[place, chart].numpy()
            for one in (at, known)
        )
        distance = np.subtract.outer(here, there) / length
        total = total * (1 + np.exp(-(distance**2) / 2)) / 2
    u, v = (2 * (one - low) / (high - low) - 1 for one in (at, known))
    return total + TREND * (1 + u @ v.T)


def kriged(smoother, known, scores, at):
    """Scores at amounts by the samples themselves, each with its own noise."""
    every, count = np.concatenate([known, at, ENDS]), len(known)
    whole = kernel(smoother, every, every)[:-2, :-2]
    covariance = whole[:count, :count] + smoother.noise * np.eye(count)
    across = whole[count:, :count]
    variance = np.diag(whole)[count:] + smoother.noise
    gain = np.linalg.solve(covariance, across.T)
    return gain.T @ scores, variance - np.sum(across * gain.T, axis=1)


@pytest.fixture(scope="module")
def surface():
    random = np.random.default_rng(0)
    scores = np.c_[np.sin(TWICE[:, 0] / 4) * TWICE[:, 1], TWICE[:, 1]]
    scores = scores + 0.05 * random.normal(size=scores.shape)
    return Surface.of(Design.of(TWICE), torch.from_numpy(scores)), scores


def smoothers_of(surface):
    """Weight, size and smoother, as they were chosen."""
    of = surface.smoothers
    columns = surface.weights, surface.sizes, of.charts, of.lengths, of.noise
    for weight, size, charts, lengths, noise in zip(
        *(one.tolist() for one in columns), strict=True
    ):
        yield weight, size, Smoother((*charts,), (*lengths,), noise)


def kriged_by_all(surface, scores, at, *without):
    """Scores at amounts, and their variances, by all smoothers without some compositions."""
    kept = ~np.isin(surface.composition.numpy(), without)
    total, spread = 0, 0
    for weight, size, smoother in smoothers_of(surface):
        mean, variance = kriged(smoother, TWICE[kept], scores[kept], at)
        total, spread = total + weight * mean, spread + weight * size * variance
    return total, spread


def test_residuals_are_those_of_refits_without_a_composition(surface):
    surface, scores = surface
    which = surface.composition.numpy()
    for out in range(11):
        own = which == out
        mean, spread = kriged_by_all(surface, scores, TWICE[own], out)
        np.testing.assert_allclose(surface.residuals[own], scores[own] - mean, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(surface.relative[own], spread, rtol=1e-4)


def test_residuals_without_another_are_those_of_refits_without_both(surface):
    surface, scores = surface
    which, found = surface.composition.numpy(), surface.residuals_without()
    for one, other in ((0, 3), (3, 0), (7, 10)):
        own = which == other
        mean, _ = kriged_by_all(surface, scores, TWICE[own], one, other)
        np.testing.assert_allclose(found[one, own], scores[own] - mean, rtol=1e-5, atol=1e-7)


def test_smoothers_are_compared_by_the_residuals_of_all_samples(surface):
    surface, scores = surface
    which, residuals = surface.composition.numpy(), np.empty_like(scores)
    for out in range(11):
        own = which == out
        mean, _ = kriged(OTHER, TWICE[~own], scores[~own], TWICE[own])
        residuals[own] = scores[own] - mean
    squares = np.sum(residuals**2, axis=0)
    expected = (np.log(squares.sum()) + np.log(squares).mean()) / 2
    design, within = Design.of(TWICE), surface.within.square().sum(0)
    means = _means(design, torch.from_numpy(scores))
    found = Smoothers.of(design, [OTHER]).errors(means, within)
    assert float(found[0]) == pytest.approx(expected, rel=1e-6)


def test_scores_and_variances_are_those_of_kriging_on_every_sample(surface):
    surface, scores = surface
    at = np.clip(beer.amounts(5, 2, seed=4), *ENDS)
    mean, _, variance = surface.at(torch.from_numpy(at))
    expected, spread = kriged_by_all(surface, scores, at)
    np.testing.assert_allclose(mean, expected, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(variance, spread, rtol=1e-5)
    assert 1 <= len(surface.weights) <= MOST_KEPT
    assert float(surface.weights.sum()) == pytest.approx(1)
    assert float(surface.relative.mean()) == pytest.approx(1)


def test_derivatives_are_those_of_finite_differences(surface):
    surface, _ = surface
    at = torch.from_numpy(beer.amounts(6, 2, seed=4))
    _, found, _ = surface.at(at)
    for place in range(2):
        step = torch.zeros(2, dtype=torch.float64)
        step[place] = 1e-5
        difference = (surface.at(at + step)[0] - surface.at(at - step)[0]) / 2e-5
        np.testing.assert_allclose(found[:, :, place], difference, rtol=1e-5, atol=1e-6)


def test_variances_of_derivatives_are_those_of_finite_differences(surface):
    """Of the covariances of the process at two near points, by the formula of the kernel."""
    surface, _ = surface
    at = np.clip(beer.amounts(1, 2, seed=4), ENDS[0] + 1, ENDS[1] - 1)
    found = surface.slope_variances(torch.from_numpy(at))[0]
    for place in range(2):
        step = 0.02 * np.eye(2)[place]
        points = np.concatenate([at - step, at + step])
        expected = 0
        for weight, size, smoother in smoothers_of(surface):
            every = np.concatenate([TWICE, points, ENDS])
            whole, count = kernel(smoother, every, every)[:-2, :-2], len(TWICE)
            known = whole[:count, :count] + smoother.noise * np.eye(count)
            across = whole[:count, count:]
            left = whole[count:, count:] - across.T @ np.linalg.solve(known, across)
            expected += weight * size * ([-1, 1] @ left @ [-1, 1]) / 0.04**2
        assert float(found[place]) == pytest.approx(expected, rel=1e-2)
