"""Solutions of boundary value problems, with residual and status of every row."""

from dataclasses import dataclass
from enum import IntEnum

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor


class Status(IntEnum):
    """Outcome of a row."""

    CONVERGED = 0
    RESIDUAL_ABOVE_TOLERANCE = 1
    NOT_FINITE = 2


@dataclass(frozen=True)
class Solution:
    """Solved boundary value problems, one row for each.

    Attributes:
        v0: velocity x'(0), chart units.
        residual: x(1) that v0 leads to minus the target, chart units.
        status: a `Status` for each row.
        iterations: corrections of v0 that the row took.
        evaluations: positions at which the row asked for the geometry.
    """

    v0: Float[Tensor, "*rows"]
    residual: Float[Tensor, "*rows"]
    status: UInt8[Tensor, "*rows"]
    iterations: Int[Tensor, "*rows"]
    evaluations: Int[Tensor, "*rows"]

    @property
    def converged(self) -> Bool[Tensor, "*rows"]:
        """Rows that reached their target within the tolerance."""
        return self.status == Status.CONVERGED

    def unflatten(self, pairs: int) -> "Solution":
        """Rows arranged as (pair, wavelength), wavelengths fastest."""
        parts = (self.v0, self.residual, self.status, self.iterations, self.evaluations)
        return Solution(*(part.reshape(pairs, -1) for part in parts))


def judge(
    v0: Float[Tensor, "*rows"], residual: Float[Tensor, "*rows"], tolerance: float
) -> UInt8[Tensor, "*rows"]:
    """The status of rows: a residual or a velocity that is not finite has not converged."""
    missed = torch.where(
        residual.abs() <= tolerance, Status.CONVERGED, Status.RESIDUAL_ABOVE_TOLERANCE
    )
    finite = torch.isfinite(v0) & torch.isfinite(residual)
    return torch.where(finite, missed, Status.NOT_FINITE).to(torch.uint8)
