"""Estimates as rows: of a table, of JSON, of text for people.

Concentrations have `DIGITS` significant digits and no exponent, p-values as many with one.
"""

import csv
import io
from dataclasses import dataclass
from typing import Any

import numpy as np

from geonode.estimation.axis import on_axis
from geonode.estimation.curve import CREDIBLE, Curve
from geonode.estimation.judged import require_resolution, shifts
from geonode.estimation.posterior import estimate
from geonode.progress import Progress, silent
from geonode.spectra.reading import Spectra
from geonode.spectra.series import Series
from geonode.spectra.sheet import shortest
from geonode.storage.document import cell

AT_ONCE = 1024
DIGITS = 6
LONGEST_NAME = 40
"""Characters of a name in a table for people."""

SHOWN_DIGITS = 4
"""Of a number in a table for people."""

COLUMNS = (
    "name",
    "mode",
    "mean",
    "std",
    "low90",
    "high90",
    "set90",
    "intervals",
    "modes",
    "ambiguous",
    "p_value",
    "fits",
)


@dataclass(frozen=True)
class Row:
    """What one spectrum says of its concentration.

    Attributes:
        name: what its file calls it.
        mode: the most likely concentration.
        mean, std: of the posterior.
        sets: intervals of the set, `CREDIBLE` of which are to hold the truth, ascending.
        modes: concentration and weight of every mode, heaviest first.
        p_value: of a misfit as large.
        fits: whether it may be a spectrum of the series.
        shift: by which its axis seems to be off, in the unit of the axis; 0: it does not.
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

    def to_json(self) -> dict[str, Any]:
        """All of it, in full precision."""
        return {
            "name": self.name,
            "mode": self.mode,
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

    def cells(self) -> list[str]:
        """Texts of `COLUMNS`."""
        return [
            cell(self.name),
            *map(_number, (self.mode, self.mean, self.std, self.low, self.high)),
            self._set(DIGITS),
            str(len(self.sets)),
            self._modes(DIGITS),
            _truth(self.ambiguous),
            f"{self.p_value:.{DIGITS}g}",
            _truth(self.fits),
        ]

    def shown(self) -> tuple[str, ...]:
        """Texts of `header`."""
        verdict = "ambiguous" if self.ambiguous else ""
        return (
            _short(self.name),
            *(_number(number, SHOWN_DIGITS) for number in (self.mode, self.mean, self.std)),
            self._set(SHOWN_DIGITS),
            self._modes(SHOWN_DIGITS),
            f"{self.p_value:.2g}",
            verdict if self.fits else "fits nowhere",
        )

    def sentence(self, unit: str) -> str | None:
        """What a reader must know before using the numbers; None: nothing.

        Args:
            unit: of concentrations.
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
            return (
                f"{name} is ambiguous: {parts} {unit} are its {CREDIBLE:.0%} set, and the "
                "spectrum does not tell which."
            )
        return None

    def _set(self, digits: int) -> str:
        return "; ".join("-".join(_number(end, digits) for end in ends) for ends in self.sets)

    def _modes(self, digits: int) -> str:
        return "; ".join(f"{_number(at, digits)} ({weight:.2f})" for at, weight in self.modes)


def estimated(
    curve: Curve, series: Series, spectra: Spectra, report: Progress = silent
) -> list[Row]:
    """What all spectra of a file say of their concentrations, in the order of the file.

    Beside the spectra and the rows, memory does not grow with their number.

    Args:
        curve: of predicted spectra.
        series: whose axis the curve has.
        spectra: that passed `require_axis`.
        report: told of every spectrum.

    Raises:
        SpectraError: on this axis the spectra of the series themselves are taken for others.
    """
    require_resolution(curve, series, spectra.axis)
    rows: list[Row] = []
    for start in range(0, len(spectra.names), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        values = series.preprocessing.require(
            series.axis, on_axis(series, spectra.axis, spectra.values[part]), spectra.names[part]
        )
        found, shifted = estimate(curve, values), shifts(curve, series, values)
        fits = found.fits & (shifted == 0)
        numbers = (found.mode, found.mean, found.deviation, found.p_value, fits, shifted)
        rows += [
            Row(name, mode, mean, std, sets, modes, p_value, fits, shift)
            for name, mode, mean, std, p_value, fits, shift, sets, modes in zip(
                spectra.names[part],
                *(column.tolist() for column in numbers),
                found.sets,
                found.modes,
                strict=True,
            )
        ]
        report(len(found.mode))
    return rows


def header(unit: str) -> tuple[str, ...]:
    """Titles of the columns that people are shown.

    Args:
        unit: of concentrations.
    """
    of = "" if unit in ("", "1") else f" ({unit})"
    return ("name", f"mode{of}", "mean", "std", f"{CREDIBLE:.0%} set", "modes (weight)", "p", "")


def to_csv(rows: list[Row]) -> str:
    """A table of all columns."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(row.cells() for row in rows)
    return text.getvalue()


def _number(number: float, digits: int = DIGITS) -> str:
    return shortest(np.float64(f"{number:.{digits}g}"))


def _truth(value: bool) -> str:
    return str(value).lower()


def _short(name: str) -> str:
    name = " ".join(name.split())
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"
