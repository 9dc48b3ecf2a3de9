import numpy as np
import pytest

import geonode
from geonode.errors import ParameterError, SpectraError, TrainingError
from geonode.prediction.model import SpectralModel

LEVELS = np.array([0.0, 4.0, 10.0, 20.0, 35.0, 60.0])
AXIS = np.linspace(400.0, 700.0, 9)
BETWEEN = np.array([2.0, 15.0, 60.0, 75.0])
FAST = {"preset": "fast"}
PATH = {
    "decoders.kind": "path",
    "decoders.members": 1,
    "decoders.epochs": 12,
    "metric.learning": "flat",
    "inner.members": 1,
}


def spectra(concentrations):
    """A band that grows and moves, not everywhere monotonic in concentration."""
    c, w = np.reshape(concentrations, (-1, 1)) / 60, (AXIS - 550) / 150
    return 0.2 + (0.3 + 0.2 * c) * np.exp(-((w - 0.5 * c) ** 2) / 0.5)


Y = spectra(LEVELS)


@pytest.fixture(scope="module")
def fast():
    return SpectralModel.learn(LEVELS, Y, AXIS, FAST)


def test_replicates_are_averaged_whatever_their_order():
    """Also those whose levels differ by rounding; without an axis, wavelengths are counted."""
    random = np.random.default_rng(0)
    copies = [3, 1, 2, 1, 4, 2]
    scans = np.repeat(Y, copies, axis=0)
    scans = scans + 0.01 * random.normal(size=scans.shape)
    means = np.stack([part.mean(axis=0) for part in np.split(scans, np.cumsum(copies)[:-1])])
    levels = np.repeat(LEVELS, copies)
    levels[5] += 1e-15
    order = random.permutation(len(scans))
    found = SpectralModel.learn(levels[order], scans[order], settings=FAST).series
    np.testing.assert_array_equal(found.concentrations, LEVELS)
    np.testing.assert_array_equal(found.replicates.scans, copies)
    np.testing.assert_allclose(found.signal, means, rtol=1e-14)
    np.testing.assert_array_equal(found.axis, np.arange(9))


@pytest.mark.parametrize(
    ("levels", "signal", "axis", "settings", "error", "message"),
    [
        (LEVELS - 1, Y, AXIS, {}, SpectraError, "a negative concentration"),
        (np.minimum(LEVELS, 10), Y, AXIS, {}, SpectraError, "found 3 different concentrations in"),
        (np.arange(51.0), np.ones((51, 9)), AXIS, {}, SpectraError, "found 51 .* 4 to 50"),
        (LEVELS, np.where(Y > 0.6, np.nan, Y), AXIS, {}, SpectraError, "found NaN"),
        (LEVELS, Y, AXIS[::-1].copy(), {}, SpectraError, "wavelengths that do not ascend"),
        (LEVELS, 0 * Y, AXIS, FAST, TrainingError, "spectra that are zero"),
        (LEVELS, Y, AXIS, {"spectra.chart": "log"}, SpectraError, "logarithmic chart"),
        (LEVELS, Y, AXIS, {"metric.members": 0}, ParameterError, "metric.members: found 0, exp"),
        (LEVELS, Y, AXIS, {"spectra.kappa": 3.0}, ParameterError, "'kappa': 3.0}, expected kappa"),
    ],
)
def test_wrong_arrays_and_settings_are_refused(levels, signal, axis, settings, error, message):
    with pytest.raises(error, match=message):
        SpectralModel.learn(levels, signal, axis, settings)


def test_no_concentration_is_refused(fast):
    for wrong in (-1.0, np.nan, np.inf):
        with pytest.raises(SpectraError, match=r"concentrations: found .*, expected finite numbe"):
            fast.predict(np.array([3.0, wrong]))


def test_inner_levels_change_nothing_that_is_predicted():
    few, every = (
        SpectralModel.learn(LEVELS, Y, AXIS, PATH | {"inner.levels": levels}).predict(BETWEEN)
        for levels in (2, None)
    )
    np.testing.assert_array_equal(few.spectra, every.spectra)
    np.testing.assert_array_equal(few.deviation, every.deviation)


def test_a_level_left_out_is_as_if_it_had_not_been_measured(fast):
    kept = np.arange(6) != 2
    without = SpectralModel.learn(LEVELS[kept], Y[kept], AXIS, FAST)
    expected = without.predict(LEVELS[[2]]).spectra[0]
    np.testing.assert_allclose(fast.left_out().spectra[2], expected, rtol=1e-9)


def test_the_package_has_its_classes_and_nothing_else():
    assert [getattr(geonode, name).__name__ for name in geonode.__all__] == geonode.__all__
    with pytest.raises(AttributeError, match="no attribute 'Regressor'"):
        geonode.Regressor  # noqa: B018
