"""Pullback metrics: concentrations are as far apart as their spectra.

The training spectra of a fold, joined by monotone cubics, are a curve y(x) in the space of spectra.
The map from x to its point pulls the Euclidean metric back to (dy/dx)^2, one number for every
wavelength: where the signal changes fast, concentrations are far apart. A metric network is fitted
to the logarithm of this metric by least squares.

Where a signal turns, its slope and so its pullback vanish, which a metric must not: a share of the
mean over the series is added everywhere. That also makes wavelengths without signal flat.

Source: M. P. do Carmo, Riemannian Geometry, Birkhaeuser 1992, chapter 1, example 2.5 (the metric
induced by an immersion).
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from scipy.interpolate import PchipInterpolator
from torch import Tensor

from geonode.config import MetricParameters
from geonode.devices.device import on_device
from geonode.errors import TrainingError
from geonode.geodesics.panels import Panels
from geonode.geometry.metric import SIZES, Metric
from geonode.geometry.perceptron import Perceptron
from geonode.learning.batches import Batch, Fitted, fit_batches
from geonode.learning.checkpoint import Checkpoints, open_checkpoints
from geonode.learning.end_to_end import METRIC_STREAM
from geonode.learning.folds import Standardisation, training_wavelengths
from geonode.learning.footprint import of_nodes
from geonode.learning.run import Run
from geonode.learning.trainer import train
from geonode.progress import Report

TERMS = ("log_metric",)
FLOOR = 0.1  # share of the mean squared slope
SMOOTHING = np.array([0.25, 0.5, 0.25])  # of a wavelength and its neighbours


def fit_pullback(
    spectra: Float[np.ndarray, "level wavelength"],
    positions: Float[np.ndarray, "fold level"],
    wavelengths: Float[np.ndarray, "wavelength"],
    parameters: MetricParameters,
    run: Run,
) -> tuple[Perceptron, Float[Tensor, "epoch term model"]]:
    """Learn the pullback metric of every (member, fold).

    Args:
        spectra: the measured series, levels ascending. A fold never reads the rows that it leaves
            out.
        positions: charted concentrations, for every fold.
        wavelengths: charted wavelengths.
        parameters: the block `metric` of the parameters.
        run: which metrics to learn, and where.

    Returns:
        The metric networks in the order (member, fold), on the CPU, and the mean squared error of
        ln g before every step.

    Raises:
        TrainingError: the training spectra or a loss are not finite, there are fewer quadrature
            nodes than parts to accumulate, or the checkpoints are of another training.
        CorruptArtifactError: a checkpoint is damaged.
    """
    levels = len(spectra)
    points = (levels - 1) * parameters.quadrature_nodes
    chosen = training_wavelengths(len(wavelengths), parameters.wavelengths)
    data = (spectra, positions, wavelengths)
    checkpoints = open_checkpoints(parameters, run, data)
    recipe = partial(_fitting, *data, parameters, run.alone, checkpoints)
    rows_per_pair = math.ceil(points * len(chosen) / (levels * (levels - 1)))
    footprint = of_nodes(points, len(chosen), run.device)
    fitted = fit_batches(run, rows_per_pair, recipe, footprint)
    if checkpoints is not None:
        checkpoints.discard()
    return fitted.network, fitted.history


def _fitting(
    spectra: np.ndarray,
    positions: np.ndarray,
    wavelengths: np.ndarray,
    parameters: MetricParameters,
    run: Run,
    checkpoints: Checkpoints | None,
) -> Callable[[Batch, Report], Fitted]:
    """What trains the metrics of a batch."""
    device, dtype = run.device.place, run.device.training
    scales = [Standardisation.of(spectra[fold.training]) for fold in run.folds]
    chosen = training_wavelengths(len(wavelengths), parameters.wavelengths)
    charted = on_device(wavelengths[chosen], device, dtype)

    def fit(batch: Batch, report: Report) -> Fitted:
        charts = np.stack([positions[model.fold.index] for model in batch.models])
        panels = Panels.between(torch.from_numpy(charts), parameters.quadrature_nodes)
        nodes = panels.nodes.flatten(1)
        metrics = []
        for place, (_, fold) in enumerate(batch.models):
            signal = scales[fold.index].apply(spectra[fold.training][:, chosen])
            known = charts[place, fold.training]
            metrics.append(pullback(known, signal, nodes[place].numpy(), parameters.bounds))
        wanted = on_device(np.log(metrics), device, dtype)
        points = nodes.to(dtype).to(device)
        first = batch.initial(SIZES, parameters.seed, METRIC_STREAM)
        metric = Metric(run.trainable(first))

        def loss(part: slice, _epoch: int) -> Tensor:
            error = 2 * metric.log_sqrt(points[:, part], charted) - wanted[:, part]
            return error.square().mean((1, 2))[None]

        history = train(
            [(metric.network, parameters.learning_rate)],
            loss,
            points.shape[1],
            parameters,
            name=batch.name,
            report=report,
            checkpoints=checkpoints and checkpoints.of_batch(batch.label),
        )
        return Fitted(metric.network.detached().to(torch.device("cpu"), dtype), history)

    return fit


def pullback(
    positions: Float[np.ndarray, "level"],
    signal: Float[np.ndarray, "level wavelength"],
    points: Float[np.ndarray, "point"],
    bounds: tuple[float, float],
) -> Float[np.ndarray, "point wavelength"]:
    """The pullback metric of a series of spectra, within bounds and about 1.

    The squared slope of the monotone cubic through the signal (beyond the ends that at the end),
    smoothed over neighbouring wavelengths, with `FLOOR` times its mean added, and scaled to the
    geometric mean 1. A constant series is flat.

    Args:
        positions: charted levels, ascending.
        signal: their spectra.
        points: charted concentrations at which the metric is wanted.
        bounds: smallest and largest value; what is beyond is cut off.

    Raises:
        TrainingError: the signal is not finite.

    Source of the interpolation: F. N. Fritsch and J. Butland, SIAM J. Sci. Stat. Comput. 5 (1984)
    300.
    """
    if not np.isfinite(signal).all():
        raise TrainingError("pullback: found spectra that are not finite, expected finite ones")
    slope = PchipInterpolator(positions, signal).derivative()
    squared = slope(points.clip(positions[0], positions[-1])) ** 2
    padded = np.pad(squared, ((0, 0), (1, 1)), mode="edge")
    smooth = np.lib.stride_tricks.sliding_window_view(padded, 3, axis=1) @ SMOOTHING
    mean = smooth.mean()
    if mean == 0:
        return np.ones_like(smooth)
    logarithm = np.log(smooth + FLOOR * mean)
    return np.exp(logarithm - logarithm.mean()).clip(*bounds)
