"""Refusing rows of geodesics that are no geodesics, by the first of them."""

from jaxtyping import Float
from torch import Tensor

from geonode.errors import GeometryError
from geonode.geometry.field import Field


def require_path(field: Field, start: Float[Tensor, "row"], end: Float[Tensor, "..."]) -> None:
    """Refuse what is no boundary value problem.

    Raises:
        GeometryError: shapes, formats or devices differ, a position is off the chart, or a path
            ends where it starts.
    """
    _require_positions("start", start)
    if field.rows != len(start):
        raise GeometryError(f"field: found {field.rows} rows, expected the {len(start)} of start")
    found, expected = ((tuple(x.shape), x.dtype, str(x.device)) for x in (end, start))
    if found != expected:
        raise GeometryError(f"end: found {found}, expected {expected} like start")
    _require_positions("end", end)
    for row in (start == end).nonzero()[:1, 0].tolist():
        raise GeometryError(
            f"end: found {end[row]:.9g} in row {row}, where the path starts, expected another "
            "position"
        )


def _require_positions(name: str, positions: Tensor) -> None:
    for row in (~(positions.abs() <= 1)).nonzero()[:1, 0].tolist():
        raise GeometryError(
            f"{name}: found {positions[row]:.9g} in row {row}, expected chart positions from -1 "
            "to 1"
        )
