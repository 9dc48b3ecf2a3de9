"""Metrics learned end to end: the metric network is trained through the geodesics it implies.

For every (member, fold) a metric and a decoder are trained together. The decoder sees the features
of the geodesics between training concentrations and must give the target's signal; gradients
reach the metric through the closed form of the features. The decoder is then discarded: the
weights of the metric are what this produces.
"""

import math

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import relu

from geonode.config import MetricParameters
from geonode.devices.device import on_device
from geonode.geodesics.panels import PanelGeometry, Panels
from geonode.geometry.metric import SIZES, Metric
from geonode.geometry.perceptron import Perceptron
from geonode.learning.batches import Batch, fit_batches
from geonode.learning.folds import Standardisation, leave_one_out, training_wavelengths
from geonode.learning.path_decoder import DECODER_SIZES, FeatureScale
from geonode.learning.trainer import train
from geonode.progress import Report, silent

TERMS = ("reconstruction", "smoothness", "bounds", "length")
METRIC_STREAM, DECODER_STREAM = 1, 2


def fit_metric(
    spectra: Float[np.ndarray, "level wavelength"],
    positions: Float[np.ndarray, "fold level"],
    wavelengths: Float[np.ndarray, "wavelength"],
    parameters: MetricParameters,
    *,
    device: torch.device,
    dtype: torch.dtype,
    report: Report = silent,
) -> tuple[Perceptron, Float[Tensor, "epoch term model"]]:
    """Learn the metric of every (member, fold).

    Args:
        spectra: the measured series, levels ascending. Fold k never reads row k.
        positions: charted concentrations, for every fold.
        wavelengths: charted wavelengths.
        parameters: the block `metric` of the parameters.
        device: where to train.
        dtype: format to train in.
        report: told of every step.

    Returns:
        The metric networks in the order (member, fold), on the CPU, and the `TERMS` of the loss
        (weighted; the reconstruction is a standardised mean squared error) before every step.

    Raises:
        TrainingError: a loss is not finite.
    """
    folds = leave_one_out(len(spectra))
    scales = [Standardisation.of(spectra[fold.training]) for fold in folds]
    chosen = training_wavelengths(len(wavelengths), parameters.wavelengths)
    charted = on_device(wavelengths[chosen], device, dtype)
    levels = len(spectra)
    points = (levels - 1) * parameters.quadrature_nodes + levels

    def fit(batch: Batch) -> tuple[Perceptron, Tensor]:
        charts = np.stack([positions[model.fold.index] for model in batch.models])
        panels = Panels.between(on_device(charts, device, dtype), parameters.quadrature_nodes)
        targets = batch.signals(scales, spectra[:, chosen], dtype)
        seed = parameters.seed
        metric = Metric(batch.initial(SIZES, seed, METRIC_STREAM).to(device, dtype).trainable())
        decoder = batch.initial(DECODER_SIZES, seed, DECODER_STREAM).to(device, dtype).trainable()

        def geometry() -> PanelGeometry:
            return panels.geometry(metric, charted, batch.source, batch.target)

        with torch.no_grad():
            scale = FeatureScale.of(geometry().features)

        def loss() -> Tensor:
            paths = geometry()
            values = decoder(scale.apply(paths.features)).reshape(targets.shape)
            return torch.stack(
                [(values - targets).square().mean((1, 2)), *penalties(paths, parameters)]
            )

        history = train(
            [
                (metric.network.parameters, parameters.learning_rate),
                (decoder.parameters, parameters.decoder_learning_rate),
            ],
            loss,
            epochs=parameters.epochs,
            gradient_clip=parameters.gradient_clip,
            name=batch.name,
            report=report,
        )
        return metric.network.detached().to(torch.device("cpu"), dtype), history

    rows_per_pair = math.ceil(points * len(chosen) / (levels * (levels - 1)))
    return fit_batches(parameters.members, levels, rows_per_pair, device, fit)


def penalties(
    paths: PanelGeometry, parameters: MetricParameters
) -> tuple[Float[Tensor, "model"], Float[Tensor, "model"], Float[Tensor, "model"]]:
    """Weighted smoothness, bounds and length of every model.

    Smoothness is the mean squared Christoffel symbol, which no scaling of g changes. Bounds are the
    mean squared excess of ln g over its range. Length is the mean squared length of the geodesics;
    since features are standardised, it does no more than choose the scale of g.
    """
    low, high = (math.log(bound) for bound in parameters.bounds)
    log_metric = paths.metric.log()
    excess = relu(log_metric - high) + relu(low - log_metric)
    length = paths.features[..., 2]
    return (
        parameters.smoothness_weight * paths.symbol.square().mean((1, 2, 3)),
        parameters.bounds_weight * excess.square().mean((1, 2, 3)),
        parameters.length_weight * length.square().mean((1, 2)),
    )
