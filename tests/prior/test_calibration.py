import numpy as np

from geonode.posterior.prior import PROBABILITIES, packaged_prior
from geonode.prior import calibration
from geonode.prior.calibration import calibrated, left_out_levels


def test_every_level_is_left_out_and_ends_are_outside():
    found = list(left_out_levels(packaged_prior(), 5, 2, seed=7))
    assert [one.inside for one in found] == 2 * [False, True, True, True, False]
    assert all(one.prediction.spectra.shape == (1, len(one.spectrum)) for one in found)


def test_half_widths_hold_what_they_promise_where_they_were_found(monkeypatch):
    monkeypatch.setattr(calibration, "LEVELS", (4, 5))
    prior = calibrated(packaged_prior(), 10, seed=5)
    np.testing.assert_array_equal(prior.counts, [3, 4])
    found = list(left_out_levels(prior, 5, 2, seed=6))  # the second seed
    for side, inside in enumerate((True, False)):
        ratios = np.concatenate(
            [
                np.abs(one.prediction.spectra[0] - one.spectrum) / one.prediction.scale[0]
                for one in found
                if one.inside == inside
            ]
        )
        held = [(ratios <= width).mean() for width in prior.half_widths[1, side]]
        np.testing.assert_allclose(held, PROBABILITIES, atol=0.02)
