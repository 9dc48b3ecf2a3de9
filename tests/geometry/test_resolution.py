from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch

from geonode.errors import GeometryError
from geonode.geometry import resolution
from geonode.geometry.grid import Grid
from geonode.geometry.resolution import cell_errors, require_resolution, smallest_resolution
from tests.geometry.closed_forms import (
    RECIPROCAL,
    Known,
    constant,
    exponential,
    grid_of,
    nodes,
    stretched,
)

LIKE = nodes(4)
RANDOM = 2 * torch.rand(50_000, generator=torch.Generator().manual_seed(0)).double() - 1


@dataclass
class FormulaSource:
    """For each model some known metrics, one a wavelength."""

    known: Sequence[Sequence[Known]]
    calls: int = 0

    @property
    def models(self) -> int:
        return len(self.known)

    def grid(self, model: int, positions: torch.Tensor) -> Grid:
        return grid_of(self.known[model], positions)


def formula(log_sqrt, symbol):
    return RECIPROCAL._replace(log_sqrt=log_sqrt, symbol=symbol)


def step_up(at, width=0.05, height=0.2):
    """A sharp rise of ln sqrt(g) on a gentle wave."""
    return formula(
        lambda x: height * torch.tanh((x - at) / width) + 0.1 * torch.sin(2 * x),
        lambda x: height / width / torch.cosh((x - at) / width) ** 2 + 0.2 * torch.cos(2 * x),
    )


GENTLE = formula(lambda x: 0.1 * torch.sin(2 * x), lambda x: 0.2 * torch.cos(2 * x))
FASTER = formula(  # the faster, the further right
    lambda x: 0.1 * torch.sin(3 * (x + 1) ** 2),
    lambda x: 0.6 * (x + 1) * torch.cos(3 * (x + 1) ** 2),
)
JUMP = formula(lambda x: (x > 0.3).double(), lambda x: 0 * x)
HOLE = formula(lambda x: torch.where(x > 0.3, torch.nan, 0 * x), lambda x: 0 * x)


def smallest_of(*models, like=LIKE):
    return smallest_resolution(FormulaSource([[known] for known in models]), like, 1e-3)


def largest_error(known, positions):
    """At random points, of ln sqrt(g) or of the symbol."""
    log_sqrt, symbol = grid_of([known], positions).lookup(RANDOM[None])
    errors = (log_sqrt[0] - known.log_sqrt(RANDOM), symbol[0] - known.symbol(RANDOM))
    return max(float(error.abs().max()) for error in errors)


@pytest.mark.parametrize("known", [step_up(0.3), step_up(-0.71), FASTER])
def test_the_smallest_resolution_reaches_the_tolerance_everywhere(known):
    smallest = smallest_of(known)
    assert largest_error(known, nodes(smallest)) <= 1e-3
    # Estimates are on the safe side, by less than a fifth of the nodes.
    assert largest_error(known, nodes(int(0.8 * smallest))) > 1e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_metrics_that_lookups_read_exactly_need_the_fewest_nodes(dtype):
    source = FormulaSource([[constant(2.5)], [exponential(0.7), exponential(-1.9)]])
    assert smallest_resolution(source, nodes(5, dtype), 1e-5) == 4


def test_a_resolution_below_the_smallest_is_refused_and_the_smallest_named():
    source, told = FormulaSource([[GENTLE], [FASTER]]), []
    smallest = require_resolution(source, 2000, LIKE, 1e-3, told.append)
    assert require_resolution(source, smallest, LIKE, 1e-3) == smallest
    assert told == [1, 1]
    message = rf"christoffel\.resolution: found {smallest - 1}, expected {smallest} or more"
    with pytest.raises(GeometryError, match=message):
        require_resolution(source, smallest - 1, LIKE, 1e-3)


@pytest.mark.parametrize("never", [JUMP, HOLE], ids=["jump", "not a number"])
def test_what_no_resolution_reaches_is_refused(never, monkeypatch):
    monkeypatch.setattr(resolution, "MOST_NODES", 5_000)
    message = r"christoffel\.tolerance: found 0\.0001, .* 5000 nodes miss, .* raise it"
    with pytest.raises(GeometryError, match=message):
        require_resolution(FormulaSource([[GENTLE], [never]]), 2000, LIKE, 1e-4)


@pytest.mark.parametrize("tolerance", [1e-1, 2e-3])
def test_the_smallest_resolution_is_the_first_that_is_enough(tolerance):
    source = FormulaSource([[FASTER]])
    found = smallest_resolution(source, LIKE, tolerance)

    def worst(count):
        return float(cell_errors(source, 0, nodes(count), torch.arange(count - 1)).max())

    assert found == next(count for count in range(4, 250) if worst(count) <= tolerance)


def test_the_hardest_model_decides_and_the_most_nodes_may_be_needed(monkeypatch):
    known = [GENTLE, step_up(0.3, 0.1), FASTER]
    alone = [smallest_of(one) for one in known]
    assert len(set(alone)) == 3
    for order in ([0, 1, 2], [2, 1, 0]):
        assert smallest_of(*(known[i] for i in order)) == max(alone)
    assert smallest_resolution(FormulaSource([known]), LIKE, 1e-3) == max(alone)
    monkeypatch.setattr(resolution, "MOST_NODES", max(alone))
    assert smallest_of(*known) == max(alone)
    monkeypatch.setattr(resolution, "MOST_NODES", max(alone) - 1)
    with pytest.raises(GeometryError, match=r"tolerance: found 0\.001, which lookups"):
        smallest_of(*known)


def test_estimates_of_some_cells_are_those_of_all(monkeypatch):
    source, positions = FormulaSource([[GENTLE], [step_up(0.3), FASTER]]), stretched(40)
    whole = cell_errors(source, 1, positions, torch.arange(39))
    for cells in ([0], [38], [0, 38], [5, 6, 20], [1, 37]):
        some = cell_errors(source, 1, positions, torch.tensor(cells))
        torch.testing.assert_close(some, whole[cells], rtol=1e-12, atol=1e-14)
    monkeypatch.setattr(resolution, "BLOCK", 5)
    parts = cell_errors(source, 1, positions, torch.arange(39))
    torch.testing.assert_close(parts, whole, rtol=1e-12, atol=1e-14)
    alone = cell_errors(FormulaSource([[FASTER]]), 0, positions, torch.arange(39))
    assert (whole >= alone).all()
