"""Solvers of differential equations by others, each as an integrator of geodesics.

Each is given the same rows of x'' = -G(x, w) x'^2 and returns where they are at time 1.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.integrate import solve_bvp
from torch import Tensor
from torchdiffeq import odeint

from geonode.geometry.field import Field
from geonode.geometry.metric import FLOOR, Metric
from geonode.geometry.solvers.methods import GUESS
from geonode.geometry.verification import arc_length

SHOTS = 8
MESH, LARGEST_MESH = 11, 10_000  # of scipy
BATCH = 2000  # rows at once on a CPU: more of them no longer fit in cache

Symbol = Callable[[Any, Any], Any]
"""G of one position and one wavelength, scalars of jax."""


@dataclass(frozen=True)
class Rows:
    """Boundary value problems, one a row, and their geometry."""

    field: Field  # ln sqrt(g) and G, for solvers in torch
    symbol: Symbol  # G, for solvers in jax
    wavelengths: Float[Tensor, "row"]  # chart units, for solvers in jax
    start: Float[Tensor, "row"]
    end: Float[Tensor, "row"]
    """Chart positions."""

    def __getitem__(self, chosen: Int[Tensor, "chosen"]) -> "Rows":
        """Some of the rows."""
        parts = (self.wavelengths, self.start, self.end)
        return Rows(self.field[chosen], self.symbol, *(part[chosen] for part in parts))


Integrator = Callable[[Rows, Float[Tensor, "row"], float], Float[Tensor, "row"]]
"""(rows, first velocities, tolerance) to x(1); NaN where the solver gave up."""


def by_torchdiffeq(
    rows: Rows, velocity: Float[Tensor, "row"], tolerance: float
) -> Float[Tensor, "row"]:
    """Dormand and Prince; rows given together share steps, and the worst of them decides."""

    def equation(time: Tensor, state: Tensor) -> Tensor:  # noqa: ARG001
        position, speed = state
        return torch.stack([speed, -rows.field(position[:, None])[1][:, 0] * speed.square()])

    times = torch.tensor([0.0, 1.0], dtype=torch.float64, device=velocity.device)
    options = {"norm": lambda errors: errors.abs().max(), "step_t": times[-1:]}
    how: dict[str, Any] = {"rtol": tolerance, "atol": tolerance, "options": options}
    path = odeint(equation, torch.stack([rows.start, velocity]), times, method="dopri5", **how)
    end: Tensor = path[-1, 0]
    return end


def by_torchode(
    rows: Rows, velocity: Float[Tensor, "row"], tolerance: float
) -> Float[Tensor, "row"]:
    """One batch in which every row takes its own steps."""
    import torchode  # noqa: PLC0415 - optional

    def equation(time: Tensor, state: Tensor) -> Tensor:  # noqa: ARG001
        position, speed = state[:, :1], state[:, 1:]
        return torch.cat([speed, -rows.field(position)[1] * speed.square()], dim=1)

    controller = torchode.IntegralController(atol=tolerance, rtol=tolerance)
    solver = torchode.AutoDiffAdjoint(torchode.Dopri5(), controller).to(torch.float64)
    zero = torch.zeros_like(rows.start)
    state = torch.stack([rows.start, velocity], dim=1)
    problem = torchode.InitialValueProblem(state, t_start=zero, t_end=zero + 1)
    with torch.no_grad():
        solved = solver.solve(problem, term=torchode.ODETerm(equation))
    return torch.where(solved.status == 0, solved.ys[:, -1, 0], torch.nan)


def by_diffrax(
    rows: Rows, velocity: Float[Tensor, "row"], tolerance: float
) -> Float[Tensor, "row"]:
    """One row under jax.vmap, so that every row takes its own steps, all of it under jax.jit."""
    import jax  # noqa: PLC0415 - optional

    parts = (part.cpu().numpy() for part in (rows.start, velocity, rows.wavelengths))
    with jax.default_device(jax.devices(velocity.device.type)[0]):
        reached = np.array(_all_rows(rows.symbol)(*parts, tolerance))
    return torch.from_numpy(reached).to(velocity.device)


@cache  # with what jax has compiled
def _all_rows(symbol: Symbol) -> Callable[..., Any]:
    import diffrax  # noqa: PLC0415 - optional
    import jax  # noqa: PLC0415 - optional

    jax.config.update("jax_enable_x64", True)

    def equation(time: Any, state: Any, w: Any) -> Any:  # noqa: ARG001
        position, speed = state
        return speed, -symbol(position, w) * speed**2

    term, solver = diffrax.ODETerm(equation), diffrax.Dopri5()

    def one_row(position: Any, velocity: Any, w: Any, tolerance: Any) -> Any:
        control = diffrax.PIDController(rtol=tolerance, atol=tolerance)
        times = {"t0": 0.0, "t1": 1.0, "dt0": None}
        how = {"args": w, "stepsize_controller": control, "throw": False}
        solved = diffrax.diffeqsolve(term, solver, y0=(position, velocity), **times, **how)
        arrived = solved.result == diffrax.RESULTS.successful
        return jax.numpy.where(arrived, solved.ys[0][-1], jax.numpy.nan)

    mapped: Callable[..., Any] = jax.jit(jax.vmap(one_row, in_axes=(0, 0, 0, None)))
    return mapped


def in_jax(metric: Metric) -> Symbol:
    """G of a metric network by the same weights in jax, by its forward derivative."""
    network = metric.network
    weights = [
        (weight[0].cpu().numpy(), bias[0, 0].cpu().numpy())
        for weight, bias in zip(network.weights, network.biases, strict=True)
    ]

    def symbol(x: Any, w: Any) -> Any:
        import jax  # noqa: PLC0415 - optional

        def log_sqrt(x: Any) -> Any:
            hidden = jax.numpy.stack([x, w])
            for weight, bias in weights[:-1]:
                hidden = jax.numpy.tanh(hidden @ weight + bias)
            value = (hidden @ weights[-1][0] + weights[-1][1])[0]
            return 0.5 * jax.numpy.log(jax.nn.softplus(value) + FLOOR)

        return jax.jvp(log_sqrt, (x,), (jax.numpy.ones_like(x),))[1]

    return symbol


def shoot(
    integrate: Integrator, rows: Rows, error: float, tolerance: float
) -> Float[Tensor, "row"]:
    """First velocities from start to end, by Newton's method with the exact sensitivity.

    Guess and sensitivity are those of `geonode.geometry.solvers.methods`. Half the error is left
    to the integrator. A row that has arrived is not shot again. The error is the largest |x(1) -
    target| in chart units.
    """
    place = rows.start.device
    fractions, weights = torch.tensor([(0.0, 0.0), *GUESS], dtype=torch.float64, device=place).T
    span = rows.end - rows.start
    log_sqrt = rows.field(rows.start[:, None] + span[:, None] * fractions)[0]
    velocity = span * (torch.exp(log_sqrt - log_sqrt[:, :1]) @ weights)
    running = torch.arange(len(velocity), device=place)
    for _ in range(SHOTS):
        # Batches of nearly equal size, so that compilers meet few sizes.
        batches = running.tensor_split(math.ceil(len(running) / BATCH) if running.is_cpu else 1)
        reached = torch.cat([integrate(rows[b], velocity[b], tolerance) for b in batches])
        part = rows[running]
        miss = reached - part.end
        sensitivity = torch.exp(log_sqrt[running, 0] - part.field(reached[:, None])[0][:, 0])
        missed = ~(miss.abs() <= error / 2)
        running = running[missed]
        if not len(running):
            break
        velocity[running] -= (miss / sensitivity)[missed]
    return velocity


def collocate(
    field: Field, start: Float[Tensor, "row"], end: Float[Tensor, "row"], tolerance: float
) -> tuple[Float[Tensor, "row"], int]:
    """First velocities by `scipy.integrate.solve_bvp`, one row after the other: 10 to 100 ms each.

    Nothing is shared with the methods of the package: collocation of order 4 with a residual
    control of its own (J. Kierzenka and L. F. Shampine, ACM Trans. Math. Softw. 27 (2001) 299) from
    a straight first guess, and no use of the first integral. Rows are in float64 on the CPU; none
    may end where it starts.

    Returns:
        The velocities, NaN where scipy finds none, and how often it asked for the geometry.
    """
    found, asked, times = [], 0, np.linspace(0, 1, MESH)
    for place, (first, last) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        alone = field[torch.tensor([place])]

        def equation(time: Any, state: Any, alone: Field = alone) -> Any:  # noqa: ARG001
            nonlocal asked
            positions, velocities = state
            asked += positions.size
            with torch.no_grad():
                symbol = alone(torch.from_numpy(positions.reshape(1, -1).copy()))[1]
            return np.stack([velocities, -symbol.numpy().reshape(positions.shape) * velocities**2])

        def misses(at_0: Any, at_1: Any, ends: tuple[float, float] = (first, last)) -> Any:
            return np.array([at_0[0] - ends[0], at_1[0] - ends[1]])

        straight = np.stack([first + times * (last - first), np.full(MESH, last - first)])
        with np.errstate(all="ignore"):
            path = solve_bvp(
                equation, misses, times, straight, tol=tolerance, max_nodes=LARGEST_MESH
            )
        found.append(float(path.y[1, 0]) if path.status == 0 else np.nan)
    return torch.tensor(found, dtype=torch.float64), asked


PEERS: dict[str, Integrator] = {
    "torchdiffeq": by_torchdiffeq,
    "torchode": by_torchode,
    "diffrax": by_diffrax,
}
"""Integrators of the peers that shoot; their packages may be absent."""


def truth(rows: Rows) -> tuple[Float[Tensor, "row"], Float[Tensor, "row"]]:
    """First velocities by quadrature, and the sensitivity d x(1) / d x'(0) of the end to them."""
    velocities, sensitivities = [], []
    for chosen in torch.arange(len(rows.start)).split(BATCH):
        part = rows[chosen]
        ends = part.field(torch.stack([part.start, part.end], dim=1))[0]
        velocities.append(arc_length(part.field, part.start, part.end) / torch.exp(ends[:, 0]))
        sensitivities.append(torch.exp(ends[:, 0] - ends[:, 1]))
    return torch.cat(velocities), torch.cat(sensitivities)
