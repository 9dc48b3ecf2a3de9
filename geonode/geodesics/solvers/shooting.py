"""The boundary value problem by shooting: correct the first velocity until the path arrives.

Every row is on its own. A method sees how far each row missed and how sensitive its end is, and
says what to add to its velocity; guess, paths, stopping and bookkeeping are the same for all.
"""

from dataclasses import dataclass, fields, replace

import torch
from jaxtyping import Float
from torch import Tensor

from geonode.geodesics.problem import Solution, judge
from geonode.geodesics.solvers.corrections import ShootingMethod, State
from geonode.geodesics.solvers.initial_value import Integrator
from geonode.geometry.field import Field

# Gauss-Legendre rule of order 6 on [0, 1]
GUESS = tuple(zip((0.5 - 0.15**0.5, 0.5, 0.5 + 0.15**0.5), (5 / 18, 8 / 18, 5 / 18), strict=True))


def shoot(
    field: Field,
    start: Float[Tensor, "row"],
    end: Float[Tensor, "row"],
    method: ShootingMethod,
    integrator: Integrator,
    *,
    tolerance: float,
    patience: int,
) -> Solution:
    """Find the first velocity of the path from `start` at time 0 to `end` at time 1.

    The guess is the closed form by a coarse rule. A row that has arrived in so many shots running,
    or whose end is no finite number, is corrected no further.

    Rows that do not arrive raise nothing; their status tells.

    Args:
        field: the geometry of the rows.
        start: chart positions at time 0.
        end: chart positions at time 1; no row may end where it starts.
        method: how velocities are corrected.
        integrator: where paths arrive, and how that depends on their velocity.
        tolerance: largest miss of a row that has arrived, chart units.
        patience: successive shots that must arrive.
    """
    with torch.no_grad():
        rows = _Rows.guessed(field, start, end)
        done = rows
        for iteration in range(method.iterations + 1):
            rows = rows.shot(integrator, tolerance, patience)
            done = done.with_results(rows)
            rows = rows[rows.running.nonzero()[:, 0]]  # the others cost nothing from now on
            if not len(rows.index):
                break
            if iteration < method.iterations:
                rows = rows.corrected(method, iteration)
    return Solution(
        v0=done.v0,
        residual=done.miss,
        status=judge(done.v0, done.miss, tolerance),
        iterations=done.shots - 1,
        evaluations=done.evaluations,
    )


@dataclass(frozen=True)
class _Rows:
    """Rows under way, and what is known of them.

    Attributes:
        index: of each row among all.
        sensitivity: d x(1) / d v0 of the latest shot.
        arrived: successive shots that did, until now.
        running: whether the velocity is still being corrected.
        shots: how many.
        evaluations: positions at which the geometry was asked for.
    """

    field: Field
    index: Tensor
    start: Tensor
    end: Tensor
    v0: Tensor
    state: State
    miss: Tensor
    sensitivity: Tensor
    arrived: Tensor
    running: Tensor
    shots: Tensor
    evaluations: Tensor

    @classmethod
    def guessed(cls, field: Field, start: Tensor, end: Tensor) -> "_Rows":
        """All rows, with a first guess of their velocity."""
        distance = end - start
        log_sqrt = field(start[:, None])[0][:, 0]
        inside = torch.stack([start + fraction * distance for fraction, _ in GUESS], dim=1)
        roots = torch.exp(field(inside)[0] - log_sqrt[:, None]).unbind(1)
        # added one by one: the order in a matrix product may depend on the number of rows
        mean = sum(weight * root for (_, weight), root in zip(GUESS, roots, strict=True))
        unknown = torch.full_like(start, torch.nan)
        none = torch.zeros_like(start, dtype=torch.int64)
        return cls(
            field=field,
            index=torch.arange(len(start), device=start.device),
            start=start,
            end=end,
            v0=distance * mean,
            state=(distance.abs(), *[torch.zeros_like(start)] * 3),
            miss=unknown,
            sensitivity=unknown,
            arrived=none,
            running=torch.ones_like(start, dtype=torch.bool),
            shots=none,
            evaluations=none + 1 + len(GUESS),
        )

    def __getitem__(self, rows: Tensor) -> "_Rows":
        parts = {part.name: getattr(self, part.name) for part in fields(self)}
        state = tuple(part[rows] for part in parts.pop("state"))
        return _Rows(**{name: part[rows] for name, part in parts.items()}, state=state)

    def shot(self, integrator: Integrator, tolerance: float, patience: int) -> "_Rows":
        """Results of shots with these velocities."""
        arrival = integrator(self.field, self.start, self.v0)
        miss = arrival.position - self.end
        arrived = torch.where(miss.abs() <= tolerance, self.arrived + 1, 0)
        return replace(
            self,
            miss=miss,
            sensitivity=arrival.sensitivity,
            arrived=arrived,
            running=(arrived < patience) & torch.isfinite(miss),
            shots=self.shots + 1,
            evaluations=self.evaluations + arrival.evaluations,
        )

    def corrected(self, method: ShootingMethod, iteration: int) -> "_Rows":
        """The rows with another velocity."""
        change, state = method(self.state, self.miss, self.sensitivity, iteration)
        return replace(self, v0=self.v0 + change, state=state)

    def with_results(self, rows: "_Rows") -> "_Rows":
        """Shots with the results of some rows replaced."""
        results = {
            name: getattr(self, name).index_copy(0, rows.index, getattr(rows, name))
            for name in ("v0", "miss", "shots", "evaluations")
        }
        return replace(self, **results)
