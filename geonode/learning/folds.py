"""Folds: subsets of the levels to train on, and standardisation by the training spectra.

No left-out spectrum reaches anything that its fold computes. The left-out concentration is known:
the task is to predict its spectrum.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geonode.geometry.problem import ordered_pairs
from geonode.spectra.series import level_names


@dataclass(frozen=True)
class Fold:
    """One fold of a series."""

    index: int  # place of the fold in its list of folds
    levels: int  # number of levels of the series
    left_out: tuple[int, ...]  # indices of the levels whose spectra are not used, ascending
    sources: int | None = 3
    """Training levels, at most, from which geodesics to a training level are trained on; None: all
    others."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickled without the cached pairs: there may be a thousand folds.
        return Fold, (self.index, self.levels, self.left_out, self.sources)

    @property
    def training(self) -> list[int]:
        """Indices of the levels whose spectra may be used."""
        return [level for level in range(self.levels) if level not in self.left_out]

    @property
    def seed(self) -> tuple[int, ...]:
        """Seed of the random numbers of this fold."""
        return self.left_out or (self.levels,)

    def is_inside(self, level: int) -> bool:
        """True if a level is between the training levels."""
        return self.training[0] < level < self.training[-1]

    def spans(
        self,
        levels: Float[np.ndarray, "level"],
        concentrations: Float[np.ndarray, "target"],
    ) -> Bool[np.ndarray, "target"]:
        """True where concentrations are between the training levels, ends included."""
        training = levels[self.training]
        return (training[0] <= concentrations) & (concentrations <= training[-1])

    @cached_property
    def training_pairs(self) -> Int[Tensor, "pair"]:
        """Indices into `ordered_pairs` of the pairs between training levels to train on.

        Pairs grow with the square of the levels. In a long series every level is therefore the
        target, and the source, of `sources` others alone: both neighbours, and others evenly
        spaced by rank. The last level has the first one as its neighbour.
        """
        count = len(self.training)
        most = min(self.sources or self.levels, count - 1)
        steps = np.linspace(1, count - 1, most).round().astype(int)
        used = torch.zeros(self.levels, self.levels, dtype=torch.bool)
        for step in steps.tolist():
            used[self.training, np.roll(self.training, step)] = True
        source, target = ordered_pairs(self.levels)
        return torch.nonzero(used[source, target]).squeeze(1)

    def paths_to_left_out(
        self, features: Float[np.ndarray, "member fold pair training feature"] | None
    ) -> Float[np.ndarray, "member source left_out training feature"] | None:
        """Features of the geodesics from all training levels to those left out; None without any.

        Given are those of the geodesics between all levels.
        """
        if features is None:
            return None
        source, target = ordered_pairs(self.levels)
        is_used = ~torch.isin(source, torch.tensor(self.left_out, dtype=source.dtype))
        to_each = [(target == level) & is_used for level in self.left_out]
        pairs = torch.stack([torch.nonzero(to_one).squeeze(1) for to_one in to_each], dim=1)
        return features[:, self.index][:, pairs.numpy()]


def leave_one_out(levels: int) -> list[Fold]:
    """Folds that leave out one level each, and a last one that leaves out none."""
    return [Fold(k, levels, (k,)) for k in range(levels)] + [Fold(levels, levels, ())]


def leave_two_out(levels: int, inner: int | None) -> list[Fold]:
    """Folds that leave out two levels: the inner folds of `leave_one_out`.

    A model of the fold without j and k serves two purposes: inside the fold without k it predicts
    j, and inside the fold without j it predicts k. The two are therefore as many ranks apart in all
    folds, the last level being followed by the first: 1, half the levels, and evenly spaced
    between. At most `inner` levels are left out in turn inside every fold; None: all.
    """
    half = levels // 2
    even = levels % 2 == 0  # half of an even number of levels is a step to one level, not two
    steps = half if inner is None else min(half, (inner + even) // 2)
    apart = np.linspace(1, half, steps).round().astype(int).tolist()
    pairs = {tuple(sorted((k, (k + step) % levels))) for step in apart for k in range(levels)}
    return [Fold(index, levels, pair) for index, pair in enumerate(sorted(pairs))]


def fold_names(levels: Float[np.ndarray, "level"]) -> list[str]:
    """Names of the folds, by the level that each leaves out."""
    return [*(f"without {name}" for name in level_names(levels)), "all levels"]


@dataclass(frozen=True)
class Standardisation:
    """Mean and standard deviation over all training spectra and wavelengths of a fold.

    Not one pair per wavelength: the shape of the spectra is information.
    """

    mean: float
    deviation: float

    @classmethod
    def of(cls, spectra: Float[np.ndarray, "level wavelength"]) -> "Standardisation":
        """Standardisation by the training spectra of a fold; constant spectra have deviation 1."""
        mean, deviation = float(spectra.mean()), float(spectra.std())
        rounding = 16 * np.finfo(spectra.dtype).eps * abs(mean)  # of the mean of equal numbers
        return cls(mean, deviation if deviation > rounding else 1.0)

    def apply(
        self, spectra: Float[np.ndarray, "level wavelength"]
    ) -> Float[np.ndarray, "level wavelength"]:
        """Spectra scaled to zero mean and unit deviation."""
        return (spectra - self.mean) / self.deviation


def path_wavelengths(
    count: int, kind: str, wanted: int | None
) -> Int[np.ndarray, "training"] | None:
    """Wavelengths at which path decoders of a kind of decoders are trained; None without any."""
    return None if kind == "posterior" else training_wavelengths(count, wanted)


def training_wavelengths(count: int, wanted: int | None) -> Int[np.ndarray, "training"]:
    """Indices of evenly spaced wavelengths, ends included; all if `count` is smaller, or None."""
    return np.linspace(0, count - 1, min(count, wanted or count)).round().astype(np.int64)
