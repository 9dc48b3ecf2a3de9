from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from geonode.mixtures.design import Design
from geonode.mixtures.forward import ForwardModel
from geonode.mixtures.next_compositions import EVERYWHERE, points_of_region, propose_mixtures
from tests.mixtures import beer


def fitted(known, order=slice(None), **options):
    design = Design.of(known[:, order], tuple("abc"[: known.shape[1]][order]))
    return ForwardModel.of(design, beer.spectra(known, noise=5e-3, **options))


INSIDE = np.random.default_rng(0).uniform(3.5, 6.5, (10, 2))


@pytest.mark.parametrize("ends", [[[0, 0], [10, 10]], [[0, 10], [10, 0]], [[0, 0], [10, 0]]])
def test_on_beers_law_the_next_mixture_is_the_best_corner_for_a_plane(ends):
    """Of all on a grid, that with the least mean variance of a plane by least squares."""
    known = np.vstack([INSIDE, ends])
    high = known.max(axis=0)
    grid = np.array([*product(np.linspace(0, 1, 11), repeat=2)]) * high
    planes, moments = np.c_[np.ones(121), grid], np.c_[np.ones(12), known]

    def mean_variance(mixture):
        every = np.vstack([moments, [1, *mixture]])
        return np.mean(np.sum(planes @ np.linalg.inv(every.T @ every) * planes, axis=1))

    variances = np.array([mean_variance(one) for one in grid])
    best = grid[variances <= 1.1 * variances.min()]
    (first,) = propose_mixtures(fitted(known), 1)
    assert any(np.allclose(first.amounts, one) for one in best)
    assert all(amount in (0, top) for amount, top in zip(first.amounts, high, strict=True))
    assert 0.1 < first.gain < 1


def test_the_error_taken_away_is_that_of_kriging_with_the_mixture_added():
    forward = fitted(beer.amounts(12, 3), bend=1.0)
    first, second = propose_mixtures(forward, 2)
    surface, smoothers = forward.surface, forward.surface.smoothers
    region = torch.from_numpy(points_of_region(forward.design, EVERYWHERE))
    known = torch.cat([smoothers.compositions, torch.tensor([first.amounts], dtype=torch.float64)])
    counts = torch.cat([smoothers.counts, torch.ones(1)])
    with_it = replace(smoothers, compositions=known, counts=counts)
    kernels, across = (with_it.kernels(each)[0] for each in (known, region))
    expected = 0
    for place, noise in enumerate(smoothers.noise):
        own = kernels[place] + torch.diag(noise / counts)
        lower = torch.linalg.cholesky(own)
        explained = torch.linalg.solve_triangular(lower, across[place].T, upper=False).square()
        variance = (smoothers.own(region) - explained.sum(0)).mean()
        expected += surface.weights[place] * surface.sizes[place] * variance
    scale = float((surface.residuals.square().sum(1).mean() / len(beer.AXIS)).sqrt())
    assert first.after == pytest.approx(float(np.sqrt(expected) * scale), rel=1e-6)
    assert second.before == first.after
    _, _, variance = surface.at(region)
    noise = float(surface.weights * surface.sizes @ smoothers.noise)
    assert first.before == pytest.approx(float(np.sqrt(variance.mean() - noise) * scale), rel=1e-6)


@pytest.mark.parametrize("known", [beer.amounts(12, 3), np.array([*product((0.0, 5), repeat=3)])])
def test_the_order_of_substances_changes_no_proposal(known):
    expected, turned = (
        propose_mixtures(fitted(known, order, bend=1.0), 3)
        for order in (slice(None), slice(None, None, -1))
    )
    for one, other in zip(expected, turned, strict=True):
        np.testing.assert_allclose(other.amounts[::-1], one.amounts, rtol=1e-9)
        assert other.gain == pytest.approx(one.gain, rel=1e-6)


def test_parts_of_a_whole_stay_within_it():
    lattice = np.array([one for one in product(range(4), repeat=3) if sum(one) <= 3]) / 3.0
    inside = points_of_region(Design.of(lattice), 256)
    assert inside.min() >= 0
    assert inside.sum(axis=1).max() <= 1 + 1e-9
    assert np.sum(np.isclose(inside.sum(axis=1), 1)) > 50
    box = points_of_region(Design.of(beer.amounts(20, 3)), 256)
    assert box.sum(axis=1).max() > 25
