"""Shooting by L-BFGS: half the square of the miss, minimised by gradients alone.

A row has one unknown, its velocity. There the two-loop recursion with any memory is the step
divided by the change of gradient of the latest pair, s / y, for the latest pair alone fulfils the
secant equation (J. Nocedal and S. J. Wright, Numerical Optimization, 2nd ed., algorithm 7.4).
`torch.optim.LBFGS` will not do: all rows would share its line search and its dot products, and the
hardest would hold up the others.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from geonode.geodesics.solvers.shooting import State


@dataclass(frozen=True)
class LBFGS:
    """Quasi-Newton steps from the latest pair of velocities and gradients.

    The first step is scaled by the curvature that a linear miss would have, the square of its
    sensitivity (Nocedal and Wright, section 10.3).

    Attributes:
        iterations: corrections at most.
        longest: step at most, in units of the distance to go.
    """

    iterations: int = 30
    longest: float = 0.5

    def begin(self, distance: Float[Tensor, "row"]) -> State:
        """Longest step, inverse curvature, and latest step and gradient (there are none)."""
        none = torch.zeros_like(distance)
        return self.longest * distance.abs(), none, none, none

    def change(
        self,
        state: State,
        miss: Float[Tensor, "row"],
        sensitivity: Float[Tensor, "row"],
        iteration: int,
    ) -> tuple[Float[Tensor, "row"], State]:
        """Step to add to the velocity."""
        longest, inverse, latest, earlier = state
        gradient = miss * sensitivity
        if iteration:
            rise = gradient - earlier
            # a pair of negative curvature is left out (Nocedal and Wright, section 7.2)
            inverse = torch.where(rise * latest > 0, latest / rise, inverse)
        else:
            inverse = 1 / sensitivity.square()
        step = (-inverse * gradient).clamp(-longest, longest)
        return step, (longest, inverse, step, gradient)
