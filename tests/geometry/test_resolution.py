from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch

from geonode.errors import GeometryError
from geonode.geometry import resolution
from geonode.geometry.grid import Grid
from geonode.geometry.resolution import MOST_NODES, largest_error, require_resolution
from tests.geometry.closed_forms import RECIPROCAL, Known, grid_of, nodes

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
    return require_resolution(FormulaSource([[known] for known in models]), MOST_NODES, like, 1e-3)


def error_at_random(known, positions):
    """At random points, of ln sqrt(g) or of the symbol."""
    log_sqrt, symbol = grid_of([known], positions).lookup(RANDOM[None])
    errors = (log_sqrt[0] - known.log_sqrt(RANDOM), symbol[0] - known.symbol(RANDOM))
    return max(float(error.abs().max()) for error in errors)


@pytest.mark.parametrize("known", [step_up(0.3), step_up(-0.71), FASTER])
def test_the_smallest_resolution_reaches_the_tolerance_everywhere(known):
    smallest = smallest_of(known)
    assert error_at_random(known, nodes(smallest)) <= 1e-3
    # Estimates are on the safe side, by less than a fifth of the nodes.
    assert error_at_random(known, nodes(int(0.8 * smallest))) > 1e-3


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
    found = require_resolution(source, MOST_NODES, LIKE, tolerance)

    enough = (n for n in range(4, 250) if largest_error(source, 0, nodes(n)) <= tolerance)
    assert found == next(enough)


def test_the_hardest_model_decides_and_the_most_nodes_may_be_needed(monkeypatch):
    known = [GENTLE, step_up(0.3, 0.1), FASTER]
    alone = [smallest_of(one) for one in known]
    assert len(set(alone)) == 3
    for order in ([0, 1, 2], [2, 1, 0]):
        assert smallest_of(*(known[i] for i in order)) == max(alone)
    assert require_resolution(FormulaSource([known]), MOST_NODES, LIKE, 1e-3) == max(alone)
    monkeypatch.setattr(resolution, "MOST_NODES", max(alone))
    assert smallest_of(*known) == max(alone)
    monkeypatch.setattr(resolution, "MOST_NODES", max(alone) - 1)
    with pytest.raises(GeometryError, match=r"tolerance: found 0\.001, which lookups"):
        smallest_of(*known)


def test_cells_are_looked_into_some_at_a_time(monkeypatch):
    source, whole = FormulaSource([[step_up(0.3), FASTER]]), {}
    for count in (40, 41, 42):
        whole[count] = largest_error(source, 0, nodes(count))
        assert whole[count] >= largest_error(FormulaSource([[FASTER]]), 0, nodes(count))
    monkeypatch.setattr(resolution, "BLOCK", 5)
    for count, expected in whole.items():
        assert largest_error(source, 0, nodes(count)) == pytest.approx(expected, rel=1e-9)
