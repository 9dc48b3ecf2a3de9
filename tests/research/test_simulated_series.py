import numpy as np
import pytest
import torch
from scipy.optimize import brentq

from research.draws import Draws
from research.responses import responses, smooth_functions
from research.simulated_series import DESIGNS, WIDEST, designs, simulate

CPU = torch.device("cpu")


def draws(seed=0):
    return Draws.of(seed, CPU)


@pytest.mark.parametrize("levels", [4, 26])
def test_levels_ascend_to_one_over_a_bounded_range(levels):
    found = designs(draws(), 400, levels)
    assert (found.diff(dim=1) > 0).all()
    torch.testing.assert_close(found[:, -1], torch.ones(400).double())
    lowest = torch.where(found > 0, found, torch.inf).amin(1)
    assert lowest.min() >= 0.99 / WIDEST
    blanks = (found[:, 0] == 0).double().mean()
    assert 0.3 < blanks < 0.6
    assert sum(DESIGNS.values()) == pytest.approx(1)


def test_series_are_those_of_their_seed_finite_and_of_the_asked_shape():
    first, again, other = (simulate(draws(seed), 50, 6, 17) for seed in (1, 1, 2))
    assert torch.equal(first.spectra, again.spectra)
    assert not torch.equal(first.spectra, other.spectra)
    assert first.spectra.shape == (50, 6, 17)
    assert torch.isfinite(first.spectra).all()


def test_unknowns_lie_between_levels_in_equal_numbers_and_look_like_their_neighbours():
    series, levels, unknowns = 200, 6, 30
    concentrations, spectra = simulate(draws(3), series, levels, 17, unknowns=unknowns)
    assert spectra.shape == (series, levels + unknowns, 17)
    known, new = concentrations[:, :levels].contiguous(), concentrations[:, levels:].contiguous()
    torch.testing.assert_close(known, designs(draws(3), series, levels))
    above = torch.searchsorted(known, new)
    assert torch.bincount(above.flatten()).numpy()[1:] == pytest.approx(series * 6, rel=0.15)
    apart = torch.cdist(spectra[:, levels:], spectra[:, :levels]).argmin(dim=2)
    assert ((apart == above) | (apart == above - 1)).double().mean() > 0.6  # 1 / 3 by chance


LEVELS = np.geomspace(0.02, 1.0, 25)


def amounts(law):
    """Responses by one law, with parameters drawn for each."""
    levels = torch.from_numpy(LEVELS).expand(150, -1)
    return responses(draws(), levels, 1, {law: 1.0})[:, 0].numpy()


def is_line(x, y):
    """Slopes and intercepts of functions that are straight lines."""
    for row in np.broadcast_to(y, (150, len(LEVELS))):
        assert np.ptp(np.diff(row) / np.diff(x)) < 1e-6 * max(1, np.abs(row).max())
    slopes = (y[:, -1] - y[:, 0]) / (x[-1] - x[0])
    return slopes, y[:, 0] - slopes * x[0]


def test_laws_that_become_straight_lines():
    """Each by the axes on which textbooks plot it."""
    logarithm = np.log(LEVELS)
    np.testing.assert_allclose(amounts("Beer and Lambert"), np.tile(LEVELS, (150, 1)))
    bound = amounts("Langmuir")
    slopes, intercepts = is_line(LEVELS, bound / (1 - bound))
    np.testing.assert_allclose(intercepts, 0, atol=1e-9)
    # constants from 0.3 times the lowest level to five times the highest
    assert slopes.min() > 1 / 5.001
    assert 60 < slopes.max() < 1.001 / 0.3 / LEVELS[0]
    bound = amounts("Hill")
    slopes, _ = is_line(logarithm, np.log(bound / (1 - bound)))
    assert 1 <= slopes.min() < 1.2
    assert 3.7 < slopes.max() <= 4
    slopes, intercepts = is_line(logarithm, np.log(amounts("power law")))
    np.testing.assert_allclose(intercepts, 0, atol=1e-9)
    assert 0.25 <= slopes.min() < 0.35
    assert 1.7 < slopes.max() <= 1.8
    slopes, intercepts = is_line(LEVELS, 1 / amounts("quenching"))
    np.testing.assert_allclose(intercepts, 1)
    assert slopes.min() > 0.15
    slopes, intercepts = is_line(LEVELS, np.log(amounts("inner filter") / LEVELS))
    np.testing.assert_allclose(intercepts, 1 + np.log(-slopes))  # e a c exp(-a c): 1 at its top
    assert 0.1 <= -slopes.max() < 0.15
    assert 6 < -slopes.min() <= 8
    found = amounts("aggregation")  # 1 / cosh(n / 2 ln(c / h))^2, with a bend at the top alone
    bends = np.diff(np.arccosh(np.maximum(found**-0.5, 1)), 2) / np.diff(logarithm)[1:]
    assert (np.sort(np.abs(bends), axis=1)[:, :-2] < 1e-5).all()
    assert found.max() <= 1 + 1e-9


def test_titration_keeps_the_balance_of_mass():
    """(c - x)(l - x) = k x of the bound amount x, which is given as a share of l or of 1."""
    for share in amounts("titration"):
        design = np.stack([share * LEVELS, share, share**2], axis=1)
        factors, *_ = np.linalg.lstsq(design, LEVELS, rcond=None)
        np.testing.assert_allclose(design @ factors, LEVELS, rtol=1e-5)
        of_all_sites, of_all_bound = factors[0] - 1, factors[0] + factors[2]
        assert min(abs(of_all_sites), abs(of_all_bound)) < 1e-3


@pytest.mark.parametrize(
    ("law", "formula"),
    [
        ("logarithm", lambda c, turn: np.log1p(c / turn) / np.log1p(1 / turn)),
        (
            "exponential saturation",
            lambda c, decay: (1 - np.exp(-c / decay)) / (1 - np.exp(-1 / decay)),
        ),
    ],
)
def test_one_level_tells_the_constant_of_a_law(law, formula):
    for found in amounts(law):
        constant = brentq(lambda x, y=found[12]: formula(LEVELS[12], x) - y, 1e-4, 30)
        np.testing.assert_allclose(formula(LEVELS, constant), found, rtol=1e-6)


def test_smooth_functions_are_smooth_and_of_unit_size():
    levels = torch.linspace(0, 1, 40, dtype=torch.float64).expand(100, -1)
    found = smooth_functions(draws(), levels, 3)
    torch.testing.assert_close(found.abs().amax((1, 2)), torch.ones(100).double())
    assert found.diff(dim=-1).abs().median() < 0.1


def test_smooth_functions_have_one_of_two_kernels_of_distance():
    """Of series on even levels, those on the linear chart without a trend."""
    levels = torch.linspace(0, 1, 5, dtype=torch.float64).expand(600, -1)
    kinds = {"squared exponential": 0, "Matern 3/2": 0}
    for functions in smooth_functions(draws(3), levels, 4000).numpy():
        found = np.corrcoef(functions.T)
        near = found[[0, 1, 2, 3], [1, 2, 3, 4]]
        if np.ptp(near) > 0.03 or not 0.1 < near.mean() < 0.8:
            continue
        near, apart = near.mean(), np.mean(found[[0, 1, 2], [2, 3, 4]])
        r = brentq(lambda r, k=near: (1 + r) * np.exp(-r) - k, 0, 20)
        expected = {"squared exponential": near**4, "Matern 3/2": (1 + 2 * r) * np.exp(-2 * r)}
        kind = min(expected, key=lambda kind, k=apart: abs(expected[kind] - k))
        assert abs(expected[kind] - apart) < 0.035
        kinds[kind] += 1
    assert kinds["squared exponential"] > kinds["Matern 3/2"] >= 5, kinds
