import numpy as np
import pytest
from scipy.stats import multivariate_t

from geonode.errors import SpectraError
from geonode.estimation import posterior as module
from geonode.estimation.curve import CREDIBLE, Curve
from geonode.estimation.posterior import MISFIT, estimate, posterior
from geonode.spectra.chart import Chart
from tests.estimation.known import LEVELS, W, bent, holds, known, noise, straight

ERRORS = noise(6, 0.01)


def test_the_posterior_is_students_law_times_the_share_of_the_chart():
    chart = Chart.of("asinh", 10.0, np.array(LEVELS))
    curve = Curve.of(known(bent, LEVELS, ERRORS, rows=noise(2, 0.02, 7), chart=chart))
    spectra = bent(np.array([3.0, 33.0])) + noise(2, 0.02, 1)
    found = posterior(curve, spectra)
    shares, factors = np.diff(chart.position(curve.edges)), np.linalg.inv(curve.inverse)
    covariances = factors @ factors.swapaxes(1, 2)
    for spectrum, probability in zip(spectra, found, strict=True):
        logarithm = [
            multivariate_t(mean, shape, df=df).logpdf(curve.basis @ spectrum)
            for mean, shape, df in zip(curve.scores, covariances, curve.freedom, strict=True)
        ]
        expected = np.exp(np.array(logarithm) - np.max(logarithm)) * shares
        np.testing.assert_allclose(probability, expected / expected.sum(), rtol=1e-5, atol=1e-9)


@pytest.fixture(scope="module")
def curve():
    """Of a response that rises and falls."""
    return Curve.of(known(bent, LEVELS, ERRORS))


def test_an_ambiguous_spectrum_has_both_modes_and_a_disconnected_set(curve):
    """The same spectrum at 12 and at 48; where the response turns, at 30, there is one mode."""
    found = estimate(curve, bent(np.array([12.0, 30.0])))
    assert len(found.modes[0]) == 2
    for (place, weight), expected in zip(sorted(found.modes[0]), (12.0, 48.0), strict=True):
        assert place == pytest.approx(expected, abs=1.0)
        assert weight == pytest.approx(0.5, abs=0.1)
    assert found.disconnected.tolist() == [True, False]
    (low, high), (other_low, other_high) = found.sets[0]
    assert low < 12 < high < other_low < 48 < other_high
    assert found.mean[1] == pytest.approx(30.0, abs=1.0)
    assert found.fits.all()


def simulated(formula, seed, levels, directions):
    """Concentrations, and their spectra with errors of the law that those inside the folds have.

    Independent errors in a few directions that the curve has, of different sizes.
    """
    generator, places = np.random.default_rng(seed), np.linspace(0, 60, levels)
    _, _, right = np.linalg.svd(formula(np.linspace(0, 60, 30)))
    rows = 0.05 * np.exp(-np.arange(directions) / 2)[:, None] * right[:directions]
    model = known(formula, places, generator.normal(size=(levels, directions)) @ rows)
    concentrations = generator.uniform(0, 60, 60)
    return (
        Curve.of(model),
        concentrations,
        formula(concentrations) + generator.normal(size=(60, directions)) @ rows,
    )


@pytest.mark.parametrize(("formula", "levels", "directions"), [(straight, 6, 2), (bent, 10, 4)])
def test_credible_sets_hold_what_they_promise(formula, levels, directions):
    """On average over series, as the errors of one may be larger or smaller than they should."""
    held = []
    for seed in range(20):
        curve, concentrations, spectra = simulated(formula, seed, levels, directions)
        held += map(holds, estimate(curve, spectra).sets, concentrations)
    assert np.mean(held) == pytest.approx(CREDIBLE, abs=0.05)


def test_credible_sets_are_the_smallest_that_hold_enough():
    curve, _, spectra = simulated(bent, 4, 8, 4)
    probability = posterior(curve, spectra)
    widths = np.diff(curve.edges)
    for row, intervals in zip(probability, estimate(curve, spectra).sets, strict=True):
        taken = np.zeros(len(row), dtype=bool)
        for low, high in intervals:
            taken |= (curve.edges[:-1] >= low) & (curve.edges[1:] <= high)
        density = row / widths
        assert row[taken].sum() >= CREDIBLE - 1e-9
        # Without its least likely cells it holds too little, and no cell left out is likelier.
        least = density[taken].min()
        assert row[density > least * (1 + 1e-9)].sum() < CREDIBLE
        assert density[~taken].max() <= density[taken].min()


def test_few_spectra_of_the_series_are_said_to_fit_nowhere_and_others_are():
    """Of noisy series: their spectra scatter about the curve, as errors and new spectra do."""
    found, generator = [], np.random.default_rng(0)
    foreign = 0.2 + np.exp(-((W - 0.9) ** 2) / 0.01)
    for _ in range(20):
        scatter = 0.02 * generator.normal(size=(9, len(W)))
        model = known(
            lambda c, s=scatter: straight(c) + s[: len(c)], np.linspace(0, 60, 9), scatter
        )
        object.__setattr__(model, "formula", straight)
        curve = Curve.of(model)
        concentrations = generator.uniform(0, 60, 50)
        spectra = straight(concentrations) + 0.02 * generator.normal(size=(50, len(W)))
        found.append(estimate(curve, spectra).p_value)
        strange = np.stack([foreign, straight(np.array([60.0]))[0] * 4])
        assert not estimate(curve, strange).fits.any()
    p_values = np.concatenate(found)
    assert np.mean(p_values < MISFIT) < 0.02
    assert np.mean(p_values < 0.1) < 0.15
    noisy = spectra + 0.2 * generator.normal(size=spectra.shape)
    assert np.mean(estimate(curve, noisy).p_value < MISFIT) > 0.95


def test_an_offset_that_is_allowed_changes_nothing():
    spectra = straight(np.array([7.0, 42.0])) + noise(2, 0.005, 1)
    strict = Curve.of(known(straight, LEVELS, ERRORS))
    lenient = Curve.of(known(straight, LEVELS, ERRORS), offset=True)
    plain, shifted = (estimate(lenient, s) for s in (spectra, spectra + 3.0))
    np.testing.assert_allclose(shifted.mode, plain.mode)
    np.testing.assert_allclose(shifted.mean, plain.mean, rtol=1e-6)
    np.testing.assert_allclose(shifted.p_value, plain.p_value, rtol=1e-4)
    np.testing.assert_allclose(plain.mean, [7, 42], atol=2.0)
    assert not estimate(strict, spectra + 3.0).fits.any()


def test_a_factor_that_is_allowed_costs_certainty_not_truth():
    """Of a peak that moves, its place tells the concentration whatever its height."""
    moving = lambda c: np.exp(-((W - 0.2 - np.asarray(c)[:, None] / 100) ** 2) / 0.02)  # noqa: E731
    levels = np.linspace(0, 60, 25)
    errors = 0.003 * np.random.default_rng(0).normal(size=(25, len(W)))
    spectra = 1.15 * moving(np.array([7.0, 42.0]))
    strict, lenient = (Curve.of(known(moving, levels, errors), scale=s) for s in (False, True))
    one, other = estimate(strict, spectra), estimate(lenient, spectra)
    np.testing.assert_allclose(other.mode, [7, 42], atol=0.5)
    assert (other.p_value > one.p_value).all()
    assert other.fits.all()
    assert not one.fits.any()
    exact = moving(np.array([7.0, 42.0]))
    assert (estimate(lenient, exact).deviation >= estimate(strict, exact).deviation * 0.999).all()


@pytest.mark.parametrize(("depth", "modes"), [(0.4, 3), (0.6, 1)])
def test_ripples_on_a_mode_are_no_modes_and_weights_are_those_of_basins(curve, depth, modes):
    """Three maxima about 20, the middle one highest, and one at 50 that is apart."""
    places = curve.concentrations
    corners = [0, 15, 17, 20, 23, 25, 40, 50, 60]
    heights = [0, 0.8, 0.8 * depth, 1.0, 0.9 * depth, 0.9, 0.01, 0.5, 0]
    probability = np.interp(places, corners, heights) * np.diff(curve.edges)
    probability /= probability.sum()
    (found,) = module._modes(curve, probability[None])
    near = [place for place, _ in found if place < 40]
    assert len(near) == modes
    assert min(abs(place - 20) for place in near) < 0.1
    ((last, weight),) = [mode for mode in found if mode[0] > 40]
    assert last == pytest.approx(50, abs=0.1)
    assert weight == pytest.approx(probability[places >= 40].sum(), abs=0.01)
    assert sum(weight for _, weight in found) == pytest.approx(1.0)


def test_estimates_do_not_depend_on_what_else_is_estimated(monkeypatch):
    curve, _, spectra = simulated(bent, 5, 8, 4)
    together = estimate(curve, spectra)
    monkeypatch.setattr(module, "BATCH_NUMBERS", curve.scores.size * 7)
    apart = estimate(curve, spectra)
    for name in ("mode", "mean", "deviation", "p_value"):
        np.testing.assert_allclose(getattr(apart, name), getattr(together, name), rtol=1e-9)
    cell = np.diff(curve.edges).max()  # rounding may decide about a node at the end of a set
    for alone, among in zip(apart.sets, together.sets, strict=True):
        np.testing.assert_allclose(alone, among, rtol=0, atol=1.001 * cell)
    assert [len(modes) for modes in apart.modes] == [len(modes) for modes in together.modes]


def test_what_is_no_spectrum_of_these_wavelengths_is_refused_and_none_is_none(curve):
    found = estimate(curve, np.empty((0, len(W))))
    assert (len(found.mode), found.sets, found.modes) == (0, [], [])
    with pytest.raises(SpectraError, match="found 7 wavelengths, expected the 40"):
        estimate(curve, np.zeros((2, 7)))
    broken = straight(np.array([5.0]))
    broken[0, 3] = np.nan
    with pytest.raises(SpectraError, match="found NaN or infinity"):
        posterior(curve, broken)
