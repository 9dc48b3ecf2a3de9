"""Estimates of the concentrations of spectra, as a table and as JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from geonode.estimation.axis import own_values, require_resolution, shifts
from geonode.estimation.curve import Curve
from geonode.estimation.posterior import estimate
from geonode.progress import Progress, silent
from geonode.spectra.series import Series
from geonode.spectra.table import Spectra
from geonode.storage.table import Column, Table, number_text
from geonode.ties import EQUAL

LONGEST_NAME = 40
"""Characters of a name in a sentence."""


@dataclass(frozen=True)
class EstimateRow:
    """Estimated concentration of one spectrum.

    Attributes:
        name: name of the spectrum in its file.
        mode: most likely concentration.
        mean, std: mean and standard deviation of the posterior.
        sets: intervals of the set of nominal coverage `COVERAGE`, ascending.
        modes: concentration and weight of the mode of every interval, heaviest first.
        p_value: probability of a misfit at least as large.
        fits: whether the spectrum may be one of the series.
        shift: apparent shift of the axis (axis unit); 0 for none.
    """

    name: str
    mode: float
    mean: float
    std: float
    sets: list[tuple[float, float]]
    modes: list[tuple[float, float]]
    p_value: float
    fits: bool
    shift: float = 0.0

    @property
    def low(self) -> float:
        """Lowest concentration of the set."""
        return self.sets[0][0]

    @property
    def high(self) -> float:
        """Highest concentration of the set."""
        return self.sets[-1][1]

    @property
    def ambiguous(self) -> bool:
        """Whether the set is more than one interval."""
        return len(self.sets) > 1

    @property
    def alternatives(self) -> list[float]:
        """Modes of the parts of the set whose probabilities are within a factor of two, ascending.

        No single concentration stands for a spectrum that has several.
        """
        least = (1 - EQUAL) * self.modes[0][1] / 2 if self.modes else 0.0
        return sorted(at for at, weight in self.modes if weight >= least)

    def to_json(self) -> dict[str, Any]:
        """Fields as JSON, in full precision; no mode where there are `alternatives`."""
        return {
            "name": self.name,
            "mode": None if len(self.alternatives) > 1 else self.mode,
            "mean": self.mean,
            "std": self.std,
            "low90": self.low,
            "high90": self.high,
            "set90": self.sets,
            "intervals": len(self.sets),
            "modes": [{"concentration": at, "weight": weight} for at, weight in self.modes],
            "ambiguous": self.ambiguous,
            "p_value": self.p_value,
            "fits": self.fits,
        }

    def sentence(self, unit: str) -> str | None:
        """Warning that a reader must know before using the numbers; None for none.

        Args:
            unit: unit of concentrations.
        """
        name = _short(self.name)
        if self.shift:
            return (
                f"{name} fits nowhere as it is, but close if its axis is off by about "
                f"{self.shift:.3g}: check the calibration of the instrument."
            )
        if not self.fits:
            return (
                f"{name} fits nowhere (p = {self.p_value:.2g}): no concentration of the model "
                "gives such a spectrum, so its numbers mean nothing."
            )
        if self.ambiguous:
            parts = " or ".join(f"{low:.4g} to {high:.4g}" for low, high in self.sets)
            fit = "both fit" if len(self.sets) == 2 else "all fit"
            return f"{name} is ambiguous: {parts} {unit}: {fit}; dilute and measure again."
        return None


def estimated(
    curve: Curve, series: Series, spectra: Spectra, report: Progress = silent
) -> list[EstimateRow]:
    """Estimates of all spectra of a file, in the order of the file.

    Args:
        curve: curve of predicted spectra.
        series: series whose axis the curve has.
        spectra: spectra that passed `require_axis`.
        report: called with their number.

    Raises:
        SpectraError: the axis is too coarse to tell the levels of the series apart.
    """
    require_resolution(curve, series, spectra.axis)
    values = own_values(series, spectra)
    found, shifted = estimate(curve, values), shifts(curve, series, values)
    fits = found.fits & (shifted == 0)
    numbers = (found.mode, found.mean, found.deviation, found.p_value, fits, shifted)
    columns = [column.tolist() for column in numbers]
    report(len(fits))
    return [
        EstimateRow(name, mode, mean, std, sets, modes, p_value, fit, shift)
        for name, sets, modes, mode, mean, std, p_value, fit, shift in zip(
            spectra.names, found.sets, found.modes, *columns, strict=True
        )
    ]


def estimates_table(rows: Sequence[EstimateRow], unit: str = "1") -> Table:
    """Table of estimates, with the unit of concentrations in the header of the most likely one."""
    modes = [
        "; ".join(f"{number_text(at)} ({weight:.2f})" for at, weight in one.modes) for one in rows
    ]
    columns = [
        Column("name", [one.name for one in rows]),
        Column("mode", [alternatives_text(one.alternatives) or one.mode for one in rows], unit),
        Column("mean", [one.mean for one in rows]),
        Column("std", [one.std for one in rows]),
        Column("low90", [one.low for one in rows]),
        Column("high90", [one.high for one in rows]),
        Column("set90", [one.sets for one in rows]),
        Column("intervals", [len(one.sets) for one in rows]),
        Column("modes", modes),
        Column("ambiguous", [one.ambiguous for one in rows]),
        Column("p_value", [one.p_value for one in rows], exponent=True),
        Column("fits", [one.fits for one in rows]),
    ]
    return Table("estimates", "Estimates", columns)


def alternatives_text(alternatives: Sequence[float], digits: int = 6) -> str:
    """Concentrations that are as likely, as "18.3 or 41.7"; empty for one alone."""
    if len(alternatives) < 2:
        return ""
    return " or ".join(number_text(one, digits) for one in alternatives)


def _short(name: str) -> str:
    name = " ".join(name.split())
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
