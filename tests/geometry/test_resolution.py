from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch

from geonode.errors import GeometryError
from geonode.geometry import resolution
from geonode.geometry.grid import Grid
from geonode.geometry.lookup import hermite
from geonode.geometry.resolution import (
    cell_errors,
    require_resolution,
    smallest_resolution,
)
from tests.geometry.closed_forms import (
    RECIPROCAL,
    Known,
    constant,
    exponential,
    grid_of,
    nodes,
    stretched,
)

TOLERANCE = 1e-4
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
        self.calls += len(positions)
        return grid_of(self.known[model], positions)


def formula(log_sqrt, symbol):
    return RECIPROCAL._replace(log_sqrt=log_sqrt, symbol=symbol)


def step_up(at, width=0.01, height=0.2):
    """A sharp rise of ln sqrt(g) on a gentle wave."""
    return formula(
        lambda x: height * torch.tanh((x - at) / width) + 0.1 * torch.sin(2 * x),
        lambda x: height / width / torch.cosh((x - at) / width) ** 2 + 0.2 * torch.cos(2 * x),
    )


GENTLE = formula(lambda x: 0.1 * torch.sin(2 * x), lambda x: 0.2 * torch.cos(2 * x))
SHARP = step_up(0.3)
FASTER = formula(  # the faster, the further right
    lambda x: 0.1 * torch.sin(3 * (x + 1) ** 2),
    lambda x: 0.6 * (x + 1) * torch.cos(3 * (x + 1) ** 2),
)
JUMP = formula(lambda x: (x > 0.3).double(), lambda x: 0 * x)


def largest_error(known, positions, points=RANDOM):
    """At random points, of ln sqrt(g) or of the symbol."""
    grid = grid_of([known], positions)
    log_sqrt, symbol = hermite(grid, points[None], torch.tensor([0]))
    errors = (log_sqrt[0] - known.log_sqrt(points), symbol[0] - known.symbol(points))
    return max(float(error.abs().max()) for error in errors)


@pytest.mark.parametrize(
    "known", [step_up(0.3, 0.05), step_up(-0.71, 0.05), FASTER], ids=["step", "left", "faster"]
)
def test_the_smallest_resolution_reaches_the_tolerance_everywhere(known):
    smallest = smallest_resolution(FormulaSource([[known]]), LIKE, 1e-3)
    assert largest_error(known, nodes(smallest)) <= 1e-3
    # Estimates are on the safe side, by less than a fifth of the nodes.
    assert largest_error(known, nodes(int(0.8 * smallest))) > 1e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_metrics_that_lookups_read_exactly_need_the_fewest_nodes(dtype):
    source = FormulaSource([[constant(2.5)], [exponential(0.7), exponential(-1.9)]])
    assert smallest_resolution(source, nodes(5, dtype), 1e-5) == 4


def test_a_resolution_below_the_smallest_is_refused_and_the_smallest_named():
    source, told = FormulaSource([[GENTLE], [FASTER]]), []
    smallest = smallest_resolution(source, LIKE, 1e-3)
    for enough in (smallest, 2 * smallest):
        found = require_resolution(source, enough, LIKE, 1e-3, told.append)
        assert found == smallest
    assert told == [1, 1, 1, 1]
    message = rf"christoffel\.resolution: found {smallest - 1}, expected {smallest} or more"
    with pytest.raises(GeometryError, match=message):
        require_resolution(source, smallest - 1, LIKE, 1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_jump_is_refused(dtype):
    source = FormulaSource([[GENTLE], [JUMP]])
    with pytest.raises(GeometryError, match=r"christoffel\.tolerance: found 0\.0001, .* raise it"):
        require_resolution(source, 2000, nodes(4, dtype), TOLERANCE)


def test_values_that_are_not_numbers_are_never_good_enough():
    hole = formula(lambda x: torch.where(x > 0.3, torch.nan, 0 * x), lambda x: 0 * x)
    assert smallest_resolution(FormulaSource([[hole]]), LIKE, TOLERANCE) is None


@pytest.mark.parametrize("tolerance", [0.0, -1e-4, float("nan")])
def test_a_tolerance_that_is_not_positive_is_refused(tolerance):
    message = f"tolerance: found {tolerance}, expected a number"
    with pytest.raises(GeometryError, match=message):
        smallest_resolution(FormulaSource([[GENTLE]]), LIKE, tolerance)


@pytest.mark.parametrize("tolerance", [1e-1, 1e-2, 2e-3])
def test_the_smallest_resolution_is_the_first_that_is_enough(tolerance):
    source = FormulaSource([[FASTER]])
    found = smallest_resolution(source, LIKE, tolerance)
    assert 4 < found < 250

    def worst(resolution):
        cells = torch.arange(resolution - 1)
        return float(cell_errors(source, 0, nodes(resolution), cells).max())

    assert found == next(n for n in range(4, 250) if worst(n) <= tolerance)


def test_the_hardest_model_decides_the_smallest_resolution():
    known = [GENTLE, step_up(0.3, 0.1), FASTER]
    alone = [smallest_resolution(FormulaSource([[one]]), LIKE, 1e-3) for one in known]
    assert len(set(alone)) == 3
    for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
        source = FormulaSource([[known[i]] for i in order])
        assert smallest_resolution(source, LIKE, 1e-3) == max(alone)
    together = FormulaSource([known])
    assert smallest_resolution(together, LIKE, 1e-3) == max(alone)


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_the_most_nodes_may_be_needed_but_not_more(order, monkeypatch):
    known = [GENTLE, FASTER]
    source = FormulaSource([[known[i]] for i in order])
    needed = smallest_resolution(source, LIKE, 1e-3)
    monkeypatch.setattr(resolution, "MOST_NODES", needed)
    assert smallest_resolution(source, LIKE, 1e-3) == needed
    monkeypatch.setattr(resolution, "MOST_NODES", needed - 1)
    assert smallest_resolution(source, LIKE, 1e-3) is None


@pytest.mark.parametrize(
    "widths",
    [[1.0], [1.0, 2.0], [2.0, 1.0], [1.0, 1.0, 3.0], [3.0, 1.0, 1.0], [1.0, 1.0, 4.0, 4.0]],
    ids=str,
)
def test_estimates_are_above_the_errors_of_uneven_cells_too(widths):
    widths = torch.tensor(widths * 30, dtype=torch.float64)
    positions = torch.cat([torch.zeros(1).double(), widths.cumsum(0)])
    positions = 2 * positions / positions[-1] - 1
    positions[-1] = 1
    known = formula(lambda x: torch.exp(2 * x), lambda x: 2 * torch.exp(2 * x))
    cells = torch.arange(len(positions) - 1)
    found = cell_errors(FormulaSource([[known]]), 0, positions, cells)
    fractions = torch.linspace(0, 1, 101, dtype=torch.float64)
    inside = positions[:-1, None] + fractions * positions.diff()[:, None]
    grid, points = grid_of([known], positions), inside.reshape(1, -1)
    values = hermite(grid, points, torch.tensor([0]))
    truth = (known.log_sqrt(points), known.symbol(points))
    errors = [(one - other).abs() for one, other in zip(values, truth, strict=True)]
    largest = torch.maximum(*errors).reshape(inside.shape).amax(1)
    assert (found >= largest).all()
    assert (found <= 1.8 * largest).all()


def test_estimates_of_some_cells_are_those_of_all():
    source = FormulaSource([[GENTLE], [SHARP, FASTER]])
    positions = stretched(40)
    whole = cell_errors(source, 1, positions, torch.arange(39))
    for cells in ([0], [38], [0, 38], [5, 6, 20], [1, 37]):
        some = cell_errors(source, 1, positions, torch.tensor(cells))
        torch.testing.assert_close(some, whole[cells], rtol=1e-12, atol=1e-14)
    alone = cell_errors(FormulaSource([[SHARP], [FASTER]]), 0, positions, torch.arange(39))
    assert (whole >= alone).all()


def test_many_cells_are_looked_into_a_part_at_a_time(monkeypatch):
    cells = torch.tensor([0, 1, 5, 6, 7, 19, 28])
    source = FormulaSource([[SHARP]])
    whole = cell_errors(source, 0, nodes(30), cells)
    monkeypatch.setattr(resolution, "BLOCK", 2)
    assert torch.equal(cell_errors(source, 0, nodes(30), cells), whole)
