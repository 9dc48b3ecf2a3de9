import mpmath
import numpy as np
import pytest
import torch

from geonode.estimation.f_tail import FTail

RATIOS = np.concatenate(
    [np.geomspace(1e-12, 1e12, 49), np.geomspace(0.1, 200, 41), 1 + np.array([-1e-9, 0, 1e-9])]
)


@pytest.mark.parametrize("rows", [2, 3, 50])
@pytest.mark.parametrize("freedom", [1.0, 1.37, 2.0, 5.5, 37.7, 601.0])
def test_tails_are_those_of_an_incomplete_beta_function_of_many_digits(freedom, rows):
    """SciPy's fdtrc is off by a fifth for 37.7 and 7540 degrees of freedom and F = 43.7."""
    above, below = mpmath.mpf(freedom), mpmath.mpf(freedom * rows)
    with mpmath.workdps(40):
        expected = np.array(
            [
                float(
                    mpmath.betainc(below / 2, above / 2, 0, below / (below + above * ratio), True)
                )
                for ratio in RATIOS.tolist()
            ]
        )
    found = FTail(freedom, freedom * rows, torch.device("cpu"))(torch.from_numpy(RATIOS)).numpy()
    there = expected > 1e-300
    np.testing.assert_allclose(found[there], expected[there], rtol=2e-12)
    assert (found[~there] < 1.1e-300).all()


def test_tails_at_the_ends():
    ends = torch.tensor([0.0, 1e-320, 1e308, torch.inf], dtype=torch.float64)
    assert FTail(1.37, 8.2, torch.device("cpu"))(ends).tolist() == [1.0, 1.0, 0.0, 0.0]
