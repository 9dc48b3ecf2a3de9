"""Control chart: what was found of control samples, by date, and Westgard's rules on it.

z is the error of an estimate over its standard error. Of the history of each control

- 1-2s warns: the last z is beyond 2;
- 1-3s rejects: it is beyond 3;
- 2-2s rejects: the last two are beyond 2 on one side;
- R-4s rejects: the last two, or two controls of one date, are beyond 2 on both sides;
- 10-x rejects: the last ten are on one side.

Of sound controls one in 22 warns, and one in 370 is beyond 3.

Source: J. O. Westgard, P. L. Barry, M. R. Hunt and T. Groth, Clin. Chem. 27 (1981) 493.
"""

import csv
import io
import math
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock

from geonode.errors import SpectraError
from geonode.storage.atomic import errors_of_disk

MANY = 10
"""Estimates on one side that reject."""


class ControlPoint(NamedTuple):
    """A control that was estimated; names and order are those of the columns of a file."""

    date: str
    """By ISO 8601, so that dates sort as text."""
    name: str
    known: float
    estimated: float
    standard_error: float
    """Of the estimate, positive."""

    @property
    def z(self) -> float:
        """Error over its standard error."""
        return (self.estimated - self.known) / self.standard_error


class Violation(NamedTuple):
    """A rule that a control breaks."""

    rule: str
    """1-2s, which only warns, 1-3s, 2-2s, R-4s or 10-x."""
    points: tuple[ControlPoint, ...]
    """That break it together, the last one last."""

    @property
    def is_warning(self) -> bool:
        """Whether it only warns."""
        return self.rule == "1-2s"


def violations(history: Iterable[ControlPoint]) -> list[Violation]:
    """Violations of Westgard's rules, by the date of their last point.

    Args:
        history: controls in any order; those of one name and date stay in theirs.
    """
    points = sorted(history, key=lambda point: point.date)
    by_name, by_date = defaultdict(list), defaultdict(list)
    for point in points:
        by_name[point.name].append(point)
        by_date[point.date].append(point)
    found = [
        Violation("1-3s" if abs(one.z) > 3 else "1-2s", (one,)) for one in points if abs(one.z) > 2
    ]
    for own in by_name.values():
        for before, last in pairwise(own):
            if min(abs(before.z), abs(last.z)) > 2:
                same = before.z * last.z > 0
                found.append(Violation("2-2s" if same else "R-4s", (before, last)))
        for end in range(MANY, len(own) + 1):
            last_ones = own[end - MANY : end]
            if all(one.z > 0 for one in last_ones) or all(one.z < 0 for one in last_ones):
                found.append(Violation("10-x", tuple(last_ones)))
    for of_date in by_date.values():
        for before, last in pairwise(of_date):
            if before.name != last.name and max(before.z, last.z) > 2 > -2 > min(before.z, last.z):
                found.append(Violation("R-4s", (before, last)))
    return sorted(found, key=lambda one: one.points[-1].date)


def read_history(path: Path) -> list[ControlPoint]:
    """Controls of a history; none if there is no file.

    Raises:
        SpectraError: it is no table as `append` writes.
    """
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream))
    if not rows or rows[0] != [*ControlPoint._fields]:
        raise SpectraError(
            f"{path}: found {','.join(rows[0]) if rows else 'an empty file'}, expected the header "
            f"{','.join(ControlPoint._fields)} of a history of controls; name another file"
        )
    return [_point(path, line, row) for line, row in enumerate(rows[1:], 2)]


def append(path: Path, points: Sequence[ControlPoint]) -> None:
    """Add controls to a history, which is made if there is none; several processes may at once.

    Raises:
        SpectraError: the file is no history, or a number is not finite.
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(points)
    for row in csv.reader(io.StringIO(text.getvalue())):
        _point(path, 0, row)
    with FileLock(path.with_name(f".{path.name}.lock")):
        new = not read_history(path) and not path.exists()
        header = ",".join(ControlPoint._fields) + "\n" if new else ""
        with path.open("a", encoding="utf-8", newline="") as stream:
            stream.write(header + text.getvalue())
            stream.flush()
            os.fsync(stream.fileno())


def _point(path: Path, line: int, row: list[str]) -> ControlPoint:
    """A row in numbers."""
    try:
        date, name, *numbers = row
        known, estimated, error = map(float, numbers)
        right = all(map(math.isfinite, (known, estimated, error))) and error > 0
    except ValueError:
        right = False
    if not right:
        raise SpectraError(
            f"{path}, line {line}: found {','.join(row)!r}, expected a date, a name and three "
            "numbers, the last one positive; correct the line or remove it"
        )
    return ControlPoint(date, name, known, estimated, error)
