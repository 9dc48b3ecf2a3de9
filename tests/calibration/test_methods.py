import math

import numpy as np
import pytest
from sklearn.cross_decomposition import PLSRegression
from sklearn.decomposition import PCA
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from sklearn.pipeline import make_pipeline

from geonode.calibration.methods import (
    CALIBRATIONS,
    INVERSE,
    ConcentrationScores,
    estimate_left_out_by,
    fitted,
    folds_of,
)
from tests.factory import series_of

LEVELS = np.array([0.0, 2.0, 5.0, 20.0, 35.0, 60.0, 90.0, 120.0])
AXIS = np.linspace(0, 1, 40)
BAND, OTHER = np.exp(-(((AXIS - 0.4) / 0.2) ** 2)), np.exp(-(((AXIS - 0.6) / 0.3) ** 2))

every_calibration = pytest.mark.parametrize("name", CALIBRATIONS)
of_components = pytest.mark.parametrize("name", ["pls", "pcr"])


def noisy(levels, wavelengths, seed=3):
    """Three absorbers, one of the concentrations, and noise; ascending levels."""
    generator = np.random.default_rng(seed)
    concentrations = np.sort(generator.uniform(0, 50, levels))
    absorbers = np.column_stack([concentrations, generator.uniform(0, 50, (levels, 2))])
    spectra = absorbers @ generator.uniform(0, 1, (3, wavelengths))
    return concentrations, spectra + generator.normal(size=spectra.shape)


def fit(name, concentrations, spectra):
    """A calibration fitted to levels that are left out one by one."""
    folds = folds_of(concentrations, np.arange(len(concentrations)), spectra)
    return fitted(name, concentrations, spectra, folds)


@every_calibration
@pytest.mark.parametrize("count", [4, 8])
def test_exactly_linear_series_are_recovered(name, count):
    levels = LEVELS[:count]
    series = series_of(levels, 0.3 + np.outer(levels, np.append(BAND, [0.0, 0.0])))
    estimates = estimate_left_out_by(name, series)
    np.testing.assert_allclose(estimates, levels, atol=1e-9 * levels[-1])


def left_out_errors(model, levels, spectra):
    estimates = cross_val_predict(model, spectra, levels, cv=LeaveOneOut())
    return np.sum((estimates - levels) ** 2)


def slowly(name, levels, spectra):
    """The calibrations of components, read off: every number in turn, on the spectra themselves."""
    models = [
        PLSRegression(count, scale=False)
        if name == "pls"
        else make_pipeline(PCA(count), LinearRegression())
        for count in range(1, 1 + min(len(levels) - 2, spectra.shape[1], 10))
    ]
    errors = [left_out_errors(model, levels, spectra) for model in models]
    return models[int(np.argmin(errors))].fit(spectra, levels)


@of_components
@pytest.mark.parametrize(("levels", "wavelengths"), [(3, 30), (6, 2), (14, 60)])
def test_components_are_chosen_as_by_trying_each_on_the_spectra(name, levels, wavelengths):
    concentrations, spectra = noisy(levels, wavelengths)
    unknown = noisy(3, wavelengths, 11)[1]
    estimates = fit(name, concentrations, spectra).estimates(unknown)
    model = slowly(name, concentrations, spectra)
    np.testing.assert_allclose(estimates, model.predict(unknown), rtol=1e-8)
    if name == "pls":
        assert fit(name, concentrations, spectra).option + 1 == model.n_components


@pytest.mark.parametrize("levels", [3, 9])
def test_the_wavelength_is_chosen_as_by_trying_each(levels):
    concentrations, spectra = noisy(levels, 30)
    unknown, line = noisy(3, 30, 7)[1], LinearRegression()
    errors = [left_out_errors(line, concentrations, one[:, None]) for one in spectra.T]
    best = int(np.argmin(errors))
    found = fit("single_wavelength", concentrations, spectra)
    assert found.option == best
    expected = line.fit(spectra[:, [best]], concentrations).predict(unknown[:, [best]])
    np.testing.assert_allclose(found.estimates(unknown), expected, rtol=1e-9)


@every_calibration
def test_nothing_of_a_level_reaches_its_estimate_but_its_spectrum(name):
    """With a single scan of the true level, the number of components and the wavelength differ."""
    levels, spectra = noisy(9, 30)
    before = fit(name, levels, spectra)
    changed = levels.copy()
    changed[3] = 3 * levels[-1]
    after = fit(name, changed, spectra)
    np.testing.assert_allclose(after.left_out[3], before.left_out[3], rtol=1e-9)
    np.testing.assert_allclose(after.leverages[3], before.leverages[3], rtol=1e-9)
    assert not np.isclose(after.left_out[4], before.left_out[4], rtol=1e-3)
    others = np.arange(9) != 3
    alone = fit(name, levels[others], spectra[others])
    np.testing.assert_allclose(alone.estimates(spectra[[3]]), before.left_out[[3]])


def test_groups_are_left_out_together_and_many_in_ten_parts():
    concentrations = np.array([3.0, 1.0, 3.0, 2.0])
    spectra = np.zeros((42, 1))
    assert folds_of(concentrations, np.array([7, 5, 7, 6]), spectra[:4]).tolist() == [2, 0, 2, 1]
    assert len(set(folds_of(np.arange(20.0), np.arange(20), spectra[:20]))) == 20
    many = np.random.default_rng(0).permutation(42) / 2
    folds = folds_of(many, np.arange(42), spectra)
    np.testing.assert_array_equal(folds, 2 * many % 10)  # by rank


def test_the_order_of_samples_of_equal_concentrations_decides_no_fold():
    random = np.random.default_rng(4)
    levels, spectra = np.repeat(np.arange(10.0), 3), random.normal(size=(30, 4))
    folds, order = folds_of(levels, np.arange(30), spectra), random.permutation(30)
    shuffled = folds_of(levels[order], np.arange(30), spectra[order])
    np.testing.assert_array_equal(shuffled, folds[order])
    assert np.bincount(folds).tolist() == [3] * 10


def test_rounding_decides_no_fold_of_mirrored_samples():
    levels, sign = np.repeat(np.arange(12.0), 2), np.tile([[1.0], [-1.0]], (12, 1))
    spectra = sign * np.linspace(0.1, 0.7, 5)
    folds, random = folds_of(levels, np.arange(24), spectra), np.random.default_rng(0)
    for _ in range(5):
        rounded = spectra * (1 + 1e-14 * random.normal(size=spectra.shape))
        np.testing.assert_array_equal(folds_of(levels, np.arange(24), rounded), folds)


def test_leverages_are_those_of_least_squares():
    """The diagonal of X (X^T W X)^-1 X^T W, with the design X of the regression."""
    levels, spectra = noisy(9, 30)
    for name, weights, terms in (
        ("straight_line", np.ones(9), 2),
        ("line_over_c2", levels[0] ** 2 / levels**2, 2),
        ("quadratic", np.ones(9), 3),
    ):
        found = fit(name, levels, spectra)
        place = found.fit.place
        at = found.estimates(spectra)
        design, there = np.vander(levels, terms), np.vander(at, terms)
        inverse = np.linalg.inv(design.T @ (weights[:, None] * design))
        expected = np.einsum("st,tk,sk->s", there, inverse, there)
        expected *= (levels[0] / np.maximum(at, levels[0])) ** 2 if name == "line_over_c2" else 1
        np.testing.assert_allclose(found.leverages_of(spectra), expected, rtol=1e-6)
        if name != "quadratic":
            line = np.polynomial.Polynomial.fit(levels, spectra[:, place], 1, w=np.sqrt(weights))
            np.testing.assert_allclose(line(at), spectra[:, place], rtol=1e-9)
    model = PLSRegression(3, scale=False).fit(spectra, levels)
    scores = np.column_stack([np.ones(9), model.x_scores_])
    components = fit("pls", levels, spectra)
    expected = np.diag(scores @ np.linalg.pinv(scores))
    np.testing.assert_allclose(components.fit.leverages(spectra)[:, 2], expected, rtol=1e-6)


def test_a_blank_has_the_weight_of_the_lowest_positive_level():
    levels = np.array([0.0, 2.0, 4.0, 8.0])
    signal = np.array([0.1, 1.0, 2.2, 3.8])
    found = fit("line_over_c", levels, signal[:, None])
    line = np.polynomial.Polynomial.fit(levels, signal, 1, w=1 / np.sqrt([2, 2, 4, 8]))
    np.testing.assert_allclose(line(found.estimates(np.array([[1.5]]))), 1.5)


@pytest.mark.parametrize("name", ["straight_line", "line_over_c2", "quadratic"])
def test_lines_are_read_at_the_steepest_wavelength_or_give_the_mean_level(name):
    spectra = 0.2 + np.outer(LEVELS, BAND) + 1e-3 * np.outer(LEVELS**2, OTHER)
    place = int(np.abs(np.polyfit(LEVELS, spectra, 1)[0]).argmax())
    assert fit(name, LEVELS, spectra).fit.place == place
    even = np.full((8, 40), 1 / 3)
    np.testing.assert_allclose(fit(name, LEVELS, even).estimates(spectra), LEVELS.mean())


@pytest.mark.parametrize("bend", [-0.02, 0.05])
def test_a_quadratic_is_read_on_the_branch_of_the_levels(bend):
    levels = np.array([0.0, 2.0, 5.0, 8.0, 10.0])
    true = np.array([1.0, 9.0])
    found = fit("quadratic", levels, (3 + levels + bend * levels**2)[:, None])
    np.testing.assert_allclose(found.estimates((3 + true + bend * true**2)[:, None]), true)
    turn = -1 / (2 * bend)  # the signal of no concentration is that of the turning point
    none = 3 + turn + bend * turn**2 - np.copysign(1, bend)
    np.testing.assert_allclose(found.estimates(np.array([[none]])), turn)


@of_components
@pytest.mark.parametrize("offset", [0.3, 1e5 / 7])
@pytest.mark.parametrize("count", [4, 8])
def test_rounding_is_no_component(name, offset, count):
    """Of spectra on a line only the place along it counts, of unknown ones the nearest place."""
    generator = np.random.default_rng(6)
    for _ in range(5):
        levels = np.sort(generator.uniform(0, 100, count))
        unknown = generator.uniform(0, 100, (5, 40))
        along = (unknown - offset) @ BAND / (BAND @ BAND)
        amounts = (levels / 50) ** 3
        expected = np.polyval(np.polyfit(amounts, levels, 1), along)
        estimates = fit(name, levels, offset + np.outer(amounts, BAND)).estimates(unknown)
        np.testing.assert_allclose(estimates, expected, rtol=1e-8)


@pytest.mark.parametrize("name", INVERSE)
def test_spectra_that_say_nothing_estimate_the_mean_level(name):
    """They are constant, also where rounding takes their mean beside them, or bend both ways."""
    unknown = np.array([[3.0], [50.0]]) * BAND
    for value in (0.0, 0.1, 0.7, 1e6 / 3):
        for count in (3, 5, 6, 8):
            even = np.full((count, 40), value)
            estimates = fit(name, LEVELS[:count], even).estimates(unknown)
            np.testing.assert_allclose(estimates, LEVELS[:count].mean())
    levels = np.array([0.0, 10.0, 20.0, 30.0, 40.0])
    bends = np.array([4.0, 1.0, 0.0, 1.0, 4.0])
    estimates = fit(name, levels, np.outer(bends, BAND)).estimates(unknown)
    np.testing.assert_allclose(estimates, 20.0, atol=1e-9)


def test_scores_by_hand():
    levels = np.array([0.0, 1.0, 5.0])
    scores = ConcentrationScores.of(levels, np.array([1.0, 1.0, 3.0]))
    assert scores.median_absolute_error == 1.0
    assert scores.median_error_of_range == pytest.approx(1 / 5)
    assert scores.rmsep == pytest.approx(math.sqrt(5 / 3))
    assert scores.rmsep_of_range == pytest.approx(math.sqrt(5 / 3) / 5)
    assert scores.q2 == pytest.approx(1 - 5 / (9 + 2.25 + 20.25))  # means 3, 2.5 and 0.5
