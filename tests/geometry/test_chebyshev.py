import numpy as np
import pytest
import torch
from numpy.polynomial import chebyshev

from geonode.errors import GeometryError
from geonode.geometry.chebyshev import ChebyshevSource, differentiation, expand, polynomials
from geonode.geometry.metric import Metric
from geonode.geometry.perceptron import Perceptron
from tests.geometry.closed_forms import CPU, DirectSource, nodes, random_metric

CHECK = 8 * 8  # calls for the points of the check


class Series(Metric):
    """A metric whose ln sqrt(g) is a given product series of Chebyshev polynomials."""

    def __init__(self, coefficients):
        super().__init__(random_metric(0).network)
        object.__setattr__(self, "coefficients", coefficients)

    def log_sqrt(self, positions, wavelengths):
        at = positions.numpy(), wavelengths.numpy()
        return torch.from_numpy(chebyshev.chebgrid2d(*at, self.coefficients))[None]


@pytest.mark.parametrize("count", [1, 2, 3, 30])
def test_polynomials_and_derivatives_against_numpy(count):
    x = np.concatenate([[-1, 1, 0], np.random.default_rng(1).uniform(-1, 1, 50)])
    values = polynomials(torch.from_numpy(x), count)
    slopes = values @ differentiation(count, CPU, torch.float64)
    assert differentiation(count, CPU, torch.float32).dtype == torch.float32
    assert values.shape == slopes.shape == (53, count)
    for degree in range(count):
        unit = np.eye(count)[degree]
        np.testing.assert_allclose(values[:, degree], chebyshev.chebval(x, unit), atol=1e-12)
        expected = chebyshev.chebval(x, chebyshev.chebder(unit))
        np.testing.assert_allclose(slopes[:, degree], expected, atol=1e-12 * max(1, degree**2))


def dense(*shape):
    return np.random.default_rng(0).normal(size=shape)


EVEN, ALIASED = np.zeros((31, 1)), np.zeros((31, 2))
EVEN[::2, 0] = np.random.default_rng(2).uniform(1, 2, 16)
ALIASED[30, 1] = 1.0  # on the 24 points of the first attempt T_30 is -T_18, which decays


@pytest.mark.parametrize(
    ("known", "shapes"),
    [  # an eighth more than there is, two at least; only the rough axis is raised
        (dense(20, 5), [(24, 48)]),
        (dense(40, 6), [(24, 48), (36, 48), (54, 48)]),
        (dense(6, 50), [(24, 48), (24, 72)]),
        (EVEN, [(24, 48), (36, 48)]),
        (ALIASED, [(24, 48), (36, 72)]),
    ],
)
def test_known_coefficients_come_back_at_a_known_cost(known, shapes):
    coefficients, calls = expand(Series(known), 1e-12, 192, 0)
    assert coefficients.shape == shapes[-1]
    assert calls == sum(x * w + CHECK for x, w in shapes)
    padded = np.zeros(coefficients.shape)
    padded[: known.shape[0], : known.shape[1]] = known
    np.testing.assert_allclose(coefficients, padded, atol=1e-12)


@pytest.mark.parametrize("hole", [(8, 8), (24, 48)])
def test_a_metric_that_is_not_finite_at_nodes_or_between_them_is_refused(hole):
    class Hole(Series):
        """Not a number on one of the products of points."""

        def log_sqrt(self, positions, wavelengths):
            found = super().log_sqrt(positions, wavelengths)
            return found * torch.nan if found.shape[1:] == hole else found

    with pytest.raises(GeometryError, match="metric of model 2 is not finite"):
        expand(Hole(dense(3, 3)), 1e-8, 192, 2)


# grids


def test_an_expansion_is_as_good_as_the_network_for_a_hundredth_of_the_calls():
    metric, w = random_metric(21, 2.0, models=3), nodes(601)
    fast, slow = ChebyshevSource.of(metric, w), DirectSource(metric, w[::60])
    at = torch.arange(0, 2000, 17)
    for model in range(3):
        grid = fast.grid(model, nodes(2000)).at_wavelengths(slice(None, None, 60))
        exact = slow.grid(model, nodes(2000)[at])
        assert (grid.log_sqrt[at] - exact.log_sqrt).abs().max() <= 1e-8
        assert (grid.symbol[at] - exact.symbol).abs().max() <= 1e-6
        assert torch.equal(grid.positions, nodes(2000))
    assert fast.calls < 2000 * 601 / 100


@pytest.mark.parametrize(("axis", "name"), [(0, "concentration"), (1, "wavelength")])
def test_a_metric_that_is_too_sharp_is_refused(axis, name):
    network = random_metric(13, models=3).network
    weights = network.weights[0].clone()
    weights[1, axis] *= 50
    metric = Metric(Perceptron((weights, *network.weights[1:]), network.biases))
    message = rf"model 1 is too sharp in {name}: at degree 48 .* raise metric\.smoothness_weight"
    with pytest.raises(GeometryError, match=message):
        ChebyshevSource.of(metric, nodes(5), tolerance=1e-8, largest_degree=48)
