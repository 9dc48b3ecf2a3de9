"""Information in closed form, and what a change of unit or of chart does to it."""

import numpy as np
import pytest

from geonode.estimation.curve import Curve
from geonode.estimation.information import Information
from geonode.learning.posterior_decoder import PosteriorDecoders
from geonode.posterior.prior import packaged_prior
from tests.estimation.known import LEVELS, W, bent, noise, straight, whole
from tests.factory import series_of

BENT = series_of(LEVELS, bent(LEVELS) + noise(6, 0.01))


def information(nodes, scores, covariances):
    """Along a curve of given scores, whose directions are wavelengths."""
    return Information(nodes, scores, covariances, np.eye(scores.shape[1]))


def metric(information):
    return information.by_wavelength.sum(axis=1)


def test_a_line_with_white_noise():
    nodes, slopes, noise_of_one = np.linspace(2, 10, 41), np.array([3.0, 0.0, -4.0]), 0.5
    law = np.tile(noise_of_one**2 * np.eye(3), (41, 1, 1))
    found = information(nodes, np.outer(nodes, slopes), law)
    np.testing.assert_allclose(metric(found), 25 / 0.25)
    np.testing.assert_allclose(found.errors(), 0.1)
    np.testing.assert_allclose(found.errors(3.0), 0.3)
    assert found.length[-1] == pytest.approx(8 / 0.1)
    np.testing.assert_allclose(found.by_wavelength, np.tile(slopes**2 / 0.25, (41, 1)), atol=1e-9)
    assert found.telling(3, 4).tolist() == [2, 0]


def test_errors_that_vary_together():
    """Two readings, one of which has no signal but a share of the other's error."""
    shared = np.array([[1.0, 0.9], [0.9, 1.0]])
    nodes = np.linspace(0, 1, 5)
    found = information(nodes, np.outer(nodes, [1.0, 0.0]), np.tile(shared, (5, 1, 1)))
    np.testing.assert_allclose(metric(found), 1 / (1 - 0.9**2))  # of the least variance
    assert (found.by_wavelength[:, 1] > 0).all()  # corrects the first


def test_another_chart_has_the_same_length():
    nodes = np.linspace(0.5, 2, 4001)
    scores = np.stack([np.sin(nodes), nodes**2], axis=1)
    law = np.stack([np.diag([0.1 + c, 0.2]) for c in nodes])
    for chart in (nodes, np.log(nodes), nodes**3):
        found = information(chart, scores, law)
        length = np.trapezoid(np.sqrt(metric(found)), chart)
        assert found.length[-1] == pytest.approx(length, rel=1e-3)  # is smoothed
        np.testing.assert_array_equal(found.length, information(nodes, scores, law).length)


@pytest.mark.parametrize(("of_levels", "of_signal"), [(1e-6, 1.0), (1.0, 30.0)])
def test_a_change_of_unit(of_levels, of_signal):
    one = Information.of(Curve.of(BENT))
    other = series_of(of_levels * BENT.concentrations, of_signal * BENT.signal)
    found = Information.of(Curve.of(other))
    np.testing.assert_allclose(found.errors(), of_levels * one.errors(), rtol=1e-5)
    np.testing.assert_allclose(metric(found) * of_levels**2, metric(one), rtol=1e-3)


def test_derivatives_of_a_curve_are_those_of_its_predictions():
    curve = Curve.of(BENT)
    found, nodes = Information.of(curve), [200, 400, 600]
    at, step = curve.concentrations[nodes], 0.05
    low, high = (
        PosteriorDecoders(packaged_prior())
        .predict(whole(BENT), series_of(LEVELS, BENT.signal - curve.pedestal), where, None)
        .spectra
        @ curve.basis.T
        for where in (at - step, at + step)
    )
    law = found.covariances[nodes]
    slopes = (high - low) / (2 * step)
    expected = np.einsum("nd,ndk,nk->n", slopes, np.linalg.inv(law), slopes)
    # The curve is a spline through 32 knots, whose derivative is not that of the predictions.
    np.testing.assert_allclose(metric(found)[nodes], expected, rtol=0.1)


def test_where_the_response_turns_and_which_wavelengths_tell():
    exact = series_of(LEVELS, bent(LEVELS))
    found = Information.of(Curve.of(exact))
    at = [np.abs(found.concentrations - one).argmin() for one in (15, 30)]
    assert metric(found)[at[1]] < 0.05 * metric(found)[at[0]]
    exact = series_of(LEVELS, straight(LEVELS) + noise(6, 1e-3))
    found = Information.of(Curve.of(exact))
    assert abs(W[found.telling(10, 50)[0]] - 0.4) < 0.1  # the top of the band that grows
