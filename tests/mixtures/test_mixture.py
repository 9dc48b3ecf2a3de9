import numpy as np
import pytest
import torch
from scipy.stats import chi2

from geonode.errors import MixtureError, SpectraError
from geonode.mixtures.design import Design
from geonode.mixtures.forward import ForwardModel
from geonode.mixtures.inverse import fit_inverse
from geonode.mixtures.mixture import (
    CANDIDATE_HANDICAPS,
    MEMBERS,
    NAMES,
    POWER,
    WIDER,
    MixtureCalibration,
    _bound,
    joined,
)
from research.draws import Draws
from research.simulated_mixtures import simulate_mixtures
from tests.mixtures import beer

KNOWN = beer.amounts(18, 2)
SIGNAL = beer.spectra(KNOWN, noise=5e-3, bend=1.0)
UNKNOWN = np.clip(beer.amounts(10, 2, seed=3), 1, 9)


@pytest.fixture(scope="module")
def fitted():
    return MixtureCalibration.of(SIGNAL, KNOWN, ("lead", "zinc"))


def test_unknowns_are_estimated_with_regions_that_hold_them(fitted):
    found = fitted.estimate(beer.spectra(UNKNOWN, noise=5e-3, bend=1.0, seed=7))
    np.testing.assert_allclose(found.amounts, UNKNOWN, atol=0.15)
    assert found.fits.all()
    assert not found.outside.any()
    assert found.holds(UNKNOWN).mean() >= 0.7
    assert not found.holds(UNKNOWN + 2).any()
    low, high = np.moveaxis(found.intervals, -1, 0)
    np.testing.assert_allclose((low + high) / 2, found.amounts, rtol=1e-9)
    assert ((low <= UNKNOWN) & (high >= UNKNOWN)).mean() >= 0.7
    half = np.sqrt(fitted.radii() * np.diagonal(found.covariance, axis1=1, axis2=2))
    np.testing.assert_allclose(high - found.amounts, half, rtol=1e-9)
    edge = found.amounts + np.sqrt(found.radius) * np.linalg.cholesky(found.covariance)[:, :, 1]
    assert found.holds(found.amounts + 0.999 * (edge - found.amounts)).all()
    assert not found.holds(found.amounts + 1.001 * (edge - found.amounts)).any()


def test_left_out_estimates_are_those_of_fits_that_never_saw_the_composition(fitted):
    for fold in (0, 11):
        out = fitted.design.folds == fold
        design = fitted.design.without(out)
        linear = fit_inverse(SIGNAL[~out], design.amounts, design.composition)
        for key, one in linear.items():
            expected = one.estimates(SIGNAL[out])
            np.testing.assert_allclose(fitted.left_out[key][out], expected, rtol=1e-9)
        modes = ForwardModel.of(design, SIGNAL[~out]).modes(SIGNAL[out])
        np.testing.assert_allclose(fitted.left_out["geonode"][out], modes.amounts[:, 0], rtol=1e-6)
        # The covariance is that of the weights and errors of the other folds.
        errors = np.stack([fitted.left_out[key] for key in NAMES]) - KNOWN
        sizes = np.linalg.norm(errors[:, ~out], axis=1) * CANDIDATE_HANDICAPS[:, None]
        ours = np.diag(sizes[0] ** -POWER / np.sum(sizes**-POWER, axis=0))
        shares = fitted.weights[1:] / fitted.weights[1:].sum(axis=0)
        of_rest = np.sum(shares[:, None] * errors[1:, ~out], axis=0)
        moment = of_rest.T @ of_rest / len(of_rest)
        moment[[0, 1], [1, 0]] *= len(of_rest) / (len(of_rest) + 4)  # samples without errors
        rest = (np.eye(2) - ours) @ moment @ (np.eye(2) - ours)
        for own, whole in zip(modes.covariance, fitted.spread[out], strict=True):
            np.testing.assert_allclose(whole, ours @ own @ ours + rest, rtol=1e-6)


def test_linear_fits_are_the_mean_of_those_without_a_fold(fitted):
    design, folds = fitted.design, fitted.design.folds
    each = [
        fit_inverse(SIGNAL[folds != fold], kept.amounts, kept.composition)
        for fold in range(folds.max() + 1)
        for kept in [design.without(folds == fold)]
    ]
    unknowns = beer.spectra(UNKNOWN, bend=1.0)
    for key, one in fitted.linear.items():
        expected = np.mean([fit[key].estimates(unknowns) for fit in each], axis=0)
        np.testing.assert_allclose(one.estimates(unknowns), expected, rtol=1e-9)
    assert len(fitted.forward.members) % 2 == 0
    assert 4 <= len(fitted.forward.members) <= MEMBERS


def test_weights_and_verdict_follow_the_errors(fitted):
    errors = np.stack([fitted.rmsep[key] for key in NAMES]) * CANDIDATE_HANDICAPS[:, None]
    expected = errors**-POWER / np.sum(errors**-POWER, axis=0)
    np.testing.assert_allclose(fitted.weights, expected, rtol=1e-3)
    assert fitted.verdict == tuple([*NAMES][place] for place in errors.argmin(axis=0))
    signal = beer.spectra(UNKNOWN, bend=1.0)
    each = fitted.by_method(signal)
    combined = sum(fitted.weights[place] * each[key] for place, key in enumerate(NAMES))
    np.testing.assert_allclose(fitted.estimate(signal).amounts, combined, rtol=1e-9)


def test_the_response_surface_is_chosen_where_responses_bend():
    known = beer.amounts(40, 2)
    found = MixtureCalibration.of(beer.spectra(known, noise=1e-3, bend=4.0), known)
    assert found.verdict == ("geonode", "geonode")
    assert (found.rmsep["combined"] < 0.5 * found.rmsep["preprocessed_pls"]).all()


def test_other_methods_are_chosen_where_much_else_varies():
    known, random = beer.amounts(40, 2), np.random.default_rng(0)
    matter = random.normal(size=(8, len(beer.AXIS))).cumsum(axis=1)
    varied = random.normal(size=(40, 8)) @ matter
    found = MixtureCalibration.of(beer.spectra(known, noise=1e-3) + varied, known)
    assert "geonode" not in found.verdict
    assert (found.rmsep["combined"] < 1.2 * found.rmsep["preprocessed_pls"]).all()
    # The covariance is that of both parts, and no sample weighs the methods that estimate it.
    signal = beer.spectra(UNKNOWN)
    ours, rest = np.diag(found.weights[0]), np.diag(1 - found.weights[0])
    for own, whole in zip(
        found.forward.modes(signal).covariance, found.estimate(signal).covariance, strict=True
    ):
        np.testing.assert_allclose(whole, ours @ own @ ours + rest @ found.rest @ rest, rtol=1e-9)
    every, folds = np.stack([found.left_out[key] for key in NAMES]), found.design.folds
    for fold in range(folds.max() + 1):
        sizes = np.linalg.norm((every - known)[:, folds != fold], axis=1)
        weights = (sizes * CANDIDATE_HANDICAPS[:, None]) ** -POWER
        expected = np.einsum("mns,ms->ns", every[:, folds == fold], weights / weights.sum(axis=0))
        np.testing.assert_allclose(found.left_out["combined"][folds == fold], expected, rtol=1e-7)


def test_one_substance_is_estimated_nearly_as_well_as_can_be():
    """Errors about as small as the bound of Cramer and Rao, for a known pure spectrum and noise."""
    known, unknown = beer.amounts(20, 1), np.clip(beer.amounts(60, 1, seed=3), 1, 9)
    found = MixtureCalibration.of(beer.spectra(known, noise=0.05), known)
    estimates = found.estimate(beer.spectra(unknown, noise=0.05, seed=7)).amounts
    bound = 0.05 / np.linalg.norm(beer.PURE[0])
    assert 0.7 < np.sqrt(np.mean((estimates - unknown) ** 2)) / bound < 1.4


def test_two_amounts_with_one_spectrum_are_both_in_the_region():
    """A signal that is the same at c and 10 - c, but for the range of the samples."""
    known = np.linspace(0, 10, 21)[:, None]
    noise = 1e-3 * np.random.default_rng(4).normal(size=(21, len(beer.AXIS)))
    found = MixtureCalibration.of((known - 5) ** 2 * beer.PURE[0] / 25 + noise, known)
    estimates = found.estimate((np.array([[2.0], [8.5]]) - 5) ** 2 * beer.PURE[0] / 25)
    for place, pair in enumerate(([2.0, 8.0], [1.5, 8.5])):
        np.testing.assert_allclose(np.sort(estimates.parts[place][:, 0]), pair, atol=0.3)
        assert len(estimates.sets[place][0]) == 2
        assert estimates.holds(np.tile(pair[0], (2, 1)))[place]
        assert estimates.holds(np.tile(pair[1], (2, 1)))[place]
    low, high = np.moveaxis(estimates.intervals[:, 0], -1, 0)
    assert (low < [2.0, 1.5]).all()
    assert (high > [8.0, 8.5]).all()


def test_intervals_that_overlap_are_one():
    found = joined([[2.6, 3.4], [0.6, 1.9], [1.1, 1.4]])
    np.testing.assert_allclose(found, [(0.6, 1.9), (2.6, 3.4)])


@pytest.mark.parametrize(("size", "level"), [(1, 0.9), (1, 0.6), (2, 0.9), (2, 0.99)])
def test_bounds_are_the_quantiles_of_normal_errors(size, level):
    ratios = chi2(size).rvs(20_000, random_state=0)
    expected = WIDER ** (size - 1) * chi2(size).ppf(level)
    assert _bound(ratios, Design.of(beer.amounts(300, 2)), size, level) == pytest.approx(
        expected, rel=0.03
    )


@pytest.mark.slow
def test_nine_of_ten_regions_hold():
    joint, one = [], []
    for seed in range(90_000, 90_008):
        draws = Draws.of(seed, torch.device("cpu"))
        known, signal, true, unknown = simulate_mixtures(draws, 2, 16, 20)
        found = MixtureCalibration.of(signal, known).estimate(unknown)
        joint.append(found.holds(true).mean())
        ends = found.intervals
        one.append(np.mean((ends[..., 0] <= true) & (true <= ends[..., 1])))
    assert 0.8 <= np.mean(joint) <= 0.99
    assert 0.8 <= np.mean(one) <= 0.99


@pytest.mark.usefixtures("unchecked")
def test_spectra_that_are_none_of_the_samples_are_refused(fitted):
    with pytest.raises(SpectraError, match="expected finite numbers: 18 samples"):
        MixtureCalibration.of(SIGNAL[1:], KNOWN)
    for differs in (0.0, np.eye(18)[:, :1]):  # none differs, or one
        with pytest.raises(MixtureError, match="the same one in all samples"):
            MixtureCalibration.of(np.ones_like(SIGNAL) + differs, KNOWN)
    with pytest.raises(SpectraError, match="change the unit"):
        MixtureCalibration.of(SIGNAL * 1e300, KNOWN)
    with pytest.raises(SpectraError, match=r"shape \(18, 59\), expected finite numbers: .* 60 wav"):
        fitted.estimate(SIGNAL[:, 1:])


def test_tied_amounts_are_estimated_each_by_itself():
    random = np.random.default_rng(1)
    closed = random.dirichlet([2.0, 2.0, 2.0], 24)
    signal = beer.spectra(closed, noise=1e-3)
    found = MixtureCalibration.of(signal[:16], closed[:16], ("fat", "flour", "water"))
    assert found.design.without_surface.startswith("Amounts are tied, as amounts of fat, flour")
    assert found.surface is None
    assert "geonode" not in {*found.rmsep, *found.verdict, *found.by_method(signal)}
    estimates = found.estimate(signal[16:])
    np.testing.assert_allclose(estimates.amounts, closed[16:], atol=0.02)
    assert estimates.fits.all()
    assert not found.estimate(3 * signal).fits.any()
    np.testing.assert_array_equal(found.rest, np.diag(np.diag(found.rest)))
    low, high = np.moveaxis(estimates.intervals, -1, 0)
    assert np.mean((low <= closed[16:]) & (closed[16:] <= high)) >= 0.7


def test_precision_is_that_of_the_errors_of_new_spectra():
    known = beer.amounts(40, 2)
    calibration = MixtureCalibration.of(beer.spectra(known, noise=0.02), known)
    at = np.array([[5.0, 3.0]])
    (errors_at,), (correlations,) = calibration.precision(at)
    again = beer.spectra(np.repeat(at, 300, axis=0), noise=0.02, seed=5)
    errors = calibration.estimate(again).amounts - at
    ratios = errors.std(axis=0) / errors_at
    assert ((ratios > 0.5) & (ratios < 1.5)).all()
    # Of least squares with white noise.
    inverse = np.linalg.inv(beer.PURE[:2] @ beer.PURE[:2].T)
    expected = inverse[0, 1] / np.sqrt(inverse[0, 0] * inverse[1, 1])
    assert correlations[0, 1] == pytest.approx(expected, abs=0.2)
    np.testing.assert_allclose(np.diag(correlations), 1)
