import numpy as np
import pytest

from geonode.posterior.next_levels import expected_errors, propose

AXIS = np.linspace(0, 1, 21)
BAND = np.exp(-(((AXIS - 0.5) / 0.2) ** 2))


def test_a_wide_gap_in_even_levels_is_filled_first():
    levels = np.array([0.0, 10, 20, 30, 40, 80])
    (first,) = propose(levels, levels[:, None] * BAND + 0.01 * np.sin(9 * levels)[:, None], 1)
    assert first.amounts == [60]
    assert 0 < first.gain < 1


def test_over_decades_middles_are_geometric():
    levels = np.array([0.01, 0.1, 1.0, 1000.0])
    (first,) = propose(levels, np.log(levels)[:, None] * BAND + 5, 1)
    assert min(abs(first.amounts[0] / np.sqrt(levels[1:] * levels[:-1]) - 1)) < 1e-12


def test_wavelengths_that_are_measured_twice_say_nothing_new():
    levels = np.array([0.0, 10, 20, 30, 40, 80])
    spectra = np.sin(levels / 9)[:, None] * BAND
    errors = [
        expected_errors(levels, np.repeat(spectra, count, axis=1), np.array([5.0, 60]))[1]
        for count in (1, 2)
    ]
    np.testing.assert_allclose(*errors, rtol=1e-9)


def test_proposals_follow_from_those_before():
    levels = np.array([0.0, 10, 20, 30, 40])
    spectra = np.where(levels < 25, levels, 50 - levels)[:, None] * BAND  # turn over at 25
    both = propose(levels, spectra, 2)
    at, first = np.searchsorted(levels, both[0].amounts[0]), np.array(both[0].amounts)
    predicted, _ = expected_errors(levels, spectra, first)
    (then,) = propose(np.insert(levels, at, first), np.insert(spectra, at, predicted[0], 0), 1)
    assert both[1].amounts == pytest.approx(then.amounts, rel=1e-8)
    assert both[1][1:] == pytest.approx(then[1:], rel=1e-8)
    assert both[1].before == both[0].after
    assert len({*levels, *both[0].amounts, *both[1].amounts}) == 7
