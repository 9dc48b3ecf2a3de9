import numpy as np
import pytest

from geonode.posterior.prior import PROBABILITIES, packaged_prior
from research import simulated_sets as calibration
from research.simulated_sets import Batch, calibrated, left_out, likelier


def test_what_is_more_likely_than_a_node_by_hand():
    # Cells at the ends are half as wide, so that their density is twice their probability.
    row = np.array([0.15, 0.2, 0.4, 0.19, 0.06])
    found = [likelier(row, node) for node in range(5)]
    np.testing.assert_allclose(found, [0.4, 0.55, 0.0, 0.75, 0.94])


def test_half_widths_and_masses_hold_what_they_promise_where_they_were_found(monkeypatch):
    monkeypatch.setattr(calibration, "LEVELS", (4, 5))
    monkeypatch.setattr(calibration, "BATCH", 10)
    reported = []
    prior = calibrated(packaged_prior(), 20, seed=5, report=reported.append)
    np.testing.assert_array_equal(prior.counts, [3, 4])
    # Two batches of four levels with seeds 5 and 6, then two of five; errors of one and two.
    given = packaged_prior()
    found = [one for seed in (7, 8) for one in left_out(Batch(given, 5, 2, seed - 6.0, seed))]
    assert len(reported) == 2 * 3 * 4 + len(found)
    assert [one.inside for one in found] == 4 * [False, True, True, True, False]
    for side, inside in enumerate((True, False)):
        ratios = np.concatenate([one.ratios for one in found if one.inside == inside])
        held = [(ratios <= width).mean() for width in prior.half_widths[1, side]]
        np.testing.assert_allclose(held, PROBABILITIES, atol=0.02)
        likelier = np.array([one.more_likely for one in found if one.inside == inside])
        below = np.sum(likelier < prior.masses[1, side])
        assert below == np.floor(0.9 * (len(likelier) - 1)) + 1


@pytest.mark.slow
def test_sets_and_intervals_hold_nine_of_ten_new_simulated_levels():
    """Of series of four and six, with other seeds than the calibration; 240 levels vary by 2%."""
    prior, ends, sets, of_spectra = packaged_prior(), [], [], []
    for levels in (4, 6):
        for errors in calibration.ERRORS:
            batch = Batch(prior, levels, -(-60 // levels), errors, 77_000 + levels)
            found = left_out(batch)
            inside = np.array([one.inside for one in found])
            likelier = np.array([one.more_likely for one in found])
            widths = prior.intervals(levels - 1, inside)[:, PROBABILITIES.index(0.9)]
            ends.append(~inside)
            sets.append(likelier < prior.mass_of_sets(levels - 1, inside))
            of_spectra += [
                np.mean(one.ratios <= width) for one, width in zip(found, widths, strict=True)
            ]
    held, at_ends = np.concatenate(sets), np.concatenate(ends)
    assert np.mean(held[~at_ends]) == pytest.approx(0.9, abs=0.05)
    assert np.mean(held[at_ends]) == pytest.approx(0.9, abs=0.07)
    assert np.mean(of_spectra) == pytest.approx(0.9, abs=0.04)
