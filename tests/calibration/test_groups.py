"""Samples that are left out together where nobody says which."""

import re

import numpy as np
import pytest

from geonode.calibration.fit import Calibration, required_groups
from geonode.calibration.methods import fitted, folds_of
from geonode.errors import SpectraError

AXIS = np.linspace(0, 1, 30)
LEVELS = np.repeat([1.0, 2.0, 3.0, 4.0, 5.0], 3)


def band(place):
    return np.exp(-(((AXIS - place) / 0.1) ** 2))


def scatter(count, size):
    return size * np.random.default_rng(0).normal(size=(count, len(AXIS)))


def groups_of(spectra):
    return required_groups(spectra, LEVELS, None, "auto")


def test_scans_of_one_preparation_are_left_out_together():
    spectra = LEVELS[:, None] * band(0.3) + scatter(len(LEVELS), 0.01)
    np.testing.assert_array_equal(groups_of(spectra), np.repeat(np.arange(5), 3))


def test_compositions_with_one_amount_in_common_are_left_out_one_by_one():
    """Another substance varies as much; without it one component would do, with it two."""
    other = np.tile([0.0, 5.0, 10.0], 5)
    spectra = LEVELS[:, None] * band(0.3) + other[:, None] * band(0.5)
    spectra += scatter(len(LEVELS), 1e-3)
    groups = groups_of(spectra)
    assert len(np.unique(groups)) == len(LEVELS)
    left_out = fitted("pls", LEVELS, spectra, folds_of(LEVELS, groups, spectra)).left_out
    np.testing.assert_allclose(left_out, LEVELS, atol=0.06)


@pytest.mark.parametrize(
    ("groups", "said"),
    [
        (np.zeros(15), "1 different ones in an array of shape (15,), expected a label of each of"),
        (np.arange(14), "14 different ones in an array of shape (14,)"),
        (np.arange(30).reshape(15, 2), "30 different ones in an array of shape (15, 2)"),
        (3, "1 different ones in an array of shape ()"),
        ([], "0 different ones in an array of shape (0,)"),
        (np.append(np.arange(14.0), np.nan), "masked ones or NaN"),
        (np.ma.masked_equal(np.arange(15), 3), "masked ones or NaN"),
        ([None] * 15, "labels that are not compared"),
        (np.array([1, "a"] * 7 + [2], dtype=object), "labels that are not compared"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_groups_that_are_no_labels_of_the_samples_are_refused(groups, said):
    spectra = LEVELS[:, None] * band(0.3)
    with pytest.raises(SpectraError, match=re.escape(f"groups: found {said}")):
        Calibration.fit(spectra, LEVELS, groups)


@pytest.mark.parametrize("count", [3, 8, 60])
def test_many_levels_and_three_preprocessed_or_not_are_calibrated(count):
    levels = np.arange(float(count))
    spectra = 0.1 + np.outer(levels, np.hanning(20))
    spectra += 0.01 * np.sin(9 * np.outer(levels, np.arange(20)))
    found = Calibration.fit(spectra, levels)
    assert (found.curve is None) == (count != 8)
    assert ("preprocessed_pls" in found.fitted) == (count > 3)
    np.testing.assert_allclose(found.estimate(spectra)[0], levels, atol=0.5)
    if count == 60:
        assert "preprocessed_pls" not in Calibration.fit(spectra, levels, preprocessed=True).fitted
