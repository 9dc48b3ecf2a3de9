"""Augmentation: measured spectra disturbed as in another scan on another day.

There are five disturbances of a spectrometer, applied in this order: the wavelength scale is
shifted, scatter multiplies the spectrum, a baseline (an offset and a slope) is added, and the
detector adds noise to every reading. All are normal with mean zero. This is the model of
`geonode.spectra.synthetic.synthetic_scans`, preceded by a shift.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from geonode.config import AugmentationParameters
from geonode.devices.device import on_device

OF_SPECTRA = 4  # numbers that are drawn once a spectrum: shift, scatter, offset and slope
BLOCK_EPOCHS = 8
"""Epochs that are drawn at once: a generator is slow to seed. Other numbers give other draws."""


class Augmentation:
    """Disturbed copies of the measured spectra, for models that are trained side by side.

    A shifted spectrum is read between the wavelengths of the whole axis from cubics through the
    readings (slopes from parabolas through three of them), and beyond the axis it keeps its value
    at the end.

    Args:
        spectra: the measured series. A row of NaN (a left-out spectrum) affects no other row.
        axis: spectral axis, three values or more, ascending, evenly spaced or not.
        chosen: indices of the training wavelengths.
        levels: standard deviations of the disturbances.
        seeds: one tuple of integers per model. The draws of a model depend on its seed and on the
            epoch alone: not on the other models, the device or the levels, and on the format by
            rounding only.
        device: device of the copies; random numbers are drawn on the CPU.
        dtype: format of the copies.
    """

    def __init__(
        self,
        spectra: Float[np.ndarray, "level wavelength"],
        axis: Float[np.ndarray, "wavelength"],
        chosen: Int[np.ndarray, "training"],
        levels: AugmentationParameters,
        seeds: Sequence[tuple[int, ...]],
        device: torch.device,
        dtype: torch.dtype,
    ) -> None:
        half = (axis[-1] - axis[0]) / 2
        charted = (axis - axis[0]) / half - 1
        self._levels, self._seeds = levels, seeds
        self._shift = float(levels.shift / half)
        self._measured = on_device(spectra[:, chosen], device, dtype)
        self._wavelengths = on_device(charted[chosen], device, dtype)
        self._cubics = _Cubics.through(charted, spectra, device, dtype)
        self._drawn: tuple[int, Tensor, Tensor] | None = None

    def draw(self, epoch: int) -> Float[Tensor, "model level training"]:
        """Copies for one epoch, in the unit of the spectra.

        Epochs may be asked for in any order; the quickest is the ascending one.
        """
        block, place = divmod(epoch, BLOCK_EPOCHS)
        if self._drawn is None or self._drawn[0] != block:
            self._drawn = (block, *self._normals(block))
        of_spectra, of_readings = (numbers[:, place] for numbers in self._drawn[1:])
        shift, scatter, offset, slope = of_spectra.unbind(1)
        levels, spectra = self._levels, self._measured
        if levels.shift:
            spectra = self._cubics.at(self._wavelengths - self._shift * shift)
        baseline = levels.offset * offset + (levels.slope * slope) * self._wavelengths
        copies = spectra * (1 + levels.scatter * scatter) + baseline
        return copies + levels.detector * of_readings if levels.detector else copies

    def _normals(self, block: int) -> tuple[Tensor, Tensor]:
        """Standard normal numbers of all epochs of a block, drawn in float32 whatever the format.

        Of the spectra, (model, epoch, kind, level, 1), and of the readings, (model, epoch, level,
        training), which are not drawn for a detector without noise.
        """
        spectra, readings = self._measured.shape
        readings = readings if self._levels.detector else 0
        shapes = (BLOCK_EPOCHS, OF_SPECTRA, spectra, 1), (BLOCK_EPOCHS, spectra, readings)
        of_spectra, of_readings = [], []
        for seed in self._seeds:
            generator = _generator(seed, block)
            of_spectra.append(torch.randn(shapes[0], generator=generator))
            of_readings.append(torch.randn(shapes[1], generator=generator))
        like = self._measured
        return torch.stack(of_spectra).to(like), torch.stack(of_readings).to(like)


class _Cubics(NamedTuple):
    """Piecewise cubics through the readings of every spectrum.

    Attributes:
        inner: charted wavelengths of the readings without the two at the ends.
        tables: the lower end of every cell, and the coefficients of the powers 0 to 3 of the
            distance from it; the cells of all spectra in a row.
    """

    inner: Tensor
    tables: tuple[Tensor, ...]

    @classmethod
    def through(
        cls, knots: np.ndarray, spectra: np.ndarray, device: torch.device, dtype: torch.dtype
    ) -> "_Cubics":
        """Cubics that match the readings and their slopes from parabolas: exact for parabolas."""
        width = np.diff(knots)
        secant = np.diff(spectra, axis=1) / width
        slopes = np.gradient(spectra, knots, axis=1, edge_order=2)
        low, high = slopes[:, :-1], slopes[:, 1:]
        square = (3 * secant - 2 * low - high) / width
        cube = (low + high - 2 * secant) / width**2
        start = np.broadcast_to(knots[:-1], cube.shape)
        tables = (start, spectra[:, :-1], low, square, cube)
        return cls(
            on_device(knots[1:-1], device, dtype),
            tuple(on_device(table.flatten(), device, dtype) for table in tables),
        )

    def at(self, positions: Tensor) -> Tensor:
        """Values of every spectrum at charted positions of the shape (..., spectrum, point)."""
        inside = positions.clamp(-1, 1)
        cells, spectra = len(self.inner) + 1, torch.arange(positions.shape[-2])
        first = (cells * spectra[:, None]).to(positions.device)
        place = (torch.searchsorted(self.inner, inside, right=True) + first).flatten()
        # a table at a time: several times as fast as all of them at once
        start, value, slope, square, cube = (
            table.index_select(0, place).reshape(inside.shape) for table in self.tables
        )
        distance = inside - start
        return value + distance * (slope + distance * (square + distance * cube))


def _generator(seed: tuple[int, ...], block: int) -> torch.Generator:
    """Random numbers of one model for one block of epochs."""
    # A spawn key, not one integer more: no seed of a network leads to the same numbers.
    sequence = np.random.SeedSequence(seed, spawn_key=(block,))
    state = sequence.generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state >> np.uint64(1)))
