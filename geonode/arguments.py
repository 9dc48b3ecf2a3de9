"""Checks of arguments, with error messages that name them."""

from collections.abc import Mapping
from typing import TypeVar

from geonode.errors import GeometryError

Way = TypeVar("Way")


def choose(ways: Mapping[str, Way], name: str, argument: str) -> Way:
    """Entry of a registry by name.

    Raises:
        GeometryError: the name is unknown; the message names the argument and all entries.
    """
    if name not in ways:
        raise GeometryError(f"{argument}: found {name!r}, expected one of {', '.join(ways)}")
    return ways[name]
