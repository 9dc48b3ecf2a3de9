import numpy as np
import pytest

from geonode.errors import SpectraError
from geonode.spectra.table import SpectraTable


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


REPLICATED = [
    np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]]),  # mean 2 2 2, squares 2 0 2, 1 degree of freedom
    np.array([[5.0, 5.0, 5.0]]),  # one scan says nothing about noise
    np.array([[0.0, 0.0, 0.0], [0.0, 3.0, 0.0], [0.0, 3.0, 6.0]]),  # 0 2 2, squares 0 6 24, 2
    np.array([[1.0, 1.0, 1.0]]),
]


def test_spectra_are_means_over_scans():
    np.testing.assert_array_equal(
        table(scans=REPLICATED).spectra, [[2, 2, 2], [5, 5, 5], [0, 2, 2], [1, 1, 1]]
    )


def test_replicate_noise_is_the_mean_over_wavelengths():
    # By hand: the squares of single wavelengths are (2 + 0, 0 + 6, 2 + 24) / (1 + 2).
    assert table(scans=REPLICATED).replicate_noise() == pytest.approx(np.sqrt(34 / 9))


def test_no_replicates_no_noise():
    assert table().replicate_noise() is None


def test_non_monotonic_share_counts_wavelengths_that_turn():
    # Rises and falls; only rises; falls with a plateau.
    levels = [[0.0, 0.0, 3.0], [2.0, 1.0, 2.0], [1.0, 2.0, 2.0], [3.0, 3.0, 1.0]]
    scans = [np.array([level]) for level in levels]
    assert table(scans=scans).non_monotonic_share() == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"concentrations": [0, 1, 2]}, "found 3 concentrations, expected 4 to 50"),
        ({"concentrations": range(51)}, "found 51 concentrations, expected 4 to 50"),
        ({"axis": [400, 500]}, "found 2 wavelengths, expected at least 3"),
        ({"concentrations": [0, 1, 1, 2]}, "expected each once, ascending"),
        ({"concentrations": [0, 2, 1, 3]}, "expected each once, ascending"),
        ({"concentrations": [-1, 0, 1, 2]}, "none negative"),
        ({"concentrations": [0, 1, 2, np.inf]}, "finite"),
        ({"axis": [400, 500, 500]}, "axis that does not ascend"),
        ({"axis": [400, 500, np.inf]}, "finite"),
        ({"scans": [np.full((1, 3), np.nan)] + [np.zeros((1, 3))] * 3}, "finite"),
    ],
)
def test_what_is_no_series_is_refused(fields, message):
    with pytest.raises(SpectraError, match=message):
        table(**fields)


def test_limits_are_included():
    assert len(table(concentrations=range(4)).spectra) == 4
    assert len(table(concentrations=range(50)).spectra) == 50
