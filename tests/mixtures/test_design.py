import numpy as np
import pytest

from geonode.errors import MixtureError
from geonode.mixtures.design import Design, folds_of
from geonode.spectra.table import MOST_SAMPLES
from tests.mixtures import beer

GOOD = beer.amounts(12, 2)
ONE = np.linspace(0, 1, 12)
OTHER = np.cos(7 * ONE) + 1
TWO = ("lead", "zinc")


@pytest.mark.parametrize(
    ("amounts", "names", "message"),
    [
        (np.repeat(GOOD[:4], 5, axis=0), TWO, "4 different compositions"),
        (np.where(GOOD[3, 1] == GOOD, np.nan, GOOD), TWO, "zinc: found nan in sample 4, which is"),
        (np.c_[ONE, np.eye(12)[0]], TWO, "zinc: found another amount in one composition only"),
        (np.ones((MOST_SAMPLES + 1, 2)), TWO, "found 20001 samples, expected 1 to 20000"),
        (GOOD, ("lead",), "2 substances with 1 names"),
        (GOOD * [1e300, 1], TWO, "^lead: .*change the unit"),
        (GOOD * [1, 1e-200], None, "^substance 2: .*change the unit"),
    ],
)
def test_amounts_that_cannot_calibrate_are_refused(amounts, names, message):
    with pytest.raises(MixtureError, match=message):
        Design.of(amounts, names)


RELATED = np.random.default_rng(0).normal(size=(40, 3)) @ [[1, 1], [0.3, 0], [0, 0.3]] + 10


@pytest.mark.parametrize(
    ("amounts", "tied"),
    [
        (np.c_[ONE, 3 - 2 * ONE + 0.01 * OTHER], "a and b vary together (correlation -1.000)"),
        (np.c_[ONE, OTHER, 2 * ONE + OTHER], "amounts of a follow from those of b and c"),
        (np.c_[ONE, OTHER, np.sin(20 * ONE) + 1], ""),
        (RELATED, ""),  # correlation 0.9
        (GOOD, ""),
    ],
)
def test_tied_amounts_have_no_response_surface(amounts, tied):
    design = Design.of(amounts, tuple("abc"[: amounts.shape[1]]))
    assert design.tied == tied
    assert tied in design.without_surface
    assert bool(design.without_surface) == bool(tied)


def test_many_compositions_have_no_response_surface():
    said = "301 different compositions, more than 300"
    assert said in Design.of(beer.amounts(301, 2)).without_surface
    assert not Design.of(beer.amounts(300, 2)).without_surface


def test_samples_of_equal_amounts_are_one_composition_and_one_fold():
    twice = np.concatenate([GOOD, GOOD + 1e-16])
    design = Design.of(twice)
    assert design.compositions == 12
    np.testing.assert_array_equal(design.composition[:12], design.composition[12:])
    np.testing.assert_array_equal(design.folds, design.composition)
    rest = design.without(design.folds == 3)
    assert rest.compositions == 11
    assert len(rest.amounts) == 22
    assert set(rest.composition) == set(range(11))


def test_many_compositions_are_left_out_in_ten_parts():
    folds = folds_of(np.repeat(np.arange(45), 2))
    np.testing.assert_array_equal(folds[::2], folds[1::2])
    counts = np.bincount(folds) // 2
    assert sorted(counts) == [4] * 5 + [5] * 5
    assert len(np.bincount(folds_of(np.arange(20)))) == 20


def test_amounts_beyond_the_samples_are_told_by_substance():
    design = Design.of(GOOD)
    low, high = GOOD.min(axis=0), GOOD.max(axis=0)
    outside = design.are_outside(np.array([low, high, [low[0] - 1, high[1] + 1]]))
    np.testing.assert_array_equal(outside, [[False, False], [False, False], [True, True]])
    with_blank = Design.of(np.vstack([GOOD, [[0, 0]]]))
    outside = with_blank.are_outside(np.array([[-0.1, -0.1], [-0.1, high[1] + 1]]))
    np.testing.assert_array_equal(outside, [[False, False], [False, True]])
