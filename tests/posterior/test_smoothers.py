import numpy as np
import pytest
import torch

from geonode.posterior.smoothers import ChartSmoothers
from tests.posterior.kriging import Kriging

LEVELS = np.array([0.0, 5.0, 10.0, 30.0, 60.0])
TARGETS = np.array([20.0, 75.0])
KRIGING = Kriging(LEVELS, TARGETS)
SOME = [0, 40, 333, 700, 951, 1300, 1871]


def batch(array):
    return torch.from_numpy(array)[None]


@pytest.mark.parametrize("smoother", SOME)
def test_weights_and_variance_are_those_of_kriging(smoother):
    found = ChartSmoothers.of(batch(LEVELS)).at(batch(TARGETS))
    for target in range(len(TARGETS)):
        weights, variance = KRIGING.predict(smoother, list(range(5)), 5 + target)
        np.testing.assert_allclose(
            found.weights[0, target, :, smoother], weights, rtol=1e-6, atol=1e-8
        )
        assert found.variance[0, target, smoother] == pytest.approx(variance, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("smoother", [4, 8, 52])
def test_small_variances_keep_their_digits(smoother):
    """With many levels and little noise nearly all of the variance is explained."""
    levels, targets = np.linspace(0, 100, 30), np.array([3.3, 50.2, 97.0])
    kriging = Kriging(levels, targets)
    expected = [kriging.predict(smoother, np.arange(30), 30 + place)[1] for place in range(3)]
    assert max(expected) < 1e-5
    found = ChartSmoothers.of(batch(levels)).at(batch(targets)).variance[0, :, smoother]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
