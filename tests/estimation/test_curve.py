from dataclasses import replace

import numpy as np
import pytest

from geonode.estimation.curve import EVEN_SHARE, EXPECTED, OTHERWISE, SCALE_DEVIATION, Curve
from geonode.estimation.novelty import Novelty
from geonode.estimation.pedestal import Pedestal
from geonode.estimation.posterior import estimate
from geonode.estimation.range import knots_over_range
from geonode.learning.folds import leave_one_out
from geonode.learning.posterior_decoder import PosteriorDecoders
from geonode.posterior.prior import PRIOR_WAVELENGTHS, packaged_prior
from geonode.spectra.replicates import Replicates
from tests.estimation.known import LEVELS, W, bent, holds, noise, straight, whole
from tests.factory import series_of

SERIES = series_of(LEVELS, bent(LEVELS) + noise(6, 0.01))


def above(series):
    """The series less its pedestal."""
    return replace(series, signal=series.signal - Pedestal.of(series.signal).values)


def projector(spectra, constant=True):
    """Onto the span of spectra less their pedestal, and of a constant where they differ."""
    values, differ = Pedestal.of(spectra)
    rows = np.concatenate([spectra - values, differ[None][: int(constant)]])
    return np.linalg.pinv(rows) @ rows


def test_directions_are_those_of_the_training_spectra_and_a_constant():
    exact = series_of(LEVELS, straight(LEVELS))
    curve = Curve.of(exact)
    assert curve.basis.shape == (2, len(W))  # the peak and the constant
    np.testing.assert_allclose(curve.basis @ curve.basis.T, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(curve.basis.T @ curve.basis, projector(exact.signal), atol=1e-9)
    predicted = PosteriorDecoders(packaged_prior()).predict(
        whole(exact), above(exact), curve.concentrations[[100, 700]], None
    )
    found = curve.scores[[100, 700]] @ curve.basis
    np.testing.assert_allclose(found, predicted.spectra, atol=1e-4)


@pytest.mark.parametrize(("offset", "scale"), [(False, False), (False, True), (True, True)])
def test_covariances_are_of_the_posterior_and_of_the_residuals(offset, scale):
    """S at the knots from its definition, in all wavelengths."""
    fold, levels = whole(SERIES), SERIES.concentrations
    curve = Curve.of(SERIES, fold, offset=offset, scale=scale)
    predicted = PosteriorDecoders(packaged_prior()).predict(
        fold, above(SERIES), knots_over_range(levels), None
    )
    remove = np.full((len(W), len(W)), 1 / len(W)) if offset else np.zeros((len(W), len(W)))
    basis = curve.basis @ (np.eye(len(W)) - remove)
    directions = len(basis)
    residuals = predicted.residuals.spectra @ basis.T
    size = predicted.residuals.square * len(W) / directions
    own = sum(np.outer(one, one) / its for one, its in zip(residuals, size, strict=True))
    rows = above(SERIES).signal @ (np.eye(len(W)) - remove)
    span = basis @ np.linalg.pinv(rows) @ rows @ basis.T
    for knot in (3, 16, 30):
        rows = predicted.factors[knot] @ curve.basis.T
        even = predicted.even[knot] * len(W) / PRIOR_WAVELENGTHS
        of_posterior = rows.T @ rows + even * np.eye(directions)
        mean = np.trace(of_posterior) / directions
        even = mean * (span + OTHERWISE * np.eye(directions))
        expected = EXPECTED * ((1 - EVEN_SHARE) * of_posterior + EVEN_SHARE * even) + mean * own
        expected /= EXPECTED + len(levels)
        np.testing.assert_allclose(
            curve.covariances.at_knots[knot], expected, rtol=1e-4, atol=1e-6 * mean
        )
    node = 300
    across = curve.scores[[node - 1, node + 1]]
    terms = [(across[1] - across[0]) / 2 / 12**0.5]
    terms += [SCALE_DEVIATION * curve.scores[node]] * scale
    np.testing.assert_allclose(curve.covariances.terms[node], terms, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("directions", [3, 400])
def test_the_freedom_of_simulated_parts_is_their_number_of_directions(directions):
    generator = np.random.default_rng(directions)
    basis = np.linalg.qr(generator.normal(size=(600, directions)))[0].T
    found = [Novelty.of(generator.normal(size=(30, directions)) @ basis * 0.3) for _ in range(20)]
    squares = [one.square for one in found]
    assert np.mean(squares) == pytest.approx(0.09 * directions, rel=0.1)
    assert np.median([one.freedom for one in found]) == pytest.approx(directions, rel=0.35)


def test_novelty_is_what_the_others_do_not_have():
    """Of a curve that all lies in two directions, none; of noise, that of each spectrum."""
    exact = series_of(LEVELS, straight(LEVELS))
    assert Curve.of(exact).novelty.square < 1e-20
    noisy = series_of(LEVELS, straight(LEVELS) + noise(6, 0.01, seed=3))
    found, constant = Curve.of(noisy).novelty, Pedestal.of(noisy.signal).differ[None]
    apart = [
        np.sum((row - row @ np.linalg.pinv(others) @ others) ** 2)
        for k, row in enumerate(above(noisy).signal)
        for others in [np.concatenate([np.delete(above(noisy).signal, k, axis=0), constant])]
    ]
    assert found.square == pytest.approx(np.mean(apart))
    assert found.spectra == 6


def test_the_covariance_of_a_scan_is_that_of_a_mean_and_the_excess():
    """Of means of scans that have an offset and noise."""
    generator = np.random.default_rng(0)
    scans = straight(LEVELS)[:, None] + 0.03 * generator.normal(size=(6, 6, 1))
    scans = scans + 0.02 * generator.normal(size=(6, 6, len(W)))
    series = series_of(LEVELS, scans.mean(axis=1))
    series = replace(series, replicates=Replicates.of(list(scans)))
    mean, scan = (Curve.of(series, one_scan=one) for one in (False, True))
    rows = series.replicates.excess(np.arange(6)) @ mean.basis.T
    constant, proportional = series.replicates.growth(np.arange(6), series.concentrations)
    knots = knots_over_range(series.concentrations)
    for knot in (0, 15, 31):
        grown = (constant + proportional * knots[knot] ** 2) * rows.T @ rows
        expected = mean.covariances.at_knots[knot] + grown
        found = scan.covariances.at_knots[knot]
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-12)
    assert scan.novelty.square > 3 * mean.novelty.square


@pytest.mark.slow
def test_sets_hold_in_every_third_where_errors_grow_with_the_concentration():
    """Separate preparations with an error of 3% each: a scan of 50 is as wrong as five of 10."""
    generator, thirds = np.random.default_rng(0), {0: [], 1: [], 2: []}

    def scans(concentration, number):
        prepared = concentration * (1 + 0.03 * generator.normal(size=number))
        return straight(prepared) + 5e-4 * generator.normal(size=(number, len(W)))

    for _ in range(12):
        of_levels = [scans(level, 4) for level in LEVELS]
        series = series_of(LEVELS, np.stack([part.mean(axis=0) for part in of_levels]))
        series = replace(series, replicates=Replicates.of(of_levels))
        truths = generator.uniform(0, 60, 45)
        spectra = np.concatenate([scans(truth, 1) for truth in truths])
        found = estimate(Curve.of(series, one_scan=True), spectra)
        for truth, intervals in zip(truths, found.sets, strict=True):
            thirds[min(int(truth // 20), 2)].append(holds(intervals, truth))
    for held in thirds.values():
        assert 0.83 <= np.mean(held) <= 0.99


def test_a_curve_reads_nothing_of_the_left_out_spectrum():
    for fold in leave_one_out(6)[:-1:3]:
        changed = SERIES.signal.copy()
        changed[fold.index] = 7.0
        one, other = (Curve.of(series, fold) for series in (SERIES, series_of(LEVELS, changed)))
        for field in ("concentrations", "edges", "log_prior", "scores"):
            np.testing.assert_array_equal(getattr(one, field), getattr(other, field))
        np.testing.assert_array_equal(one.covariances.matrices, other.covariances.matrices)


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
