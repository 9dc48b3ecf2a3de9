"""Number of evenly spaced nodes that a grid needs.

The error of a lookup is estimated at two points inside every cell, where what is looked up is
compared with the source of the grid. All wavelengths and all models share the nodes, so their
places must not depend on the spectra: refined where one fold's metric is sharp, they would tell
the other folds of a spectrum that these leave out.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from geonode.errors import GeometryError
from geonode.geometry.grid import uniform_nodes
from geonode.geometry.sources import GridSource
from geonode.progress import Progress, silent

CHECKS = (0.25, 0.75)
"""Fractions of a cell at which it is checked. One is not enough: the error of a symbol changes sign
inside a cell, and where depends on the widths of both neighbours."""
SHARE = 9 / 16
"""Least share of a cell's largest error that is seen there: (t (1 - t))^2 over its maximum, for the
value of a cubic. Of the error of a symbol 0.85 or more are seen."""
FEWEST_NODES, MOST_NODES = 4, 65_536
BLOCK = 256  # cells looked into at once, so that memory does not grow with the nodes


def require_resolution(
    source: GridSource,
    resolution: int,
    like: Float[Tensor, "..."],
    tolerance: float,
    report: Progress = silent,
) -> int:
    """Return the `smallest_resolution`, or refuse a resolution below it.

    Raises:
        GeometryError: the resolution does not reach the tolerance, or none does.
    """
    smallest = smallest_resolution(source, like, tolerance, report)
    if resolution < smallest:
        raise GeometryError(
            f"christoffel.resolution: found {resolution}, expected {smallest} or more: with fewer "
            f"nodes lookups are off by more than christoffel.tolerance, {tolerance:g}"
        )
    return smallest


def smallest_resolution(
    source: GridSource,
    like: Float[Tensor, "..."],
    tolerance: float,
    report: Progress = silent,
) -> int:
    """Fewest evenly spaced nodes with which every lookup is within a tolerance.

    Found by doubling and bisection, as if the error fell with every further node.

    Args:
        source: of all models.
        like: format and device to compute in.
        tolerance: largest estimated error of ln sqrt(g) and of the Christoffel symbol.
        report: called after every model.

    Raises:
        GeometryError: more than `MOST_NODES` would be needed.
    """

    def enough(model: int, resolution: int) -> bool:
        nodes = uniform_nodes(resolution, like.device, like.dtype)
        cells = torch.arange(resolution - 1, device=like.device)
        return bool(cell_errors(source, model, nodes, cells).max() <= tolerance)

    found = FEWEST_NODES
    for model in range(source.models):
        too_few = found - 1
        while not enough(model, found):
            if found == MOST_NODES:
                raise GeometryError(
                    f"christoffel.tolerance: found {tolerance:g}, which lookups between "
                    f"{MOST_NODES} nodes miss, expected a tolerance that they reach; raise it"
                )
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
) -> Float[Tensor, "cell"]:
    """Estimated largest error in some cells of one model, over all wavelengths.

    Of ln sqrt(g) or of the Christoffel symbol, whichever is larger.
    """
    if len(cells) > BLOCK:
        blocks = cells.split(BLOCK)
        return torch.cat([cell_errors(source, model, positions, part) for part in blocks])
    # lookups use the ends of a cell, and slopes there that depend on the nodes beyond
    touched = (cells[:, None] + torch.arange(-1, 3, device=cells.device)).flatten()
    touched = touched.clamp(0, len(positions) - 1).unique()
    low, high = positions[cells], positions[cells + 1]
    points = torch.cat([low + fraction * (high - low) for fraction in CHECKS])
    grid = source.grid(model, positions[touched])
    truth = source.grid(model, points)
    log_sqrt, symbol = grid.lookup(points[None])
    error = torch.maximum((log_sqrt.T - truth.log_sqrt).abs(), (symbol.T - truth.symbol).abs())
    return error.amax(1).reshape(len(CHECKS), -1).amax(0) / SHARE
