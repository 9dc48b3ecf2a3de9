"""The artifact of learned metrics: networks and charts of every fold."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geonode.errors import ArtifactError, CorruptArtifactError
from geonode.geometry.metric import Metric
from geonode.geometry.perceptron import Perceptron
from geonode.spectra.chart import Chart
from geonode.storage.lineage import NO_INPUTS
from geonode.storage.weights import read_weights, write_weights


@dataclass(frozen=True)
class LearnedMetrics:
    """Metrics of every (member, fold)."""

    network: Perceptron  # metric networks in the order (member, fold)
    charts: list[Chart]  # the concentration chart of every fold, on which its metrics live
    inner: "LearnedMetrics | None" = None  # metrics of the inner folds; None without them
    left_out: tuple[tuple[int, ...], ...] = ()  # levels that every fold leaves out, of inner folds

    @property
    def members(self) -> int:
        """Metrics of every fold."""
        return self.network.models // len(self.charts)

    def index(self, model: int) -> tuple[int, int]:
        """The (member, fold) of a model."""
        return divmod(model, len(self.charts))

    def wanted(self, folds: bool) -> list[int]:
        """Models whose geometry is wanted: all, or those of all levels if folds are not."""
        last = len(self.charts) - 1
        return [m for m in range(self.network.models) if folds or self.index(m)[1] == last]

    def positions(
        self, concentrations: Float[np.ndarray, "concentration"]
    ) -> Float[np.ndarray, "fold concentration"]:
        """Charted concentrations of every fold."""
        return np.stack([chart.position(concentrations) for chart in self.charts])

    def metric(self, device: torch.device) -> Metric:
        """All metrics in float64, in the order (member, fold)."""
        return Metric(self.network.to(device, torch.float64))

    def require_inner(self, path: Path, left_out: tuple[tuple[int, ...], ...]) -> None:
        """Refuse metrics of other inner folds than those at hand.

        `left_out` are the levels that every inner fold leaves out; none without inner folds.

        Raises:
            ArtifactError: naming the artifact.
        """
        found = () if self.inner is None else self.inner.left_out
        if found != left_out:
            raise ArtifactError(
                f"{path}: contains metrics of {len(found)} inner folds, expected those of the "
                f"{len(left_out)} that the block inner of the parameters asks for; run `dvc repro`"
            )

    def write(self, path: Path, made_from: Mapping[str, str] = NO_INPUTS) -> None:
        """Write as an artifact.

        `made_from` is what `consistent_artifacts` yields.

        Raises:
            ArtifactError: it cannot be written; an older one is then intact.
        """
        tensors: dict[str, Tensor] = {}
        metadata = {"made_from": json.dumps(made_from)}
        for name, metrics in (("metric", self), ("inner", self.inner)):
            if metrics is not None:
                charts = [dataclasses.astuple(chart) for chart in metrics.charts]
                tensors |= metrics.network.tensors(name, metrics.members, len(charts))
                metadata[name] = json.dumps([charts, metrics.left_out])
        write_weights(path, tensors, metadata)

    @classmethod
    def read(cls, path: Path) -> "LearnedMetrics":
        """Read what `write` wrote.

        Raises:
            MissingArtifactError, CorruptArtifactError: there is none, it is damaged, or it contains
                no metrics.
        """
        tensors, metadata = read_weights(path)
        try:
            inner = _from_tensors("inner", tensors, metadata) if "inner" in metadata else None
            return replace(_from_tensors("metric", tensors, metadata), inner=inner)
        except KeyError as error:
            raise CorruptArtifactError(path, f"contains no metrics: {error} is absent") from error
        except (TypeError, ValueError) as error:
            raise CorruptArtifactError(path, f"contains no metrics: {error}") from error


def _from_tensors(
    name: str, tensors: dict[str, Tensor], metadata: dict[str, str]
) -> LearnedMetrics:
    found = json.loads(metadata[name])
    if len(found) != 2:
        raise KeyError(name)
    charts, left_out = found
    return LearnedMetrics(
        Perceptron.from_tensors(name, tensors),
        [
            Chart(kappa, low, high, None if known is None else tuple(known))
            for kappa, low, high, known in charts
        ],
        left_out=tuple(tuple(levels) for levels in left_out),
    )
