import numpy as np

from geonode.posterior.prior import PROBABILITIES, packaged_prior
from geonode.prior import calibration
from geonode.prior.calibration import calibrated, left_out


def test_half_widths_hold_what_they_promise_where_they_were_found(monkeypatch):
    monkeypatch.setattr(calibration, "LEVELS", (4, 5))
    prior = calibrated(packaged_prior(), 10, seed=5)
    np.testing.assert_array_equal(prior.counts, [3, 4])
    found = list(left_out(prior, 5, 2, seed=6))  # the second seed
    assert [inside for inside, _ in found] == 2 * [False, True, True, True, False]
    for side, inside in enumerate((True, False)):
        ratios = np.concatenate([ratio for on_side, ratio in found if on_side == inside])
        held = [(ratios <= width).mean() for width in prior.half_widths[1, side]]
        np.testing.assert_allclose(held, PROBABILITIES, atol=0.02)
    (_, one), (_, other) = found[0], next(left_out(prior, 5, 2, seed=7))
    assert not np.array_equal(one, other)
