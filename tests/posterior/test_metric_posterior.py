import numpy as np
import pytest
import torch

from geonode.posterior.charts import LOG
from geonode.posterior.metric_posterior import BLOCK, MetricPosterior, PosteriorPrediction
from geonode.posterior.prior import packaged_prior
from geonode.posterior.smoothers import SMOOTHERS, dictionary
from tests.posterior.kriging import Kriging

LEVELS = np.array([0.0, 10.0, 20.0, 30.0, 60.0])
PRIOR = packaged_prior()
BAND = np.exp(-(((np.arange(30) - 12) / 5) ** 2))


def predict(spectra, targets, levels=LEVELS):
    """Prediction of a single fold."""
    posterior = MetricPosterior.of(levels[None], spectra[None], packaged_prior())
    found = posterior.predict(np.asarray(targets)[None])
    return PosteriorPrediction(*(part[0] for part in found))


def test_beer_and_lamberts_law_is_found():
    spectra = 0.02 + np.outer(LEVELS, BAND)
    targets = np.array([15.0, 45.0, 80.0])
    predicted = predict(spectra, targets).weights @ spectra
    for spectrum, target in zip(predicted, targets, strict=True):
        assert np.abs(spectrum - (0.02 + target * BAND)).max() < 0.01 * target


NOISY = np.outer(LEVELS / (LEVELS + 15), BAND)
NOISY += 0.01 * np.random.default_rng(0).normal(size=NOISY.shape)


def test_the_covariance_has_the_expected_size_and_is_positive():
    found = predict(NOISY, [15.0, 90.0])
    variance = np.einsum("tlw,tlw->tw", found.factors @ NOISY, found.factors @ NOISY)
    # A fifth of the expected squared error is even over wavelengths.
    np.testing.assert_allclose(variance.mean(axis=1), 4 * found.even, rtol=1e-6)
    assert found.even[1] > found.even[0] > 0


def test_factors_are_a_root_of_the_covariance_summed_over_smoothers():
    posterior, targets = MetricPosterior.of(LEVELS[None], NOISY[None], PRIOR), [[15.0, 90.0]]
    evidence = posterior.fitted.evidence(torch.tensor(targets).double())
    with torch.no_grad():
        shares = PRIOR.rule(evidence)[0].numpy()
    one = torch.eye(SMOOTHERS, dtype=torch.float64)[None]
    projection = posterior.fitted.smoothers.summed(one)[0].numpy()
    freedom = len(LEVELS) - posterior.fitted.description.coefficients.numpy()
    variance = (evidence.within / posterior.fitted.scale).numpy()
    for target, factors in enumerate(posterior.predict(np.array(targets)).factors[0]):
        apart = evidence.weights[target].T.numpy()
        apart = apart - shares[target] @ apart
        expected = np.einsum("m,ml,mk->lk", shares[target], apart, apart)
        parts = shares[target] * variance[target] / freedom
        expected += np.einsum("m,mlk->lk", parts, projection)
        found = factors.T @ factors * np.trace(expected) / np.sum(factors**2)
        # the networks compute with seven digits, and round by the place in a block
        np.testing.assert_allclose(found, expected, atol=2e-5 * np.trace(expected))


def test_the_metric_of_a_line_is_flat_and_two_long():
    levels = np.array([10.0, 20.0, 30.0, 40.0, 50.0, 60.0])
    places = np.linspace(10, 60, 51)
    middles = (places[1:] + places[:-1]) / 2
    mean, deviation = predict(np.outer(levels, BAND), middles, levels).sqrt_metric
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
def test_odd_spectra_have_finite_predictions_and_residuals_of_their_size(spectra):
    found, largest = predict(spectra, [0.0, 25.0, 500.0]), np.abs(spectra).max()
    predicted = found.weights @ spectra
    assert np.isfinite(predicted).all()
    assert np.isfinite(found.factors).all()
    assert np.abs(predicted).max() <= 20 * largest
    for levels in (LEVELS, np.array([1e-9, 1e-6, 1e-3, 1.0, 1e3])):
        posterior = MetricPosterior.of(levels[None], spectra[None], packaged_prior())
        (weights,), (square,) = posterior.left_out_residuals()
        assert np.abs(weights @ spectra).max() <= 20 * largest
        assert ((square >= 0) & (square <= 400 * largest**2)).all()


def test_a_pedestal_drowns_neither_prediction_nor_deviation():
    """From 100,000 times their span on, only mean functions without a constant could see it."""
    spectra = np.outer(LEVELS / (LEVELS + 15), BAND)
    spectra += 0.003 * np.random.default_rng(0).normal(size=spectra.shape)
    predicted, deviations, residuals = [], [], []
    for pedestal in (1e5, 1e7):
        raised = spectra + pedestal
        found = predict(raised, [5.0, 25.0, 80.0])
        predicted.append(found.weights @ raised - pedestal)
        rows = found.factors @ raised
        deviations.append(np.sqrt((rows**2).sum(1) + found.even[:, None]))
        posterior = MetricPosterior.of(LEVELS[None], raised[None], packaged_prior())
        (weights,), (square,) = posterior.left_out_residuals()
        residuals.append(np.append((weights @ raised).ravel(), np.sqrt(square)))
    np.testing.assert_allclose(*predicted, atol=1e-5)  # networks compute with seven digits
    np.testing.assert_allclose(*deviations, rtol=0.01)  # the rule sees the height
    np.testing.assert_allclose(*residuals, rtol=1e-5, atol=1e-7)
    low = predict(spectra + 1.0, [25.0])
    assert np.abs(predicted[0][1] - (low.weights[0] @ (spectra + 1.0) - 1.0)).max() < 0.01


@pytest.mark.parametrize("count", [3, 11])
def test_what_else_is_asked_for_changes_not_a_bit(count):
    """As long as a target keeps its place."""
    random = np.random.default_rng(count)
    levels = np.sort(random.uniform(0, 60, count))
    spectra = random.normal(size=(count, 31))
    targets = random.uniform(0, 80, BLOCK + 3)
    together = predict(spectra, targets, levels)
    for place in (0, 1, BLOCK - 1, BLOCK, BLOCK + 2):
        others = random.uniform(0, 80, place + 1)
        others[place] = targets[place]
        again = predict(spectra, others, levels)
        for one, other in zip(together[:3], again[:3], strict=True):
            np.testing.assert_array_equal(one[place], other[place])
        np.testing.assert_array_equal(together.sqrt_metric[:, place], again.sqrt_metric[:, place])


def test_folds_are_predicted_together_as_alone():
    random = np.random.default_rng(7)
    levels = np.sort(random.uniform(0, 60, (3, 5)))
    spectra = 10.0 ** np.arange(3)[:, None, None] * random.normal(size=(3, 5, 31))
    targets = random.uniform(0, 80, (3, 7))
    together = MetricPosterior.of(levels, spectra, packaged_prior()).predict(targets)
    for fold in range(3):
        alone = predict(spectra[fold], targets[fold], levels[fold])
        deviations = [found @ spectra[fold] for found in (together.factors[fold], alone.factors)]
        covariances = [rows.swapaxes(1, 2) @ rows for rows in deviations]
        np.testing.assert_allclose(*covariances, rtol=1e-5, atol=1e-6 * covariances[0].max())
        for name in ("weights", "even", "sqrt_metric"):
            found, expected = getattr(together, name)[fold], getattr(alone, name)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def refitted_residuals(levels, spectra):
    """Residuals of the average, and their expected size, by a fit without each level in turn."""
    kriging, description, count = Kriging(levels, levels[:0]), dictionary(), len(levels)
    residuals, expected, log_weights = [], [], []
    for smoother, chart in enumerate(description.chart.tolist()):
        if chart == LOG and levels[0] == 0:
            continue
        inverse = np.linalg.inv(kriging.system(smoother, np.arange(count)))[:count, :count]
        freedom = count - int(description.coefficients[smoother])
        scale = np.einsum("iw,ij,jw->", spectra, inverse, spectra) / freedom
        found = []
        for level in range(count):
            kept = np.delete(np.arange(count), level)
            weights, variance = kriging.predict(smoother, kept, level)
            found.append((spectra[level] - weights @ spectra[kept], variance))
        alone = np.stack([residual for residual, _ in found])
        noise = float(description.noise[smoother])
        residuals.append(alone)
        expected.append([scale * (variance + noise) for _, variance in found])
        log_weights.append(-4 * np.log(np.sum(alone**2)))
    weights = np.exp(np.array(log_weights) - max(log_weights))
    weights /= weights.sum()
    average = np.einsum("m,mlw->lw", weights, residuals)
    between = ((np.array(residuals) - average) ** 2).sum(axis=2)
    return average, weights @ (between + expected) / spectra.shape[1]


@pytest.mark.parametrize("levels", [LEVELS, LEVELS + 5.0], ids=["with a blank", "without"])
def test_residuals_of_left_out_levels_are_those_of_refits(levels):
    random = np.random.default_rng(1)
    spectra = 3 * np.outer(levels / (levels + 25), BAND) + 0.05 * random.normal(size=(5, 30))
    average, square = refitted_residuals(levels, spectra)
    folds = np.stack([levels**2, levels]), np.stack([2 * spectra[::-1], spectra])
    posterior = MetricPosterior.of(*folds, packaged_prior())
    weights, expected = posterior.left_out_residuals()
    np.testing.assert_allclose(weights[1] @ spectra, average, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(expected[1], square, rtol=1e-6)
