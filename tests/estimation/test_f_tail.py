import mpmath
import numpy as np
import pytest
import torch

from geonode.estimation.f_tail import FTail

RATIOS = np.concatenate(
    [[0, 1e-320, 1e308, 1 - 1e-9, 1], np.geomspace(1e-12, 1e12, 49), np.geomspace(0.1, 200, 41)]
)


@pytest.mark.parametrize("rows", [2, 3, 50])
@pytest.mark.parametrize("freedom", [1.0, 1.37, 2.0, 5.5, 37.7, 601.0])
def test_tails_are_those_of_an_incomplete_beta_function_of_many_digits(freedom, rows):
    """SciPy's fdtrc is off by a fifth for 37.7 and 7540 degrees of freedom and F = 43.7."""

    def tail(ratio):
        a, b = mpmath.mpf(freedom * rows) / 2, mpmath.mpf(freedom) / 2
        return float(mpmath.betainc(a, b, 0, a / (a + b * ratio), regularized=True))

    with mpmath.workdps(40):
        expected = np.array([tail(ratio) for ratio in RATIOS.tolist()])
    found = FTail(freedom, freedom * rows, torch.device("cpu"))(torch.from_numpy(RATIOS)).numpy()
    there = expected > 1e-300
    np.testing.assert_allclose(found[there], expected[there], rtol=2e-12)
    assert (found[~there] < 1.1e-300).all()
