import numpy as np
import pytest

from geonode.posterior.posterior import BLOCK, MetricPosterior
from geonode.posterior.prior import packaged_prior

LEVELS = np.array([0.0, 10.0, 20.0, 30.0, 60.0])
BAND = np.exp(-(((np.arange(30) - 12) / 5) ** 2))


def posterior(spectra, levels=LEVELS):
    return MetricPosterior.of(levels, spectra, packaged_prior())


def test_beer_and_lamberts_law_is_found():
    spectra = 0.02 + np.outer(LEVELS, BAND)
    found = posterior(spectra)
    for target in (15.0, 45.0, 80.0):
        predicted = found.predict(np.array([target])).weights[0] @ spectra
        assert np.abs(predicted - (0.02 + target * BAND)).max() < 0.01 * target


def test_the_covariance_has_the_expected_size_and_is_positive():
    random = np.random.default_rng(0)
    spectra = np.outer(LEVELS / (LEVELS + 15), BAND) + 0.01 * random.normal(size=(5, 30))
    found = posterior(spectra).predict(np.array([15.0, 90.0]))
    variance = np.einsum("tlw,tlw->tw", found.factors @ spectra, found.factors @ spectra)
    # A fifth of the expected squared error is even over wavelengths.
    np.testing.assert_allclose(variance.mean(axis=1), 4 * found.even, rtol=1e-6)
    assert found.even[1] > found.even[0] > 0


def test_the_metric_of_a_line_is_flat_and_two_long():
    levels = np.array([10.0, 20.0, 30.0, 40.0, 50.0, 60.0])
    found = posterior(np.outer(levels, BAND), levels)
    places = np.linspace(10, 60, 51)
    mean, deviation = found.predict((places[1:] + places[:-1]) / 2).sqrt_metric
    assert (deviation >= 0).all()
    # Every chart is two long over the levels; weights change little along them.
    assert np.sum(mean) == pytest.approx(2.0, rel=0.05)


@pytest.mark.parametrize(
    "spectra",
    [
        np.ones((5, 1)) * LEVELS[:, None],
        np.ones((5, 30)),
        np.zeros((5, 30)),
        1e12 * np.outer(LEVELS, BAND),
    ],
    ids=["one wavelength", "constant", "zero", "huge"],
)
def test_odd_spectra_have_finite_predictions_of_their_size(spectra):
    found = posterior(spectra).predict(np.array([0.0, 25.0, 500.0]))
    predicted = found.weights @ spectra
    assert np.isfinite(predicted).all()
    assert np.isfinite(found.factors).all()
    assert np.abs(predicted).max() <= 20 * np.abs(spectra).max()


def test_levels_over_twelve_decades_have_finite_predictions():
    levels = np.array([1e-9, 1e-6, 1e-3, 1.0, 1e3])
    spectra = np.outer(np.log(levels) + 30, BAND)
    predicted = posterior(spectra, levels).predict(np.array([1e-4, 1e5])).weights @ spectra
    assert np.isfinite(predicted).all()
    assert np.abs(predicted[0] - (np.log(1e-4) + 30) * BAND).max() < 2


@pytest.mark.parametrize("count", [3, 5, 11])
def test_what_else_is_asked_for_changes_not_a_bit(count):
    random = np.random.default_rng(count)
    levels = np.sort(random.uniform(0, 60, count))
    found = posterior(random.normal(size=(count, 31)), levels)
    targets = random.uniform(0, 80, BLOCK + 3)
    together = found.predict(targets)
    for place, target in enumerate(targets):
        alone = found.predict(np.array([target]))
        for whole, part in zip(together[:3], alone[:3], strict=True):
            np.testing.assert_array_equal(whole[place], part[0])
        np.testing.assert_array_equal(together.sqrt_metric[:, place], alone.sqrt_metric[:, 0])
