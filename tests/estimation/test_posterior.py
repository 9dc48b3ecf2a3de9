from dataclasses import replace
from itertools import pairwise, product

import mpmath
import numpy as np
import pytest
import torch
from scipy import stats
from threadpoolctl import threadpool_limits

from geonode.errors import SpectraError
from geonode.estimation.curve import DIRECTIONS, FREEDOM, STRETCH
from geonode.estimation.novelty import Novelty
from geonode.estimation.posterior import EVIDENCE, Law, estimate
from tests.estimation.known import W, bent, curve_by, holds, noise, straight

ROWS = noise(40, 0.01)


def posterior(curve, spectra):
    return Law(curve).posteriors(spectra).probability.numpy()


def log_likelihood(curve, spectrum, node):
    """The tempered law of a spectrum, from its definition."""
    error = curve.basis @ spectrum - curve.scores[node]
    covariance = curve.covariances.matrices[node]
    directions = len(error)
    effective = min(DIRECTIONS, directions)
    distance = error @ np.linalg.solve(covariance, error)
    size = np.linalg.slogdet(covariance)[1] / directions
    tail = np.log1p(distance / (FREEDOM * STRETCH))
    return -0.5 * (FREEDOM + effective) * tail - 0.5 * effective * size


def test_the_posterior_is_the_tempered_law_times_the_prior():
    curve = curve_by(bent, ROWS)
    spectra = bent(np.array([3.0, 33.0])) + noise(2, 0.02, 1)
    for spectrum, probability in zip(spectra, posterior(curve, spectra), strict=True):
        logarithm = [log_likelihood(curve, spectrum, node) for node in range(len(curve.edges) - 1)]
        expected = np.exp(np.array(logarithm) - np.max(logarithm)) * np.diff(curve.edges)
        np.testing.assert_allclose(probability, expected / expected.sum(), rtol=1e-6, atol=1e-12)


@pytest.fixture(scope="module")
def curve():
    """Of a response that rises and falls."""
    return curve_by(bent, ROWS)


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


def test_a_batch_too_large_for_the_memory_of_a_device_is_halved(curve, monkeypatch):
    whole, sizes = Law.posteriors, []

    def posteriors(law, spectra):
        sizes.append(len(spectra))
        if len(spectra) > 3:
            raise torch.OutOfMemoryError("none left")
        return whole(law, spectra)

    spectra = bent(np.linspace(5, 55, 7))
    expected = Law(curve).summaries(spectra)
    monkeypatch.setattr(Law, "posteriors", posteriors)
    found = Law(curve).summaries(spectra)
    assert sizes == [7, 3, 4, 2, 2]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)


@pytest.mark.parametrize("masses", [(0.9, 0.9), (0.5, 0.99), (0.99, 0.3)])
def test_sets_hold_what_few_concentrations_are_likelier_than(masses):
    curve = curve_by(bent, ROWS, masses=masses)
    spectra = bent(np.array([5.0, 20.0, 55.0])) + noise(3, 0.02, 4)
    middles, widths = curve.concentrations, np.diff(curve.edges)
    for row, intervals in zip(
        posterior(curve, spectra), estimate(curve, spectra).sets, strict=True
    ):
        density = row / widths
        for place, middle in enumerate(middles):
            likelier = row[density > density[place] * (1 + 1e-9)].sum()
            expected = likelier < masses[0 if 10 <= middle <= 50 else 1]
            if all(abs(likelier - mass) > 0.05 for mass in masses):  # more than a cell has
                assert holds(intervals, middle) == expected


def test_sets_of_a_higher_level_contain_those_of_a_lower(curve):
    """Where masses are 0.9, the one of 90% sets stays, and the mass outside shrinks."""
    spectra = curve.spectra(slice(100, 900, 200)) + noise(4, 0.01)
    sets = [estimate(curve, spectra, level).sets for level in (0.6, 0.9, 0.95, 0.99)]
    assert sets[1] == estimate(curve, spectra).sets
    for narrow, wide in pairwise(sets):
        for parts, others in zip(narrow, wide, strict=True):
            assert all(any(a <= low and high <= b for a, b in others) for low, high in parts)
            assert sum(b - a for a, b in others) > sum(b - a for a, b in parts)


def test_the_estimate_is_between_the_levels_unless_that_is_unlikely():
    """A spectrum of 55 where the levels end at 50, as errors become larger."""
    spectrum, between = straight(np.array([55.0])), []
    for size in (0.001, 0.01, 0.03, 0.1, 0.3):
        curve = curve_by(straight, noise(40, size))
        inside = posterior(curve, spectrum)[0, curve.inside].sum()
        mode = estimate(curve, spectrum).mode[0]
        assert (mode <= 50) == (inside >= EVIDENCE)
        between.append(inside >= EVIDENCE)
    assert between[0] != between[-1]


def test_a_p_value_combines_the_distance_and_the_novelty_by_fishers_method():
    curve = curve_by(straight, ROWS)  # of 6 levels, with a novelty of 1e-4, 5 degrees of freedom
    spectra = straight(np.array([20.0, 41.0])) + noise(2, 0.02, 7)
    expected = []
    for spectrum in spectra:
        error = spectrum @ curve.basis.T - curve.scores
        solved = np.linalg.solve(curve.covariances.matrices, error[..., None])[..., 0]
        nearest = (error * solved).sum(axis=1).min()
        other = np.sum(spectrum**2) - np.sum((spectrum @ curve.basis.T) ** 2)
        near = stats.f.sf(nearest / len(curve.basis), 2, 6 / 2 + 1)
        expected.append(stats.combine_pvalues([near, stats.f.sf(other / 1e-4, 5, 5 * 6)]).pvalue)
    np.testing.assert_allclose(estimate(curve, spectra).p_value, expected, rtol=1e-6)


@pytest.mark.parametrize(("freedom", "rows"), [(1.0, 2), (5.5, 50), (37.7, 200), (601.0, 3)])
def test_the_tail_of_the_novelty_is_that_of_f_by_many_digits(curve, freedom, rows):
    """SciPy's fdtrc is off by a fifth for 37.7 and 7540 degrees of freedom and F = 43.7."""
    ratios = np.concatenate([[0.0, 1.0], np.geomspace(1e-9, 1e9, 40), np.geomspace(0.1, 200, 40)])
    law = Law(replace(curve, novelty=Novelty(1.0, freedom, rows)))

    def tail(ratio):
        a, b = mpmath.mpf(freedom * rows) / 2, mpmath.mpf(freedom) / 2
        return float(mpmath.betainc(a, b, 0, a / (a + b * ratio), regularized=True))

    with mpmath.workdps(40):
        tails = np.array([tail(ratio) for ratio in ratios.tolist()])
    found, there = law.p_values(np.zeros(len(ratios)), ratios), tails > 1e-250
    expected = tails[there] * (1 - np.log(tails[there]))
    np.testing.assert_allclose(found[there], expected, rtol=1e-9)
    assert (found[~there] < 1e-240).all()


def test_an_offset_that_is_allowed_changes_nothing():
    spectra = straight(np.array([7.0, 42.0])) + noise(2, 0.005, 1)
    lenient = curve_by(straight, ROWS, offset=True)
    plain, shifted = (estimate(lenient, s) for s in (spectra, spectra + 3.0))
    np.testing.assert_allclose(shifted.mode, plain.mode)
    np.testing.assert_allclose(shifted.mean, plain.mean, rtol=1e-6)
    np.testing.assert_allclose(shifted.p_value, plain.p_value, rtol=1e-4)
    np.testing.assert_allclose(plain.mode, [7, 42], atol=2.0)
    assert not estimate(curve_by(straight, ROWS), spectra + 3.0).fits.any()


def test_modes_are_the_likeliest_of_every_part_of_a_set_with_its_probability(curve):
    spectra = bent(np.array([12.0, 30.0, 55.0])) + noise(3, 0.02, 6)
    found, middles = estimate(curve, spectra), curve.concentrations
    for probability, modes, parts in zip(
        posterior(curve, spectra), found.modes, found.sets, strict=True
    ):
        expected = []
        for low, high in parts:
            inside = (low - 1e-9 < middles) & (middles < high + 1e-9)
            density = np.where(inside, probability / np.diff(curve.edges), -1)
            near = density.argmax() + np.arange(-1, 2)
            bend, slope, _ = np.polyfit([-1, 0, 1], np.log(density[near]), 2)
            top = np.interp(-slope / (2 * bend), [-1, 0, 1], middles[near])
            expected.append((top, probability[inside].sum()))
        np.testing.assert_allclose(sorted(modes), expected)
        assert modes == sorted(modes, key=lambda mode: (-round(mode[1], 8), mode[0]))


def test_what_is_no_spectrum_of_these_wavelengths_is_refused_and_none_is_none(curve):
    found = estimate(curve, np.empty((0, len(W))))
    assert (len(found.mode), found.sets, found.modes) == (0, [], [])
    with pytest.raises(SpectraError, match="found 7 wavelengths, expected the 40"):
        estimate(curve, np.zeros((2, 7)))
    broken = straight(np.array([5.0]))
    broken[0, 3] = np.nan
    with pytest.raises(SpectraError, match="found NaN or infinity"):
        posterior(curve, broken)


# the same answer everywhere


def test_of_equal_modes_the_lower_one_is_the_estimate_in_any_batch(curve):
    """The same spectrum at 18.28 and 41.72: neither rounding nor its neighbours decide."""
    spectrum = bent(np.array([18.28]))
    others = bent(np.random.default_rng(8).uniform(0, 60, 299))
    transposed = np.asfortranarray(np.concatenate([others, spectrum]))
    alone = estimate(curve, spectrum)
    assert alone.mode[0] == pytest.approx(18.28, abs=0.05)
    batches = [
        np.concatenate([others[:6], spectrum]),
        transposed,  # the last of two blocks
        np.repeat(np.concatenate([others[:255], spectrum]), 2, axis=1)[:, ::2],
    ]
    before = torch.get_num_threads()
    for batch, threads in product(batches, (1, 2)):
        torch.set_num_threads(threads)
        with threadpool_limits(threads):
            found = estimate(curve, batch)
        torch.set_num_threads(before)
        for name in ("mode", "mean", "p_value"):
            one, expected = getattr(found, name)[-1], getattr(alone, name)[0]
            np.testing.assert_allclose(one, expected, rtol=1e-9)
        np.testing.assert_allclose(found.sets[-1], alone.sets[0], rtol=1e-9)
        np.testing.assert_allclose(found.modes[-1], alone.modes[0], rtol=1e-9)


def test_estimates_move_with_the_spectrum_not_from_node_to_node():
    """Of a straight response, in steps of a twentieth of the distance of the nodes."""
    curve, steps = curve_by(straight, noise(40, 1e-3)), 30 + np.linspace(0, 0.06, 21)
    found = estimate(curve, straight(steps))
    np.testing.assert_allclose(np.diff(found.mode), 0.003, rtol=0.05)
    ends = np.array([intervals[0] for intervals in found.sets])
    assert (np.diff(ends, axis=0) > 0).all()
