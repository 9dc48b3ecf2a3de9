"""The artifact of learned metrics: networks and charts of every fold."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float

from geonode.errors import ArtifactError, CorruptArtifactError
from geonode.geometry.metric import Metric
from geonode.geometry.perceptron import Perceptron
from geonode.spectra.chart import Chart
from geonode.storage.weights import read_weights, write_weights


@dataclass(frozen=True)
class LearnedMetrics:
    """Metrics of every (member, fold).

    Attributes:
        network: metric networks in the order (member, fold).
        charts: the concentration chart of every fold, on which its metrics live.
    """

    network: Perceptron
    charts: list[Chart]

    @property
    def members(self) -> int:
        """Metrics of every fold."""
        return self.network.models // len(self.charts)

    def index(self, model: int) -> tuple[int, int]:
        """The (member, fold) of a model."""
        return divmod(model, len(self.charts))

    def positions(
        self, concentrations: Float[np.ndarray, "concentration"]
    ) -> Float[np.ndarray, "fold concentration"]:
        """Charted concentrations of every fold."""
        return np.stack([chart.position(concentrations) for chart in self.charts])

    def metric(self, device: torch.device) -> Metric:
        """All metrics in float64, in the order (member, fold)."""
        return Metric(self.network.to(device, torch.float64))

    def require_levels(self, path: Path, levels: int) -> None:
        """Refuse metrics of another series than the one at hand.

        Raises:
            ArtifactError: naming the artifact.
        """
        if len(self.charts) != levels + 1:
            raise ArtifactError(
                f"{path}: holds metrics of {len(self.charts) - 1} levels, but the spectra have "
                f"{levels}; run `dvc repro`"
            )

    def write(self, path: Path) -> None:
        """Write as an artifact.

        Raises:
            ArtifactError: it cannot be written; an older one is then intact.
        """
        charts = [[chart.kappa, chart.low, chart.high] for chart in self.charts]
        tensors = self.network.tensors("metric", self.members, len(self.charts))
        write_weights(path, tensors, {"charts": json.dumps(charts)})

    @classmethod
    def read(cls, path: Path) -> "LearnedMetrics":
        """Read what `write` wrote.

        Raises:
            MissingArtifactError, CorruptArtifactError: there is none, it is damaged, or it holds
                no metrics.
        """
        tensors, metadata = read_weights(path)
        try:
            network = Perceptron.from_tensors("metric", tensors)
            charts = [Chart(*chart) for chart in json.loads(metadata["charts"])]
        except KeyError as error:
            raise CorruptArtifactError(path, f"holds no metrics: {error} is absent") from error
        return cls(network, charts)
