from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import multivariate_t

from geonode.mixtures.design import Design
from geonode.mixtures.forward import (
    ERROR_FREEDOM,
    MARGIN,
    WIDTH,
    ForwardModel,
    covariances_of,
)
from tests.mixtures import beer

KNOWN = beer.amounts(30, 2)
UNKNOWN = np.clip(beer.amounts(8, 2, seed=3), 1, 9)


@pytest.fixture(scope="module")
def bent():
    return ForwardModel.of(Design.of(KNOWN), beer.spectra(KNOWN, noise=2e-3, bend=2.0))


@pytest.mark.parametrize("substances", [1, 2, 3])
def test_linear_mixtures_are_recovered_exactly(substances):
    known, unknown = beer.amounts(16, substances), beer.amounts(6, substances, seed=3)
    model = ForwardModel.of(Design.of(known), 0.3 + beer.spectra(known))
    found = model.modes(0.3 + beer.spectra(unknown)).amounts[:, 0]
    np.testing.assert_allclose(found, unknown, atol=1e-3)


def test_bent_responses_with_an_interaction_are_read_back(bent):
    modes = bent.modes(beer.spectra(UNKNOWN, noise=2e-3, bend=2.0, seed=9))
    np.testing.assert_allclose(modes.amounts[:, 0], UNKNOWN, atol=0.1)
    errors = modes.amounts[:, 0] - UNKNOWN
    ratios = np.einsum("ud,ude,ue->u", errors, np.linalg.inv(modes.covariance), errors)
    assert 0.2 < ratios.mean() / 2 < 5  # the covariance is of the size of the errors
    assert (modes.distance <= 3 * bent.furthest).all()


def test_unknowns_are_estimated_each_by_itself(bent):
    signal = beer.spectra(np.tile(UNKNOWN, (10, 1)), noise=2e-3, bend=2.0, seed=9)
    together = bent.modes(signal)
    for place in (0, 37, 79):
        alone = bent.modes(signal[[place]])
        np.testing.assert_allclose(together.amounts[[place]], alone.amounts, atol=1e-4)


def test_minima_move_to_the_median_of_those_that_members_reach(bent):
    signal = beer.spectra(UNKNOWN, noise=2e-3, bend=2.0, seed=9)
    members = [
        ForwardModel.of(
            Design.of(KNOWN[part::2]), beer.spectra(KNOWN, noise=2e-3, bend=2.0)[part::2]
        )
        for part in (0, 1)
    ]
    found = replace(bent, members=tuple(members)).modes(signal)
    each = [one.modes(signal).amounts[:, 0] for one in (bent, *members)]
    np.testing.assert_allclose(found.amounts[:, 0], np.median(each, axis=0), atol=2e-3)
    alone = bent.modes(signal).amounts
    np.testing.assert_allclose(
        found.amounts - found.amounts[:, :1], alone - alone[:, :1], rtol=0, atol=1e-12
    )


def test_modes_are_the_lowest_points_of_a_grid(bent):
    signal = beer.spectra(UNKNOWN[:3], noise=2e-3, bend=2.0, seed=9)
    scores = torch.from_numpy((signal - bent.mean) @ bent.directions)
    axis = np.linspace(0, 10, 41)
    grid = torch.from_numpy(np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2))
    modes = bent.modes(signal)
    for place in range(3):
        on_grid = bent.likelihood(grid, scores[[place]].expand(len(grid), -1)).loss
        here = torch.from_numpy(modes.amounts[[place], 0])
        assert bent.likelihood(here, scores[[place]]).loss <= on_grid.min() + 1e-6
        assert (modes.above[place] >= 0).all()
        assert modes.above[place, 0] == 0


def test_losses_are_those_of_a_multivariate_t_distribution(bent):
    """And of the normal prior of the amounts, but for one constant."""
    scores = (beer.spectra([[5.5, 4.4]], bend=2.0) - bent.mean) @ bent.directions
    points = torch.from_numpy(KNOWN[:6])
    found = bent.likelihood(points, torch.from_numpy(np.repeat(scores, 6, axis=0)))
    whitening = bent.whitening.numpy()
    predicted, _, variance = (one.numpy() for one in bent.surface.at(points))
    away = KNOWN[:6] - bent.design.amounts.mean(axis=0)
    prior = np.einsum("pd,de,pe->p", away, bent.precision.numpy(), away) / 2
    law = [
        multivariate_t(whitening @ mean, WIDTH * size * np.eye(len(whitening)), ERROR_FREEDOM)
        for mean, size in zip(predicted, variance, strict=True)
    ]
    density = [float(one.logpdf(whitening @ scores[0])) for one in law]
    loss = found.loss.numpy() - prior + density
    np.testing.assert_allclose(loss, loss[0], rtol=1e-9)


def test_gradients_are_those_of_finite_differences_where_the_variance_is_even(bent):
    centre = torch.from_numpy(KNOWN.mean(axis=0, keepdims=True))
    scores = torch.from_numpy((beer.spectra([[5.5, 4.4]], bend=2.0) - bent.mean) @ bent.directions)
    found = bent.likelihood(centre, scores)
    _, _, variance = bent.surface.at(centre)

    def squares(at):
        """Half of q + prior with the variance of the centre."""
        one = bent.likelihood(at, scores)
        change = bent.surface.at(at)[2] / variance - 1
        return float(one.squares + one.distance / 2 * change)

    for place in range(2):
        step = torch.zeros(2, dtype=torch.float64)
        step[place] = 1e-4
        difference = (squares(centre + step) - squares(centre - step)) / 2e-4
        assert float(found.gradient[0, place]) == pytest.approx(difference, rel=1e-3)


def test_estimates_stay_near_the_range_of_the_amounts(bent):
    far = bent.modes(beer.spectra([[60.0, 0.0], [0.0, 50.0]], bend=2.0)).amounts[:, 0]
    low, high = KNOWN.min(axis=0), KNOWN.max(axis=0)
    assert (far >= 0).all()
    assert (far <= high + MARGIN * (high - low) + 1e-9).all()


def test_the_law_of_errors_is_that_of_its_formula():
    errors = torch.from_numpy(np.random.default_rng(0).normal(size=(9, 4)) * [1, 2, 3, 4])
    padded = torch.cat([errors, torch.zeros(2, 4)])[None]
    squares = (errors**2).mean(0)
    for shape, prior in (
        (1.0, squares),
        (0.0, squares.mean()),
        (0.5, (squares * squares.mean()).sqrt()),
    ):
        expected = (3 * torch.eye(4) * prior + errors.T @ errors) / 12
        found = covariances_of(padded, torch.tensor([9]), shape, 3.0, 0.0)[0]
        np.testing.assert_allclose(found, expected, rtol=1e-6)
