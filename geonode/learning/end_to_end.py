"""Metrics learned end to end: the metric network is trained through the geodesics it implies.

For every (member, fold) a metric and a decoder are trained together. The decoder sees the features
of the geodesics between training concentrations and must give the target's signal; gradients
reach the metric through the closed form of the features. The decoder is then discarded: the
weights of the metric are what this produces.

Gradients may be accumulated over parts of the pairs. Every part then evaluates the metric at all
quadrature nodes again, for they serve all pairs; the penalties on the nodes are the same for every
part and count once, because parts are weighted by their share of the pairs. Memory falls for what
belongs to pairs, which grow with the square of the number of concentrations, and not for the nodes,
which grow with the number itself.
"""

import math
from collections.abc import Callable
from functools import partial

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
from geonode.learning.batches import Batch, Fitted, fit_batches
from geonode.learning.checkpoint import Checkpoints, open_checkpoints
from geonode.learning.folds import Standardisation, training_wavelengths
from geonode.learning.footprint import of_end_to_end
from geonode.learning.path_decoder import DECODER_SIZES, FeatureScale
from geonode.learning.run import Run
from geonode.learning.targets import Targets
from geonode.learning.trainer import train
from geonode.progress import Report
from geonode.spectra.series import Series

TERMS = ("reconstruction", "smoothness", "bounds", "length")
METRIC_STREAM, DECODER_STREAM = 1, 2


def fit_metric(
    series: Series,
    positions: Float[np.ndarray, "fold level"],
    parameters: MetricParameters,
    run: Run,
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
        TrainingError: a loss is not finite, there are fewer training pairs than parts to
            accumulate, or the checkpoints are of another training.
        CorruptArtifactError: a checkpoint is damaged.
    """
    levels = len(series.signal)
    points = (levels - 1) * parameters.quadrature_nodes + levels
    chosen = training_wavelengths(len(series.axis), parameters.wavelengths)
    data = [series.signal, positions, series.wavelengths]
    checkpoints = open_checkpoints(parameters, run, data)
    recipe = partial(_fitting, series, positions, parameters, run.alone, checkpoints)
    rows_per_pair = math.ceil(points * len(chosen) / (levels * (levels - 1)))
    footprint = of_end_to_end(levels, len(chosen), parameters, run.device)
    fitted = fit_batches(run, rows_per_pair, recipe, footprint)
    if checkpoints is not None:
        checkpoints.discard()
    return fitted.network, fitted.history


def _fitting(
    series: Series,
    positions: np.ndarray,
    parameters: MetricParameters,
    run: Run,
    checkpoints: Checkpoints | None,
) -> Callable[[Batch, Report], Fitted]:
    """What trains the metrics of a batch."""
    device, dtype = run.device.place, run.device.training
    spectra, wavelengths = series.signal, series.wavelengths
    scales = [Standardisation.of(spectra[fold.training]) for fold in run.folds]
    chosen = training_wavelengths(len(wavelengths), parameters.wavelengths)
    charted = on_device(wavelengths[chosen], device, dtype)

    def fit(batch: Batch, report: Report) -> Fitted:
        charts = np.stack([positions[model.fold.index] for model in batch.models])
        panels = Panels.between(on_device(charts, device, dtype), parameters.quadrature_nodes)
        targets = Targets(batch, scales, series, parameters, dtype)
        seed = parameters.seed
        metric = Metric(run.trainable(batch.initial(SIZES, seed, METRIC_STREAM)))
        decoder = run.trainable(batch.initial(DECODER_SIZES, seed, DECODER_STREAM))

        def geometry(part: slice) -> PanelGeometry:
            return panels.geometry(metric, charted, batch.source[:, part], batch.target[:, part])

        with torch.no_grad():
            scale = FeatureScale.of(geometry(slice(None)).features)

        def loss(part: slice, epoch: int) -> Tensor:
            paths, wanted = geometry(part), targets.at(part, epoch)
            values = decoder(scale.apply(paths.features)).reshape(wanted.shape)
            return torch.stack(
                [(values - wanted).square().mean((1, 2)), *penalties(paths, parameters)]
            )

        history = train(
            [
                (metric.network, parameters.learning_rate),
                (decoder, parameters.decoder_learning_rate),
            ],
            loss,
            targets.pairs,
            parameters,
            name=batch.name,
            parts=batch.parts,
            report=report,
            checkpoints=checkpoints and checkpoints.of_batch(batch.label),
            repeats=targets.repeat,
        )
        return Fitted(metric.network.detached().to(torch.device("cpu"), dtype), history)

    return fit


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
