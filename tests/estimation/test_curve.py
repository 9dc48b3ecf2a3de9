from dataclasses import replace

import numpy as np
import pytest

from geonode.decoders.posterior_decoder import PosteriorDecoders
from geonode.errors import TrainingError
from geonode.estimation.curve import SCALE_DEVIATION, Curve, Novelty
from geonode.estimation.posterior import estimate
from geonode.estimation.range import NODES
from geonode.posterior.prior import packaged_prior
from geonode.spectra.chart import Chart
from geonode.spectra.replicates import Replicates
from tests.estimation.known import LEVELS, W, bent, holds, known, learned, noise, straight

ERRORS = noise(6, 0.01)


def projector(spectra, constant=True):
    """Onto the span of spectra, and of a constant."""
    rows = np.concatenate([spectra, np.ones((int(constant), spectra.shape[1]))])
    return np.linalg.pinv(rows) @ rows


def covariance_by_hand(errors, signal, basis, rows, offset=False):
    """S = D + R in the directions of a basis, from their definitions."""
    known_parts = []
    for level, error in enumerate(errors):
        others = np.delete(signal, level, axis=0)
        known_parts.append(error @ projector(others, constant=not offset))
    parts = np.array(known_parts) @ basis.T
    square = np.mean(np.sum(parts**2, axis=1))
    moment = (parts.T @ parts + square * np.eye(len(basis))) / (len(parts) + 1)
    return moment + basis @ rows.T @ rows @ basis.T


def test_directions_are_those_of_the_training_spectra_and_a_constant():
    model = known(straight, LEVELS, ERRORS)
    curve = Curve.of(model)
    assert curve.basis.shape == (2, len(W))  # the peak and the constant
    np.testing.assert_allclose(curve.basis @ curve.basis.T, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(curve.basis.T @ curve.basis, projector(straight(LEVELS)), atol=1e-9)
    np.testing.assert_allclose(curve.scores @ curve.basis, straight(curve.concentrations))


def test_nodes_are_even_on_the_chart_and_cells_share_it_out():
    chart = Chart.of("asinh", 5.0, np.array(LEVELS))
    curve = Curve.of(known(straight, LEVELS, ERRORS, chart=chart))
    assert len(curve.concentrations) == NODES
    steps = np.diff(chart.position(curve.concentrations))
    np.testing.assert_allclose(steps, steps[0], rtol=1e-6)
    cells = np.diff(chart.position(curve.edges))
    np.testing.assert_allclose(cells[1:-1], steps[0], rtol=1e-6)
    np.testing.assert_allclose(cells[[0, -1]], steps[0] / 2, rtol=1e-6)
    assert (curve.edges[0], curve.edges[-1]) == (0.0, 60.0)
    assert (curve.edges[:-1] <= curve.concentrations).all()
    assert (curve.concentrations <= curve.edges[1:]).all()


@pytest.mark.parametrize(("offset", "scale"), [(False, False), (False, True), (True, True)])
def test_covariances_are_disagreement_and_errors(offset, scale):
    rows = noise(3, 0.02, seed=5)
    if offset:  # a constant is of no account, so nor is that part of any spectrum
        shape = lambda c: bent(c) - bent(c).mean(axis=1, keepdims=True)  # noqa: E731
        errors = ERRORS - ERRORS.mean(axis=1, keepdims=True)
    else:
        shape, errors = bent, ERRORS
    curve = Curve.of(known(bent, LEVELS, ERRORS, rows=rows), offset=offset, scale=scale)
    expected = covariance_by_hand(errors, shape(LEVELS), curve.basis, rows, offset)
    for node in (0, 300, 1024):
        mean = curve.basis @ shape(curve.concentrations[[node]])[0]
        np.testing.assert_allclose(curve.scores[node], mean, atol=1e-6)
        across = np.diff(shape(curve.edges[[node, node + 1]]), axis=0) @ curve.basis.T
        whole = expected + scale * SCALE_DEVIATION**2 * np.outer(mean, mean)
        whole += across.T @ across / 12
        factor = np.linalg.inv(curve.inverse[node])
        np.testing.assert_allclose(factor @ factor.T, whole, rtol=1e-5, atol=1e-9)
        determinant = np.linalg.slogdet(whole)[1]
        assert curve.log_determinant[node] == pytest.approx(determinant, abs=1e-4)
    assert (curve.freedom == 7).all()


def test_what_is_outside_of_the_training_range_uses_all_errors():
    errors = ERRORS * np.array([10, 1, 1, 1, 1, 10.0])[:, None]
    model = known(straight, LEVELS, errors, fold=0, inside=[2, 3, 4])
    curve = Curve.of(model)
    outside = curve.concentrations < 10
    assert 0 < outside.sum() < len(outside)
    np.testing.assert_array_equal(curve.freedom, np.where(outside, 7, 4))
    widths = curve.log_determinant
    assert widths[outside].min() > widths[~outside].max()


def test_exact_predictions_have_a_smallest_error():
    curve = Curve.of(known(straight, LEVELS, 0 * ERRORS))
    assert np.isfinite(curve.inverse).all()
    assert np.isfinite(curve.log_determinant).all()


def test_without_inner_folds_nothing_says_how_far_a_spectrum_is_off():
    model = known(straight, LEVELS, ERRORS)
    object.__setattr__(model.blend, "calibration", None)
    with pytest.raises(TrainingError, match=r"inner.members 0, expected 1 or more"):
        Curve.of(model)


class Unused(PosteriorDecoders):
    def predict(self, *_):
        raise AssertionError


def test_a_blend_estimates_by_its_posterior_alone():
    alone = learned(np.array(LEVELS), straight(LEVELS) + noise(len(LEVELS), 0.01))
    weights = np.full((len(LEVELS) + 1, 2), 0.5)
    decoders = {"path": Unused(packaged_prior()), **alone.blend.decoders}
    blend = replace(alone.blend, decoders=decoders, weights=weights)
    found, expected = (Curve.of(model) for model in (replace(alone, blend=blend), alone))
    for name, part in vars(expected).items():
        np.testing.assert_equal(getattr(found, name), part)


# novelty


@pytest.mark.parametrize("directions", [3, 400])
def test_the_freedom_of_simulated_parts_is_their_number_of_directions(directions):
    generator = np.random.default_rng(directions)
    basis = np.linalg.qr(generator.normal(size=(600, directions)))[0].T
    found = [Novelty.of(generator.normal(size=(30, directions)) @ basis * 0.3) for _ in range(20)]
    squares = [one.square for one in found]
    assert np.mean(squares) == pytest.approx(0.09 * directions, rel=0.1)
    assert np.median([one.freedom for one in found]) == pytest.approx(directions, rel=0.35)


def test_sizes_that_differ_leave_little_freedom_and_no_novelty_is_none():
    parts = noise(6, 1.0) * np.array([1, 1, 1, 1, 1, 30.0])[:, None]
    assert Novelty.of(parts).freedom < 1.5
    assert Novelty.of(np.zeros((4, 9))) == Novelty(0.0, 1.0, 4)


def test_novelty_is_what_the_others_do_not_have():
    """Of a curve that all lies in two directions, none; of noise, that of each spectrum."""
    assert Curve.of(known(straight, LEVELS, ERRORS)).novelty.square < 1e-20
    scatter = noise(6, 0.01, seed=3)
    noisy = lambda c: straight(c) + scatter[: len(c)]  # noqa: E731
    model = known(noisy, LEVELS, ERRORS)
    object.__setattr__(model, "formula", straight)
    found = Curve.of(model).novelty
    apart = [
        np.sum((row - row @ projector(np.delete(model.series.signal, k, axis=0))) ** 2)
        for k, row in enumerate(model.series.signal)
    ]
    assert found.square == pytest.approx(np.mean(apart))
    assert found.spectra == 6


# single scans


def scanned(seed, count=6):
    """A series of means of scans that have an offset and noise, and the scans' generator."""
    generator = np.random.default_rng(seed)

    def scans(concentration, number):
        offset = 0.03 * generator.normal(size=(number, 1))
        reading = 0.02 * generator.normal(size=(number, len(W)))
        return straight(np.full(number, concentration)) + offset + reading

    levels = np.array(LEVELS)
    of_levels = [scans(level, count) for level in levels]
    model = learned(levels, np.stack([part.mean(axis=0) for part in of_levels]))
    series = replace(model.series, replicates=Replicates.of(of_levels))
    return replace(model, series=series), scans


@pytest.mark.slow
def test_single_scans_fit_as_their_replicates_vary():
    """A single scan has six times the variance of the means that the series consists of."""
    fits, fit_as_means, held = [], [], []
    for seed in range(8):
        model, scans = scanned(seed)
        truths = np.linspace(5, 55, 8)
        spectra = np.concatenate([scans(truth, 1) for truth in truths])
        found = estimate(Curve.of(model, one_scan=True), spectra)
        fits += found.fits.tolist()
        fit_as_means += estimate(Curve.of(model), spectra).fits.tolist()
        held += map(holds, found.sets, truths)
    assert np.mean(fits) >= 0.95
    assert np.mean(fit_as_means) < 0.7
    assert np.mean(held) >= 0.85


def test_the_covariance_of_a_scan_is_that_of_a_mean_and_the_excess():
    model, _ = scanned(0)
    mean, scan = Curve.of(model), Curve.of(model, one_scan=True)
    rows = model.series.replicates.excess(np.arange(6)) @ mean.basis.T
    for node in (0, 500, 1024):
        of_mean, of_scan = (np.linalg.inv(curve.inverse[node]) for curve in (mean, scan))
        expected = of_mean @ of_mean.T + rows.T @ rows
        np.testing.assert_allclose(of_scan @ of_scan.T, expected, rtol=1e-8, atol=1e-12)
    assert scan.novelty.square > 3 * mean.novelty.square


@pytest.mark.parametrize("size", [0.1, 10.0])
def test_noise_adds_its_square_and_its_freedom(size):
    """Of a sum of chi-squared laws, by Satterthwaite, against draws."""
    generator = np.random.default_rng(0)
    rows = size * generator.normal(size=(4, 30)) / 30**0.5
    found = Novelty(2.0, 5.0, 6).with_noise(rows)
    draws = 2.0 * generator.chisquare(5.0, 50_000) / 5.0
    draws += np.sum((generator.normal(size=(50_000, 4)) @ rows) ** 2, axis=1)
    assert found.square == pytest.approx(draws.mean(), rel=0.02)
    assert found.freedom == pytest.approx(2 * draws.mean() ** 2 / draws.var(), rel=0.05)
    assert Novelty(2.0, 5.0, 6).with_noise(rows[:0]) == Novelty(2.0, 5.0, 6)
