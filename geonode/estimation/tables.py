"""Estimates as rows of a CSV table, of JSON, and of text on the screen.

Concentrations have `DIGITS` significant digits and no exponent; p-values may have an exponent.
"""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from geonode.estimation.axis import own_values, require_resolution, shifts
from geonode.estimation.curve import Curve
from geonode.estimation.posterior import estimate
from geonode.posterior.prior import COVERAGE
from geonode.progress import Progress, silent
from geonode.spectra.series import Series, labelled
from geonode.spectra.table import Spectra, shortest
from geonode.storage.document import cell
from geonode.ties import EQUAL

DIGITS = 6
LONGEST_NAME = 40
"""Characters of a name on the screen."""

SHOWN_DIGITS = 4
"""Significant digits of a number on the screen."""

Cell = str | float | bool | None
"""Cell of a table; None: there is no value."""


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

    def cells(self) -> dict[str, Cell]:
        """Cells of a CSV row by column."""
        sets, modes = self._set(DIGITS), self._modes(DIGITS)
        return self.to_json() | {
            "mode": alternatives_text(self.alternatives) or self.mode,
            "set90": sets,
            "modes": modes,
            "p_value": f"{self.p_value:.{DIGITS}g}",
        }

    def shown(self) -> tuple[str, ...]:
        """Cells of a row on the screen, in the order of `header`."""
        verdict = "ambiguous" if self.ambiguous else ""
        return (
            _short(self.name),
            alternatives_text(self.alternatives, SHOWN_DIGITS) or _number(self.mode, SHOWN_DIGITS),
            *(_number(number, SHOWN_DIGITS) for number in (self.mean, self.std)),
            self._set(SHOWN_DIGITS),
            self._modes(SHOWN_DIGITS),
            f"{self.p_value:.2g}",
            verdict if self.fits else "fits nowhere",
        )

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
            parts = self._set(SHOWN_DIGITS).replace("; ", " or ")
            fit = "both fit" if len(self.sets) == 2 else "all fit"
            return f"{name} is ambiguous: {parts} {unit}: {fit}; dilute and measure again."
        return None

    def _set(self, digits: int) -> str:
        return "; ".join("-".join(_number(end, digits) for end in ends) for ends in self.sets)

    def _modes(self, digits: int) -> str:
        return "; ".join(f"{_number(at, digits)} ({weight:.2f})" for at, weight in self.modes)


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


def header(unit: str) -> tuple[str, ...]:
    """Titles of the columns on the screen.

    Args:
        unit: unit of concentrations.
    """
    mode = labelled("mode", unit)
    return ("name", mode, "mean", "std", f"{COVERAGE:.0%} set", "modes (weight)", "p", "")


def alternatives_text(alternatives: Sequence[float], digits: int = DIGITS) -> str:
    """Concentrations that are as likely, as "18.3 or 41.7"; empty for one alone."""
    if len(alternatives) < 2:
        return ""
    return " or ".join(_number(one, digits) for one in alternatives)


def csv_text(columns: Iterable[str], rows: Iterable[Iterable[Cell]]) -> str:
    """CSV text of a table, whose texts are no formulas and whose numbers have `DIGITS` digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([cell(column) for column in columns])
    writer.writerows([cell_text(one) for one in row] for row in rows)
    return text.getvalue()


def cell_text(one: Cell) -> str:
    """Text of a cell: no formula, and numbers of `DIGITS` digits."""
    if one is None:
        return ""
    if isinstance(one, bool):
        return str(one).lower()
    return cell(one) if isinstance(one, str) else _number(one)


def _number(number: float, digits: int = DIGITS) -> str:
    return shortest(np.float64(f"{number:.{digits}g}"))


def _short(name: str) -> str:
    name = " ".join(name.split())
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
