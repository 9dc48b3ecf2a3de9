import numpy as np
import pytest

from geonode.calibration.combination import Combination, combined_left_out, errors_of
from geonode.calibration.fit import Calibration
from geonode.calibration.intervals import is_determined
from geonode.calibration.methods import CALIBRATIONS, fitted, folds_of

LEVELS = np.array([0.0, 10.0, 20.0, 30.0, 40.0])
SIGNS = np.array([1, -1, 1, -1, 1])


def off(*errors):
    """PCR, PLS and geonode, off by these."""
    return {
        key: LEVELS + error for key, error in zip(("pcr", "pls", "geonode"), errors, strict=False)
    }


def test_errors_count_between_the_ends_where_three_levels_are():
    given = off(np.array([9, 1, -2, 3, 50]), SIGNS * 4.0)
    np.testing.assert_allclose(errors_of(LEVELS, given), [2 / 40, 4 / 40])
    few = {key: one[1:] for key, one in given.items()}
    np.testing.assert_allclose(errors_of(LEVELS[1:], few), [14 / 30, 4 / 30])
    line = {"straight_line": given["pls"]}
    np.testing.assert_allclose(errors_of(LEVELS, line), [4 / 40 * 6 / 5])


def test_over_decades_relative_errors_count_as_much():
    """Of 3 everywhere, and of 3% everywhere, between 10 and 1100."""
    levels = np.array([10.0, 30.0, 100.0, 300.0, 1100.0])
    found = errors_of(levels, {"pcr": levels + 3, "pls": levels * 1.03})
    equal = np.sqrt(3 / 1090 * np.mean([0.1, 0.03, 0.01]))
    np.testing.assert_allclose(
        found, [equal, np.sqrt(0.03 * np.mean([30, 100, 300]) / 1090 * 0.03)]
    )


def test_errors_of_other_methods_than_geonode_count_half_as_much_again():
    """Weights are errors to the power of minus eight; none is left of the fourth method."""
    given = off(SIGNS * 1.0, SIGNS * 2.0, SIGNS * 1.0) | {"quadratic": LEVELS + SIGNS * 40.0}
    for levels, errors in ((5, [1.5, 3.0, 1.0]), (3, [1.0, 2.0, 1.0])):
        weights = np.array([*errors, np.inf]) ** -8
        each = {key: one[:levels] for key, one in given.items()}
        found = Combination.of(LEVELS[:levels], each).weights
        np.testing.assert_allclose([*found.values()], weights / weights.sum(), atol=1e-9)


def test_estimates_are_cut_off_a_span_beyond_the_levels():
    equal = Combination.of(LEVELS, off(SIGNS * 1.0, SIGNS * 1.0))
    given = {"pcr": np.full(4, 20.0), "pls": np.array([40.0, 60.0, 1e9, -1e9])}
    none = dict.fromkeys(given, np.zeros(4))
    found, _ = equal.of_methods(given, none)
    np.testing.assert_allclose(found, [30, 40, 50, -10])


def test_nothing_of_a_fold_reaches_its_weights():
    """Other concentrations of a fold change the estimates of the other folds, and not its own."""
    random, folds = np.random.default_rng(0), np.array([0, 0, 1, 2, 3, 4, 5, 6])
    levels = np.arange(8.0)
    given = {key: levels + random.normal(size=8) for key in ("pcr", "pls", "quadratic")}
    leverages = {key: random.uniform(size=8) for key in given}
    for fold in range(7):
        out = folds == fold
        changed = np.where(out, levels + 300, levels)
        before, its = combined_left_out(levels, given, leverages, folds)
        after, same = combined_left_out(changed, given, leverages, folds)
        np.testing.assert_array_equal(after[out], before[out])
        np.testing.assert_array_equal(same[out], its[out])
        assert (after[~out] != before[~out]).all()


def mixture(outlier=0.0):
    """Two overlapping absorbers in 40 samples, and noise; one concentration is wrong."""
    random, axis = np.random.default_rng(3), np.linspace(0, 1, 30)
    amounts = random.uniform(0, 10, (40, 2))
    bands = np.exp(-(((axis - np.array([[0.4], [0.6]])) / 0.2) ** 2))
    spectra = amounts @ bands + 0.02 * random.normal(size=(40, 30))
    known = amounts[:, 0].copy()
    known[22] = np.clip(known[22] + outlier, 0, None)
    return spectra, known


@pytest.mark.usefixtures("without_geonode")
def test_the_combination_is_that_of_a_loop_over_the_methods():
    spectra, known = mixture()
    found, unknown = Calibration.fit(spectra, known), mixture()[0][:5] * 0.9
    folds = folds_of(known, np.arange(40), spectra)
    each = {key: fitted(key, known, spectra, folds) for key in CALIBRATIONS}
    errors = errors_of(known, {key: one.left_out for key, one in each.items()})
    total, whole = np.zeros(5), 0.0
    for error, one in zip(errors, each.values(), strict=True):
        total += error**-8.0 * one.estimates(unknown)
        whole += error**-8.0
    values, ends = found.estimate(unknown)
    assert found.method == "combined"
    np.testing.assert_allclose(values, total / whole, rtol=1e-6)
    assert is_determined(values, ends, known).all()


@pytest.mark.usefixtures("without_geonode")
def test_an_outlier_is_named_and_turns_nothing():
    clean, marred = (Calibration.fit(*mixture(outlier)) for outlier in (0.0, 4.0))
    assert clean.warnings == []
    (said,) = marred.warnings
    assert said.startswith(f"Warning: sample 23, of {marred.concentrations[22]:.3g}, is estimated")
    assert marred.verdict.best.key == clean.verdict.best.key == "pls"
