import pytest
import torch

from geonode.posterior.draws import Draws
from geonode.posterior.responses import responses, smooth_functions
from geonode.posterior.simulated_series import WIDEST, designs, simulate

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


def test_series_are_those_of_their_seed_finite_and_of_the_asked_shape():
    first, again, other = (simulate(draws(seed), 50, 6, 17) for seed in (1, 1, 2))
    assert torch.equal(first.spectra, again.spectra)
    assert not torch.equal(first.spectra, other.spectra)
    assert first.spectra.shape == (50, 6, 17)
    assert torch.isfinite(first.spectra).all()


def test_beer_and_lamberts_law_is_the_concentration():
    levels = torch.tensor([[0.1, 0.5, 1.0]], dtype=torch.float64)
    found = responses(draws(), levels, 1, {"Beer and Lambert": 1.0})
    torch.testing.assert_close(found[0, 0], levels[0])


@pytest.mark.parametrize("law", ["Langmuir", "Hill", "titration", "power law", "logarithm"])
def test_laws_of_binding_rise_and_stay_below_two(law):
    levels = torch.linspace(0, 1, 9, dtype=torch.float64).expand(200, -1)
    found = responses(draws(), levels, 1, {law: 1.0})
    assert (found.diff(dim=-1) >= -1e-12).all()
    assert found.min() >= 0
    assert found.max() < 2
    assert (responses(draws(), levels, 1, {"quenching": 1.0}).diff(dim=-1) < 0).all()


def test_aggregation_and_inner_filter_rise_and_fall():
    levels = torch.linspace(0, 1, 60, dtype=torch.float64).expand(300, -1)
    for law in ("aggregation", "inner filter"):
        found = responses(draws(), levels, 1, {law: 1.0})[:, 0]
        falls = (found[:, -1] < 0.98 * found.amax(1)).double().mean()
        assert 0.3 < falls < 1
        assert found.max() <= 1 + 1e-9


def test_smooth_functions_are_smooth_and_of_unit_size():
    levels = torch.linspace(0, 1, 40, dtype=torch.float64).expand(100, -1)
    found = smooth_functions(draws(), levels, 3)
    torch.testing.assert_close(found.abs().amax((1, 2)), torch.ones(100).double())
    assert found.diff(dim=-1).abs().median() < 0.1
