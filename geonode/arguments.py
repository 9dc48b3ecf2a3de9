"""Refusing arguments that cannot be meant, by name: what was found and what was expected."""

from collections.abc import Mapping
from typing import TypeVar

from geonode.errors import GeometryError

Way = TypeVar("Way")


def choose(ways: Mapping[str, Way], name: str, argument: str) -> Way:
    """One of several named ways to do a thing.

    Raises:
        GeometryError: there is none of this name; the message names the argument and all ways.
    """
    if name not in ways:
        raise GeometryError(f"{argument}: found {name!r}, expected one of {', '.join(ways)}")
    return ways[name]


def require_above(argument: str, value: float | int, bound: int) -> None:
    """Refuse a number that is not above a bound.

    Raises:
        GeometryError: naming the argument.
    """
    if not value > bound:
        raise GeometryError(f"{argument}: found {value}, expected a number above {bound}")
