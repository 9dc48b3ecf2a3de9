"""Control chart: what was found of control samples over time, and Westgard's rules on it.

With z the error of an estimate over its standard error, a control warns if |z| is above 2 (1-2s).
It is rejected if |z| is above 3 (1-3s), if this and the last z are above 2 or below -2 (2-2s), if
of the two, or of two controls of one date, one is above 2 and one below -2 (R-4s), and if ten z in
succession have one sign (10-x).

Source: J. O. Westgard, P. L. Barry, M. R. Hunt and T. Groth, Clin. Chem. 27 (1981) 493.
"""

import csv
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock

from geonode.calibration.checks import Control
from geonode.errors import SpectraError

RULES = {
    "1-2s": "beyond 2 standard errors, a warning",
    "1-3s": "beyond 3 standard errors",
    "2-2s": "two in succession beyond 2 standard errors on one side",
    "R-4s": "two beyond 2 standard errors on opposite sides",
    "10-x": "ten in succession on one side",
}
"""Meaning of Westgard's rules; all but the first reject."""


class ControlPoint(NamedTuple):
    """A control that was estimated; its fields are the columns of a history."""

    date: str  # by ISO 8601, so that dates sort as text
    file: str  # of its spectrum
    control: str  # its name
    nominal: float  # its known concentration
    estimate: float
    standard_error: float  # positive
    z: float  # error over the standard error

    @classmethod
    def of(cls, date: str, found: Control) -> "ControlPoint":
        """Point of a control whose spectrum fits."""
        estimate = found.known + found.z * found.standard_error
        about = date, found.file, found.name, found.known
        return cls(*about, estimate, found.standard_error, found.z)

    @property
    def measurement(self) -> tuple[str, ...]:
        """Fields that are equal if its spectrum is estimated again, on any machine."""
        return self.file, self.control, f"{self.nominal:.9g}", f"{self.estimate:.9g}"


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
    of_dates = [pair for own in by_date.values() for pair in pairwise(own)]
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
    if header != [*ControlPoint._fields]:
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

    A measurement that is there already is not added again.

    Args:
        path: the history.
        points: to be added.
        then: called with the whole history before another process adds to it.

    Returns:
        The whole history.

    Raises:
        SpectraError: the file is no history, or a number of a point is not finite.
    """
    for point in points:
        _point(f"control {point.control}", [*map(str, point)])
    with FileLock(path.with_name(f".{path.name}.lock")):
        before = read_history(path)  # nothing is added to another file
        known = {one.measurement for one in before}
        new = [one for one in points if one.measurement not in known]
        begun = path.read_bytes() if path.exists() else b""
        with path.open("a", encoding="utf-8", newline="") as stream:
            stream.write("\n" if begun and not begun.endswith(b"\n") else "")  # by an editor
            rows = [*new] if begun else [ControlPoint._fields, *new]
            csv.writer(stream, lineterminator="\n").writerows(rows)
        then([*before, *new])
    return [*before, *new]


def _point(where: str, row: list[str]) -> ControlPoint:
    """Control by its cells."""
    try:
        date, file, name, *cells = row
        nominal, estimate, error, z = map(float, cells)
        if all(map(math.isfinite, (nominal, estimate, error, z))) and error > 0:
            return ControlPoint(date, file, name, nominal, estimate, error, z)
    except ValueError:
        pass
    expected = "a date, a file, a name and four numbers, the third one positive"
    raise SpectraError(f"{where}: found {','.join(row)!r}, expected {expected}")
