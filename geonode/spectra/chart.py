"""The concentration chart: concentrations as positions in [-1, 1]."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from geonode.errors import SpectraError
from geonode.ties import EQUAL

ChartName = Literal["linear", "log", "asinh"]

DECADES = 100.0
"""Highest over lowest positive level, beyond which levels count by decades."""


@dataclass(frozen=True)
class Chart:
    """Scaled arc length of the reference metric g0(c) = 1 / (c^2 + kappa^2).

    The arc length from 0 to c is asinh(c / kappa). Scaled to the ends it is linear in c for
    kappa -> inf and linear in ln c for kappa -> 0; both limits are charts themselves.

    A chart may be known in a part of its range only. Beyond that part nothing speaks for a metric
    that changes: it goes on as it is at the end of the part, and the chart is linear there.

    Raises:
        SpectraError: `low` is not below `high`, a logarithmic chart reaches a level that is not
            positive, or kappa is negative, NaN, or beyond any comparison with the levels.
    """

    kappa: float
    """Concentration at which the chart turns from linear to logarithmic; inf: linear, 0:
    logarithmic."""
    low: float  # concentration at position -1
    high: float  # concentration at position 1
    known: tuple[float, float] | None = None
    """The part in which it is known (concentrations); None: all of it."""

    def __post_init__(self) -> None:
        if not -np.inf < self.low < self.high < np.inf:
            raise SpectraError(
                f"found levels from {self.low} to {self.high}, expected at least two finite, "
                "different ones to chart"
            )
        lowest = self.low if self.known is None else self.known[0]
        if self.kappa == 0 and lowest <= 0:
            raise SpectraError(
                f"level {self.low:g} has no place on a logarithmic chart; use chart asinh with "
                "a kappa of the size of the smallest level above 0"
            )
        # Beyond these ratios c / kappa leaves the floating-point numbers.
        scale = max(abs(self.low), abs(self.high))
        if self.kappa not in (0, np.inf) and not 1e-300 <= self.kappa / scale <= 1e290:
            raise SpectraError(
                f"found kappa {self.kappa} for levels up to {scale:g}, expected a positive "
                "number of the size of the levels"
            )

    @classmethod
    def of(
        cls,
        kind: ChartName,
        kappa: float | None,
        concentrations: Float[np.ndarray, "concentration"],
    ) -> "Chart":
        """Chart that takes the smallest and largest of `concentrations` to -1 and 1.

        Args:
            kind: name of the chart.
            kappa: kappa of the asinh chart (concentration unit), None for the others.
            concentrations: levels, in any order.

        Raises:
            SpectraError: kappa is missing or not wanted, the chart does not fit the levels, or two
                of them have one position.
        """
        if (kind == "asinh") != (kappa is not None):
            raise SpectraError(
                f"chart {kind}: found kappa {kappa}, expected one for chart asinh and no other"
            )
        limits, levels = {"linear": np.inf, "log": 0.0}, np.unique(concentrations)
        found = cls(limits[kind] if kappa is None else kappa, float(levels[0]), float(levels[-1]))
        if not (steps := np.diff(found.position(levels))).all():
            first, second = levels[steps.argmin() :][:2]
            raise SpectraError(
                f"chart {kind}: found levels {first:g} and {second:g} at one position, expected "
                f"two, with levels up to {levels[-1]:g}; use chart asinh with a smaller kappa, or "
                "leave one out"
            )
        return found

    def position(self, concentration: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """Position of concentrations: -1 at `low`, 1 at `high`, beyond them outside of [-1, 1]."""
        start, stop = self._arc_length(np.array([self.low, self.high]))
        position = 2 * (self._arc_length(concentration) - start) / (stop - start) - 1
        # Vectorised functions may differ from scalar ones in the last bit; the ends are exact.
        return np.where(
            concentration == self.low, -1.0, np.where(concentration == self.high, 1.0, position)
        )

    def concentration(self, position: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
        """Concentration at positions: the inverse of `position`, with the same exact ends."""
        start, stop = self._arc_length(np.array([self.low, self.high]))
        arc_length = start + (stop - start) * (position + 1) / 2
        if self.kappa == np.inf:
            concentration = arc_length
        else:
            inside = arc_length
            if self.known is not None:
                inside = np.clip(arc_length, *self._known_arc_length(np.array(self.known)))
            concentration = np.exp(inside) if self.kappa == 0 else self.kappa * np.sinh(inside)
            if self.known is not None:
                concentration += (arc_length - inside) * np.hypot(concentration, self.kappa)
        return np.where(position == -1, self.low, np.where(position == 1, self.high, concentration))

    def _arc_length(self, concentration: Float[np.ndarray, "*shape"]) -> np.ndarray:
        """Arc length up to a factor and a constant, which scaling to the ends removes."""
        if self.kappa == np.inf:
            return concentration
        if self.known is None:
            return self._known_arc_length(concentration)
        inside = np.clip(concentration, *self.known)
        beyond = (concentration - inside) / np.hypot(inside, self.kappa)
        return self._known_arc_length(inside) + beyond

    def _known_arc_length(self, concentration: np.ndarray) -> np.ndarray:
        """Arc length where the chart is known and not linear."""
        if self.kappa == 0:
            return np.log(concentration)
        return np.arcsinh(concentration / self.kappa)


def spans_decades(levels: Float[np.ndarray, "level"]) -> bool:
    """True if levels span more than `DECADES` above zero."""
    positive = levels[levels > 0]
    return bool(positive.max() > (1 + EQUAL) * DECADES * positive.min())


def proposes_log(levels: Float[np.ndarray, "level"]) -> bool:
    """True if ascending levels have no zero and span the decades of a logarithmic chart."""
    return bool(levels[0] > 0) and spans_decades(levels)
