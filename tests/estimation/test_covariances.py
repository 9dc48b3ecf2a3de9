import numpy as np
import pytest
import torch

from geonode.errors import TrainingError
from geonode.estimation.covariances import Covariances
from geonode.estimation.distances import Distances

KNOTS = np.array([0.0, 0.1, 0.4, 1.0])
NODES = np.linspace(0, 1, 23)


def drawn(directions, terms, decades):
    """Covariances at the knots over some decades, terms, means and scores."""
    random = np.random.default_rng(0)
    sizes = 10.0 ** random.uniform(-decades, 0, (len(KNOTS), 1, directions))
    bases = np.linalg.qr(random.normal(size=(len(KNOTS), directions, directions)))[0]
    at_knots = (bases * sizes) @ bases.swapaxes(1, 2)
    of_nodes = random.normal(size=(len(NODES), terms, directions))
    means, scores = (random.normal(size=(count, directions)) for count in (len(NODES), 5))
    return at_knots, of_nodes, means, scores


def distances(covariances, means, scores):
    """Distances in double precision on the CPU."""
    law = Distances(covariances, means, torch.device("cpu"))
    return law(torch.from_numpy(scores)).numpy()


def dense(at_knots, terms):
    """The covariance of every node, in full."""
    share = [np.interp(NODES, KNOTS, row) for row in np.eye(len(KNOTS))]
    between = np.einsum("kn,kde->nde", share, at_knots)
    return between + np.einsum("ntd,nte->nde", terms, terms)


@pytest.mark.parametrize("terms", [0, 1, 2])
@pytest.mark.parametrize("directions", [1, 2, 12])
def test_distances_and_determinants_are_those_of_the_matrices_in_full(directions, terms):
    at_knots, of_nodes, means, scores = drawn(directions, terms, 4)
    found = Covariances.of(at_knots, KNOTS, NODES, of_nodes)
    matrices = dense(at_knots, of_nodes)
    np.testing.assert_allclose(found.matrices, matrices, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.log_determinant, np.linalg.slogdet(matrices)[1], rtol=1e-9)
    apart = scores[:, None] - means
    expected = np.einsum("snd,nde,sne->sn", apart, np.linalg.inv(matrices), apart)
    # Beside 1, to which the law adds them.
    np.testing.assert_allclose(distances(found, means, scores), expected, rtol=1e-9, atol=1e-9)


def test_directions_of_small_variance_count():
    """Twelve decades of variance, in exact directions."""
    sizes = 10.0 ** -np.arange(0.0, 13, 3)
    at_knots = np.stack([np.diag(sizes * factor) for factor in (1, 4, 9, 16)])
    none = np.zeros((len(NODES), 0, len(sizes)))
    found = Covariances.of(at_knots, KNOTS, NODES, none)
    factors = np.interp(NODES, KNOTS, [1, 4, 9, 16])
    (row,) = distances(found, np.zeros((len(NODES), 5)), np.sqrt(sizes)[None])
    np.testing.assert_allclose(row, 5 / factors, rtol=1e-9)


def test_a_covariance_that_is_none_is_refused():
    at_knots, of_nodes, *_ = drawn(3, 0, 1)
    at_knots[2] *= -1
    with pytest.raises(TrainingError, match="expected levels closer together"):
        Covariances.of(at_knots, KNOTS, NODES, of_nodes)


def test_distances_keep_their_digits_far_from_the_origin():
    """Errors of a millionth of the scores, as those of exact spectra."""
    at_knots, _, means, scores = drawn(4, 0, 1)
    none = np.zeros((len(NODES), 0, 4))
    near, far = (
        distances(Covariances.of(at_knots, KNOTS, NODES, none), means + shift, scores + shift)
        for shift in (0, 1e6)
    )
    np.testing.assert_allclose(far, near, rtol=1e-8)
