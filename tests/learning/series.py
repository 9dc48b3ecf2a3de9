"""A small series that its features determine, and parameters to learn it by."""

import numpy as np
import torch

from geonode.compute.device import Device
from geonode.config import DecodersParameters, MetricParameters
from geonode.learning.context import TrainingRun
from geonode.learning.end_to_end import EndToEnd
from geonode.learning.folds import leave_one_out, training_wavelengths
from geonode.learning.objective import fit
from geonode.learning.path_decoder import PathDecoders
from geonode.progress import silent
from tests.factory import series_of

TRAINING_WAVELENGTHS = 5


def ordered_pairs(levels):
    """Pairs of different levels, sources outermost."""
    return [(s, t) for s in range(levels) for t in range(levels) if s != t]


def trained_pairs(fold):
    """The pairs that a fold of up to five training levels is trained on, by ranks apart."""
    training = [level for level in range(fold.levels) if level not in fold.left_out]
    apart = {3: {1, 2}, 4: {1, 2, 3}, 5: {1, 2, 4}}[len(training)]
    return [
        (s, t)
        for s, t in ordered_pairs(fold.levels)
        if {s, t} <= set(training)
        and (training.index(s) - training.index(t)) % len(training) in apart
    ]


def positions(levels, folds=None):
    """The same uneven chart for every fold."""
    x = np.linspace(-1, 1, levels)
    return np.tile(x + 0.1 * (1 - x**2), (folds or levels + 1, 1))


def spectra(levels, wavelengths):
    """Smooth and not monotonic in concentration."""
    x, w = positions(levels)[0][:, None], np.linspace(-1, 1, wavelengths)
    return 0.3 + 0.1 * np.cos(2 * x + 0.5 * w) + 0.05 * w


def smooth(coordinate, wavelengths):
    """Spectra that are smooth functions of a coordinate scaled to -1 and 1."""
    scaled = 2 * (coordinate - coordinate.min()) / np.ptp(coordinate) - 1
    axis = np.linspace(0, 1, wavelengths)
    return np.sin(2 * scaled[:, None] + 5 * axis) + 0.5 * np.cos(3 * scaled[:, None] * axis)


def series(levels, wavelengths, signal=None):
    """Those spectra, or others, on a linear chart whose positions are those above."""
    signal = spectra(levels, wavelengths) if signal is None else signal
    return series_of(30 * (1 + positions(levels)[0]), signal)


def flat_features(levels, wavelengths, members=1, folds=None, training=TRAINING_WAVELENGTHS):
    """Features at the training wavelengths of the straight geodesics of g = 1 + member."""
    source, target = positions(levels)[0][np.array(ordered_pairs(levels)).T]
    charted = np.linspace(-1, 1, wavelengths)[training_wavelengths(wavelengths, training)]
    w = np.broadcast_to(charted, (len(source), len(charted)))
    models = []
    for member in range(members):
        length = (1 + member) ** 0.5 * np.abs(target - source)
        speed = np.abs(target - source)
        columns = (target, (source + target) / 2, length, speed)
        rows = [np.broadcast_to(column[:, None], w.shape) for column in columns]
        models.append(np.stack([*rows, w], axis=-1))
    shape = (members, folds or levels + 1, *w.shape, 5)
    return np.broadcast_to(np.stack(models)[:, None], shape).copy()


def cpu(dtype=torch.float32):
    """The CPU, and a format to train in."""
    return Device("cpu", "test", dtype, torch.float64)


def run(folds, members=1, dtype=torch.float32, scratch=None, report=silent):
    """A run on the CPU over some folds; for a number, over those of so many levels."""
    if isinstance(folds, int):
        folds = leave_one_out(folds)
    return TrainingRun(folds, members, cpu(dtype), scratch, report)


def predict(decoders, fold, series, features):
    """What decoders predict of the levels that a fold leaves out, and the deviations."""
    targets = series.concentrations[list(fold.left_out)]
    predicted = decoders.predict(fold, series, targets, fold.paths_to_left_out(features))
    return predicted.spectra, predicted.deviation


def left_out(decoders, series, features):
    """What every fold of leave-one-out predicts of its level, and the standard deviations."""
    folds = leave_one_out(len(series.concentrations))[:-1]
    pairs = [predict(decoders, fold, series, features) for fold in folds]
    return tuple(np.concatenate(part) for part in zip(*pairs, strict=True))


TRAINING = {"epochs": 3, "wavelengths": TRAINING_WAVELENGTHS}


def metric_parameters(**changes):
    return MetricParameters(**(TRAINING | changes))


def decoder_parameters(**changes):
    return DecodersParameters(**(TRAINING | {"kind": "path"} | changes))


def trained_metrics(run, wavelengths=9, **changes):
    """All that the learning of metrics gives in a run, as a list of tensors."""
    levels, block = run.folds[0].levels, metric_parameters(**changes)
    network, history = fit(EndToEnd(series(levels, wavelengths), positions(levels), block), run)
    return [*network.parameters, history]


def trained_decoders(run, wavelengths=9, **changes):
    """All that the training of path decoders gives in a run, as a list of tensors."""
    levels, block = run.folds[0].levels, decoder_parameters(**changes)
    features = flat_features(levels, wavelengths)
    found, history = PathDecoders.fit(series(levels, wavelengths), features, block, run)
    return [*found.network.parameters, found.matrix, found.features.mean, history]
