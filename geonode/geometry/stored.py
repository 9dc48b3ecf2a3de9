"""The artifact of grids: ln sqrt(g) and Christoffel symbols of every (member, fold)."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Generic

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
from geonode.storage.artifact_writer import ArtifactWriter, Parts
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
        _declare(writer, positions, learned, series)
        recipe = partial(
            _Writer, writer.parts, grid_of, positions.cpu(), positions.device, learned, check
        )
        engine.work(
            recipe,
            range(learned.network.models),
            lambda _, one: found.append(one),
            report,
            profile_of(positions.device).tiles,
        )
    return found


def _declare(
    writer: ArtifactWriter, positions: Tensor, learned: LearnedMetrics, series: Series
) -> None:
    """Add the arrays of the artifact, to be filled."""
    folds, nodes = len(learned.charts), positions.cpu().double().numpy()
    writer.coordinate("fold", np.arange(folds), units="1", long_name="level left out (index)")
    long_name = "charted concentration"
    writer.coordinate("position", nodes, units="1", long_name=long_name, dims=("node",))
    shape = (learned.members, folds, len(nodes), len(series.axis))
    for name, long_name in ARRAYS.items():
        writer.mapped(
            name,
            ("member", "fold", "node", "wavelength"),
            shape,
            "float32",
            units="1",
            long_name=long_name,
        )


class _Writer(Generic[Found]):
    """Evaluates, stores and checks one grid after the other."""

    def __init__(
        self,
        parts: Parts,
        grid_of: Callable[[int, Float[Tensor, "node"]], Grid],
        positions: Tensor,
        place: torch.device,
        learned: LearnedMetrics,
        check: Callable[[int, Grid], Found],
    ) -> None:
        self._parts, self._grid_of, self._check = parts, grid_of, check
        self._nodes, self._learned = positions.to(place), learned

    def __call__(self, model: int, report: Progress) -> Found:
        index, grid = self._learned.index(model), self._grid_of(model, self._nodes)
        stored = [table.float() for table in (grid.log_sqrt, grid.symbol)]
        for name, table in zip(ARRAYS, stored, strict=True):
            self._parts.write(name, index, table.cpu().numpy())
        found = self._check(model, Grid(self._nodes, *(part.to(self._nodes) for part in stored)))
        report(1)
        return found


class StoredGrids:
    """Grids of an artifact, read one at a time.

    Raises:
        MissingArtifactError, CorruptArtifactError: there is no artifact, or it is damaged.
        ArtifactError: it was made of other metrics or spectra than those at hand.
    """

    def __init__(self, path: Path, learned: LearnedMetrics, series: Series) -> None:
        self._artifact = open_artifact(path)
        self._nodes = self._artifact["position"]
        self._artifact.require_shape(
            "ln_sqrt_g",
            (learned.members, len(learned.charts), len(self._nodes), len(series.axis)),
            "the metrics and the spectra",
        )

    def grid(self, index: tuple[int, int], like: Float[Tensor, "..."]) -> Grid:
        """The grid of one (member, fold), in the format and on the device of a tensor."""
        parts = (
            self._nodes,
            self._artifact["ln_sqrt_g"][index],
            self._artifact["christoffel"][index],
        )
        return Grid(*(on_device(part.copy(), like.device, like.dtype) for part in parts))
