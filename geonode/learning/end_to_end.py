"""Metrics learned end to end: a metric network is trained through the geodesics that it implies.

For every (member, fold) a metric and a decoder are trained together. The decoder sees the features
of the geodesics between training concentrations and has to give the signal at the target; gradients
reach the metric through the closed form of the features. The decoder is then discarded: what counts
are the weights of the metric.
"""

import math
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torch.nn.functional import relu

from geonode.compute.device import Device, on_device
from geonode.config import MetricParameters
from geonode.geometry.metric import SIZES, Metric
from geonode.geometry.panels import PanelMetric, Panels
from geonode.geometry.trainable import TrainablePerceptron
from geonode.learning.batches import Batch, Footprint, bytes_of_row
from geonode.learning.context import TrainingRun
from geonode.learning.folds import training_wavelengths
from geonode.learning.objective import Prepared, squared_error
from geonode.learning.path_features import DECODER_SIZES, FeatureScale
from geonode.spectra.series import Series

TERMS = ("reconstruction", "smoothness", "bounds", "length")
METRIC_STREAM, DECODER_STREAM = 1, 2

# Numbers per row of a metric network: the point (2) and its copy in the format of the products, the
# output, g, sqrt(g), ln g and its excess over the bounds; the last five have gradients.
OF_NODE = 14
# Numbers per row of a decoder: features, standardised in two steps, and the gradients of all these.
OF_PAIR_WITH_METRIC = 40
# Numbers per row and gap between neighbouring concentrations: the least sqrt(g) of the gap on the
# path (infinity elsewhere), its gradient, and its place.
OF_GAP = 3


@dataclass(frozen=True)
class EndToEnd:
    """Objective of metrics: the error of a decoder on their geodesics, and penalties.

    The terms of its loss are `TERMS`, weighted; the reconstruction is a standardised mean squared
    error.
    """

    series: Series
    """The measured series. A fold never reads the spectra that it leaves out."""
    positions: Float[np.ndarray, "fold level"]  # charted concentrations, for every fold
    parameters: MetricParameters  # the block `metric` of the parameters

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
        pairs = levels * min(block.sources or levels, levels - 1)
        rows = math.ceil(nodes * width / pairs)  # shared out over the pairs
        pair = width * bytes_of_row(OF_PAIR_WITH_METRIC + OF_GAP * (levels - 1), device)
        of_nodes = nodes * width * bytes_of_row(OF_NODE, device)
        return Footprint(rows, of_nodes, pair)

    def prepare(self, batch: Batch, run: TrainingRun) -> Prepared:
        """Metrics of a batch, each with a decoder."""
        device, dtype, block = run.device.place, run.device.training, self.parameters
        charts = np.stack([self.positions[model.fold.index] for model in batch.models])
        panels = Panels.between(
            on_device(charts, device, dtype),
            block.quadrature_nodes,
            on_device(np.diff(charts), device, dtype),
        )
        metric = run.trainable(batch.initial(SIZES, block.seed, METRIC_STREAM))
        decoder = run.trainable(batch.initial(DECODER_SIZES, block.seed, DECODER_STREAM))
        wavelengths = on_device(self.series.wavelengths[self._chosen], device, dtype)
        targets = batch.targets(self.series, self._chosen, dtype)
        models = _Models(metric, decoder, panels, wavelengths, batch, targets, block)
        with torch.no_grad():  # of the first metrics, also where a training goes on
            scale = FeatureScale.of(models.features(models.geometry()))
        rates = block.learning_rate, block.decoder_learning_rate
        return Prepared([(metric, rates[0]), (decoder, rates[1])], partial(models.loss, scale))


@dataclass(frozen=True)
class _Models:
    """Metrics under training, each with a decoder."""

    metric: TrainablePerceptron
    decoder: TrainablePerceptron
    panels: Panels  # between the charted concentrations
    wavelengths: Tensor  # charted
    batch: Batch  # which pairs to join
    targets: Tensor  # signals that the decoders are to give: (model, pair, wavelength)
    parameters: MetricParameters

    def geometry(self) -> PanelMetric:
        """The present metrics at all nodes."""
        return self.panels.evaluate(Metric(self.metric), self.wavelengths)

    def features(self, geometry: PanelMetric) -> Tensor:
        """Path features of the geodesics of the training pairs."""
        return geometry.stations().features(self.batch.source, self.batch.target)

    def loss(self, scale: FeatureScale) -> Tensor:
        """The `TERMS` of every model, with the scale of the features."""
        geometry = self.geometry()
        features = self.features(geometry)
        error = squared_error(self.decoder, scale.apply(features), self.targets)
        others = penalties(geometry.metric, geometry.symbol(), features, self.parameters)
        return torch.cat([error, torch.stack(others)])


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
