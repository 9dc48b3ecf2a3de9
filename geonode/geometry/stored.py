"""The artifact of grids: ln sqrt(g) and Christoffel symbols of every (member, fold) that is read.

Without path decoders nobody reads those of folds that leave levels out; `fold` has its last index
alone then.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geonode.compute.device import on_device
from geonode.compute.engine import LOCAL, Engine, Found
from geonode.compute.profile import profile_of
from geonode.geometry.grid import Grid
from geonode.geometry.learned import LearnedMetrics
from geonode.progress import Progress, silent
from geonode.spectra.series import Series
from geonode.storage.artifact import JSON, open_artifact
from geonode.storage.artifact_writer import ArtifactWriter
from geonode.storage.lineage import NO_INPUTS

ARRAYS = {
    "ln_sqrt_g": "ln sqrt(g)",
    "christoffel": "Christoffel symbol d ln sqrt(g) / dx",
}


def write_grids(
    path: Path,
    grid_of: Callable[[int, Float[Tensor, "node"]], Grid],
    positions: Float[Tensor, "node"],
    learned: LearnedMetrics,
    series: Series,
    *,
    every: bool,
    check: Callable[[int, Grid], Found],
    report: Progress = silent,
    engine: Engine = LOCAL,
    made_from: Mapping[str, str] = NO_INPUTS,
) -> list[Found]:
    """Evaluate grids, store them, and check what was stored.

    Args:
        path: of the artifact.
        grid_of: gives the grid of a model, in the order (member, fold), at some nodes.
        positions: nodes of the grids.
        learned: where they come from.
        series: for the coordinates.
        every: whether grids of folds that leave levels out are wanted.
        check: called with every model and its grid as stored, where the grid was evaluated.
        report: called after every grid.
        engine: evaluates, stores and checks.
        made_from: as `consistent_artifacts` yields it.

    Returns:
        What `check` returned, in the order of the models.

    Raises:
        ArtifactError: it cannot be written, or a value is not finite; an older one is then intact.
        Exception: raised by `check`; an older artifact is then intact.
    """
    found: list[Found] = []
    attributes: dict[str, JSON] = {"made_from": {**made_from}}
    with series.artifact_writer(path, attributes) as writer:
        _declare(writer, positions, learned, series, every)
        nodes, place = positions.cpu(), positions.device
        recipe = partial(_writing, writer, grid_of, nodes, place, learned, every, check)
        engine.work(
            recipe,
            learned.wanted(every),
            lambda _, one: found.append(one),
            report,
            profile_of(positions.device).tiles,
        )
    return found


def _declare(
    writer: ArtifactWriter, positions: Tensor, learned: LearnedMetrics, series: Series, every: bool
) -> None:
    """Add the arrays of the artifact, to be filled."""
    folds, nodes = np.arange(len(learned.charts)), positions.cpu().double().numpy()
    folds = folds if every else folds[-1:]
    writer.coordinate("fold", folds, units="1", long_name="level left out (index)")
    long_name = "charted concentration"
    writer.coordinate("position", nodes, units="1", long_name=long_name, dims=("node",))
    shape = (learned.members, len(folds), len(nodes), len(series.axis))
    for name, long_name in ARRAYS.items():
        writer.mapped(
            name,
            ("member", "fold", "node", "wavelength"),
            shape,
            "float32",
            units="1",
            long_name=long_name,
        )


def _writing(
    writer: ArtifactWriter,
    grid_of: Callable[[int, Float[Tensor, "node"]], Grid],
    positions: Float[Tensor, "node"],
    place: torch.device,
    learned: LearnedMetrics,
    every: bool,
    check: Callable[[int, Grid], Found],
) -> Callable[[int, Progress], Found]:
    """Recipe that evaluates, stores and checks the grid of a model."""
    nodes = positions.to(place)

    def work(model: int, report: Progress) -> Found:
        (member, fold), grid = learned.index(model), grid_of(model, nodes)
        stored = [table.float() for table in (grid.log_sqrt, grid.symbol)]
        for name, table in zip(ARRAYS, stored, strict=True):
            writer.write(name, (member, fold if every else 0), table.cpu().numpy())
        found = check(model, Grid(nodes, *(part.to(nodes) for part in stored)))
        report(1)
        return found

    return work


class StoredGrids:
    """Grids of an artifact, read one at a time.

    Raises:
        MissingArtifactError, CorruptArtifactError: there is no artifact, or it is damaged.
        ArtifactError: it was made of other metrics or spectra than those at hand.
    """

    def __init__(self, path: Path, learned: LearnedMetrics, series: Series, every: bool) -> None:
        self._artifact, self._every = open_artifact(path), every
        self._nodes, folds = self._artifact["position"], len(learned.charts) if every else 1
        self._artifact.require_shape(
            "ln_sqrt_g",
            (learned.members, folds, len(self._nodes), len(series.axis)),
            "the metrics and the spectra",
        )

    def grid(self, index: tuple[int, int], like: Float[Tensor, "..."]) -> Grid:
        """The grid of one (member, fold), in the format and on the device of a tensor."""
        at = index if self._every else (index[0], 0)
        parts = (self._nodes, *(self._artifact[name][at] for name in ARRAYS))
        return Grid(*(on_device(part.copy(), like.device, like.dtype) for part in parts))
