"""The artifact of grids: ln sqrt(g) and Christoffel symbols.

Stored is what is read: the metrics of all levels at every wavelength, for people; and those of the
folds that leave levels out where path decoders are trained, if there are any, as arrays `fold_...`.
"""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Generic

import numpy as np
import torch
from jaxtyping import Float, Int
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
from geonode.storage.lineage import NOTHING

DIMS = {"": ("member", "node", "wavelength"), "fold_": ("member", "fold", "node", "training")}
ARRAYS = {
    "ln_sqrt_g": "ln sqrt(g)",
    "christoffel": "Christoffel symbol d ln sqrt(g) / dx",
}

ColumnsOfGrid = Int[Tensor, "chosen"] | None
"""Wavelengths, by index, of the columns of a grid; None: all."""


def write_grids(
    path: Path,
    grid_of: Callable[[int, Float[Tensor, "node"]], Grid],
    positions: Float[Tensor, "node"],
    learned: LearnedMetrics,
    series: Series,
    *,
    chosen: Int[np.ndarray, "training"] | None,
    check: Callable[[int, Grid, ColumnsOfGrid], Found],
    report: Progress = silent,
    engine: Engine = LOCAL,
    made_from: Mapping[str, str] = NOTHING,
) -> list[Found]:
    """Evaluate grids, store them, and check what was stored.

    Args:
        path: of the artifact.
        grid_of: gives the grid of a model, in the order (member, fold), at some nodes.
        positions: nodes of the grids.
        learned: where they come from.
        series: for the coordinates.
        chosen: indices of the wavelengths of path decoders; None: folds are not wanted.
        check: called with every model, its grid, read again where it was evaluated, and the
            wavelengths of its columns.
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
        _declare(writer, positions, learned, series, chosen)
        recipe = partial(
            *(_Writer, writer.parts, grid_of, positions.cpu(), positions.device),
            *(learned, chosen, check),
        )
        engine.work(
            recipe,
            learned.wanted(chosen is not None),
            lambda _, one: found.append(one),
            report,
            profile_of(positions.device).tiles,
        )
    return found


def _declare(
    writer: ArtifactWriter,
    positions: Tensor,
    learned: LearnedMetrics,
    series: Series,
    chosen: Int[np.ndarray, "training"] | None,
) -> None:
    """Add the arrays of the artifact, to be filled."""
    folds, nodes = len(learned.charts) - 1, positions.cpu().double().numpy()
    long_name = "charted concentration"
    writer.coordinate("position", nodes, units="1", long_name=long_name, dims=("node",))
    shapes = {"": (learned.members, len(nodes), len(series.axis))}
    if chosen is not None:
        writer.coordinate("fold", np.arange(folds), units="1", long_name="level left out (index)")
        declare_training(writer, series, chosen)
        shapes["fold_"] = (learned.members, folds, len(nodes), len(chosen))
    for family, shape in shapes.items():
        for name, long_name in ARRAYS.items():
            about = {"units": "1", "long_name": long_name}
            writer.stored_blocks(
                family + name, DIMS[family], shape, "float32", block_dims=len(shape) - 2, **about
            )


def declare_training(
    writer: ArtifactWriter, series: Series, chosen: Int[np.ndarray, "training"]
) -> None:
    """Store the wavelengths at which path decoders are trained."""
    units, axis = series.labels["axis_unit"], series.labels["axis"]
    writer.coordinate(
        "training", series.axis[chosen], units=units, long_name=f"{axis} of the decoders"
    )


def block_of(learned: LearnedMetrics, model: int) -> tuple[str, tuple[int, ...]]:
    """Family of arrays in which the grid of a model is stored, and its index there."""
    member, fold = learned.index(model)
    return ("", (member,)) if fold == len(learned.charts) - 1 else ("fold_", (member, fold))


class _Writer(Generic[Found]):
    """Evaluates, stores and checks one grid after the other.

    Args:
        parts: of the artifact.
        grid_of, positions, learned, chosen, check: as for `write_grids`, the positions on the CPU.
        place: device to evaluate on.
    """

    def __init__(
        self,
        parts: Parts,
        grid_of: Callable[[int, Float[Tensor, "node"]], Grid],
        positions: Tensor,
        place: torch.device,
        learned: LearnedMetrics,
        chosen: Int[np.ndarray, "training"] | None,
        check: Callable[[int, Grid, ColumnsOfGrid], Found],
    ) -> None:
        self._parts, self._grid_of, self._check = parts, grid_of, check
        self._nodes, self._learned, self._chosen = positions.to(place), learned, chosen

    def __call__(self, model: int, report: Progress) -> Found:
        family, index = block_of(self._learned, model)
        grid, columns, stored = self._grid_of(model, self._nodes), None, []
        if family and self._chosen is not None:
            columns = torch.from_numpy(self._chosen)
            grid = grid.at_wavelengths(columns.to(self._nodes.device))
        for name, table in zip(ARRAYS, (grid.log_sqrt, grid.symbol), strict=True):
            self._parts.write(family + name, index, table.float().cpu().numpy())
            stored.append(torch.from_numpy(self._parts.read(family + name, index)).to(self._nodes))
        found = self._check(model, Grid(self._nodes, *stored), columns)
        report(1)
        return found


class StoredGrids:
    """Grids of an artifact, read one at a time.

    Raises:
        MissingArtifactError, CorruptArtifactError: there is no artifact, or it is damaged.
        ArtifactError: it was made of other metrics or spectra than those at hand.
    """

    def __init__(
        self,
        path: Path,
        learned: LearnedMetrics,
        series: Series,
        chosen: Int[np.ndarray, "training"] | None,
    ) -> None:
        self._artifact, self._learned = open_artifact(path), learned
        self._nodes, of = self._artifact["position"], "the metrics and the spectra"
        members, folds, nodes = learned.members, len(learned.charts) - 1, len(self._nodes)
        self._artifact.require_shape("ln_sqrt_g", (members, nodes, len(series.axis)), of)
        if chosen is not None:
            shape = (members, folds, nodes, len(chosen))
            self._artifact.require_shape("fold_ln_sqrt_g", shape, of)

    def grid(self, model: int, like: Float[Tensor, "..."]) -> Grid:
        """The stored grid of a model, in the format and on the device of a tensor."""
        family, index = block_of(self._learned, model)
        tables = (self._artifact.read(family + name, index) for name in ARRAYS)
        parts = (self._nodes, *tables)
        return Grid(*(on_device(part.copy(), like.device, like.dtype) for part in parts))
