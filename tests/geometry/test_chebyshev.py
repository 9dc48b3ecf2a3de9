import numpy as np
import pytest
import torch
from numpy.polynomial import chebyshev

from geonode.errors import GeometryError
from geonode.geometry.chebyshev import differentiation, expand, polynomials
from geonode.geometry.metric import Metric
from tests.geometry.closed_forms import CPU, random_metric

LINES, CHECK = (5, 3), 8 * 8  # calls for each point of a line, and for the points of the check


class Series(Metric):
    """A metric whose ln sqrt(g) is a given product series of Chebyshev polynomials."""

    def __init__(self, coefficients):
        super().__init__(random_metric(0).network)
        object.__setattr__(self, "coefficients", coefficients)

    def log_sqrt_on_products(self, blocks):
        values = (chebyshev.chebgrid2d(x.numpy(), w.numpy(), self.coefficients) for x, w in blocks)
        return [torch.from_numpy(value)[None] for value in values]


def assert_comes_back(known, tolerance=1e-12):
    """The shape of the expansion and its calls."""
    coefficients, calls = expand(Series(known), tolerance, 192, 0)
    padded = np.zeros((200, 200))
    padded[: known.shape[0], : known.shape[1]] = known
    in_x, in_w = coefficients.shape
    np.testing.assert_allclose(coefficients, padded[:in_x, :in_w], atol=1e-12)
    assert in_x >= known.shape[0]
    assert in_w >= known.shape[1]
    return (in_x, in_w), calls


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


def even():
    """A series whose odd coefficients are all zero."""
    known = np.zeros((31, 1))
    known[::2, 0] = np.random.default_rng(2).uniform(1, 2, 16)
    return known


def dense(*shape):
    return np.random.default_rng(0).normal(size=shape)


@pytest.mark.parametrize(
    ("known", "shape", "along"),
    [  # a seventh more than there is, two at least; only the rough axis is raised
        (dense(20, 5), (23, 7), 5 * 24 + 3 * 48),
        (dense(40, 6), (46, 8), 5 * (24 + 48) + 3 * 48),
        (dense(6, 40), (8, 46), 5 * 24 + 3 * 48),
        (even(), (36, 3), 5 * (24 + 48) + 3 * 48),
    ],
)
def test_known_coefficients_come_back_at_a_known_cost(known, shape, along):
    found, calls = assert_comes_back(known)
    assert (found, calls) == (shape, along + shape[0] * shape[1] + CHECK)


def hidden_from_lines(axis):
    """A polynomial of high degree along one axis that vanishes on all lines along it."""
    across = chebyshev.chebfromroots(chebyshev.chebpts1(LINES[axis]))
    known = np.zeros((31, LINES[axis] + 1))
    known[0, 0], known[30] = 1, across / np.abs(across).max()
    return known if axis == 0 else known.T


def aliased():
    """On the 24 points of the first attempt T_30 is -T_18, whose coefficients decay."""
    known = np.zeros((31, 2))
    known[30, 1] = 1.0
    return known


@pytest.mark.parametrize(
    "known", [hidden_from_lines(0), hidden_from_lines(1), aliased()], ids=range(3)
)
def test_what_a_part_of_the_points_does_not_see_is_found(known):
    (in_x, in_w), calls = assert_comes_back(known)
    # Degrees grow by a quarter, so that all attempts together cost a few times the last one.
    assert calls <= 5 * max(in_x, 24) * max(in_w, 48)


def test_a_largest_degree_below_the_first_one_is_respected():
    coefficients, _ = expand(random_metric(14), 1e-3, 10, 0)
    assert max(coefficients.shape) <= 10
    with pytest.raises(GeometryError, match=r"model 7 is too sharp in .*: at degree 8"):
        expand(random_metric(14, 4.0), 1e-12, 8, 7)


def test_a_metric_that_is_finite_on_the_nodes_alone_is_refused():
    class Hole(Series):
        """Not a number on the 8 by 8 points of the check."""

        def log_sqrt_on_products(self, blocks):
            found = super().log_sqrt_on_products(blocks)
            return [one * torch.nan if one.shape[1:] == (8, 8) else one for one in found]

    with pytest.raises(GeometryError, match="metric of model 2 is not finite"):
        expand(Hole(np.random.default_rng(0).normal(size=(3, 3))), 1e-8, 192, 2)
