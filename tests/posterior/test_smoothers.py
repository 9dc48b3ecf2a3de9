import numpy as np
import pytest
import torch

from geonode.posterior.smoothers import ChartSmoothers
from tests.posterior.kriging import Kriging


def batch(array):
    return torch.from_numpy(array)[None]


@pytest.mark.parametrize("smoother", [4, 8, 52])
def test_small_variances_keep_their_digits(smoother):
    """With many levels and little noise nearly all of the variance is explained."""
    levels, targets = np.linspace(0, 100, 30), np.array([3.3, 50.2, 97.0])
    kriging = Kriging(levels, targets)
    expected = [kriging.predict(smoother, np.arange(30), 30 + place)[1] for place in range(3)]
    assert max(expected) < 1e-5
    found = ChartSmoothers.of(batch(levels)).at(batch(targets)).variance[0, :, smoother]
    np.testing.assert_allclose(found, expected, rtol=1e-5)
