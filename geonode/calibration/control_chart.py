"""Control chart: what was found of control samples over time, and Westgard's rules on it.

With z the error of an estimate over its standard error, a control warns if |z| is above 2 (1-2s).
It is rejected if |z| is above 3 (1-3s), if this and the last z are above 2 or below -2 (2-2s), if
of the two, or of two controls of one date, one is above 2 and one below -2 (R-4s), and if ten z in
succession have one sign (10-x). z has no unit; amounts of a control have one in all of a history.

Source: J. O. Westgard, P. L. Barry, M. R. Hunt and T. Groth, Clin. Chem. 27 (1981) 493.
"""

import csv
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock

from geonode.calibration.checks import Control
from geonode.errors import SpectraError
from geonode.reading.headers import same_unit
from geonode.storage.atomic import write_bytes
from geonode.storage.table import Column, Table, unescaped

RULES = {
    "1-2s": "beyond 2 standard errors, a warning",
    "1-3s": "beyond 3 standard errors",
    "2-2s": "two in succession beyond 2 standard errors on one side",
    "R-4s": "two beyond 2 standard errors on opposite sides",
    "10-x": "ten in succession on one side",
}
"""Meaning of Westgard's rules; all but the first reject."""

SCALES = (
    {"M": 0, "mM": -3, "uM": -6, "nM": -9, "pM": -12},
    {"ppm": -6, "ppb": -9, "ppt": -12},
    {"g/L": 0, "mg/mL": 0, "mg/L": -3, "ug/mL": -3, "ug/L": -6, "ng/mL": -6, "ng/L": -9},
)
"""Units that are converted into each other, with their decimal powers."""


class ControlPoint(NamedTuple):
    """A control that was estimated; its fields are the columns of a history."""

    date: str  # by ISO 8601, so that dates sort as text
    file: str  # of its spectrum
    control: str  # its name
    nominal: float  # its known concentration
    estimate: float
    standard_error: float  # positive
    z: float  # error over the standard error
    unit: str = "1"  # of the amounts; "1" if it is not known, as in older histories

    @classmethod
    def of(cls, date: str, found: Control, unit: str) -> "ControlPoint":
        """Point of a control whose spectrum fits."""
        estimate = found.known + found.z * found.standard_error
        about = date, found.file, found.name, found.known
        return cls(*about, estimate, found.standard_error, found.z, unit)

    @property
    def measurement(self) -> tuple[str, ...]:
        """Fields that are equal if its spectrum is estimated again, on any machine."""
        file = Path(self.file).name  # a folder is named only beside another file of that name
        return file, self.control, f"{self.nominal:.9g}", f"{self.estimate:.9g}"

    def converted(self, unit: str) -> "ControlPoint":
        """The point in a unit; one that is not known is taken for the other.

        Raises:
            SpectraError: its unit is another, and not converted.
        """
        if "1" in (unit, self.unit) or same_unit(unit, self.unit):
            return self._replace(unit=self.unit if unit == "1" else unit)
        for scale in SCALES:
            own, wanted = (
                [power for name, power in scale.items() if same_unit(name, one)]
                for one in (self.unit, unit)
            )
            if own and wanted:
                factor = 10.0 ** (own[0] - wanted[0])
                about, error = self[:3], factor * self.standard_error
                amounts = factor * self.nominal, factor * self.estimate
                return ControlPoint(*about, *amounts, error, self.z, unit)
        raise SpectraError(
            f"control {self.control}: found amounts in {self.unit}, expected {unit} as in the "
            "history, or a unit that is converted to it; name another history"
        )


class Violation(NamedTuple):
    """A rule, and the points that violate it together, the last one last."""

    rule: str
    points: tuple[ControlPoint, ...]

    @property
    def rejects(self) -> bool:
        """True if it does more than warn."""
        return self.rule != "1-2s"

    @property
    def sentence(self) -> str:
        """The rule in words, with its points."""
        points = ", ".join(f"{one.z:+.1f}" for one in self.points)
        names = " and ".join(dict.fromkeys(one.control for one in self.points))
        return f"control {names}, rule {self.rule}: {RULES[self.rule]} ({points})"


def violations(history: Iterable[ControlPoint]) -> list[Violation]:
    """Violations by the date of their last point; controls of one date stay in their order."""
    found = []
    by_name, by_date = defaultdict(list), defaultdict(list)
    for point in sorted(history, key=lambda point: point.date):
        by_name[point.control].append(point)
        by_date[point.date].append(point)
        if abs(point.z) > 2:
            found.append(Violation("1-3s" if abs(point.z) > 3 else "1-2s", (point,)))
    pairs = [pair for own in by_name.values() for pair in pairwise(own)]
    of_dates = [pair for own in by_date.values() for pair in combinations(own, 2)]
    for one, last in pairs + [pair for pair in of_dates if pair[0].control != pair[1].control]:
        apart = one.z * last.z < 0
        if min(abs(one.z), abs(last.z)) > 2 and (apart or one.control == last.control):
            found.append(Violation("R-4s" if apart else "2-2s", (one, last)))
    for own in by_name.values():
        for end in range(10, len(own) + 1):
            points = own[end - 10 : end]
            if abs(sum(math.copysign(1, point.z) for point in points if point.z)) == 10:
                found.append(Violation("10-x", tuple(points)))
    return sorted(found, key=lambda one: one.points[-1].date)


def read_history(path: Path) -> list[ControlPoint]:
    """Controls of a history; none if there is no file, or an empty one.

    Raises:
        SpectraError: it is no table as `append` writes it.
    """
    if not path.exists() or not path.stat().st_size:
        return []
    try:
        with path.open(encoding="utf-8-sig", newline="") as stream:
            header, *rows = csv.reader(stream)
    except (ValueError, csv.Error) as error:
        raise SpectraError(
            f"{path}: found no text of UTF-8 ({error}), expected a history"
        ) from error
    *older, _ = columns = [*ControlPoint._fields]
    if header not in (columns, older):
        raise SpectraError(
            f"{path}: found the header {','.join(header)!r}, expected "
            f"{','.join(ControlPoint._fields)!r}, a history of controls; name another file"
        )
    return [_point(f"{path}, line {line}", row) for line, row in enumerate(rows, 2)]


def append(
    path: Path,
    points: Sequence[ControlPoint],
    then: Callable[[list[ControlPoint]], object] = list,
) -> list[ControlPoint]:
    """Add controls to a history, which begins if there is no file; processes wait for each other.

    A measurement that is there already is not added again. Amounts get the unit that their control
    has there; an older history gets that of the new points.

    Args:
        path: the history.
        points: to be added.
        then: called with the whole history before another process adds to it.

    Returns:
        The whole history.

    Raises:
        SpectraError: the file is no history, or a number of a point is not finite.
        ArtifactError: the file cannot be written.
    """
    for point in points:
        _point(f"control {point.control}", [*map(str, point)])
    with FileLock(path.with_name(f".{path.name}.lock")):
        before = read_history(path)  # nothing is added to another file
        own = {one.control: one.unit for one in points}
        before = [
            one.converted(own.get(one.control, "1")) if one.unit == "1" else one for one in before
        ]
        new = in_units_of(before, points)
        known = {one.measurement for one in before}
        every = [*before, *(one for one in new if one.measurement not in known)]
        path.open("a", encoding="utf-8").close()  # a file that may not be changed is not replaced
        cells = zip(*every, strict=True) if every else [()] * len(ControlPoint._fields)
        columns = zip(ControlPoint._fields, cells, strict=True)
        text = Table("history", "", [Column(*one, digits=None) for one in columns]).csv()
        write_bytes(path, text.encode())
        then(every)
    return every


def in_units_of(
    history: Sequence[ControlPoint], points: Sequence[ControlPoint]
) -> list[ControlPoint]:
    """Points in the units that their controls have in a history.

    Raises:
        SpectraError: as `ControlPoint.converted`.
    """
    units = {one.control: one.unit for one in history}
    return [one.converted(units.get(one.control, one.unit)) for one in points]


def _point(where: str, row: list[str]) -> ControlPoint:
    try:
        date, file, name, *cells = map(unescaped, row)
        numbers = nominal, estimate, error, z = [*map(float, cells[:4])]
        if all(map(math.isfinite, numbers)) and error > 0 and len(cells) <= 5:
            return ControlPoint(
                date, file, name, nominal, estimate, error, z, *filter(None, cells[4:])
            )
    except ValueError:
        pass
    expected = "a date, a file, a name, four numbers, the third one positive, and a unit"
    raise SpectraError(f"{where}: found {','.join(row)!r}, expected {expected}")
