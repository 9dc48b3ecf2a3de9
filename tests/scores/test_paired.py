import math

import numpy as np
import pytest
from scipy.stats import ttest_rel, wilcoxon

from geonode.scores.paired import paired_test


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("count", [3, 6, 12, 40])
@pytest.mark.parametrize("shift", [-0.3, 0.0, 0.5])
def test_of_the_logarithms_it_is_what_scipy_says(count, shift):
    generator = np.random.default_rng(count)
    errors, others = np.exp(generator.normal(0, 0.7, (2, count)))
    errors *= math.exp(shift)
    found = paired_test(errors, others)
    # Of two columns of logarithms, which scipy takes from each other itself.
    columns = np.log(errors), np.log(others)
    interval = ttest_rel(*columns).confidence_interval(0.95)
    assert found.series == count
    assert (found.low, found.high) == pytest.approx((np.exp(interval.low), np.exp(interval.high)))
    assert found.p == pytest.approx(wilcoxon(*columns).pvalue)
    # Student's statistic is the effect times the root of the number.
    assert found.effect == pytest.approx(ttest_rel(*columns).statistic / count**0.5)
    assert found.ratio == pytest.approx(np.prod(errors / others) ** (1 / count))
    assert found.better == sum(a < b for a, b in zip(errors, others, strict=True))
    assert found.worst == pytest.approx(max(a / b for a, b in zip(errors, others, strict=True)))


def test_two_series_by_hand():
    found = paired_test(np.array([1.0, 8.0]), np.array([2.0, 2.0]))
    # Ratios 1/2 and 4: logarithms -ln 2 and 2 ln 2, mean ln 2 / 2, deviation 3 ln 2 / sqrt 2.
    half = math.tan(0.475 * math.pi) * 1.5 * math.log(2)  # Student with one degree: Cauchy
    assert found.ratio == pytest.approx(2**0.5)
    assert (found.low, found.high) == pytest.approx(
        (2**0.5 * math.exp(-half), 2**0.5 * math.exp(half))
    )
    assert found.effect == pytest.approx(2**0.5 / 6)
    # Ranks 1 and 2 have four signs, all equally likely: three sums are as far off or farther.
    assert found.p == pytest.approx(1.0)
    assert (found.series, found.better, found.worst) == (2, 1, pytest.approx(4.0))


def test_the_smallest_p_of_few_series():
    # All six signs agree: two of 2^6 ways.
    found = paired_test(np.array([1.0, 2, 3, 4, 5, 6]), np.array([2.0, 5, 9, 15, 23, 36]))
    assert found.p == pytest.approx(2 / 64)
    assert (found.better, found.worst) == (6, pytest.approx(0.5))
    assert found.high < 1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("count", [2, 7])
def test_equal_errors_say_nothing(count):
    errors = np.linspace(0.1, 3, count)
    found = paired_test(errors, errors.copy())
    assert (found.ratio, found.low, found.high) == (1, 1, 1)
    assert math.isnan(found.p)
    assert math.isnan(found.effect)
    assert (found.series, found.better, found.worst) == (count, 0, 1)


@pytest.mark.filterwarnings("error")
def test_exchanged_methods_have_the_reciprocal_ratio():
    errors, others = np.exp(np.random.default_rng(0).normal(size=(2, 9)))
    one, other = paired_test(errors, others), paired_test(others, errors)
    assert (other.ratio, other.low, other.high) == pytest.approx(
        (1 / one.ratio, 1 / one.high, 1 / one.low)
    )
    assert (other.p, other.effect) == pytest.approx((one.p, -one.effect))
    assert one.better + other.better == 9
