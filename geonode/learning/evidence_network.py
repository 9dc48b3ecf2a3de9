"""Metric networks learned by evidence: the training spectra as a smooth function of arc length.

For every (member, fold) a metric network is trained so that a Gaussian process on the geodesic
distance that it implies, k = exp(-d^2 / (2 length^2)) about a constant, makes the training spectra
as likely as it can. No decoder takes part, and the arc length is a closed form, so a step costs a
few network values and a small matrix.

The scale of the metric means nothing: arc length is scaled to [-1, 1] by the ends of the series, as
it is where spectra are predicted. Against it stands a prior in favour of a flat metric on the
given chart, without which a few spectra would be explained by any metric that bends enough.

The metric is shared by all wavelengths, or every training wavelength has distances and so a
covariance of its own. One variance of the process serves all wavelengths in either case.
"""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.linalg import helmert
from torch import Tensor

from geonode.config import DecodersParameters, MetricParameters
from geonode.devices.device import on_device
from geonode.geodesics.features import FEATURES
from geonode.geodesics.panels import Panels
from geonode.geometry.metric import SIZES, Metric
from geonode.geometry.perceptron import Perceptron
from geonode.geometry.trainable import TrainablePerceptron
from geonode.learning.batches import Batch, Fitted, fit_batches
from geonode.learning.checkpoint import Checkpoints, open_checkpoints
from geonode.learning.end_to_end import METRIC_STREAM
from geonode.learning.folds import Fold, Standardisation, training_wavelengths
from geonode.learning.footprint import of_nodes
from geonode.learning.process import LENGTHS, NOISES, fit_process
from geonode.learning.run import Run
from geonode.learning.trainer import train
from geonode.progress import Report

TERMS = ("evidence", "flatness")
NODES = 5  # of the quadrature in every gap between neighbouring concentrations
FLATNESS = 1.0
"""Price of a mean squared ln g of 1, as a logarithm of the likelihood per wavelength."""
MEAN = "constant"
LENGTH = FEATURES.index("length")
INSIDE = 0.9  # of the ranges of length and noise (logarithms), in which the training starts


def fit_evidence_network(
    spectra: Float[np.ndarray, "level wavelength"],
    positions: Float[np.ndarray, "fold level"],
    wavelengths: Float[np.ndarray, "wavelength"],
    parameters: MetricParameters | DecodersParameters,
    run: Run,
    *,
    shared: bool,
) -> tuple[Perceptron, Float[Tensor, "epoch term model"]]:
    """Learn the metric of every (member, fold) by the evidence of its training spectra.

    Args:
        spectra: the measured series, levels ascending. A fold never reads the rows that it leaves
            out.
        positions: charted concentrations, for every fold.
        wavelengths: charted wavelengths.
        parameters: of the training.
        run: which metrics to learn, and where.
        shared: one metric for all wavelengths, rather than one for each.

    Returns:
        The metric networks in the order (member, fold), on the CPU, and the `TERMS` of the loss
        before every step. The evidence is minus the logarithm of the restricted likelihood per
        wavelength, up to a constant; the flatness is the prior.

    Raises:
        TrainingError: the training spectra or a loss are not finite, the gradient is to be
            accumulated, or the checkpoints are of another training.
        CorruptArtifactError: a checkpoint is damaged.
    """
    levels = len(spectra)
    points = (levels - 1) * NODES + levels
    kernels = 1 if shared else min(len(wavelengths), parameters.wavelengths)
    data = (spectra, positions, wavelengths)
    checkpoints = open_checkpoints(parameters, run, data)
    recipe = partial(_fitting, *data, parameters, run.alone, checkpoints, shared)
    rows_per_pair = math.ceil(points * kernels / (levels * (levels - 1)))
    footprint = of_nodes(points, kernels, run.device)
    fitted = fit_batches(run, rows_per_pair, recipe, footprint)
    if checkpoints is not None:
        checkpoints.discard()
    return fitted.network, fitted.history


def _fitting(
    spectra: np.ndarray,
    positions: np.ndarray,
    wavelengths: np.ndarray,
    parameters: MetricParameters | DecodersParameters,
    run: Run,
    checkpoints: Checkpoints | None,
    shared: bool,
) -> Callable[[Batch, Report], Fitted]:
    """What trains the metrics of a batch."""
    device, dtype = run.device.place, run.device.training
    scales = [Standardisation.of(spectra[fold.training]) for fold in run.folds]
    chosen = training_wavelengths(len(wavelengths), parameters.wavelengths)
    charted = on_device(np.zeros(1) if shared else wavelengths[chosen], device, dtype)
    levels = len(spectra)

    def fit(batch: Batch, report: Report) -> Fitted:
        folds = [model.fold for model in batch.models]
        charts = np.stack([positions[fold.index] for fold in folds])
        signals = [scales[f.index].apply(spectra[f.training][:, chosen]) for f in folds]
        panels = Panels.between(on_device(charts, device, dtype), NODES)
        training = torch.tensor([fold.training for fold in folds], device=device)
        exact = (run.device.reference, torch.float64)  # matrices are nearly singular
        outputs = _outputs(on_device(np.stack(signals), *exact), shared)
        kernel = TrainablePerceptron.of(_first_kernel(charts, folds, signals).to(*exact))
        first = batch.initial(SIZES, parameters.seed, METRIC_STREAM)
        if shared:
            first.weights[0][:, 1] = 0  # of w; as they see w = 0 alone, they stay
        metric = Metric(run.trainable(first))
        source = training.new_zeros(len(folds), levels - 1)
        target = torch.arange(1, levels, device=device).expand_as(source)

        def loss(_part: slice, _epoch: int) -> Tensor:
            paths = panels.geometry(metric, charted, source, target)
            arcs = scaled_arc_lengths(paths.features[..., LENGTH], training).to(outputs)
            likelihood = restricted_likelihood(arcs, outputs, *_length_and_noise(kernel))
            flatness = FLATNESS * paths.metric.log().square().mean((1, 2, 3))
            return torch.stack([-likelihood.to(flatness), flatness])

        history = train(
            [(metric.network, parameters.learning_rate), (kernel, parameters.learning_rate)],
            loss,
            1,
            parameters,
            name=batch.name,
            report=report,
            checkpoints=checkpoints and checkpoints.of_batch(batch.label),
        )
        return Fitted(metric.network.detached().to(torch.device("cpu"), dtype), history)

    return fit


def scaled_arc_lengths(
    lengths: Float[Tensor, "model target wavelength"], chosen: Int[Tensor, "model training"]
) -> Float[Tensor, "model wavelength training"]:
    """Arc length of some levels, scaled to -1 at the lowest level of all and 1 at the highest.

    Args:
        lengths: of the geodesics from the lowest level to every other, ascending.
        chosen: indices of the levels that are asked for.
    """
    from_lowest = torch.nn.functional.pad(lengths, (0, 0, 1, 0))
    every = (2 * from_lowest / lengths[:, -1:] - 1).mT
    return every.gather(2, chosen[:, None].expand(-1, every.shape[1], -1))


def shared_arc_lengths(
    network: Perceptron, positions: Float[np.ndarray, "fold level"]
) -> Float[np.ndarray, "fold level"]:
    """Scaled arc length of the levels on metrics that are shared by wavelengths, in float64.

    Args:
        network: one metric a fold.
        positions: charted levels of every fold.
    """
    cpu, count = torch.device("cpu"), positions.shape[1]
    panels = Panels.between(torch.from_numpy(positions), 2 * NODES)
    source = torch.zeros(len(positions), count - 1, dtype=torch.int64)
    target = torch.arange(1, count).expand_as(source)
    middle = torch.zeros(1, dtype=torch.float64)
    paths = panels.geometry(Metric(network.to(cpu, torch.float64)), middle, source, target)
    every = torch.arange(count).expand(len(positions), -1)
    return scaled_arc_lengths(paths.features[..., LENGTH], every)[:, 0].numpy()


def restricted_likelihood(
    positions: Float[Tensor, "model kernel level"],
    outputs: Float[Tensor, "model kernel level output"],
    length: Float[Tensor, "model"],
    noise: Float[Tensor, "model"],
) -> Float[Tensor, "model"]:
    """Logarithm of the restricted likelihood about a constant, per output and up to a constant.

    With C the orthonormal contrasts of n levels, M = C K C^T and Z = C Y it is
    -1/2 ((n - 1) ln sum tr(Z^T M^-1 Z) + mean ln |M|), where sum and mean are over the kernels. The
    scale of the process, one for all outputs, is at its maximum. With a single kernel this is
    `geonode.learning.process.restricted_likelihood`, as ln |M| = ln |K| + ln |H^T K^-1 H| for an
    orthonormal H.

    Args:
        positions: arc length of the levels for every kernel.
        outputs: Y, what every kernel is to explain at the levels.
        length: of the kernels, in the unit of the positions.
        noise: variance of a reading, relative to that of the process.

    Source: D. A. Harville, J. Am. Stat. Assoc. 72 (1977) 320.
    """
    levels = positions.shape[2]
    basis = torch.from_numpy(helmert(levels)).to(positions)
    distance = (positions[..., :, None] - positions[..., None, :]) / length[:, None, None, None]
    noises = noise[:, None, None, None] * torch.eye(levels - 1).to(positions)
    covariance = basis @ torch.exp(-distance.square() / 2) @ basis.T + noises
    # Without its check: what is not finite is for the training to find, which knows the model.
    factor = torch.linalg.cholesky_ex(covariance).L
    white = torch.linalg.solve_triangular(factor, basis @ outputs, upper=False)
    residual = white.square().sum((1, 2, 3)).clamp_min(torch.finfo(white.dtype).tiny)
    determinant = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1).mean(-1)
    return -0.5 * ((levels - 1) * residual.log() + determinant)


def _outputs(signals: Tensor, shared: bool) -> Tensor:
    """Training signals (model, level, wavelength) as (model, kernel, level, output).

    All wavelengths are outputs of one kernel if it is shared; otherwise each has its own.
    """
    return signals[:, None] if shared else signals.mT[..., None]


def _first_kernel(charts: np.ndarray, folds: list[Fold], signals: list[np.ndarray]) -> Perceptron:
    """The most likely length and noise on the given charts, as perceptrons without weights."""
    best = [
        fit_process(chart[fold.training], signal, MEAN)[0]
        for chart, fold, signal in zip(charts, folds, signals, strict=True)
    ]
    found = np.log([[process.length, process.noise] for process in best])
    middle, half = _ranges()
    places = torch.atanh(((torch.from_numpy(found) - middle) / half).clamp(-INSIDE, INSIDE))
    return Perceptron((), (places[:, None],))


def _length_and_noise(kernel: Perceptron) -> tuple[Tensor, Tensor]:
    """Length and noise of every model, inside the ranges of `geonode.learning.process`."""
    places = kernel.parameters[0]
    middle, half = _ranges()
    values = torch.exp(middle.to(places) + half.to(places) * torch.tanh(places))
    return values[:, 0], values[:, 1]


def _ranges() -> tuple[Tensor, Tensor]:
    """Middle and half width of the logarithms of length and noise."""
    ends = np.log([[LENGTHS[0], NOISES[0]], [LENGTHS[-1], NOISES[-1]]])
    return torch.from_numpy(ends.mean(axis=0)), torch.from_numpy(ends[1] - ends[0]) / 2
