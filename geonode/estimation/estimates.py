"""Estimates of unknown spectra, and what every calibration gives, of one substance or several."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, UInt8

from geonode.spectra.series import Series

Ends = tuple[float, float]
"""Lowest and highest amount of an interval."""

Unknowns = Float[np.ndarray, "unknown wavelength"]
AmountsAndEnds = tuple[
    Float[np.ndarray, "unknown substance"], Float[np.ndarray, "unknown substance 2"]
]
"""Spectra; amounts of every substance in them, and the ends of their sets."""

MapValues = tuple[Float[np.ndarray, "layer pixel"], UInt8[np.ndarray, "pixel"]]
"""Layers and flags of pixels."""

Mapping = Callable[[Float[np.ndarray, "pixel wavelength"]], MapValues]
"""Function that estimates the complete spectra of pixels."""


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
    """Calibration that estimates spectra, whatever its algorithm.

    Spectra are on the axis of its series, and preprocessed as that was.
    """

    @property
    def series(self) -> Series:
        """Spectra of known amounts that it was fitted to."""

    @property
    def level(self) -> float:
        """Probability that the sets contain the amounts."""

    @property
    def method(self) -> str:
        """Name, for people, of what estimates."""

    @property
    def counted(self) -> str:
        """Number of levels or samples, in words."""

    @property
    def sentence(self) -> str:
        """Sentence on how far off estimates are, and every warning."""

    @property
    def is_sound(self) -> bool:
        """True if estimates can be relied on, without any warning."""

    @property
    def caution(self) -> str:
        """Part of the verdict that every estimate repeats; empty for nothing."""

    @property
    def is_usable(self) -> bool:
        """True if anything can be estimated at all."""

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Facts for the record: the method, with its constants or their place."""

    def estimate(self, spectra: Unknowns) -> AmountsAndEnds:
        """Amounts of every substance, and the ends of their sets."""

    def estimates(self, spectra: Unknowns, names: Sequence[str]) -> list[Estimate]:
        """Estimates of spectra by name, with all that is to be reported of each."""

    def range_remark(self, estimate: Estimate) -> str | None:
        """Remark on an estimate beyond what was calibrated, or below limits; None for others."""

    @property
    def layers(self) -> dict[str, tuple[str, str]]:
        """Unit and description of every map of an image, by name; the flags are one more map."""

    def on(self, place: torch.device) -> Mapping:
        """Function that estimates the pixels of an image on a device."""
