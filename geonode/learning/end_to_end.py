"""Metrics learned end to end: the metric network is trained through the geodesics it implies.

For every (member, fold) a metric and a decoder are trained together. The decoder sees the features
of the geodesics between training concentrations and must give the target's signal; gradients
reach the metric through the closed form of the features. The decoder is then discarded: the
weights of the metric are what this produces.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch.nn.functional import relu

from geonode.compute.device import Device, on_device
from geonode.config import MetricParameters
from geonode.geometry.metric import SIZES, Metric
from geonode.geometry.panels import PanelMetric, Panels
from geonode.geometry.perceptron import Perceptron
from geonode.geometry.trainable import TrainablePerceptron
from geonode.learning.batches import Batch
from geonode.learning.context import TrainingRun
from geonode.learning.folds import SOURCES, training_wavelengths
from geonode.learning.footprint import (
    OF_GAP,
    OF_NODE,
    OF_PAIR_WITH_METRIC,
    Footprint,
    bytes_of_row,
)
from geonode.learning.objective import fit
from geonode.learning.path_decoder import DECODER_SIZES, FeatureScale
from geonode.spectra.series import Series

TERMS = ("reconstruction", "smoothness", "bounds", "length")
METRIC_STREAM, DECODER_STREAM = 1, 2


def fit_metric(
    series: Series,
    positions: Float[np.ndarray, "fold level"],
    parameters: MetricParameters,
    run: TrainingRun,
) -> tuple[Perceptron, Float[Tensor, "epoch term model"]]:
    """Learn the metric of every (member, fold).

    Args:
        series: the measured series. A fold never reads the spectra that it leaves out.
        positions: charted concentrations, for every fold.
        parameters: the block `metric` of the parameters.
        run: which metrics to learn, and where.

    Returns:
        The metric networks in the order (member, fold), on the CPU, and the `TERMS` of the loss
        (weighted; the reconstruction is a standardised mean squared error) before every step.

    Raises:
        TrainingError: a loss is not finite, or the checkpoints are of another training.
        CorruptArtifactError: a checkpoint is damaged.
    """
    fitted = fit(EndToEnd(series, positions, parameters), run)
    return fitted.network, fitted.history


@dataclass(frozen=True)
class EndToEnd:
    """The error of a decoder on geodesics of the metric, and penalties, as an objective.

    Attributes:
        series: the measured series. A fold never reads the spectra that it leaves out.
        positions: charted concentrations, for every fold.
        parameters: the block `metric` of the parameters.
    """

    series: Series
    positions: Float[np.ndarray, "fold level"]
    parameters: MetricParameters

    @property
    def _chosen(self) -> Int[np.ndarray, "training"]:
        return training_wavelengths(len(self.series.axis), self.parameters.wavelengths)

    def data(self) -> list[Shaped[np.ndarray, "..."]]:
        """Spectra, positions and wavelengths."""
        return [self.series.signal, self.positions, self.series.wavelengths]

    def footprint(self, device: Device) -> Footprint:
        """Memory of a step."""
        levels, width, block = len(self.series.signal), len(self._chosen), self.parameters
        nodes = (levels - 1) * block.quadrature_nodes + levels
        pairs = levels * min(SOURCES, levels - 1)
        rows = math.ceil(nodes * width / pairs)  # shared out over the pairs
        pair = width * bytes_of_row(OF_PAIR_WITH_METRIC + OF_GAP * (levels - 1), device)
        of_nodes = nodes * width * bytes_of_row(OF_NODE, device)
        return Footprint(rows, of_nodes, pair)

    def prepare(self, batch: Batch, run: TrainingRun) -> "PreparedMetrics":
        """Metrics of a batch, each with a decoder."""
        device, dtype, seed = run.device.place, run.device.training, self.parameters.seed
        charts = np.stack([self.positions[model.fold.index] for model in batch.models])
        panels = Panels.between(
            on_device(charts, device, dtype),
            self.parameters.quadrature_nodes,
            on_device(np.diff(charts), device, dtype),
        )
        return PreparedMetrics(
            run.trainable(batch.initial(SIZES, seed, METRIC_STREAM)),
            run.trainable(batch.initial(DECODER_SIZES, seed, DECODER_STREAM)),
            panels,
            on_device(self.series.wavelengths[self._chosen], device, dtype),
            batch,
            batch.targets(self.series, self._chosen, dtype),
            self.parameters,
        )


@dataclass
class PreparedMetrics:
    """Metrics of a batch, ready to be trained, each with a decoder.

    Attributes:
        metric, decoder: the networks.
        panels: between the charted concentrations.
        wavelengths: charted.
        batch: which pairs to join.
        targets: signals that the decoders are to give.
        parameters: the block `metric` of the parameters.
        scale: of the features by the first metrics, also where a training goes on.
    """

    metric: TrainablePerceptron
    decoder: TrainablePerceptron
    panels: Panels
    wavelengths: Float[Tensor, "training"]
    batch: Batch
    targets: Float[Tensor, "model pair training"]
    parameters: MetricParameters
    scale: FeatureScale = field(init=False)

    def __post_init__(self) -> None:
        with torch.no_grad():
            self.scale = FeatureScale.of(self.features(self.geometry()))

    @property
    def networks(self) -> list[tuple[TrainablePerceptron, float]]:
        """Metrics and decoders, and their rates."""
        rate, of_decoder = self.parameters.learning_rate, self.parameters.decoder_learning_rate
        return [(self.metric, rate), (self.decoder, of_decoder)]

    @property
    def buffers(self) -> list[Any]:
        """None: a metric is its network."""
        return []

    def geometry(self) -> PanelMetric:
        """The present metrics at all nodes."""
        return self.panels.evaluate(Metric(self.metric), self.wavelengths)

    def features(self, geometry: PanelMetric) -> Float[Tensor, "model pair training feature"]:
        """Path features of the geodesics of the training pairs."""
        return geometry.stations().features(self.batch.source, self.batch.target)

    def loss(self) -> Float[Tensor, "term model"]:
        """The `TERMS` of every model."""
        geometry = self.geometry()
        features = self.features(geometry)
        values = self.decoder(self.scale.apply(features)).reshape(self.targets.shape)
        error = (values - self.targets).square().mean((1, 2))
        return torch.stack(
            [error, *penalties(geometry.metric, geometry.symbol(), features, self.parameters)]
        )


def penalties(
    metric: Float[Tensor, "model panel node training"],
    symbol: Float[Tensor, "model panel node training"],
    features: Float[Tensor, "model pair training feature"],
    parameters: MetricParameters,
) -> tuple[Float[Tensor, "model"], Float[Tensor, "model"], Float[Tensor, "model"]]:
    """Weighted smoothness, bounds and length of every model.

    Smoothness is the mean squared Christoffel symbol, which no scaling of g changes. Bounds are the
    mean squared excess of ln g over its range. Length is the mean squared length of the geodesics;
    since features are standardised, it does no more than choose the scale of g.
    """
    low, high = (math.log(bound) for bound in parameters.bounds)
    log_metric = metric.log()
    excess = relu(log_metric - high) + relu(low - log_metric)
    length = features[..., 2]
    return (
        parameters.smoothness_weight * symbol.square().mean((1, 2, 3)),
        parameters.bounds_weight * excess.square().mean((1, 2, 3)),
        parameters.length_weight * length.square().mean((1, 2)),
    )
