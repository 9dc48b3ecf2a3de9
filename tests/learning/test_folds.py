import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from geonode.learning.folds import Fold, Standardisation, leave_one_out, training_wavelengths
from tests.learning.series import ordered_pairs

LEVELS = range(4, 9)


@pytest.mark.parametrize("levels", LEVELS)
def test_a_fold_for_every_level_and_one_that_leaves_nothing_out(levels):
    folds = leave_one_out(levels)
    assert [fold.left_out for fold in folds] == [*range(levels), None]
    assert [fold.index for fold in folds] == list(range(levels + 1))


@pytest.mark.parametrize("levels", LEVELS)
def test_training_levels_and_pairs_are_all_that_avoid_the_left_out_level(levels):
    *left_out, whole = leave_one_out(levels)
    assert whole.training == list(range(levels))
    assert len(whole.training_pairs) == levels * (levels - 1)
    for k, fold in enumerate(left_out):
        assert fold.training == [level for level in range(levels) if level != k]
        assert len(fold.training_pairs) == (levels - 1) * (levels - 2)


@given(st.integers(4, 50), st.data())
def test_no_training_pair_touches_the_left_out_level(levels, data):
    k = data.draw(st.integers(0, levels - 1))
    pairs = ordered_pairs(levels)
    training = {pairs[place] for place in Fold(k, levels).training_pairs.tolist()}
    assert training == {(s, t) for s, t in pairs if k not in (s, t)}


@given(st.integers(4, 50), st.data())
def test_prediction_pairs_lead_from_every_training_level_to_the_target(levels, data):
    index = data.draw(st.integers(0, levels))
    target = data.draw(st.integers(0, levels - 1))
    places = Fold(index, levels).prediction_pairs(target).tolist()
    found = [ordered_pairs(levels)[place] for place in places]
    assert found == [(s, target) for s in range(levels) if s not in (index, target)]


def test_standardised_spectra_have_zero_mean_and_unit_deviation():
    spectra = np.random.default_rng(0).normal(0.3, 0.02, (5, 40))
    scale = Standardisation.of(spectra)
    # By hand: one mean and one deviation over all levels and wavelengths.
    mean = sum(spectra.flat) / 200
    assert scale.mean == pytest.approx(mean)
    assert scale.deviation == pytest.approx(
        (sum((v - mean) ** 2 for v in spectra.flat) / 200) ** 0.5
    )
    standardised = scale.apply(spectra)
    assert standardised.mean() == pytest.approx(0, abs=1e-12)
    assert standardised.std() == pytest.approx(1)
    # Affine, so the shape of every spectrum survives.
    np.testing.assert_allclose(np.corrcoef(standardised[0], spectra[0])[0, 1], 1)


@given(st.floats(-1e6, 1e6), st.integers(3, 50), st.integers(3, 700))
def test_a_constant_series_keeps_deviation_one(value, levels, wavelengths):
    # The mean of equal numbers is rounded, so their computed deviation is rarely exactly zero.
    spectra = np.full((levels, wavelengths), value)
    scale = Standardisation.of(spectra)
    assert scale.deviation == 1
    np.testing.assert_allclose(scale.apply(spectra), 0, atol=1e-8)


def test_a_small_deviation_is_not_taken_for_rounding():
    spectra = 1e4 + 1e-6 * np.random.default_rng(0).normal(size=(5, 100))
    assert Standardisation.of(spectra).deviation == pytest.approx(1e-6, rel=0.2)


@given(st.integers(3, 5000), st.integers(2, 5000))
def test_training_wavelengths_are_spread_evenly_ends_included(count, wanted):
    chosen = training_wavelengths(count, wanted)
    assert chosen.dtype == np.int64
    assert len(chosen) == min(count, wanted)
    assert (chosen[0], chosen[-1]) == (0, count - 1)
    # No duplicates, and no gap further than rounding from the even one.
    even = (count - 1) / (len(chosen) - 1)
    assert np.all(np.diff(chosen) >= 1)
    assert np.all(np.abs(np.diff(chosen) - even) <= 1)


def test_training_wavelengths_of_the_published_axis():
    np.testing.assert_array_equal(training_wavelengths(601, 31), np.arange(0, 601, 20))
    np.testing.assert_array_equal(training_wavelengths(3, 31), [0, 1, 2])
