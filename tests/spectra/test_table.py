import numpy as np
import pytest

from geonode.errors import SpectraError
from geonode.spectra.replicates import Replicates
from geonode.spectra.table import SpectraTable, without_rounding


def table(concentrations=(0.0, 1.0, 2.0, 3.0), axis=(400.0, 500.0, 600.0), scans=None):
    if scans is None:
        scans = [np.zeros((1, len(axis))) for _ in concentrations]
    return SpectraTable(
        axis=np.array(axis, dtype=float),
        axis_name="wavelength",
        axis_unit="nm",
        concentrations=np.array(concentrations, dtype=float),
        scans=scans,
        masked=np.empty(0),
    )


SCANS = [
    np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]),  # mean 2 2 2, squares 2 0 2, 1 degree of freedom
    np.array([[5.0, 5.0, 5.0]]),  # one scan says nothing about noise
    np.array([[0.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 3.0, 6.0]]),  # 0 2 2, squares 0 6 24, 2
    np.array([[1.0, 1.0, 1.0]]),
]
THIRD = 0.1 + 0.2  # 0.30000000000000004
VARIANCES = np.array([2 / 3, 6 / 3, 26 / 3])  # by hand: (2 + 0, 0 + 6, 2 + 24) / (1 + 2)


def test_spectra_are_means_over_scans_and_noise_is_about_them():
    found = table(scans=SCANS)
    np.testing.assert_array_equal(found.spectra, [[2, 2, 2], [5, 5, 5], [0, 2, 2], [1, 1, 1]])
    assert found.replicate_noise() == pytest.approx(np.sqrt(VARIANCES.mean()))
    assert table().replicate_noise() is None


def test_non_monotonic_share_counts_wavelengths_that_turn():
    # Rises and falls; only rises; falls with a plateau.
    levels = [[0.0, 0.0, 3.0], [2.0, 1.0, 2.0], [1.0, 2.0, 2.0], [3.0, 3.0, 1.0]]
    scans = [np.array([level]) for level in levels]
    for noise, expected in ((0.0, 1 / 3), (0.23, 1 / 3), (0.24, 0.0)):  # falls by 1 = 3 √2 0.2357
        assert table(scans=scans).non_monotonic_share(noise) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"concentrations": [0, 1]}, "found 2 concentrations, expected 3 to 20000"),
        ({"axis": [400, 500]}, "found 2 wavelengths, expected at least 3"),
        ({"concentrations": [0, 1, 1, 2]}, "expected each once, ascending"),
        ({"concentrations": [0, 0.3, THIRD, 1]}, "expected each once"),
        ({"concentrations": [-1, 0, 1, 2]}, "none negative"),
        ({"concentrations": [0, 1, 2, np.inf]}, "finite"),
        ({"axis": [400, 500, 500]}, "axis that does not ascend"),
        ({"scans": [np.full((1, 3), np.nan)] + [np.zeros((1, 3))] * 3}, "finite"),
    ],
)
def test_what_is_no_series_is_refused(fields, message):
    with pytest.raises(SpectraError, match=message):
        table(**fields)
    assert len(table(concentrations=range(50)).spectra) == 50


def test_deviations_are_from_the_mean_of_the_level():
    found = Replicates.of(SCANS)
    assert found.scans.tolist() == [2, 1, 3, 1]
    assert found.level.tolist() == [0, 0, 2, 2, 2]
    expected = [[-1, 0, 1], [1, 0, -1], [0, -2, -2], [0, 1, -2], [0, 1, 4]]
    np.testing.assert_array_equal(found.deviations, expected)
    np.testing.assert_allclose(found.noise, np.sqrt(VARIANCES))


def test_the_excess_is_what_a_mean_of_scans_does_not_have():
    rows = Replicates.of(SCANS).excess(np.arange(4))
    share = 1 - (1 / 2 + 1 + 1 / 3 + 1) / 4
    np.testing.assert_allclose(np.sum(rows**2, axis=0), share * VARIANCES, rtol=1e-12)
    for scans in (SCANS[1::2], [SCANS[1]] * 4):
        assert Replicates.of(scans).excess(np.arange(len(scans))).size == 0


def test_the_excess_of_a_fold_does_not_know_the_scans_of_a_level_that_is_left_out():
    changed = [*SCANS[:2], 100 * SCANS[2], SCANS[3]]
    left_out = np.array([0, 1, 3])
    one, other = (Replicates.of(scans).excess(left_out) for scans in (SCANS, changed))
    np.testing.assert_array_equal(one, other)
    share = 1 - (1 / 2 + 1 + 1) / 3
    np.testing.assert_allclose(np.sum(one**2, axis=0), share * np.array([2, 0, 2]), atol=1e-15)


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ([THIRD, 0.3, 0.5, 0.7 - 0.4], [0.3, 0.3, 0.5, 0.3]),
        ([0.0, 0.1, THIRD - 0.3], [0.0, 0.1, 0.0]),
        ([0.0, 1e-9, 1.0], [0.0, 1e-9, 1.0]),
        ([1.0, 1.000001], [1.0, 1.000001]),
        ([], []),
    ],
)
def test_levels_that_are_equal_to_rounding_are_one(levels, expected):
    np.testing.assert_array_equal(without_rounding(np.array(levels, dtype=float)), expected)
