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
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock

from geonode.errors import SpectraError


class ControlPoint(NamedTuple):
    """A control that was estimated; its fields are the columns of a history."""

    date: str  # by ISO 8601, so that dates sort as text
    name: str
    known: float
    estimated: float
    standard_error: float  # of the estimate, positive

    @property
    def z(self) -> float:
        """Error over its standard error."""
        return (self.estimated - self.known) / self.standard_error


class Violation(NamedTuple):
    """A rule, and the points that violate it together, the last one last."""

    rule: str
    points: tuple[ControlPoint, ...]


def violations(history: Iterable[ControlPoint]) -> list[Violation]:
    """Violations by the date of their last point; controls of one date stay in their order."""
    found = []
    by_name, by_date = defaultdict(list), defaultdict(list)
    for point in sorted(history, key=lambda point: point.date):
        by_name[point.name].append(point)
        by_date[point.date].append(point)
        if abs(point.z) > 2:
            found.append(Violation("1-3s" if abs(point.z) > 3 else "1-2s", (point,)))
    pairs = [pair for own in by_name.values() for pair in pairwise(own)]
    of_dates = [pair for own in by_date.values() for pair in pairwise(own)]
    for one, last in pairs + [pair for pair in of_dates if pair[0].name != pair[1].name]:
        apart = one.z * last.z < 0
        if min(abs(one.z), abs(last.z)) > 2 and (apart or one.name == last.name):
            found.append(Violation("R-4s" if apart else "2-2s", (one, last)))
    for own in by_name.values():
        for end in range(10, len(own) + 1):
            points = own[end - 10 : end]
            if abs(sum(math.copysign(1, point.z) for point in points if point.z)) == 10:
                found.append(Violation("10-x", tuple(points)))
    return sorted(found, key=lambda one: one.points[-1].date)


def read_history(path: Path) -> list[ControlPoint]:
    """Controls of a history; none if there is no file.

    Raises:
        SpectraError: it is no table as `append` writes it.
    """
    if not path.exists():
        return []
    with path.open(encoding="utf-8-sig", newline="") as stream:
        header, *rows = [*csv.reader(stream)] or [[]]
    if header != [*ControlPoint._fields]:
        raise SpectraError(
            f"{path}: found the header {','.join(header)!r}, expected "
            f"{','.join(ControlPoint._fields)!r}, a history of controls; name another file"
        )
    return [_point(f"{path}, line {line}", row) for line, row in enumerate(rows, 2)]


def append(path: Path, points: Sequence[ControlPoint]) -> None:
    """Add controls to a history, which begins if there is no file; processes wait for each other.

    Raises:
        SpectraError: the file is no history, or a number of a point is not finite.
    """
    for point in points:
        _point(f"control {point.name}", [*map(str, point)])
    with FileLock(path.with_name(f".{path.name}.lock")):
        read_history(path)  # nothing is added to another file
        begun = path.read_bytes() if path.exists() else b""
        with path.open("a", encoding="utf-8", newline="") as stream:
            stream.write("\n" if begun and not begun.endswith(b"\n") else "")  # by an editor
            rows = [*points] if begun else [ControlPoint._fields, *points]
            csv.writer(stream, lineterminator="\n").writerows(rows)


def _point(where: str, row: list[str]) -> ControlPoint:
    """Control by its cells."""
    try:
        date, name, *cells = row
        known, estimated, error = map(float, cells)
        if all(map(math.isfinite, (known, estimated, error))) and error > 0:
            return ControlPoint(date, name, known, estimated, error)
    except ValueError:
        pass
    expected = "a date, a name and three numbers, the last one positive"
    raise SpectraError(f"{where}: found {','.join(row)!r}, expected {expected}")
