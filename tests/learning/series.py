"""A small series that its features determine, and parameters to learn it by."""

import numpy as np

from geonode.config import DecodersParameters, MetricParameters


def ordered_pairs(levels):
    """Pairs of different levels, sources outermost."""
    return [(s, t) for s in range(levels) for t in range(levels) if s != t]


def positions(levels):
    """The same uneven chart for every fold."""
    x = np.linspace(-1, 1, levels)
    return np.tile(x + 0.1 * (1 - x**2), (levels + 1, 1))


def spectra(levels, wavelengths):
    """Smooth and not monotonic in concentration."""
    x, w = positions(levels)[0][:, None], np.linspace(-1, 1, wavelengths)
    return 0.3 + 0.1 * np.cos(2 * x + 0.5 * w) + 0.05 * w


def flat_features(levels, wavelengths, members=1):
    """Features of the straight geodesics of g = 1 + member, for every fold."""
    source, target = positions(levels)[0][np.array(ordered_pairs(levels)).T]
    w = np.broadcast_to(np.linspace(-1, 1, wavelengths), (len(source), wavelengths))
    models = []
    for member in range(members):
        length = (1 + member) ** 0.5 * np.abs(target - source)
        speed = np.abs(target - source)
        columns = (target, (source + target) / 2, length, speed)
        rows = [np.broadcast_to(column[:, None], w.shape) for column in columns]
        models.append(np.stack([*rows, w], axis=-1))
    folds = np.broadcast_to(np.stack(models)[:, None], (members, levels + 1, *w.shape, 5))
    return np.ascontiguousarray(folds)


TRAINING = {
    "seed": 0,
    "members": 1,
    "epochs": 3,
    "wavelengths": 5,
    "gradient_clip": 1.0,
    "schedule": "cosine",
    "weight_decay": 0.0,
    "accumulation": 1,
    "checkpoint_every": 0,
}


def metric_parameters(**changes):
    values = {
        "learning": "end_to_end",
        "evidence_margin": 1.0,
        "learning_rate": 0.005,
        "decoder_learning_rate": 0.01,
        "quadrature_nodes": 3,
        "smoothness_weight": 1e-4,
        "bounds": (0.2, 5.0),
        "bounds_weight": 0.1,
        "length_weight": 1e-4,
    }
    return MetricParameters(**(TRAINING | values | changes))


def decoder_parameters(**changes):
    return DecodersParameters(**(TRAINING | {"kind": "path", "learning_rate": 0.01} | changes))
