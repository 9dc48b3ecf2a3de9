import numpy as np
import pytest
import torch

from geonode.posterior.charts import FAMILIES, LOG, positions, sqrt_metrics

EVEN = torch.tensor([[0.0, 10.0, 20.0, 30.0, 60.0]], dtype=torch.float64)
DOUBLING = torch.tensor([[7.0, 15.0, 31.0, 62.0, 125.0]], dtype=torch.float64)


def test_charts_are_their_formulas():
    """All reach from -1 to 1 over the training levels."""
    ends, targets = torch.tensor([[7.0, 125.0]]).double(), torch.tensor([[40.0]]).double()
    reach = torch.tensor([-1.0, 1.0]).double().expand(1, len(FAMILIES), 2)
    torch.testing.assert_close(positions(DOUBLING, ends).targets, reach)
    found = positions(DOUBLING, targets).targets[0, :, 0]
    low, high, at = np.log([7.0, 125.0, 40.0])
    assert found[LOG].item() == pytest.approx(2 * (at - low) / (high - low) - 1, rel=1e-12)
    low, high, at = np.arcsinh(np.array([7.0, 125.0, 40.0]) / (7 / 3))  # the first kappa
    assert found[1].item() == pytest.approx(2 * (at - low) / (high - low) - 1, rel=1e-12)
    half = 7.0  # the first of the Langmuir charts: the lowest positive level
    low, high, at = (c / (c + half) for c in (7.0, 125.0, 40.0))
    assert found[LOG + 1].item() == pytest.approx(2 * (at - low) / (high - low) - 1, rel=1e-12)


def test_zero_has_no_logarithm():
    targets = torch.tensor([[0.0, 20.0]], dtype=torch.float64)
    assert not positions(EVEN, targets).valid[0, LOG].any()
    assert positions(DOUBLING, targets).valid[0, LOG].tolist() == [False, True]
    others = [place for place in range(len(FAMILIES)) if place != LOG]
    assert positions(EVEN, targets).valid[0, others].all()
    found = positions(EVEN, targets)
    for linear in (found.levels, found.targets):
        assert torch.equal(linear[0, LOG], linear[0, 0])
    torch.testing.assert_close(found.levels[0, 0], EVEN[0] / 30 - 1)


@pytest.mark.parametrize("levels", [EVEN, DOUBLING])
def test_the_metric_is_the_square_of_the_slope_of_the_chart(levels):
    step = 1e-5
    targets = torch.tensor([[9.0, 33.0, 80.0]], dtype=torch.float64)
    above, below = (positions(levels, targets + sign * step).targets for sign in (1, -1))
    slope = (above - below) / (2 * step)
    found = sqrt_metrics(levels, targets)
    valid = positions(levels, targets).valid
    torch.testing.assert_close(found[valid], slope[valid], rtol=1e-8, atol=0)
    assert found[~valid].isnan().all()
