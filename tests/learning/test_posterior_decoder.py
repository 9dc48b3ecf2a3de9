import numpy as np
import pytest

from geonode.errors import TrainingError
from geonode.learning.folds import Fold, leave_one_out, leave_two_out
from geonode.learning.posterior_decoder import PosteriorDecoders
from geonode.posterior.prior import PROBABILITIES, packaged_prior
from tests.learning.series import series

LEVELS, WAVELENGTHS = 6, 15
SERIES = series(LEVELS, WAVELENGTHS)
*_, WHOLE = leave_one_out(LEVELS)
LOW, HIGH = SERIES.concentrations[[0, -1]]
TARGETS = np.array([0.0, 3.0, 17.0, 31.5, 59.0, 66.0, 90.0])


def predict(measured=SERIES, fold=WHOLE, targets=TARGETS):
    """What the posterior of a fold says of some concentrations."""
    return PosteriorDecoders(packaged_prior()).predict(fold, measured, np.asarray(targets), None)


def test_intervals_are_those_of_the_prior_on_the_side_of_the_target():
    targets = [LOW, (LOW + HIGH) / 2, HIGH, 1.01 * HIGH, 2 * HIGH]
    expected = packaged_prior().intervals(LEVELS, np.array([True, True, True, False, False]))
    assert expected.shape == (5, len(PROBABILITIES))
    assert (np.diff(expected, axis=1) > 0).all()
    np.testing.assert_array_equal(predict(targets=targets).half_widths, expected)


def test_two_levels_are_too_few():
    few = series(4, WAVELENGTHS)
    fold = leave_one_out(4)[1]
    assert np.isfinite(predict(few, fold).spectra).all()
    with pytest.raises(TrainingError, match=r"found levels .*, expected three or more"):
        predict(few, Fold(0, 4, (1, 3)))


@pytest.mark.parametrize("folds", [leave_one_out(6)[:-1], leave_two_out(11, 4)])
def test_left_out_levels_are_predicted_as_by_each_fold_alone(folds):
    """Fewer folds than are computed together, and more."""
    measured = series(folds[0].levels, WAVELENGTHS)
    found = PosteriorDecoders(packaged_prior()).predict_left_out(folds, measured, None)
    for fold, together in zip(folds, found, strict=True):
        alone = predict(measured, fold, measured.concentrations[list(fold.left_out)])
        for name in ("spectra", "deviation", "even", "half_widths", "sqrt_metric"):
            part, expected = getattr(together, name), getattr(alone, name)
            # The networks compute with seven digits.
            atol = 1e-5 * np.abs(expected).max()
            np.testing.assert_allclose(part, expected, rtol=1e-4, atol=atol)
