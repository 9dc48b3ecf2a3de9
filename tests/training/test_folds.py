import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geonode.errors import TrainingError
from geonode.training.folds import (
    Fold,
    Standardisation,
    leave_one_out,
    leave_two_out,
    training_wavelengths,
)
from tests.training.series import ordered_pairs

LEVELS = range(4, 9)


# A number of levels, and none, one or two that are left out.
SOME_LEFT_OUT = st.integers(4, 50).flatmap(
    lambda levels: st.tuples(
        st.just(levels),
        st.sets(st.integers(0, levels - 1), max_size=2).map(lambda found: tuple(sorted(found))),
    )
)


@pytest.mark.parametrize("levels", LEVELS)
def test_a_fold_for_every_level_and_one_that_leaves_nothing_out(levels):
    folds = leave_one_out(levels)
    assert [fold.left_out for fold in folds] == [*((k,) for k in range(levels)), ()]
    assert [fold.index for fold in folds] == list(range(levels + 1))


@pytest.mark.parametrize("levels", LEVELS)
def test_training_levels_and_pairs_are_all_that_avoid_the_left_out_level(levels):
    *left_out, whole = leave_one_out(levels)
    assert whole.training == list(range(levels))
    assert len(whole.training_pairs) == levels * (levels - 1)
    for k, fold in enumerate(left_out):
        assert fold.training == [level for level in range(levels) if level != k]
        assert len(fold.training_pairs) == (levels - 1) * (levels - 2)


@settings(deadline=None)
@given(SOME_LEFT_OUT)
def test_no_training_pair_touches_a_left_out_level(fold):
    fold = Fold(3, *fold)
    pairs = ordered_pairs(fold.levels)
    training = {pairs[place] for place in fold.training_pairs.tolist()}
    assert training == {pair for pair in pairs if not set(pair) & set(fold.left_out)}


@settings(deadline=None)
@given(SOME_LEFT_OUT, st.data())
def test_prediction_pairs_lead_from_every_training_level_to_the_target(fold, data):
    fold = Fold(3, *fold)
    target = data.draw(st.integers(0, fold.levels - 1))
    found = [ordered_pairs(fold.levels)[p] for p in fold.prediction_pairs(target).tolist()]
    sources = [s for s in range(fold.levels) if s not in (*fold.left_out, target)]
    assert found == [(s, target) for s in sources]


@pytest.mark.parametrize(
    ("left_out", "inside"),
    [((), {1, 2, 3}), ((0,), {2, 3}), ((2,), {1, 2, 3}), ((3, 4), {1}), ((0, 1), {3})],
)
def test_a_level_is_inside_that_has_training_levels_on_both_sides(left_out, inside):
    fold = Fold(9, 5, left_out)
    assert {level for level in range(5) if fold.is_inside(level)} == inside


def test_a_fold_without_one_more_level():
    assert Fold(7, 5, (3,)).without(1) == Fold(7, 5, (1, 3))
    assert Fold(7, 5, (1,)).without(3) == Fold(7, 5, (1, 3))
    assert Fold(7, 5, ()).without(3) == Fold(7, 5, (3,))
    assert Fold(7, 5, (3,)).without(3) == Fold(7, 5, (3,))


@pytest.mark.parametrize("levels", LEVELS)
def test_seeds_are_of_what_is_left_out_and_no_two_are_the_same(levels):
    both = [*leave_one_out(levels), *leave_two_out(levels, None)]
    assert len({fold.seed for fold in both}) == len(both)
    for fold in both:
        assert Fold(fold.index + 1, levels, fold.left_out).seed == fold.seed


@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("inner", ["all", None])
def test_every_two_levels_once(levels, inner):
    found = leave_two_out(levels, levels - 1 if inner == "all" else None)
    expected = [(j, k) for j in range(levels) for k in range(j + 1, levels)]
    assert [fold.left_out for fold in found] == expected
    assert [fold.index for fold in found] == list(range(len(expected)))
    assert {fold.levels for fold in found} == {levels}


@settings(deadline=None)
@given(st.integers(4, 40), st.data())
def test_some_levels_inside_every_fold_its_lowest_and_highest_among_them(levels, data):
    inner = data.draw(st.integers(2, levels - 1))
    found = leave_two_out(levels, inner)
    pairs = [fold.left_out for fold in found]
    assert pairs == sorted(set(pairs))
    assert [fold.index for fold in found] == list(range(len(pairs)))
    assert len(pairs) <= levels * inner
    for k in range(levels):
        partners = sorted({*sum((pair for pair in pairs if k in pair), ())} - {k})
        others = [level for level in range(levels) if level != k]
        assert len(partners) >= inner
        assert {others[0], others[-1]} <= set(partners)
        # Evenly spaced, or more: no gap is wider than the even one, rounded up.
        gaps = np.diff([others.index(partner) for partner in partners])
        assert gaps.max() <= -(-(levels - 2) // (inner - 1))


def test_fewer_inner_levels_are_fewer_models():
    counts = [len(leave_two_out(20, inner)) for inner in (2, 5, 10, 19)]
    assert counts == sorted(set(counts))
    assert counts[-1] == 20 * 19 / 2


@pytest.mark.parametrize("levels", LEVELS)
def test_more_inner_levels_than_a_fold_trains_on_are_refused(levels):
    message = (
        rf"inner\.levels: found {levels}, expected at most {levels - 1}, .* of {levels} levels"
    )
    with pytest.raises(TrainingError, match=message):
        leave_two_out(levels, levels)


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
