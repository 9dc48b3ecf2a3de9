from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geonode.learning.folds import (
    Fold,
    Standardisation,
    leave_one_out,
    leave_two_out,
    training_wavelengths,
)
from tests.learning.series import ordered_pairs

# A number of levels, and none, one or two that are left out.
SOME_LEFT_OUT = st.integers(4, 50).flatmap(
    lambda levels: st.tuples(st.just(levels), st.sets(st.integers(0, levels - 1), max_size=2))
)


@settings(deadline=None, max_examples=30)
@given(SOME_LEFT_OUT)
def test_pairs_join_training_levels_alone(some):
    fold = Fold(3, some[0], tuple(sorted(some[1])))
    pairs, used = ordered_pairs(fold.levels), set(range(fold.levels)) - set(fold.left_out)
    assert fold.training == sorted(used)
    training = [pairs[place] for place in fold.training_pairs.tolist()]
    assert training == sorted(set(training))
    assert all(set(pair) <= used for pair in training)
    every = [pair for pair in pairs if set(pair) <= used]
    assert (training == every) == (len(used) <= Fold.sources + 1)
    without_limit = replace(fold, sources=None).training_pairs.tolist()
    assert [pairs[place] for place in without_limit] == every
    assert fold.paths_to_left_out(None) is None
    if not fold.left_out:
        return
    features = np.arange(float(len(pairs)))[None, None, :, None, None].repeat(4, axis=1)
    features[:, [0, 1, 2]] = -1  # of other folds
    found = fold.paths_to_left_out(features)[0, :, :, 0, 0]
    assert [[pairs[int(place)] for place in row] for row in found] == [
        [(source, target) for target in fold.left_out] for source in sorted(used)
    ]


@pytest.mark.parametrize(("levels", "left_out"), [(7, (3,)), (12, ()), (20, (0, 19)), (51, (25,))])
def test_in_a_long_series_every_level_is_the_target_of_few_and_of_its_neighbours(levels, left_out):
    fold = Fold(0, levels, left_out)
    pairs = ordered_pairs(levels)
    training = [pairs[place] for place in fold.training_pairs.tolist()]
    ranks = {level: rank for rank, level in enumerate(fold.training)}
    count = len(ranks)
    for side in (0, 1):
        assert Counter(pair[side] for pair in training) == dict.fromkeys(ranks, Fold.sources)
    steps = {(ranks[target] - ranks[source]) % count for source, target in training}
    assert {1, count - 1} < steps
    assert len(steps) == Fold.sources
    assert max(np.diff(sorted(steps))) <= -(-(count - 2) // (Fold.sources - 1))  # evenly spaced


@pytest.mark.parametrize(
    ("left_out", "inside"),
    [((), {1, 2, 3}), ((0,), {2, 3}), ((2,), {1, 2, 3}), ((3, 4), {1}), ((0, 1), {3})],
)
def test_inside_is_a_level_that_has_training_levels_on_both_sides(left_out, inside):
    fold = Fold(9, 5, left_out)
    assert {level for level in range(5) if fold.is_inside(level)} == inside
    levels = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    low, high = levels[fold.training[0]], levels[fold.training[-1]]
    places = np.array([low / 2, low, (low + high) / 2, high, 2 * high])
    assert fold.spans(levels, places).tolist() == [False, True, True, True, False]


@settings(deadline=None, max_examples=30)
@given(st.integers(4, 40), st.data())
def test_as_many_levels_inside_every_fold_its_neighbours_among_them(levels, data):
    inner = data.draw(st.integers(2, levels - 1))
    found = leave_two_out(levels, inner)
    pairs = [fold.left_out for fold in found]
    assert pairs == sorted(set(pairs))
    assert [fold.index for fold in found] == list(range(len(pairs)))
    for k in range(levels):
        partners = {*sum((pair for pair in pairs if k in pair), ())} - {k}
        # All folds have equally many. Of an odd number of levels that is an even number.
        assert len(partners) == 2 * len(pairs) / levels
        assert inner - 1 <= len(partners) <= inner
        assert {(k - 1) % levels, (k + 1) % levels} <= partners
        # Evenly spaced from the neighbours to the level furthest away.
        apart = sorted({min((other - k) % levels, (k - other) % levels) for other in partners})
        gaps = np.diff(apart)
        assert len(apart) == 1 or (apart[-1] == levels // 2 and gaps.max() - gaps.min() <= 1)
    if inner == levels - 1:
        assert pairs == [(j, k) for j in range(levels) for k in range(j + 1, levels)]
        assert found == leave_two_out(levels, None) == leave_two_out(levels, levels + inner)


@settings(deadline=None, max_examples=30)
@given(st.floats(-1e6, 1e6), st.integers(3, 50), st.integers(3, 700))
def test_a_constant_series_keeps_deviation_one(value, levels, wavelengths):
    # The mean of equal numbers is rounded, so their computed deviation is rarely exactly zero.
    spectra = np.full((levels, wavelengths), value)
    scale = Standardisation.of(spectra)
    assert scale.deviation == 1
    np.testing.assert_allclose(scale.apply(spectra), 0, atol=1e-8)


@settings(deadline=None, max_examples=50)
@given(st.integers(3, 5000), st.integers(2, 5000))
def test_training_wavelengths_are_spread_evenly_ends_included(count, wanted):
    chosen = training_wavelengths(count, wanted)
    assert len(chosen) == min(count, wanted)
    assert (chosen[0], chosen[-1]) == (0, count - 1)
    # No duplicates, and no gap further than rounding from the even one.
    even = (count - 1) / (len(chosen) - 1)
    assert np.all(np.diff(chosen) >= 1)
    assert np.all(np.abs(np.diff(chosen) - even) <= 1)


def test_a_seed_is_of_what_is_left_out_wherever_the_fold_is_listed():
    folds = [*leave_one_out(6), *leave_two_out(6, None)]
    assert len({fold.seed for fold in folds}) == len(folds)
    assert {Fold(index, 6, (2, 4)).seed for index in (0, 9)} == {(2, 4)}
