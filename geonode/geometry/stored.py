"""The artifact of grids: ln sqrt(g) and Christoffel symbols of every (member, fold)."""

from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geonode.devices.device import on_device
from geonode.geometry.accuracy import GridErrors, grid_errors
from geonode.geometry.grid import Grid, Grids
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.metric import Metric
from geonode.progress import Report, silent
from geonode.spectra.series import Series
from geonode.storage.artifact import open_artifact

DIMS = ("member", "fold", "node", "wavelength")


def write_grids(
    path: Path,
    grids: Grids,
    learned: LearnedMetrics,
    metric: Metric,
    series: Series,
    *,
    check_positions: int,
    report: Report = silent,
) -> list[GridErrors]:
    """Evaluate grids one by one, store them in float32, and check what was stored.

    Args:
        path: of the artifact.
        grids: of all models, in the order (member, fold).
        learned: where they come from.
        metric: all of them in float64, for the check.
        series: for the coordinates.
        check_positions: random concentrations at which every grid is checked.
        report: told of every grid.

    Raises:
        ArtifactError: it cannot be written; an older one is then intact.
    """
    wavelengths = torch.from_numpy(series.wavelengths)
    errors = []
    with series.artifact_writer(path, {"calls_per_model": grids.calls}) as writer:
        nodes = grids.positions.cpu().double().numpy()
        writer.coordinate(
            "fold", np.arange(len(learned.charts)), units="1", long_name="level left out (index)"
        )
        writer.coordinate(
            "position", nodes, units="1", long_name="charted concentration", dims=("node",)
        )
        shape = (learned.members, len(learned.charts), len(nodes), len(wavelengths))
        blocks = {
            name: writer.stored_blocks(
                name, DIMS, shape, "float32", units="1", long_name=long_name, block_dims=2
            )
            for name, long_name in (
                ("ln_sqrt_g", "ln sqrt(g)"),
                ("christoffel", "Christoffel symbol d ln sqrt(g) / dx"),
            )
        }
        for model, grid in enumerate(grids):
            stored = Grid(grid.positions, grid.log_sqrt.float(), grid.symbol.float())
            index = learned.index(model)
            blocks["ln_sqrt_g"][index] = stored.log_sqrt.cpu().numpy()
            blocks["christoffel"][index] = stored.symbol.cpu().numpy()
            errors.append(
                grid_errors(
                    stored, metric[model], wavelengths, positions=check_positions, seed=model
                )
            )
            report(1)
    return errors


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
            self._artifact.read("ln_sqrt_g", index),
            self._artifact.read("christoffel", index),
        )
        return Grid(*(on_device(part.copy(), like.device, like.dtype) for part in parts))
