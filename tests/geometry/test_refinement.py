from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from geonode.errors import GeometryError
from geonode.geometry import refinement
from geonode.geometry.grid import Grid
from geonode.geometry.lookup import LOOKUPS, hermite, linear
from geonode.geometry.refinement import (
    cell_errors,
    refine,
    smallest_resolution,
    sufficient_nodes,
)
from geonode.geometry.sources import DirectSource
from tests.geometry.closed_forms import (
    CPU,
    RECIPROCAL,
    Known,
    constant,
    exponential,
    grid_of,
    nodes,
    random_metric,
    stretched,
)

TOLERANCE = 1e-4
LIKE = nodes(4)
RANDOM = 2 * torch.rand(50_000, generator=torch.Generator().manual_seed(0)).double() - 1
BOTH = pytest.mark.parametrize("lookup", [hermite, linear])


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


def largest_error(known, positions, lookup, points=RANDOM):
    """At random points, of ln sqrt(g) or of the symbol."""
    grid = grid_of([known], positions)
    log_sqrt, symbol = lookup(grid, points[None], torch.tensor([0]))
    errors = (log_sqrt[0] - known.log_sqrt(points), symbol[0] - known.symbol(points))
    return max(float(error.abs().max()) for error in errors)


@BOTH
@pytest.mark.parametrize(
    "known", [SHARP, step_up(-0.71, 0.02), FASTER], ids=["thin", "left", "faster"]
)
@pytest.mark.parametrize("coarse", [4, 5, 16, 33, 50, 200])
def test_refined_nodes_reach_the_tolerance_everywhere(known, coarse, lookup):
    refined = refine(FormulaSource([[known]]), nodes(coarse), lookup, TOLERANCE)
    assert largest_error(known, nodes(coarse), lookup) > TOLERANCE
    assert largest_error(known, refined, lookup) <= TOLERANCE


@BOTH
def test_refined_nodes_are_few(lookup):
    source = FormulaSource([[SHARP]])
    refined = refine(source, nodes(50), lookup, TOLERANCE)
    evenly = smallest_resolution(source, LIKE, lookup, TOLERANCE)
    assert 4 * len(refined) <= evenly
    assert largest_error(SHARP, nodes(evenly), lookup) <= TOLERANCE
    # Estimates are on the safe side, by less than a fifth of the nodes.
    assert largest_error(SHARP, nodes(int(0.8 * evenly)), lookup) > TOLERANCE
    assert largest_error(SHARP, nodes(4 * len(refined)), lookup) > TOLERANCE


@BOTH
def test_nodes_come_where_they_are_needed_and_nowhere_else(lookup):
    given = nodes(200)
    refined = refine(FormulaSource([[GENTLE, SHARP]]), given, lookup, 1e-3)
    assert (refined.diff() > 0).all()
    assert torch.isin(given, refined).all()
    added = refined[~torch.isin(refined, given)]
    assert len(added) > 20
    assert ((added - 0.3).abs() < 0.1).all()
    # Cells are halved, so their widths are those of the given ones over powers of two.
    halvings = torch.log2((given[1] - given[0]) / refined.diff())
    torch.testing.assert_close(halvings, halvings.round(), rtol=0, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("make", [nodes, stretched])
@pytest.mark.parametrize("lookup", LOOKUPS.values(), ids=LOOKUPS)
def test_nothing_is_added_where_nothing_is_needed(lookup, make, dtype):
    source = FormulaSource([[constant(2.5)], [exponential(0.7), exponential(-1.9)]])
    given = make(5, dtype)
    refined = refine(source, given, lookup, 1e-5)
    assert torch.equal(refined, given)
    assert refined.dtype == dtype
    assert smallest_resolution(source, given, lookup, 1e-5) == 4


@BOTH
def test_refined_nodes_serve_every_model_and_every_wavelength(lookup):
    places = [step_up(-0.5, 0.05), step_up(0.4, 0.05)]
    for known in ([[places[0]], [GENTLE], [places[1]]], [[GENTLE], [places[0], places[1]]]):
        refined = refine(FormulaSource(known), nodes(20), lookup, TOLERANCE)
        for one in (*places, GENTLE):
            assert largest_error(one, refined, lookup) <= TOLERANCE
    alone = [refine(FormulaSource([[one]]), nodes(20), lookup, TOLERANCE) for one in places]
    assert all(torch.isin(one, refined).all() for one in alone)


def test_a_network_is_refined_in_the_format_of_its_nodes():
    metric, w = random_metric(3, 4.0, models=2), nodes(5)
    refined = refine(DirectSource(metric, w), nodes(30, torch.float32), hermite, TOLERANCE)
    assert refined.dtype == torch.float32
    assert len(refined) > 30
    for model in range(2):
        truth = metric[model].with_symbol(RANDOM[None, :3000], w)
        grid = DirectSource(metric, w).grid(model, refined.double())
        found = hermite(grid, RANDOM[:3000].expand(5, -1), torch.arange(5))
        for one, other in zip(found, truth, strict=True):
            assert (one - other[0].T).abs().max() <= TOLERANCE


@BOTH
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_jump_is_refused(lookup, dtype):
    source = FormulaSource([[GENTLE], [JUMP]])
    message = r"tolerance: found 0\.0001, but with \d+ nodes .*; raise christoffel\.tolerance"
    with pytest.raises(GeometryError, match=message):
        refine(source, nodes(20, dtype), lookup, TOLERANCE)
    assert smallest_resolution(source, nodes(4, dtype), lookup, TOLERANCE) is None


@BOTH
def test_values_that_are_not_numbers_are_never_good_enough(lookup):
    hole = formula(lambda x: torch.where(x > 0.3, torch.nan, 0 * x), lambda x: 0 * x)
    source = FormulaSource([[hole]])
    with pytest.raises(GeometryError, match=r"tolerance: found 0\.0001"):
        refine(source, nodes(20), lookup, TOLERANCE)
    assert smallest_resolution(source, LIKE, lookup, TOLERANCE) is None


@pytest.mark.parametrize("tolerance", [0.0, -1e-4, float("nan")])
def test_a_tolerance_that_is_not_positive_is_refused(tolerance):
    source, message = FormulaSource([[GENTLE]]), f"tolerance: found {tolerance}, expected a number"
    with pytest.raises(GeometryError, match=message):
        refine(source, nodes(20), hermite, tolerance)
    with pytest.raises(GeometryError, match=message):
        smallest_resolution(source, LIKE, hermite, tolerance)


@pytest.mark.parametrize("lookup", LOOKUPS.values(), ids=LOOKUPS)
@pytest.mark.parametrize("tolerance", [1e-1, 1e-2, 2e-3])
def test_the_smallest_resolution_is_the_first_that_is_enough(lookup, tolerance):
    source = FormulaSource([[FASTER]])
    found = smallest_resolution(source, LIKE, lookup, tolerance)
    assert 4 < found < 250

    def worst(resolution):
        cells = torch.arange(resolution - 1)
        return float(cell_errors(source, 0, nodes(resolution), cells, lookup).max())

    assert found == next(n for n in range(4, 250) if worst(n) <= tolerance)


@pytest.mark.parametrize("tolerance", [1e-2, 1e-3])
def test_the_smallest_resolution_of_straight_lines_against_numpy(tolerance):
    def worst(resolution):
        x = nodes(resolution)
        fine = np.linspace(-1, 1, 40 * (resolution - 1) + 1)
        return max(
            np.abs(np.interp(fine, x, f(x)) - f(torch.from_numpy(fine)).numpy()).max()
            for f in (FASTER.log_sqrt, FASTER.symbol)
        )

    enough = next(n for n in range(4, 1000) if worst(n) <= tolerance)
    found = smallest_resolution(FormulaSource([[FASTER]]), LIKE, linear, tolerance)
    assert enough <= found <= 1.2 * enough


@BOTH
def test_the_hardest_model_decides_the_smallest_resolution(lookup):
    known = [GENTLE, step_up(0.3, 0.1), FASTER]
    alone = [smallest_resolution(FormulaSource([[one]]), LIKE, lookup, 1e-3) for one in known]
    assert len(set(alone)) == 3
    for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
        source = FormulaSource([[known[i]] for i in order])
        assert smallest_resolution(source, LIKE, lookup, 1e-3) == max(alone)
    together = FormulaSource([known])
    assert smallest_resolution(together, LIKE, lookup, 1e-3) == max(alone)


@BOTH
@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
def test_the_most_nodes_may_be_needed_but_not_more(lookup, order, monkeypatch):
    known = [GENTLE, FASTER]
    source = FormulaSource([[known[i]] for i in order])
    needed = smallest_resolution(source, LIKE, lookup, 1e-3)
    monkeypatch.setattr(refinement, "MOST_NODES", needed)
    assert smallest_resolution(source, LIKE, lookup, 1e-3) == needed
    monkeypatch.setattr(refinement, "MOST_NODES", needed - 1)
    assert smallest_resolution(source, LIKE, lookup, 1e-3) is None
    refined = len(refine(source, nodes(5), lookup, 1e-3))
    monkeypatch.setattr(refinement, "MOST_NODES", refined - 1)
    with pytest.raises(GeometryError, match=rf"tolerance: found 0.001.* {refined - 1} nodes"):
        refine(source, nodes(5), lookup, 1e-3)
    monkeypatch.setattr(refinement, "MOST_NODES", refined)
    assert len(refine(source, nodes(5), lookup, 1e-3)) == refined


@pytest.mark.parametrize("lookup", LOOKUPS.values(), ids=LOOKUPS)
@pytest.mark.parametrize(
    "widths",
    [[1.0], [1.0, 2.0], [2.0, 1.0], [1.0, 1.0, 3.0], [3.0, 1.0, 1.0], [1.0, 1.0, 4.0, 4.0]],
    ids=str,
)
def test_estimates_are_above_the_errors_of_uneven_cells_too(lookup, widths):
    widths = torch.tensor(widths * 30, dtype=torch.float64)
    positions = torch.cat([torch.zeros(1).double(), widths.cumsum(0)])
    positions = 2 * positions / positions[-1] - 1
    positions[-1] = 1
    known = formula(lambda x: torch.exp(2 * x), lambda x: 2 * torch.exp(2 * x))
    cells = torch.arange(len(positions) - 1)
    found = cell_errors(FormulaSource([[known]]), 0, positions, cells, lookup)
    fractions = torch.linspace(0, 1, 101, dtype=torch.float64)
    inside = positions[:-1, None] + fractions * positions.diff()[:, None]
    grid, points = grid_of([known], positions), inside.reshape(1, -1)
    values = lookup(grid, points, torch.tensor([0]))
    truth = (known.log_sqrt(points), known.symbol(points))
    errors = [(one - other).abs() for one, other in zip(values, truth, strict=True)]
    largest = torch.maximum(*errors).reshape(inside.shape).amax(1)
    assert (found >= largest).all()
    assert (found <= 1.8 * largest).all()


@pytest.mark.parametrize("lookup", LOOKUPS.values(), ids=LOOKUPS)
def test_estimates_of_some_cells_are_those_of_all(lookup):
    source = FormulaSource([[GENTLE], [SHARP, FASTER]])
    positions = stretched(40)
    whole = cell_errors(source, 1, positions, torch.arange(39), lookup)
    for cells in ([0], [38], [0, 38], [5, 6, 20], [1, 37]):
        some = cell_errors(source, 1, positions, torch.tensor(cells), lookup)
        torch.testing.assert_close(some, whole[cells], rtol=1e-12, atol=1e-14)
    alone = cell_errors(FormulaSource([[SHARP], [FASTER]]), 0, positions, torch.arange(39), lookup)
    assert (whole >= alone).all()


@BOTH
@pytest.mark.parametrize("coarse", [4, 50])
def test_every_model_is_reported_once(lookup, coarse):
    source, told = FormulaSource([[GENTLE], [SHARP], [FASTER]]), []
    refine(source, nodes(coarse), lookup, TOLERANCE, told.append)
    assert sum(told) == 3
    told.clear()
    smallest_resolution(source, nodes(4, torch.float64).to(CPU), lookup, 1e-2, told.append)
    assert told == [1, 1, 1]


@pytest.mark.parametrize(("lookup", "tolerance"), [(hermite, 1e-4), (linear, 1e-3)])
def test_evenly_spaced_nodes_are_left_alone_if_they_suffice(lookup, tolerance):
    told, source = [], FormulaSource([[GENTLE], [SHARP]])
    smallest = smallest_resolution(source, LIKE, lookup, tolerance)
    enough, found = sufficient_nodes(source, smallest, LIKE, lookup, tolerance, told.append)
    assert (sum(told), found) == (4, smallest)
    assert torch.equal(enough, nodes(smallest))
    told.clear()
    refined, found = sufficient_nodes(source, 30, LIKE, lookup, tolerance, told.append)
    assert (sum(told), found) == (4, smallest)
    assert torch.equal(refined, refine(source, nodes(30), lookup, tolerance))
    assert 30 < len(refined) < smallest


def test_many_cells_are_looked_into_a_part_at_a_time(monkeypatch):
    cells = torch.tensor([0, 1, 5, 6, 7, 19, 28])
    source = FormulaSource([[SHARP]])
    whole = cell_errors(source, 0, nodes(30), cells, hermite)
    monkeypatch.setattr(refinement, "BLOCK", 2)
    assert torch.equal(cell_errors(source, 0, nodes(30), cells, hermite), whole)
