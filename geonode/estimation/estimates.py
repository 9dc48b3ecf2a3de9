"""Estimates of unknown spectra, and what gives them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntFlag, auto
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, UInt8

from geonode.spectra.series import Series

Ends = tuple[float, float]
"""Lowest and highest amount of an interval."""

Unknowns = Float[np.ndarray, "unknown wavelength"]

MapValues = tuple[Float[np.ndarray, "layer pixel"], UInt8[np.ndarray, "pixel"]]
"""Layers and flags of pixels; the first are the amount of every substance and the ends of its set.
"""

Mapping = Callable[[Float[np.ndarray, "pixel wavelength"]], MapValues]
"""Function that estimates the complete spectra of pixels."""


class Flag(IntFlag):
    """Bits of the flag of a pixel; maps have the names as meanings."""

    AMBIGUOUS = auto()
    FITS_NOWHERE = auto()
    MISSING = auto()
    OUTSIDE_THE_SAMPLES = auto()
    NOT_DETERMINED = auto()


@dataclass(frozen=True)
class Estimate:
    """Estimated amounts of one unknown spectrum."""

    name: str
    """Name of the spectrum in its file."""
    amounts: list[float]
    """Amount of every substance."""
    sets: list[list[Ends]]
    """Parts of the set of every substance, ascending: one interval, or several."""
    fits: bool
    """True if it may be a spectrum of those calibrated with; else its numbers mean nothing."""
    remark: str = ""
    """Warning to read before using the numbers."""
    alternatives: Sequence[float] = ()
    """Amounts of an ambiguous spectrum that are as likely; no single one stands for it."""
    p_value: float | None = None
    """Probability of a misfit at least as large, where a law of misfits is known."""
    uncorrected: Sequence[float] = ()
    """Amounts before a correction by standards; none where there is no correction."""
    standard_errors: Sequence[float] = ()
    """Standard error of every substance; infinite beyond the levels, where none is known."""
    determined: Sequence[bool] = ()
    """True for a substance whose set narrows the amount within the calibrated range."""
    by_geonode: "Estimate | None" = None
    """Estimate by geonode, for one substance, whatever method estimates; None: without it."""
    dilution: float = 1.0
    """Factor that all amounts and errors were multiplied by."""

    @property
    def is_ambiguous(self) -> bool:
        """True if a set is more than one interval."""
        return any(len(parts) > 1 for parts in self.sets)

    @property
    def numbers(self) -> list[tuple[float, float, float]]:
        """Amount, lowest and highest one of its set, of every substance."""
        each = zip(self.amounts, self.sets, strict=True)
        return [(amount, parts[0][0], parts[-1][1]) for amount, parts in each]

    def undiluted(self, factor: float) -> "Estimate":
        """Estimate of a sample of which the spectrum is that of a dilution by a factor."""
        if factor == 1:
            return self
        names = "amounts", "alternatives", "uncorrected", "standard_errors"
        scaled: dict[str, Any] = {
            name: [factor * one for one in getattr(self, name)] for name in names
        }
        of_solution = " (of the solution that was measured)" if self.remark else ""
        return replace(
            self,
            **scaled,
            sets=[[(factor * low, factor * high) for low, high in parts] for parts in self.sets],
            remark=f"{self.remark}{of_solution}",
            by_geonode=self.by_geonode and self.by_geonode.undiluted(factor),
            dilution=factor,
        )

    def length(self, place: int) -> float:
        """Length of the set of a substance, without the gaps between its parts."""
        return sum(high - low for low, high in self.sets[place])

    def is_number(self, place: int) -> bool:
        """True if the amount of a substance is to be used: it fits, and is determined."""
        return self.fits and (not self.determined or self.determined[place])

    def contains(self, amounts: Iterable[float]) -> list[bool]:
        """True for a substance of whose set a part contains the amount."""
        each = zip(amounts, self.sets, strict=True)
        return [any(low <= one <= high for low, high in parts) for one, parts in each]


@runtime_checkable
class CalibrationModel(Protocol):
    """What maps need of a calibration; spectra are on the axis of its series, preprocessed as that.

    All that `geonode.calibration` needs, of one substance or several, is in its classes.
    """

    @property
    def series(self) -> Series:
        """Spectra of known amounts that it was fitted to."""

    @property
    def layers(self) -> dict[str, tuple[str, str]]:
        """Unit and description of every map of an image, by name; the flags are one more map."""

    def estimates(self, spectra: Unknowns, names: Sequence[str]) -> list[Estimate]:
        """Estimates of spectra by name, with all that is to be reported of each."""

    def on(self, place: torch.device) -> Mapping:
        """Function that estimates the pixels of an image on a device."""
