"""A memo of solved geodesics, for queries that come again or lie close together.

A query is one geodesic at one wavelength. What was solved for it is remembered until the memory
is needed for something used more recently. Between two remembered neighbours, on request, a
query is interpolated instead of solved: linearly, with an error of at most gap^2 / 8 times the
largest second derivative (P. J. Davis, Interpolation and Approximation, Dover 1975, section 3.1).
"""

import math
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable
from enum import Enum
from threading import Lock
from typing import NamedTuple

import numpy as np
from cachetools import LRUCache
from jaxtyping import Float

from geonode.errors import GeometryError

ENTRY_BYTES = 2_000
"""What a geodesic counts for besides its values: key, header of the array, places in the cache and
among the neighbours. Traced in memos of some thousands: 550 bytes to 1,550."""

AXES = ("wavelength", "target", "source")
"""Along which to interpolate, the first one first."""


class Key(NamedTuple):
    """One geodesic at one wavelength.

    Attributes:
        fold: whose metric.
        source, target: where the geodesic starts and ends, chart units.
        wavelength: chart units.
    """

    fold: int
    source: float
    target: float
    wavelength: float


class Origin(Enum):
    """Where an answer comes from."""

    SOLVED = "solved"
    REMEMBERED = "remembered"
    INTERPOLATED = "interpolated"


class Answer(NamedTuple):
    """What a geodesic is.

    Attributes:
        values: what is remembered of a geodesic; read-only.
        origin: where they come from.
        between: the two remembered geodesics of an interpolated answer, the lower one first.
    """

    values: Float[np.ndarray, "value"]
    origin: Origin
    between: tuple[Key, Key] | None = None


class Counts(NamedTuple):
    """What became of the queries so far.

    Attributes:
        hits: remembered.
        misses: solved; one that could not be solved is not counted.
        near_misses: interpolated.
        evictions: geodesics forgotten for the sake of newer ones.
    """

    hits: int = 0
    misses: int = 0
    near_misses: int = 0
    evictions: int = 0


class GeodesicMemo:
    """Geodesics that are solved on the first query and remembered while there is memory for them.

    The one that was used least recently is forgotten first.

    A query that is not remembered is interpolated between the nearest remembered geodesics below
    and above it along one axis, all else being equal, if they are no farther apart than the
    tolerance of that axis. Wavelength comes first, then target, then source. Two targets with
    the source between them do not count, nor two sources with the target between them: the
    geodesic of equal ends lies there. Being interpolated between is a use, and keeps both
    neighbours for longer; what is interpolated is not remembered.

    Threads may share a memo. It is locked while it is looked into, never while a geodesic is
    solved: two threads that miss the same key both solve it, and the first to finish is remembered.

    Args:
        solve: values of a geodesic; equally many for all if there are tolerances.
        largest_bytes: bound of what is remembered: the values, and `ENTRY_BYTES` per geodesic.
        wavelength_tolerance: largest distance between two wavelengths to interpolate between,
            chart units; 0 for none.
        position_tolerance: the same for two targets or two sources.

    Raises:
        GeometryError: the bound is not positive, or a tolerance is negative.
    """

    def __init__(
        self,
        solve: Callable[[Key], Float[np.ndarray, "value"]],
        *,
        largest_bytes: int,
        wavelength_tolerance: float = 0.0,
        position_tolerance: float = 0.0,
    ) -> None:
        if largest_bytes < 1:
            raise GeometryError(f"largest_bytes: found {largest_bytes}, expected 1 or more")
        tolerances = {
            "wavelength_tolerance": wavelength_tolerance,
            "position_tolerance": position_tolerance,
        }
        for name, tolerance in tolerances.items():
            if not tolerance >= 0:
                raise GeometryError(f"{name}: found {tolerance}, expected 0 or more")
        self._solve = solve
        self._tolerances = (wavelength_tolerance, position_tolerance, position_tolerance)
        self._lock = Lock()
        self._remembered: LRUCache[Key, np.ndarray] = LRUCache(largest_bytes, getsizeof=_size)
        self._neighbours = _Neighbours()
        self._counts = Counter[str]()

    @property
    def counts(self) -> Counts:
        """What became of the queries so far."""
        with self._lock:
            return Counts(**self._counts)

    def __call__(self, key: Key) -> Answer:
        """The answer to one query.

        Raises:
            GeometryError: the key is no geodesic, its values have more than one dimension or more
                bytes than the memo, or two neighbours have not equally many.
        """
        _require_geodesic(key)
        with self._lock:
            answer = self._recall(key)
        if answer is None:
            values = _fixed(self._solve(key))
            with self._lock:
                self._remember(key, values)
            answer = Answer(values, Origin.SOLVED)
        return answer

    def _recall(self, key: Key) -> Answer | None:
        """What is remembered, or lies between what is."""
        values = self._remembered.get(key)
        if values is not None:
            self._counts["hits"] += 1
            return Answer(values, Origin.REMEMBERED)
        for axis, tolerance in zip(AXES, self._tolerances, strict=True):
            between = self._neighbours.around(key, axis)
            if between is not None and _close(between, axis, tolerance):
                values = _fixed(self._interpolated(key, axis, between))
                self._counts["near_misses"] += 1
                return Answer(values, Origin.INTERPOLATED, between)
        return None

    def _interpolated(self, key: Key, axis: str, between: tuple[Key, Key]) -> np.ndarray:
        """Values on the straight line between two neighbours."""
        low, high = (self._remembered[neighbour] for neighbour in between)
        if low.shape != high.shape:
            raise GeometryError(
                f"solve: found {len(low)} values for {between[0]} and {len(high)} for {between[1]},"
                " expected equally many; return as many for every key, or set the tolerances to 0"
            )
        start, x, end = (getattr(place, axis) for place in (between[0], key, between[1]))
        return low + float((x - start) / (end - start)) * (high - low)

    def _remember(self, key: Key, values: np.ndarray) -> None:
        """Keep what was solved, unless another thread was first, and forget what must go."""
        largest, size = self._remembered.maxsize, _size(values)
        if size > largest:
            raise GeometryError(
                f"largest_bytes: found {largest}, expected at least {size}, the size of one "
                "geodesic; raise it, or remember fewer values"
            )
        self._counts["misses"] += 1
        if key in self._remembered:
            return
        while self._remembered.currsize + size > largest:
            forgotten, _ = self._remembered.popitem()
            self._neighbours.remove(forgotten)
            self._counts["evictions"] += 1
        self._remembered[key] = values
        self._neighbours.add(key)


class _Neighbours:
    """The remembered keys along every line on which one axis alone varies."""

    def __init__(self) -> None:
        self._lines: dict[tuple, list[float]] = {}

    def add(self, key: Key) -> None:
        """Enter a key on the lines through it."""
        for axis in AXES:
            insort(self._lines.setdefault(_line(key, axis), []), getattr(key, axis))

    def remove(self, key: Key) -> None:
        """Take a key off its lines, and leave no empty ones behind."""
        for axis in AXES:
            line = _line(key, axis)
            places = self._lines[line]
            del places[bisect_left(places, getattr(key, axis))]
            if not places:
                del self._lines[line]

    def around(self, key: Key, axis: str) -> tuple[Key, Key] | None:
        """The nearest keys below and above one that is absent, if there are both."""
        places = self._lines.get(_line(key, axis), [])
        above = bisect_left(places, getattr(key, axis))
        if not 0 < above < len(places):
            return None
        before, after = _split(key, axis)
        low, high = (Key._make((*before, x, *after)) for x in places[above - 1 : above + 1])
        return low, high


def _line(key: Key, axis: str) -> tuple:
    """What the keys along an axis have in common."""
    before, after = _split(key, axis)
    return (axis, *before, *after)


def _split(key: Key, axis: str) -> tuple[tuple, tuple]:
    """What stands in a key before an axis and after it."""
    place = Key._fields.index(axis)
    return key[:place], key[place + 1 :]


def _close(between: tuple[Key, Key], axis: str, tolerance: float) -> bool:
    """Whether two neighbours are near enough, with no geodesic of equal ends between them."""
    low, high = between
    crossing = (low.source < low.target) != (high.source < high.target)
    return getattr(high, axis) - getattr(low, axis) <= tolerance and not crossing


def _require_geodesic(key: Key) -> None:
    """Refuse what joins no two points."""
    for name, value in key._asdict().items():
        if not math.isfinite(value):
            raise GeometryError(f"{name}: found {value} in {key}, expected a finite number")
    if key.source == key.target:
        raise GeometryError(
            f"target: found {key.target}, the source itself, expected another concentration"
        )


def _fixed(values: np.ndarray) -> np.ndarray:
    """A copy that nobody can make writable: it lies in bytes, which are immutable."""
    if values.ndim != 1:
        raise GeometryError(f"solve: found shape {values.shape}, expected one dimension")
    return np.frombuffer(values.tobytes(), values.dtype)


def _size(values: np.ndarray) -> int:
    """Bytes that an entry counts for."""
    return values.nbytes + ENTRY_BYTES
