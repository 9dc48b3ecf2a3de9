"""Path features at the training wavelengths, straight from the metric networks.

What decoders are trained on, without the grid: for the many folds in which two levels are left out
and of which nothing else is asked, and for concentrations that no grid was made for.
"""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from geonode.compute.device import on_device, one_thread
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.metric import Metric
from geonode.geometry.panels import Panels
from geonode.geometry.problem import ordered_pairs
from geonode.geometry.stations import Stations
from geonode.learning.folds import Fold
from geonode.spectra.series import Series

NODES = 8  # of the quadrature in every gap between neighbouring concentrations
TARGETS_AT_ONCE = 64


@one_thread()  # or the last digits would depend on the number of cores
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
        stations = panels.evaluate(metric[model], wavelengths).stations()
        features.append(stations.features(source[None], target[None])[0].float().numpy())
    return np.stack(features).reshape(learned.members, len(learned.charts), *features[0].shape)


@one_thread()
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
    """Features by one metric, from ascending chart positions.

    Every target is a station among the sources, between its neighbours `lower` and `upper`; the
    gaps that it does not split are shared.
    """
    below = np.searchsorted(sources, targets)  # how many sources are
    padded = np.concatenate([sources[:1], sources, sources[-1:]])
    lower = np.where(below > 0, padded[below], targets)
    upper = np.where(below < len(sources), padded[below + 1], targets)
    shared, own = (
        Panels.between(torch.from_numpy(positions), NODES).evaluate(metric, wavelengths).stations()
        for positions in (sources[None], np.stack([lower, targets, upper], axis=1))
    )
    after = torch.from_numpy(below)
    joined = Stations(
        _inserted(shared.positions[..., None], own.positions[:, 1:2, None], after)[..., 0],
        _inserted(shared.length, own.length, after - 1),
        _inserted(shared.moment, own.moment, after - 1),
        _inserted(shared.slowest, own.slowest, after - 1),
        _inserted(shared.root, own.root[:, 1:2], after),
        wavelengths,
    )
    source = torch.arange(len(sources)).expand(len(targets), -1)
    target = after[:, None].expand_as(source)
    features = joined.features(source + (source >= target), target)
    # where a path has no length, its mean position is where it stays
    final, mean = features[..., 0], features[..., 1]
    mean.copy_(torch.where(features[..., 2] > 0, mean, final))
    return features.movedim(0, 1).float().numpy()


def _inserted(shared: Tensor, own: Tensor, place: Tensor) -> Tensor:
    """Rows that all targets share, with the own ones of every target from a place on.

    There is one row more than are shared: own ones beyond the first take the place of others.
    """
    count, width = shared.shape[1], own.shape[1]
    row = torch.arange(count + 1)
    beyond = row - place[:, None]
    index = torch.where(beyond < 0, row, torch.where(beyond < width, count + beyond, row - 1))
    every = torch.cat([shared.expand(len(own), -1, -1), own], dim=1)
    return every.gather(1, index[..., None].expand(-1, -1, every.shape[2]))
