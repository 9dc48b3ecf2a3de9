import numpy as np
import pytest

from geonode.estimation.pedestal import Pedestal
from tests.estimation.known import LEVELS, W, noise, straight

SPECTRA = straight(LEVELS) - 0.2  # a band that grows from nothing


@pytest.mark.parametrize("constant", [0.0, 0.3, -5.0])
def test_the_pedestal_of_a_band_that_grows_is_the_constant_under_it(constant):
    """Beside the band: at its edge, five widths away, it has e^-25 of its height or less."""
    narrow = np.array(LEVELS)[:, None] / 60 * np.exp(-(((W - 0.4) / 0.06) ** 2))
    found = Pedestal.of(narrow + constant)
    np.testing.assert_allclose(found.values[found.differ], constant, atol=1e-3)


def test_wavelengths_without_a_difference_keep_their_value_and_say_nothing():
    known = SPECTRA + noise(6, 0.01)
    plain, more = Pedestal.of(known), Pedestal.of(np.c_[known, np.full((6, 2), [0.0, 7.0])])
    np.testing.assert_allclose(more.values, [*plain.values, 0.0, 7.0], rtol=1e-12)
    assert more.differ.tolist() == [*plain.differ, False, False]
    twice = Pedestal.of(np.c_[known, known])
    np.testing.assert_allclose(twice.values, np.tile(plain.values, 2), rtol=1e-12)


def test_it_moves_and_scales_with_the_spectra():
    known = SPECTRA + noise(6, 0.01)
    plain = Pedestal.of(known).values
    np.testing.assert_allclose(Pedestal.of(known + 4).values, plain + 4, rtol=1e-9)
    np.testing.assert_allclose(Pedestal.of(1e20 * known).values, 1e20 * plain, rtol=1e-9)
    np.testing.assert_allclose(Pedestal.of(1e-200 * known).values, 1e-200 * plain, rtol=1e-9)


def test_the_pedestal_of_equal_spectra_is_all_of_them():
    found = Pedestal.of(np.tile(SPECTRA[3], (4, 1)))
    np.testing.assert_array_equal(found.values, SPECTRA[3])
    assert not found.differ.any()
