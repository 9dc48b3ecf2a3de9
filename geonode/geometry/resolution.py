"""Number of evenly spaced nodes that a grid needs.

The error of a lookup is estimated at two points inside every cell, where what is looked up is
compared with the source of the grid. All wavelengths and all models share the nodes, so their
places must not depend on the spectra: refined where one fold's metric is sharp, they would tell
the other folds of a spectrum that these leave out.
"""

import torch
from jaxtyping import Float
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
    """Fewest evenly spaced nodes with which every lookup is within a tolerance.

    Found by doubling and bisection, as if the error fell with every further node.

    Args:
        source: of all models.
        resolution: number of nodes that is asked for.
        like: format and device to compute in.
        tolerance: largest estimated error of ln sqrt(g) and of the Christoffel symbol.
        report: called after every model.

    Raises:
        GeometryError: the resolution does not reach the tolerance, or not even `MOST_NODES` do.
    """

    def enough(model: int, resolution: int) -> bool:
        nodes = uniform_nodes(resolution, like.device, like.dtype)
        return largest_error(source, model, nodes) <= tolerance

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
    if resolution < found:
        raise GeometryError(
            f"christoffel.resolution: found {resolution}, expected {found} or more: with fewer "
            f"nodes lookups are off by more than christoffel.tolerance, {tolerance:g}"
        )
    return found


def largest_error(source: GridSource, model: int, positions: Float[Tensor, "node"]) -> float:
    """Estimated largest error between the nodes of one model, over all wavelengths.

    Of ln sqrt(g) or of the Christoffel symbol, whichever is larger.
    """
    largest = []
    for first in range(0, len(positions) - 1, BLOCK):
        ends = positions[first : first + BLOCK + 1]
        points = torch.cat([ends[:-1] + fraction * ends.diff() for fraction in CHECKS])
        # slopes at the ends of a cell depend on the nodes beyond
        grid = source.grid(model, positions[max(first - 1, 0) : first + BLOCK + 2])
        truth = source.grid(model, points)
        log_sqrt, symbol = grid.lookup(points[None])
        error = torch.maximum((log_sqrt.T - truth.log_sqrt).abs(), (symbol.T - truth.symbol).abs())
        largest.append(error.max() / SHARE)
    return float(torch.stack(largest).max())
