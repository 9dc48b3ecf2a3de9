import numpy as np
import pytest
from scipy.stats import binom
from scipy.stats import t as student

from geonode.calibration.fit import Calibration, are_few
from geonode.calibration.intervals import ErrorLaw, intervals_left_out, is_determined
from geonode.spectra.replicates import VarianceShapes

ALONE = np.arange(200)


def law(concentrations, errors):
    return ErrorLaw.of(concentrations, errors, np.zeros(len(errors)), ALONE[: len(errors)])


def test_errors_of_one_size_have_the_interval_of_student():
    """Of 200 errors of size 0.1, t of 198 degrees of freedom is 1.653."""
    concentrations = np.linspace(0, 1, 200)
    found = law(concentrations, np.where(ALONE % 2, 0.1, -0.1))
    ends = found.intervals(np.array([0.3, 0.5, 0.5]), np.array([0.0, 0.0, 2.0]))
    expected = [[0.1347, 0.4653], [0.3347, 0.6653], [0.2137, 0.7863]]
    np.testing.assert_allclose(ends, expected, atol=0.005)


def test_few_errors_have_the_law_of_its_definition():
    """Seven errors: sums over n - 1, averaged over shapes and factors by their posterior."""
    levels, errors = np.arange(1.0, 8.0), np.array([0.2, -0.1, 0.1, 0.3, -0.2, 0.1, 0.4])
    shapes = VarianceShapes.over(levels)
    total, weight = np.zeros(len(shapes.constant)), 0.0
    for shape, prior in enumerate(shapes.log_prior):
        for factor in 4.0 ** np.arange(6):
            relative = shapes.constant[shape] + shapes.proportional[shape] * levels**2
            relative = relative * np.where((levels == 1) | (levels == 7), factor, 1)
            square = np.sum(errors**2 / relative)
            likelihood = np.exp(prior) * square**-2.5 / np.sqrt(np.prod(relative))
            total[shape] += likelihood * square / 6
            weight += likelihood
    expected = (total / weight) @ (shapes.constant + shapes.proportional * 16)
    at, none = np.array([4.0]), np.zeros(1)
    found = law(levels, errors)
    np.testing.assert_allclose(found.deviations(at, none)[0], np.sqrt(expected), rtol=1e-6)
    half = student.ppf(0.95, 5.5) * np.sqrt(expected)
    np.testing.assert_allclose(found.intervals(at, none), [[4 - half, 4 + half]], rtol=1e-6)


LAW = ErrorLaw(inside=(1.0, 0.0), beyond=(16.0, 0.0), low=10.0, high=50.0, freedom=1000)
"""Half widths 1.65 between the levels and, with `WIDER_BEYOND` 1.15, 7.57 beyond them."""


@pytest.mark.parametrize(
    ("estimate", "below", "above"),
    [
        (30.0, 28.35, 31.65),  # far from both ends
        (47.0, 45.35, 48.65),  # the end is farther than 1.5 half widths
        (48.0, 46.35, 55.57),  # the end is within them, and what is beyond it as well
        (51.0, 49.35, 58.57),  # within the levels the law between them
        (53.0, 50.0, 60.57),  # from which it is too far to be there
        (60.0, 52.43, 67.57),
    ],
)
def test_intervals_are_what_the_estimate_is_likely_of(estimate, below, above):
    """Between and beyond the levels, and mirrored at their middle."""
    found = LAW.intervals(np.array([estimate, 60 - estimate]), np.zeros(2))
    expected = [[below, above], [60 - above, 60 - below]]
    np.testing.assert_allclose(found, expected, atol=0.01)


@pytest.mark.parametrize(("groups", "infinite"), [(2, True), (3, False)])
def test_two_groups_tell_nothing_of_errors_and_three_little(groups, infinite):
    group = np.arange(12) % groups
    found = ErrorLaw.of(group * 1.0, np.full(12, 0.1), np.zeros(12), group)
    low, high = found.intervals(np.array([1.0]), np.zeros(1))[0]
    assert np.isinf([low, high]).all() == infinite
    assert high - 1 > 0.1 * student.ppf(0.95, 1.5)


def test_the_errors_of_a_fold_tell_nothing_of_its_own_interval():
    levels, none, folds = np.linspace(0, 1, 8), np.zeros(8), np.array([0, 0, 1, 2, 3, 4, 5, 6])
    before, after = (
        np.diff(intervals_left_out(true, levels + 0.01, none, folds, folds))
        for true in (levels, np.where(folds == 0, levels + 5, levels))
    )
    np.testing.assert_allclose(after[:2], before[:2], rtol=1e-6)
    assert (after[2:] > 5 * before[2:]).all()


def test_an_estimate_that_says_little_is_not_determined():
    """Of levels from 10 to 20: sets of half of the range, and a range beyond the levels."""
    ends = np.array([[12, 16.9], [12, 17.1], [25, 29], [26, 32], [-0.5, 1.5], [-np.inf, np.inf]])
    found = is_determined(np.array([14, 14, 27, 30.1, 0.1, 15]), ends, np.array([10.0, 12, 20]))
    assert found.tolist() == [True, False, True, False, True, False]


def test_so_few_sets_hold_where_nine_of_ten_should():
    """Of ten, at most 6 hold with a probability of 1.3%, at most 7 with 7.0%."""
    assert are_few(np.arange(10) < 6, 0.9)
    assert not are_few(np.arange(10) < 7, 0.9)


def held_by_third(random, error, count, level=0.9):
    """Share of unknowns inside their interval, by thirds of the range, of simulated lines."""
    band = np.exp(-(np.linspace(-2, 2, 15) ** 2))
    held = [[], [], []]
    for _ in range(count):
        levels = np.append(np.linspace(0.02, 1, 20), random.uniform(0.02, 1, 4))
        prepared = levels + error(levels) * random.normal(size=24)
        spectra = np.outer(prepared, band) + 1e-3 * random.normal(size=(24, 15))
        found = Calibration.fit(spectra[:20], levels[:20], method="straight_line", level=level)
        low, high = found.estimate(spectra[20:])[1].T
        for true, one, other in zip(levels[20:], low, high, strict=True):
            held[int(3 * true)].append(one <= true <= other)
    return [np.mean(third) for third in held]


@pytest.mark.slow
@pytest.mark.usefixtures("without_geonode")
def test_intervals_of_lines_hold_in_every_third_where_errors_grow():
    """Nine of ten, for errors of 3% of the concentration."""
    found = held_by_third(np.random.default_rng(1), lambda c: 0.03 * c, 150)
    assert all(0.84 < one < 0.97 for one in found)  # of 200 each


@pytest.mark.slow
@pytest.mark.usefixtures("without_geonode")
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_intervals_of_simulated_lines_hold_the_share_of_their_level(level):
    """Of 600 unknowns, as many as chance leaves in all but a thousandth of such simulations."""
    found = held_by_third(np.random.default_rng(3), lambda c: 0.01 + 0 * c, 150, level)
    low, high = binom(600, level).ppf([0.0005, 0.9995]) / 600
    assert low - 0.02 <= np.mean(found) <= high + 0.02  # the law itself is estimated from 20


@pytest.mark.usefixtures("without_geonode")
def test_a_choice_among_methods_does_not_make_intervals_too_short():
    """Of six levels with an interferent, methods are good by chance; nine of ten still hold."""
    random, axis = np.random.default_rng(2), np.linspace(0, 1, 20)
    held = []
    for _ in range(60):
        bands = np.exp(-(((axis - np.array([[0.3], [0.5]])) / 0.2) ** 2))
        levels = np.append(np.linspace(0, 1, 6), random.uniform(0, 1, 3))
        amounts = np.column_stack([levels, random.uniform(0, 0.5, 9)])
        spectra = amounts @ bands + 0.01 * random.normal(size=(9, 20))
        found = Calibration.fit(spectra[:6], levels[:6]).estimate(spectra[6:])[1]
        held.append((found[:, 0] <= levels[6:]) & (levels[6:] <= found[:, 1]))
    assert 0.83 < np.mean(held) < 0.97  # of 180
