"""Shooting by Newton's method: the exact sensitivity makes every step quadratic."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from geonode.geodesics.solvers.shooting import State


@dataclass(frozen=True)
class Newton:
    """Divide the miss by its derivative.

    Attributes:
        iterations: corrections at most. A good guess takes three; eight square an error away from
            anywhere that Newton's method converges from.
    """

    iterations: int = 8

    def begin(self, distance: Float[Tensor, "row"]) -> State:  # noqa: ARG002
        """Newton's method remembers nothing."""
        return ()

    def change(
        self,
        state: State,
        miss: Float[Tensor, "row"],
        sensitivity: Float[Tensor, "row"],
        iteration: int,  # noqa: ARG002
    ) -> tuple[Float[Tensor, "row"], State]:
        """Step to add to the velocity."""
        return -miss / sensitivity, state
