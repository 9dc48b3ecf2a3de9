from dataclasses import replace

import numpy as np
import pytest

from geonode.decoders.blend import PROBABILITIES
from geonode.decoders.posterior_decoder import PosteriorDecoders
from geonode.errors import TrainingError
from geonode.posterior.posterior import EVEN
from geonode.posterior.prior import packaged_prior
from geonode.training.folds import leave_one_out
from tests.training.series import series

LEVELS, WAVELENGTHS = 6, 15
SERIES = series(LEVELS, WAVELENGTHS)
*_, WHOLE = leave_one_out(LEVELS)
LOW, HIGH = SERIES.concentrations[[0, -1]]
TARGETS = np.array([0.0, 3.0, 17.0, 31.5, 59.0, 66.0, 90.0])
# That without the lowest level, one without a level inside, and that of all.
SOME = [leave_one_out(LEVELS)[place] for place in (0, 2, LEVELS)]
FOLDS = pytest.mark.parametrize("fold", SOME, ids=lambda fold: str(fold.left_out))


def predict(measured=SERIES, fold=WHOLE, targets=TARGETS):
    """What the posterior of a fold says of some concentrations."""
    return PosteriorDecoders(packaged_prior()).predict(fold, measured, np.asarray(targets), None)


def scaled(measured, concentration=1.0, signal=1.0):
    """The same series in other units."""
    return replace(
        measured,
        concentrations=concentration * measured.concentrations,
        signal=signal * measured.signal,
    )


@FOLDS
def test_a_prediction_does_not_depend_on_what_else_is_asked(fold):
    """Nor on the order, nor on how many are in memory together."""
    together = predict(fold=fold)
    many = np.concatenate([TARGETS[::-1], np.linspace(0, 80, 200)])
    among_many = predict(fold=fold, targets=many)
    for place, target in enumerate(TARGETS):
        alone = predict(fold=fold, targets=[target])
        for found, at in ((together, place), (among_many, len(TARGETS) - 1 - place)):
            for name in ("spectra", "half_widths", "deviation", "even"):
                one, other = getattr(found, name)[at], getattr(alone, name)[0]
                np.testing.assert_allclose(one, other, rtol=1e-9, err_msg=name)


@FOLDS
def test_a_prediction_is_less_certain_the_further_it_is_beyond_the_levels(fold):
    low, high = SERIES.concentrations[fold.training][[0, -1]]
    beyond = predict(fold=fold, targets=high + (high - low) * np.array([0.0, 0.1, 0.3, 1.0]))
    sizes = np.sqrt(np.mean(beyond.deviation**2, axis=1))
    assert (np.diff(sizes) > 0).all()
    middle = predict(fold=fold, targets=[(low + high) / 2])
    assert sizes[-1] > 3 * np.sqrt(np.mean(middle.deviation**2))


def test_intervals_are_those_of_the_prior_on_the_side_of_the_target():
    targets = [LOW, (LOW + HIGH) / 2, HIGH, 1.01 * HIGH, 2 * HIGH]
    expected = packaged_prior().intervals(LEVELS, np.array([True, True, True, False, False]))
    assert expected.shape == (5, len(PROBABILITIES))
    assert (np.diff(expected, axis=1) > 0).all()
    np.testing.assert_array_equal(predict(targets=targets).half_widths, expected)


def test_an_even_share_of_the_variance_is_at_every_wavelength():
    found = predict()
    total = np.mean(found.deviation**2, axis=1)
    np.testing.assert_allclose(found.even, EVEN * total, rtol=1e-6)


@pytest.mark.parametrize(("fold", "factor"), zip(SOME, [1000.0, 1e-3, 1e6], strict=True))
def test_the_unit_of_the_signal_is_that_of_the_prediction(fold, factor):
    found, expected = predict(scaled(SERIES, signal=factor), fold), predict(fold=fold)
    np.testing.assert_allclose(found.spectra, factor * expected.spectra, rtol=1e-6)
    np.testing.assert_allclose(found.deviation, factor * expected.deviation, rtol=1e-6)
    np.testing.assert_array_equal(found.half_widths, expected.half_widths)


@pytest.mark.parametrize(("fold", "factor"), [(SOME[0], 1e-3), (WHOLE, 1000.0)])
def test_the_unit_of_concentration_is_no_matter(fold, factor):
    found = predict(scaled(SERIES, concentration=factor), fold, factor * TARGETS)
    expected = predict(fold=fold)
    np.testing.assert_allclose(found.spectra, expected.spectra, rtol=1e-5)
    np.testing.assert_allclose(found.deviation, expected.deviation, rtol=1e-5)


def test_a_signal_in_proportion_to_concentration_is_predicted():
    """Beer and Lambert's law, between the levels and as far again beyond them."""
    concentrations = np.array([0.0, 5.0, 12.0, 20.0, 30.0, 40.0])
    absorptivity = 0.01 + 0.004 * np.sin(np.linspace(0, 3, WAVELENGTHS))
    measured = replace(
        SERIES, concentrations=concentrations, signal=concentrations[:, None] * absorptivity
    )
    inside, beyond = predict(measured, targets=[8.0, 25.0]), predict(measured, targets=[80.0])
    expected = np.array([8.0, 25.0])[:, None] * absorptivity
    np.testing.assert_allclose(inside.spectra, expected, rtol=1e-3)
    np.testing.assert_allclose(beyond.spectra[0], 80 * absorptivity, rtol=0.05)


def test_a_prediction_is_a_combination_of_the_training_spectra():
    """So a wavelength at which they are twice those at another is predicted twice as large."""
    doubled = SERIES.signal.copy()
    doubled[:, 3] = 2 * doubled[:, 7]
    found = predict(replace(SERIES, signal=doubled)).spectra
    np.testing.assert_allclose(found[:, 3], 2 * found[:, 7], rtol=1e-9)


def test_a_negative_level_is_refused():
    below = replace(SERIES, concentrations=SERIES.concentrations - 1)
    with pytest.raises(TrainingError, match="posterior: found the level -1, expected conc"):
        predict(below)
    # A fold that leaves it out does not train on it.
    assert np.isfinite(predict(below, leave_one_out(LEVELS)[0]).spectra).all()


def test_two_levels_are_too_few():
    few = series(4, WAVELENGTHS)
    fold = leave_one_out(4)[1]
    assert np.isfinite(predict(few, fold).spectra).all()
    with pytest.raises(TrainingError, match=r"found levels .*, expected three or more"):
        predict(few, fold.without(3))


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_spectra_that_are_not_finite_are_refused(wrong):
    signal = SERIES.signal.copy()
    signal[2, 4] = wrong
    with pytest.raises(TrainingError, match="posterior: found spectra that are not finite"):
        predict(replace(SERIES, signal=signal))
