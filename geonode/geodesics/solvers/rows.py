"""Refusing rows of geodesics that are no geodesics, by the first of them."""

from jaxtyping import Float
from torch import Tensor

from geonode.errors import GeometryError
from geonode.geometry.field import Field


def require_path(field: Field, start: Float[Tensor, "row"], end: Float[Tensor, "..."]) -> None:
    """Refuse what is no boundary value problem.

    Raises:
        GeometryError: shapes differ, a position is off the chart, or a path ends where it starts.
    """
    require_start(field, start)
    require_alike("end", end, "start", start)
    _require_positions("end", end)
    for row in (start == end).nonzero()[:1, 0].tolist():
        raise GeometryError(
            f"end: found {end[row]:.9g} in row {row}, where the path starts, expected another "
            "position"
        )


def require_start(field: Field, start: Float[Tensor, "row"]) -> None:
    """Refuse starts off the chart, and other rows than the field has.

    Raises:
        GeometryError: naming what was found.
    """
    _require_positions("start", start)
    if field.rows != len(start):
        raise GeometryError(f"field: found {field.rows} rows, expected the {len(start)} of start")


def require_alike(
    name: str, found: Float[Tensor, "..."], other: str, expected: Float[Tensor, "row"]
) -> None:
    """Refuse a tensor of another shape, format or device than another one.

    Raises:
        GeometryError: naming both.
    """
    parts = [(tuple(part.shape), part.dtype, str(part.device)) for part in (found, expected)]
    if parts[0] != parts[1]:
        raise GeometryError(f"{name}: found {parts[0]}, expected {parts[1]} like {other}")


def _require_positions(name: str, positions: Tensor) -> None:
    for row in (~(positions.abs() <= 1)).nonzero()[:1, 0].tolist():
        raise GeometryError(
            f"{name}: found {positions[row]:.9g} in row {row}, expected chart positions from -1 "
            "to 1"
        )
