"""Whether spectra and concentrations belong together, against noise and against closed forms."""

from itertools import permutations

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from geonode.calibration import chance
from geonode.calibration.chance import Chance
from geonode.spectra.replicates import Replicates

AXIS = np.arange(400.0, 501.0, 2.0)
BAND = np.exp(-(((AXIS - 440) / 20) ** 2))


def noise(levels, random):
    return 0.1 + 0.01 * random.normal(size=(levels, len(AXIS)))


def along(levels, response):
    return np.linspace(0, 1, levels), np.outer(response(np.linspace(0, 1, levels)), BAND)


@pytest.mark.parametrize("levels", [4, 6, 12])
def test_few_series_of_noise_are_more_than_chance(levels):
    random, known = np.random.default_rng(levels), np.linspace(0, 1, levels)
    wrong = sum(not Chance.of(known, noise(levels, random)).is_likely for _ in range(100))
    assert wrong <= 11  # binomial of 100 and .05: 1% more


def test_the_exact_p_value_of_a_line():
    # Two of the 720 orders, the given one and its reverse, are as good, in both tests.
    found = Chance.of(*along(6, lambda c: c))
    assert found.p_value == pytest.approx(2 / 720 / 0.8)
    assert found.test == chance.ORDER


def test_the_order_is_judged_by_distance_covariance_and_by_neighbours():
    """The first in the form S1 + S2 - 2 S3 of Szekely, Rizzo and Bakirov (2007)."""
    random, known = np.random.default_rng(7), np.arange(6)
    spectra = random.normal(size=(6, 2)) + [0.8, 0] * known[:, None]
    apart, orders = squareform(pdist(spectra)), np.array([*permutations(known)])

    def covariance(ranks):
        three = np.sum(apart.mean(axis=0) * ranks.mean(axis=0)) / 6
        return np.mean(apart * ranks) + apart.mean() * ranks.mean() - 2 * three

    every = [np.abs(np.subtract.outer(order, order)) for order in orders]
    covariances = np.array([covariance(ranks) for ranks in every])
    neighbours = np.array([-np.sum(apart**2 * (ranks == 1)) for ranks in every])
    shares = [[np.mean(each >= own - 1e-9) for own in each] for each in (covariances, neighbours)]
    least = np.min(shares, axis=0)
    found = Chance.of(known.astype(float), spectra)
    expected = np.mean(least <= least[0] + 1e-9) / 0.8
    assert (found.test, found.p_value) == (chance.ORDER, pytest.approx(expected))


def test_few_levels_that_turn_are_left_to_the_axis():
    for levels in (4, 5, 6):
        known, spectra = along(levels, lambda c: np.sin(np.pi * c))
        found = Chance.of(known, spectra + 0.1 * noise(levels, np.random.default_rng(0)))
        assert (found.test, found.is_likely) == (chance.AXIS, False)
        assert "more levels" in found.sentence


def test_smooth_spectra_in_no_order_could_be_chance():
    known = np.linspace(0, 1, 8)
    spectra = np.outer([0.3, 0.9, 0.1, 0.8, 0.2, 0.7, 0.4, 0.6], BAND)
    assert "could be chance" in Chance.of(known, spectra).sentence
    assert not Chance.of(*along(12, lambda c: np.sin(np.pi * c))).is_likely  # an order that turns


@pytest.mark.parametrize(("size", "likely"), [(0.0, True), (0.1, False)])
def test_replicates_judge_four_levels(size, likely):
    random, known = np.random.default_rng(1), np.linspace(0, 1, 4)
    exact = size * np.outer([0.0, 1.0, 1.0, 0.0], BAND)
    scans = [one + noise(3, random) for one in exact]
    means = np.stack([one.mean(axis=0) for one in scans])
    found = Chance.of(known, means, Replicates.of(scans))
    assert found.is_likely == likely
    assert found.test == chance.REPLICATES or likely


@pytest.mark.parametrize("samples", [8, 12, 60])
def test_a_small_part_of_what_varies_is_seen(samples):
    """As a band on a background that differs from sample to sample."""
    random = np.random.default_rng(0)
    known, other = random.random((2, samples))
    spectra = np.outer(other, BAND) + np.outer(known, 0.02 * np.roll(BAND, 12))
    found = Chance.of(known, spectra + 1e-4 * random.normal(size=spectra.shape))
    assert not found.is_likely
    assert Chance.of(random.random(samples), spectra).is_likely


def test_units_the_scale_of_the_levels_and_their_order_change_nothing():
    random = np.random.default_rng(3)
    known, spectra = along(8, lambda c: c)
    spectra = spectra + 150 * noise(8, random)
    found = Chance.of(known, spectra)
    assert 0.01 < found.p_value < 1
    assert Chance.of(1e3 * known, 7 * spectra - 2) == found
    assert Chance.of(np.exp(known), spectra) == found
    shuffled = random.permutation(8)
    assert Chance.of(known[shuffled], spectra[shuffled]) == found


def test_thousands_of_samples_are_thinned_evenly():
    known, some = np.arange(5000.0), np.linspace(0, 4999, 100).round().astype(int)
    spectra = np.sin(known)[:, None] * BAND
    assert Chance.of(known, spectra) == Chance.of(known[some], spectra[some])


@pytest.mark.parametrize(("samples", "substances"), [(6, 2), (14, 6)])
def test_few_substances_of_noise_are_more_than_chance(samples, substances):
    random, wrong = np.random.default_rng(samples), 0
    for _ in range(120 // substances):
        known = random.random((samples, substances))
        wrong += sum(not one.is_likely for one in Chance.of_each(known, noise(samples, random)))
    assert wrong <= 12  # binomial of 120 and .05: 0.7% more


def test_a_weak_substance_is_seen_beside_a_strong_one():
    random = np.random.default_rng(0)
    known = random.random((14, 3))  # the third has no spectrum
    weak = np.outer(known[:, 1], 0.02 * np.roll(BAND, 12))
    spectra = np.outer(known[:, 0], BAND) + weak + 1e-4 * random.normal(size=(14, len(AXIS)))
    strong, found, none = Chance.of_each(known, spectra)
    assert not (strong.is_likely or found.is_likely)
    assert found.test == chance.OTHERS
    assert none.is_likely
    assert not Chance.of(known[:, 1], spectra).is_likely
    twice = Chance.of_each(np.vstack([known, known]), np.vstack([spectra, spectra]))
    assert twice == (strong, found, none)  # replicates are no further mixtures


@pytest.mark.parametrize("rank", [2, 20])  # fewer directions than a quarter of the samples, too
@pytest.mark.parametrize("samples", [8, 16, 40])
def test_neither_the_order_of_substances_or_samples_nor_units_count(samples, rank):
    random = np.random.default_rng(samples)
    known = random.choice([0.0, 1, 2, 3], size=(samples, 3))
    spectra = known @ random.random((3, rank)) * 0.02 + random.normal(size=(samples, rank))
    spectra = spectra @ random.random((rank, 20))
    expected = [one.p_value for one in Chance.of_each(known, spectra)]
    turned = Chance.of_each(known[:, [2, 0, 1]], spectra)
    assert [one.p_value for one in turned] == pytest.approx([expected[at] for at in (2, 0, 1)])
    order = random.permutation(samples)
    again = Chance.of_each(known[order] * [1000, 1, 1], 1000 * spectra[order, ::-1])
    assert [one.p_value for one in again] == pytest.approx(expected)


def test_the_exact_p_values_of_a_factorial_design():
    # Of the 720 orders 16 give the first amounts again, or mirrored; 72 the second ones.
    known = np.array([(one, other) for one in (0.0, 1.0, 2.0) for other in (0.0, 1.0)])
    first, second = Chance.of_each(known, known @ [BAND, np.roll(BAND, 12)])
    assert first.p_value == pytest.approx(16 / 720 / 0.8)
    assert second.p_value == pytest.approx(72 / 720 / 0.8)
    # Two levels of eight mixtures: 2 of the 70 choices of four, of which 999 are drawn.
    cube = np.array(np.meshgrid(*[[0.0, 1.0]] * 3)).reshape(3, 8).T
    for one in Chance.of_each(cube, cube @ [BAND, np.roll(BAND, 12), np.roll(BAND, 24)]):
        assert one.p_value == pytest.approx(2 / 70 / 0.8, abs=0.025)


def test_tied_substances_are_tested_each_by_itself():
    known = np.linspace(0.1, 0.9, 8)
    spectra = np.outer(known, BAND)
    found = Chance.of_each(np.stack([known, 1 - known], axis=1), spectra, tied=True)
    assert found == (Chance.of(known, spectra), Chance.of(1 - known, spectra))
