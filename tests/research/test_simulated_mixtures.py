import numpy as np
import pytest
import torch

from geonode.mixtures.design import Design
from research.draws import Draws
from research.simulated_mixtures import WAVELENGTHS, simulate_mixtures


def simulated(seed, substances=3, samples=30):
    draws = Draws.of(seed, torch.device("cpu"))
    return simulate_mixtures(draws, substances, samples, 5)


@pytest.mark.parametrize("substances", [1, 2, 4])
def test_mixtures_can_be_calibrated_and_unknowns_are_within(substances):
    for seed in range(40):
        amounts, spectra, true, unknowns = simulated(seed, substances)
        design = Design.of(amounts)
        assert not design.are_outside(true).any()
        assert (amounts >= 0).all()
        assert spectra.shape == (30, WAVELENGTHS)
        assert unknowns.shape == (5, WAVELENGTHS)
        assert np.isfinite(spectra).all()
        assert np.isfinite(unknowns).all()


def test_a_seed_gives_the_same_mixtures():
    for one, other in zip(simulated(3), simulated(3), strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(simulated(3)[1], simulated(4)[1])


def test_signals_are_neither_linear_nor_noise_alone():
    """Residuals of straight lines over the amounts, as shares of the variance."""
    shares = []
    for seed in range(40):
        amounts, spectra, *_ = simulated(seed)
        design = np.column_stack([np.ones(30), amounts / amounts.max(axis=0)])
        left = spectra - design @ np.linalg.lstsq(design, spectra)[0]
        shares.append(left.var() / (spectra - spectra.mean(axis=0)).var())
    assert 0.005 < np.median(shares) < 0.4
    assert min(shares) < 0.01
    assert max(shares) > 0.1
