import numpy as np
import pytest

from geonode.spectra.replicates import Replicates

SCANS = [
    np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]),  # mean 2 2 2, squares 2 0 2, 1 degree of freedom
    np.array([[5.0, 5.0, 5.0]]),  # one scan says nothing about noise
    np.array([[0.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 3.0, 6.0]]),  # 0 2 2, squares 0 6 24, 2
    np.array([[1.0, 1.0, 1.0]]),
]


def test_deviations_are_from_the_mean_of_the_level():
    found = Replicates.of(SCANS)
    assert found.scans.tolist() == [2, 1, 3, 1]
    assert found.level.tolist() == [0, 0, 2, 2, 2]
    expected = [[-1, 0, 1], [1, 0, -1], [0, -2, -2], [0, 1, -2], [0, 1, 4]]
    np.testing.assert_array_equal(found.deviations, expected)


def test_noise_pools_squares_over_degrees_of_freedom():
    # By hand: (2 + 0, 0 + 6, 2 + 24) / (1 + 2).
    np.testing.assert_allclose(Replicates.of(SCANS).noise, np.sqrt([2 / 3, 6 / 3, 26 / 3]))
    assert Replicates.of(SCANS[1::2]).noise is None


def test_the_excess_is_what_a_mean_of_scans_does_not_have():
    rows = Replicates.of(SCANS).excess(np.arange(4))
    share = 1 - (1 / 2 + 1 + 1 / 3 + 1) / 4
    np.testing.assert_allclose(
        np.sum(rows**2, axis=0), share * np.array([2 / 3, 6 / 3, 26 / 3]), rtol=1e-12
    )


def test_the_excess_of_a_fold_does_not_know_the_scans_of_a_level_that_is_left_out():
    changed = [*SCANS[:2], 100 * SCANS[2], SCANS[3]]
    left_out = np.array([0, 1, 3])
    one, other = (Replicates.of(scans).excess(left_out) for scans in (SCANS, changed))
    np.testing.assert_array_equal(one, other)
    assert np.abs(one).sum() > 0


@pytest.mark.parametrize("scans", [SCANS[1::2], [SCANS[1]] * 4])
def test_without_replicates_there_is_no_excess(scans):
    assert Replicates.of(scans).excess(np.arange(len(scans))).size == 0
