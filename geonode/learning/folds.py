"""Folds: which concentration is left out, and what the others say about scale.

A fold's left-out spectrum reaches nothing that belongs to the fold. Its concentration is known:
the question is which spectrum belongs to it.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from geonode.geodesics.problem import ordered_pairs
from geonode.spectra.series import level_names


@dataclass(frozen=True)
class Fold:
    """One fold of a series.

    Attributes:
        index: place of the fold; fold k leaves out level k, the last leaves nothing out.
        levels: number of levels of the series.
    """

    index: int
    levels: int

    @property
    def left_out(self) -> int | None:
        """Index of the level that is left out."""
        return self.index if self.index < self.levels else None

    @property
    def training(self) -> list[int]:
        """Indices of the levels whose spectra may be used."""
        return [level for level in range(self.levels) if level != self.index]

    @cached_property
    def training_pairs(self) -> Int[Tensor, "pair"]:
        """Places, in the order of `ordered_pairs`, of the pairs between training levels."""
        source, target = ordered_pairs(self.levels)
        return torch.nonzero((source != self.index) & (target != self.index)).squeeze(1)

    def prediction_pairs(self, target_level: int) -> Int[Tensor, "pair"]:
        """Places of the pairs from every training level to one level."""
        source, target = ordered_pairs(self.levels)
        return torch.nonzero((target == target_level) & (source != self.index)).squeeze(1)


def leave_one_out(levels: int) -> list[Fold]:
    """A fold for every level left out, and a last one that leaves nothing out."""
    return [Fold(index, levels) for index in range(levels + 1)]


def fold_names(levels: Float[np.ndarray, "level"]) -> list[str]:
    """Name every fold by the level that it leaves out."""
    return [*(f"without {name}" for name in level_names(levels)), "all levels"]


@dataclass(frozen=True)
class Standardisation:
    """One mean and one standard deviation for all spectra of a fold.

    One pair for all wavelengths, not one per wavelength: the shape of the spectra is information.
    """

    mean: float
    deviation: float

    @classmethod
    def of(cls, spectra: Float[np.ndarray, "level wavelength"]) -> "Standardisation":
        """From the training spectra of a fold; a constant series keeps deviation 1."""
        mean, deviation = float(spectra.mean()), float(spectra.std())
        rounding = 16 * np.finfo(spectra.dtype).eps * abs(mean)  # of the mean of equal numbers
        return cls(mean, deviation if deviation > rounding else 1.0)

    def apply(
        self, spectra: Float[np.ndarray, "level wavelength"]
    ) -> Float[np.ndarray, "level wavelength"]:
        """To zero mean and unit deviation."""
        return (spectra - self.mean) / self.deviation


def training_wavelengths(count: int, wanted: int) -> Int[np.ndarray, "training"]:
    """Indices of evenly spaced wavelengths, ends included; all of them if there are fewer."""
    return np.linspace(0, count - 1, min(count, wanted)).round().astype(np.int64)
