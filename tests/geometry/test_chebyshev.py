import numpy as np
import pytest
import torch
from numpy.polynomial import chebyshev

from geonode.errors import GeometryError
from geonode.geometry.chebyshev import (
    differentiation,
    expand,
    polynomials,
)
from geonode.geometry.metric import Metric
from geonode.geometry.perceptron import Perceptron
from geonode.geometry.sources import ChebyshevSource
from tests.geometry.closed_forms import random_metric


class Series(Metric):
    """A metric whose ln sqrt(g) is a given product series of Chebyshev polynomials."""

    def __init__(self, coefficients):
        super().__init__(random_metric(0, models=len(coefficients)).network)
        object.__setattr__(self, "coefficients", coefficients)

    def log_sqrt_on_products(self, blocks):
        return [
            torch.from_numpy(
                np.stack([chebyshev.chebgrid2d(x.numpy(), w.numpy(), c) for c in self.coefficients])
            )
            for x, w in blocks
        ]


def random_coefficients(models, in_x, in_w):
    return np.random.default_rng(0).normal(size=(models, in_x, in_w))


@pytest.mark.parametrize("count", [1, 2, 3, 30])
def test_polynomials_and_derivatives_against_numpy(count):
    x = np.concatenate([[-1, 1, 0], np.random.default_rng(1).uniform(-1, 1, 50)])
    values = polynomials(torch.from_numpy(x), count)
    slopes = values @ differentiation(count, values.device, values.dtype)
    assert values.shape == slopes.shape == (53, count)
    for degree in range(count):
        unit = np.eye(count)[degree]
        np.testing.assert_allclose(values[:, degree], chebyshev.chebval(x, unit), atol=1e-12)
        expected = chebyshev.chebval(x, chebyshev.chebder(unit))
        np.testing.assert_allclose(slopes[:, degree], expected, atol=1e-12 * max(1, degree**2))


def test_matrices_that_are_kept_are_those_of_their_format_and_count():
    cpu = torch.device("cpu")
    for count in (3, 4, 3):
        matrix = differentiation(count, cpu, torch.float32)
        assert matrix.dtype == torch.float32
        of_last = torch.from_numpy(np.resize(chebyshev.chebder(np.eye(count)[-1]), count - 1))
        torch.testing.assert_close(matrix[:-1, -1], of_last.float(), rtol=0, atol=0)
        assert differentiation(count, cpu, torch.float64).dtype == torch.float64


def test_slopes_at_the_ends_are_the_squares_of_the_degrees():
    values = polynomials(torch.tensor([-1.0, 1.0], dtype=torch.float64), 200)
    slopes = values @ differentiation(200, values.device, values.dtype)
    degrees = np.arange(200)
    np.testing.assert_allclose(slopes[1], degrees**2, rtol=1e-13)
    np.testing.assert_allclose(slopes[0], degrees**2 * (-1.0) ** (degrees + 1), rtol=1e-13)


LINES, CHECK = (5, 3), 8 * 8  # calls for each point of a line, and for the points of the check


def test_known_coefficients_come_back():
    known = random_coefficients(2, 20, 5)
    expansion = expand(Series(known), 1e-12, 192)
    padded = np.zeros((2, 23, 7))  # a seventh more than there is, two at least
    padded[:, :20, :5] = known
    np.testing.assert_allclose(expansion.coefficients, padded, atol=1e-13)
    assert expansion.calls == 5 * 24 + 3 * 48 + 23 * 7 + CHECK
    assert expansion.tail < 1e-13


@pytest.mark.parametrize("axis", [0, 1])
def test_only_the_rough_axis_is_raised(axis):
    shape = [(40, 6), (6, 40)][axis]
    known = random_coefficients(3, *shape)
    known[0, 6:], known[0, :, 6:] = 0, 0  # one easy model shares the degrees of the hard ones
    expansion = expand(Series(known), 1e-12, 192)
    assert expansion.coefficients.shape == [(3, 46, 8), (3, 8, 46)][axis]
    assert expansion.calls == 5 * (24 + (48, 0)[axis]) + 3 * 48 + 46 * 8 + CHECK
    found = expansion.coefficients[:, : shape[0], : shape[1]]
    np.testing.assert_allclose(found, known, atol=1e-12)


@pytest.mark.parametrize("axis", [0, 1])
def test_what_the_lines_do_not_see_is_found_on_the_product(axis):
    # A polynomial of high degree along one axis that vanishes on all lines along it.
    across = chebyshev.chebfromroots(chebyshev.chebpts1(LINES[axis]))
    known = np.zeros((1, 31, 31))
    known[0, 0, 0], known[0, 30, : LINES[axis] + 1] = 1, across / np.abs(across).max()
    known = known if axis == 0 else known.transpose(0, 2, 1)
    expansion = expand(Series(known), 1e-12, 192)
    padded = np.zeros((1, 200, 200))
    in_x, in_w = expansion.coefficients.shape[1:]
    padded[:, :31, :31] = known
    np.testing.assert_allclose(expansion.coefficients, padded[:, :in_x, :in_w], atol=1e-12)
    assert (in_x, in_w)[axis] >= 31
    # Degrees grow by a quarter, so that all attempts together cost a few times the last one.
    assert expansion.calls <= 5 * in_x * in_w


def test_an_even_function_does_not_stop_the_expansion_early():
    known = np.zeros((1, 31, 1))
    known[0, ::2, 0] = np.random.default_rng(2).uniform(1, 2, 16)  # the odd ones are all zero
    expansion = expand(Series(known), 1e-12, 192)
    np.testing.assert_allclose(expansion.coefficients[:, :31, :1], known, atol=1e-12)


def errors(metric, tolerance):
    """Largest errors of ln sqrt(g) and the symbol at random points, and network calls."""
    generator = torch.Generator().manual_seed(0)
    x, w = 2 * torch.rand(2, 60, generator=generator, dtype=torch.float64) - 1
    source = ChebyshevSource.of(metric, w, tolerance=tolerance, largest_degree=192)
    log_sqrt, symbol = metric.with_symbol(x[None], w)
    found = [source.grid(model, x) for model in range(source.models)]
    return (
        float((torch.stack([grid.log_sqrt for grid in found]) - log_sqrt).abs().max()),
        float((torch.stack([grid.symbol for grid in found]) - symbol).abs().max()),
        source.calls,
    )


@pytest.mark.parametrize(
    ("gain", "tolerance", "fewer"), [(1.0, 1e-9, 1800), (2.0, 1e-9, 400), (4.0, 1e-10, 24)]
)
@pytest.mark.parametrize("seed", [11, 12])
def test_networks_against_direct_evaluation(seed, gain, tolerance, fewer):
    log_sqrt, symbol, calls = errors(random_metric(seed, gain, models=2), tolerance)
    assert log_sqrt <= 1e-9
    assert symbol <= 1e-7
    assert calls * fewer <= 2000 * 601


def test_error_follows_the_tolerance():
    metric = random_metric(12, 3.0)
    tolerances = (1e-3, 1e-6, 1e-9, 1e-12)
    found = [errors(metric, tolerance)[0] for tolerance in tolerances]
    # The tolerance is for single coefficients: the error is a sum of a few of them.
    assert all(e <= 4 * tolerance for e, tolerance in zip(found, tolerances, strict=True))
    assert found[0] > 1e-9


@pytest.mark.parametrize(("axis", "name"), [(0, "concentration"), (1, "wavelength")])
def test_a_metric_that_is_too_sharp_is_named(axis, name):
    network = random_metric(13, 1.0, models=3).network
    weights = network.weights[0].clone()
    weights[1, axis] *= 50
    metric = Metric(Perceptron((weights, *network.weights[1:]), network.biases))
    message = rf"model 1 is too sharp in {name}: at degree 48 .* at most 1e-08; set .* direct"
    with pytest.raises(GeometryError, match=message) as caught:
        expand(metric, 1e-8, 48)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("tolerance", [0.0, -1e-9, float("nan")])
def test_a_tolerance_that_is_not_positive_is_refused(tolerance):
    with pytest.raises(GeometryError, match=f"tolerance: found {tolerance}, expected a number"):
        expand(random_metric(14), tolerance, 192)


def test_a_largest_degree_below_the_first_one_is_respected():
    expansion = expand(random_metric(14), 1e-3, 10)
    assert max(expansion.coefficients.shape) <= 10
    with pytest.raises(GeometryError, match="at degree 8"):
        expand(random_metric(14, 4.0), 1e-12, 8)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_not_finite_are_refused(value):
    metric = random_metric(15, models=3)
    metric.network.biases[-1][2] = value
    with pytest.raises(GeometryError, match="metric of model 2 is not finite"):
        expand(metric, 1e-8, 192)


def test_an_aliased_polynomial_is_noticed():
    # On the 24 points of the first attempt T_30 is -T_18, whose coefficients decay.
    known = np.zeros((1, 31, 3))
    known[0, 30, 1] = 1.0
    expansion = expand(Series(known), 1e-10, 192)
    assert expansion.coefficients.shape[1] >= 31
    padded = np.zeros(expansion.coefficients.shape)
    padded[:, :31, :3] = known
    np.testing.assert_allclose(expansion.coefficients, padded, atol=1e-12)


def test_a_metric_that_is_finite_on_the_nodes_alone_is_refused():
    class Hole(Series):
        """Not a number on the 8 by 8 points of the check."""

        evaluated = 0

        def log_sqrt_on_products(self, blocks):
            Hole.evaluated += 1
            if Hole.evaluated > 20:
                raise RecursionError("the same again and again")
            found = super().log_sqrt_on_products(blocks)
            return [one * torch.nan if one.shape[1:] == (8, 8) else one for one in found]

    with pytest.raises(GeometryError, match="metric of model 0 is not finite"):
        expand(Hole(random_coefficients(2, 3, 3)), 1e-8, 192)
