"""Path features at the training wavelengths: from a metric to its grid, its geodesics, features.

The stage `geodesics` goes the same way for the outer folds, at all wavelengths, and stores what it
finds. Here are the inner folds, of which only features are needed, and new concentrations, on grids
of the training wavelengths that are not kept. Networks read features on the `FeatureScale` of their
training.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from geonode.compute.device import CPU
from geonode.geometry.chebyshev import ChebyshevSource
from geonode.geometry.grid import uniform_nodes
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.solvers.closed_form import ClosedForm
from geonode.geometry.stations import FEATURES
from geonode.learning.folds import Fold
from geonode.spectra.series import Series

GRID_NODES = 1000
TARGETS_AT_ONCE = 64

DECODER_SIZES = (len(FEATURES), 64, 128, 1)
"""Sizes of a network that reads path features at one wavelength and gives the signal there."""


@dataclass(frozen=True)
class FeatureScale:
    """Mean and deviation of every feature over the training pairs and wavelengths of a model."""

    mean: Float[Tensor, "model feature"]
    deviation: Float[Tensor, "model feature"]

    @classmethod
    def of(cls, features: Float[Tensor, "model pair wavelength feature"]) -> "FeatureScale":
        """Scale of the training features; a constant feature has deviation 1."""
        rows = features.flatten(1, 2)
        deviation, mean = torch.std_mean(rows, dim=1, correction=0)
        tiny = torch.finfo(rows.dtype).eps * (1 + mean.abs())
        return cls(mean, torch.where(deviation > tiny, deviation, 1.0))

    def __getitem__(self, models: list[int]) -> "FeatureScale":
        """Scales of some of the models."""
        return FeatureScale(self.mean[models], self.deviation[models])

    def to(self, device: torch.device) -> "FeatureScale":
        """A copy on another device."""
        return FeatureScale(self.mean.to(device), self.deviation.to(device))

    def apply(
        self, features: Float[Tensor, "model pair wavelength feature"]
    ) -> Float[Tensor, "model row feature"]:
        """Standardised features, one row for every pair and wavelength."""
        return (
            (features.flatten(1, 2) - self.mean[:, None]) / self.deviation[:, None]
        ).contiguous()


def path_features(
    learned: LearnedMetrics,
    series: Series,
    chosen: Int[np.ndarray, "training"],
) -> Float[np.ndarray, "member fold pair training feature"]:
    """Features of the geodesics between all levels.

    Raises:
        GeometryError: a metric is not finite, or too sharp for a grid.
    """
    positions = torch.from_numpy(learned.positions(series.concentrations))
    wavelengths = torch.from_numpy(series.wavelengths[chosen])
    models, folds = range(learned.network.models), len(learned.charts)
    features = [
        closed_form.stations(positions[model % folds], wavelengths).every_path()[1].float().numpy()
        for model, closed_form in zip(
            models, closed_forms(learned, models, wavelengths), strict=True
        )
    ]
    return np.stack(features).reshape(learned.members, folds, *features[0].shape)


def features_to(
    learned: LearnedMetrics,
    fold: Fold,
    series: Series,
    concentrations: Float[np.ndarray, "target"],
    chosen: Int[np.ndarray, "training"],
) -> Float[np.ndarray, "member source target training feature"]:
    """Features of the geodesics from the training levels of a fold to any concentrations.

    Other targets of the same call change nothing but rounding. A target that is a training level
    is reached from that level by a geodesic of length zero, whose mean position is the level.

    Args:
        learned: metrics of the folds.
        fold: the fold whose metrics are used and whose training levels are the sources.
        series: the levels and wavelengths.
        concentrations: targets in any order. Beyond the levels the chart is continued, and the
            metric keeps the value that it has at the end.
        chosen: indices of the wavelengths.

    Raises:
        GeometryError: a metric is not finite, or too sharp for a grid.
    """
    chart, wavelengths = learned.charts[fold.index], torch.from_numpy(series.wavelengths[chosen])
    sources = chart.position(series.concentrations)[fold.training]
    targets = chart.position(concentrations)
    blocks = np.split(targets, range(TARGETS_AT_ONCE, len(targets), TARGETS_AT_ONCE))
    models = range(fold.index, learned.network.models, len(learned.charts))
    return np.stack(
        [
            np.concatenate(
                [_features_to(solved, wavelengths, sources, block) for block in blocks], axis=1
            )
            for solved in closed_forms(learned, models, wavelengths)
        ]
    )


def closed_forms(
    learned: LearnedMetrics, models: Iterable[int], wavelengths: Float[Tensor, "training"]
) -> Iterator[ClosedForm]:
    """Geodesics of some models in closed form, from grids in float64."""
    metric, nodes = learned.metric(CPU), uniform_nodes(GRID_NODES, CPU, torch.float64)
    for model in models:
        yield ClosedForm(ChebyshevSource.of(metric[model], wavelengths).grid(0, nodes))


def _features_to(
    solved: ClosedForm,
    wavelengths: Float[Tensor, "training"],
    sources: Float[np.ndarray, "source"],
    targets: Float[np.ndarray, "target"],
) -> Float[np.ndarray, "source target training feature"]:
    """Features of one model; all sources and targets are its stations."""
    stations, place = np.unique(np.concatenate([sources, targets]), return_inverse=True)
    source, target = (
        torch.from_numpy(index.ravel())
        for index in np.meshgrid(place[: len(sources)], place[len(sources) :], indexing="ij")
    )
    features = solved.stations(torch.from_numpy(stations), wavelengths).features(source, target)
    final, mean, length = features[..., 0], features[..., 1], features[..., 2]
    mean.copy_(torch.where(length > 0, mean, final))
    return features.float().numpy().reshape(len(sources), len(targets), *features.shape[1:])
