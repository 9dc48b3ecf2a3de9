"""Path features at the training wavelengths, straight from the metric networks.

What decoders are trained on, without the grid: for the many folds in which two levels are left out
and of which nothing else is asked, and for concentrations that no grid was made for.
"""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from geonode.devices.device import on_device
from geonode.geodesics.panels import Panels
from geonode.geodesics.problem import ordered_pairs
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.metric import Metric
from geonode.spectra.series import Series
from geonode.training.folds import Fold

NODES = 8  # of the quadrature in every gap between neighbouring concentrations
TARGETS_AT_ONCE = 64


def path_features(
    learned: LearnedMetrics,
    series: Series,
    chosen: Int[np.ndarray, "training"],
) -> Float[np.ndarray, "member fold pair training feature"]:
    """Features of the geodesics between all levels, in float64 on the CPU.

    Args:
        learned: metrics of the folds.
        series: the levels and wavelengths.
        chosen: indices of the wavelengths.
    """
    cpu = torch.device("cpu")
    source, target = ordered_pairs(len(series.concentrations))
    wavelengths = on_device(series.wavelengths[chosen], cpu, torch.float64)
    positions = on_device(learned.positions(series.concentrations), cpu, torch.float64)
    metric = learned.metric(cpu)
    features = []
    for model in range(metric.network.models):
        _, fold = learned.index(model)
        panels = Panels.between(positions[fold : fold + 1], NODES)
        paths = panels.geometry(metric[model], wavelengths, source[None], target[None])
        features.append(paths.features[0].float().numpy())
    return np.stack(features).reshape(learned.members, len(learned.charts), *features[0].shape)


def features_to(
    learned: LearnedMetrics,
    fold: Fold,
    series: Series,
    concentrations: Float[np.ndarray, "target"],
    chosen: Int[np.ndarray, "training"],
) -> Float[np.ndarray, "member source target training feature"]:
    """Features of the geodesics from the training levels of a fold to any concentrations.

    For every target on its own: what else is asked for changes nothing. A target that is a training
    level is reached from there by a geodesic of no length, whose mean position is the level.

    Args:
        learned: metrics of the folds.
        fold: whose metrics, and from where.
        series: the levels and wavelengths.
        concentrations: of the targets, in any order; beyond the levels the chart and the metric
            networks are continued.
        chosen: indices of the wavelengths.
    """
    cpu, chart = torch.device("cpu"), learned.charts[fold.index]
    wavelengths = on_device(series.wavelengths[chosen], cpu, torch.float64)
    sources = chart.position(series.concentrations)[fold.training]
    targets = chart.position(concentrations)
    metric, folds = learned.metric(cpu), len(learned.charts)
    blocks = np.split(targets, range(TARGETS_AT_ONCE, len(targets), TARGETS_AT_ONCE))
    of_members = [
        [_features_to(metric[model], wavelengths, sources, block) for block in blocks]
        for model in range(fold.index, folds * learned.members, folds)
    ]
    return np.stack([np.concatenate(parts, axis=1) for parts in of_members])


def _features_to(
    metric: Metric, wavelengths: Tensor, sources: np.ndarray, targets: np.ndarray
) -> np.ndarray:
    """The same for one metric and chart positions, sources ascending.

    A path is whole gaps between neighbouring sources and what lies between the target and the
    source next to it, on the side that the path comes from.
    """
    above = np.searchsorted(sources, targets)
    padded = np.concatenate([sources[:1], sources, sources[-1:]])
    lower = np.where(above > 0, padded[above], targets)  # next to the target
    upper = np.where(above < len(sources), padded[above + 1], targets)
    gaps = _integrals(metric, wavelengths, sources[:-1], sources[1:])
    below = _integrals(metric, wavelengths, lower, targets)
    beyond = _integrals(metric, wavelengths, targets, upper)
    count = len(sources)
    source, from_below = np.arange(count)[:, None], np.arange(count)[:, None] < above
    first, last = np.minimum(source, above), np.maximum(source, above - 1)
    length, moment = (
        _running(of_gaps)[last]
        - _running(of_gaps)[first]
        + np.where(from_below[..., None], of_below, of_beyond)
        for of_gaps, of_below, of_beyond in zip(gaps[:2], below[:2], beyond[:2], strict=True)
    )
    on_path = np.where(from_below[..., None], below[2], beyond[2])
    slowest = np.minimum(_smallest(gaps[2])[first, last], on_path)
    final = np.broadcast_to(targets[None, :, None], length.shape)
    mean = np.divide(moment, length, out=final.copy(), where=length > 0)
    w = np.broadcast_to(wavelengths.numpy(), length.shape)
    return np.stack([final, mean, length, length / slowest, w], axis=-1).astype(np.float32)


def _integrals(
    metric: Metric, wavelengths: Tensor, low: np.ndarray, high: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Integrals of sqrt(g) and of x sqrt(g) over intervals, and the smallest sqrt(g) seen there."""
    points, weights = np.polynomial.legendre.leggauss(NODES)
    half = (high - low)[:, None] / 2
    nodes = (high + low)[:, None] / 2 + half * points
    places = np.concatenate([nodes, low[:, None], high[:, None]], axis=1)
    root = metric(torch.from_numpy(places).reshape(1, -1), wavelengths)[0].sqrt().numpy()
    root = root.reshape(*places.shape, -1)
    inside = root[:, :NODES]
    lengths = np.einsum("in,inw->iw", half * weights, inside)
    moments = np.einsum("in,inw->iw", half * weights * nodes, inside)
    return lengths, moments, root.min(axis=1)


def _running(gaps: np.ndarray) -> np.ndarray:
    """Sum of the gaps below every source."""
    return np.pad(np.cumsum(gaps, axis=0), ((1, 0), (0, 0)))


def _smallest(gaps: np.ndarray) -> np.ndarray:
    """Smallest value of the gaps from one source to a later one; infinite where there are none."""
    count = len(gaps) + 1
    table = np.full((count, count, gaps.shape[1]), np.inf)
    for first in range(count):
        for last in range(first + 1, count):
            table[first, last] = np.minimum(table[first, last - 1], gaps[last - 1])
    return table
