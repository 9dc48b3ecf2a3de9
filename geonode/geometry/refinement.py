"""How many nodes a grid needs, and where.

The error of a lookup is estimated at two points inside every cell, where what is looked up is
compared with the source of the grid. All wavelengths and all models share the nodes.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geonode.arguments import require_above
from geonode.errors import GeometryError
from geonode.geometry.grid import FEWEST_NODES, uniform_nodes
from geonode.geometry.lookup import Lookup
from geonode.geometry.sources import GridSource
from geonode.progress import Report, silent

CHECKS = (0.25, 0.75)
"""Fractions of a cell at which it is checked. One is not enough: the error of a symbol looked up by
`hermite` changes sign inside a cell, and where depends on the widths of both neighbours."""
SHARE = 9 / 16
"""Least share of a cell's largest error that is seen there: (t (1 - t))^2 over its maximum, for the
value of a cubic. A straight line shows 0.75 of its error, a symbol by `hermite` 0.85 or more; the
rest makes up for slopes that change when a neighbour is halved later."""
MOST_NODES = 65_536
BLOCK = 256  # cells looked into at once, so that memory does not grow with the nodes
NARROWEST = 2**-20
"""Width of a cell that is not halved any more: float32 has 16 positions in it."""


def sufficient_nodes(
    source: GridSource,
    resolution: int,
    like: Float[Tensor, "..."],
    lookup: Lookup,
    tolerance: float,
    report: Report = silent,
) -> tuple[Float[Tensor, "node"], int | None]:
    """Evenly spaced nodes, refined if they are fewer than would do.

    Args:
        source: of all models.
        resolution: how many nodes to begin with.
        like: format and device of the nodes.
        lookup: that is to be accurate.
        tolerance: largest estimated error of ln sqrt(g) and of the Christoffel symbol.
        report: told of every model, twice.

    Returns:
        The nodes, and the `smallest_resolution`.

    Raises:
        GeometryError: the resolution is below 4, or as for `refine`.
    """
    nodes = uniform_nodes(resolution, like.device, like.dtype)
    smallest = smallest_resolution(source, like, lookup, tolerance, report)
    if smallest is None or smallest > resolution:
        return refine(source, nodes, lookup, tolerance, report), smallest
    report(source.models)
    return nodes, smallest


def refine(
    source: GridSource,
    positions: Float[Tensor, "node"],
    lookup: Lookup,
    tolerance: float,
    report: Report = silent,
) -> Float[Tensor, "refined"]:
    """Halve cells until every lookup is within a tolerance.

    Args:
        source: of all models.
        positions: nodes to begin with; all of them stay.
        lookup: that is to be accurate.
        tolerance: largest estimated error of ln sqrt(g) and of the Christoffel symbol.
        report: told of every model, once.

    Raises:
        GeometryError: the tolerance is not positive, or would need more than `MOST_NODES` nodes
            or cells below `NARROWEST`.
    """
    require_above("tolerance", tolerance, 0)
    new = 1
    fine = torch.zeros(len(positions) - 1, dtype=torch.bool, device=positions.device)
    while True:
        cells = (~fine).nonzero()[:, 0]
        errors = torch.zeros_like(positions[cells])
        for model in range(source.models):
            found = cell_errors(source, model, positions, cells, lookup)
            errors = torch.maximum(errors, found)  # NaN, if there is one
            report(new)
        new = 0
        fine[cells] = errors <= tolerance
        if fine.all():
            return positions
        rough = ~fine
        too_many = len(positions) + int(rough.sum()) > MOST_NODES
        if too_many or float(positions.diff()[rough].min()) < NARROWEST:
            raise GeometryError(
                f"tolerance: found {tolerance:g}, but with {len(positions)} nodes lookups are "
                f"still off by {float(errors.max()):.1e}, expected a tolerance that "
                f"{MOST_NODES} nodes at most reach; raise christoffel.tolerance"
            )
        middles = (positions[:-1] + positions[1:])[rough] / 2
        positions = torch.cat([positions, middles]).sort().values
        fine = fine.repeat_interleave(1 + rough.long())


def smallest_resolution(
    source: GridSource,
    like: Float[Tensor, "..."],
    lookup: Lookup,
    tolerance: float,
    report: Report = silent,
) -> int | None:
    """Fewest evenly spaced nodes with which every lookup is within a tolerance.

    Found by doubling and bisection, as if the error fell with every further node.

    Args:
        source: of all models.
        like: format and device to compute in.
        lookup: that is to be accurate.
        tolerance: largest estimated error of ln sqrt(g) and of the Christoffel symbol.
        report: told of every model.

    Returns:
        The number of nodes, or None if more than `MOST_NODES` would be needed.

    Raises:
        GeometryError: the tolerance is not positive.
    """
    require_above("tolerance", tolerance, 0)

    def enough(model: int, resolution: int) -> bool:
        nodes = uniform_nodes(resolution, like.device, like.dtype)
        cells = torch.arange(resolution - 1, device=like.device)
        return bool(cell_errors(source, model, nodes, cells, lookup).max() <= tolerance)

    found = FEWEST_NODES
    for model in range(source.models):
        too_few = found - 1
        while not enough(model, found):
            if found == MOST_NODES:
                report(source.models - model)
                return None
            too_few, found = found, min(2 * found, MOST_NODES)
        while found - too_few > 1:
            middle = (found + too_few) // 2
            if enough(model, middle):
                found = middle
            else:
                too_few = middle
        report(1)
    return found


def cell_errors(
    source: GridSource,
    model: int,
    positions: Float[Tensor, "node"],
    cells: Int[Tensor, "cell"],
    lookup: Lookup,
) -> Float[Tensor, "cell"]:
    """Estimated largest error in some cells of one model, over all wavelengths.

    Of ln sqrt(g) or of the Christoffel symbol, whichever is larger.
    """
    if len(cells) > BLOCK:
        blocks = cells.split(BLOCK)
        return torch.cat([cell_errors(source, model, positions, part, lookup) for part in blocks])
    # lookups use the ends of a cell, and slopes there that depend on the nodes beyond
    touched = (cells[:, None] + torch.arange(-1, 3, device=cells.device)).flatten()
    touched = touched.clamp(0, len(positions) - 1).unique()
    low, high = positions[cells], positions[cells + 1]
    points = torch.cat([low + fraction * (high - low) for fraction in CHECKS])
    grid = source.grid(model, positions[touched])
    truth = source.grid(model, points)
    columns = torch.arange(truth.log_sqrt.shape[1], device=positions.device)
    log_sqrt, symbol = lookup(grid, points[None], columns)
    error = torch.maximum((log_sqrt.T - truth.log_sqrt).abs(), (symbol.T - truth.symbol).abs())
    return error.amax(1).reshape(len(CHECKS), -1).amax(0) / SHARE
