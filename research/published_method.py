"""Published method: one geodesic at a time, with a network call at every stage of every step.

It solves each boundary value problem by 10 iterations of shooting, each of which integrates 50
steps with 6 metric-network calls, for 30 ordered pairs of 6 concentrations at 601 wavelengths, in
every one of 500 epochs of 6 leave-one-out models: 162.27 billion calls. Decoders are trained one at
a time as well, by automatic differentiation and `torch.optim`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from scipy.integrate import RK45
from torch import Tensor
from torch.nn.functional import softplus

from geonode.config import DecodersParameters
from geonode.geometry.metric import FLOOR, Metric
from geonode.geometry.perceptron import Perceptron

MetricFunction = Callable[[Float[Tensor, "point 2"]], Float[Tensor, "point"]]
"""g at points (x, w)."""

SHOOTING_ITERATIONS = 10
STEPS = 50
EPOCHS = 500
DIFFERENCE = 1e-3

# Dormand and Prince, J. Comput. Appl. Math. 6 (1980) 19, table 2: the six stages of order five.
STAGE_WEIGHTS = tuple(tuple(row[:stage].tolist()) for stage, row in enumerate(RK45.A))
STEP_WEIGHTS = tuple(RK45.B.tolist())


@dataclass(frozen=True)
class SequentialGeodesic:
    """Solved geodesic."""

    trajectory: Float[Tensor, "time"]  # position at the 51 time points
    velocity: Float[Tensor, "time"]  # x' at these times
    features: Float[Tensor, "5"]  # final and mean position, length, maximum speed, wavelength


class SequentialSolver:
    """Solver by shooting, one geodesic at a time."""

    def __init__(self, metric: MetricFunction) -> None:
        self.metric = metric
        self.calls = 0  # of the metric; the two points of a central difference are one

    def christoffel(self, x: float, w: float) -> float:
        """Christoffel symbol 1/2 d/dx ln g by a central difference."""
        below, above = self._metric([x - DIFFERENCE, x + DIFFERENCE], w).log().tolist()
        return (above - below) / (4 * DIFFERENCE)

    def integrate(
        self, start: float, velocity: float, w: float
    ) -> tuple[Float[Tensor, "time"], Float[Tensor, "time"]]:
        """Solve x'' = -G(x, w) x'^2 from t = 0 to 1 in equal steps of order five."""
        step = 1 / STEPS
        x, v = start, velocity
        positions, velocities = [x], [v]
        for _ in range(STEPS):
            stages: list[tuple[float, float]] = []
            for weights in STAGE_WEIGHTS:
                at_x, at_v = _advance(x, v, step, weights, stages)
                stages.append((at_v, -self.christoffel(at_x, w) * at_v**2))
            x, v = _advance(x, v, step, STEP_WEIGHTS, stages)
            positions.append(x)
            velocities.append(v)
        return (
            torch.tensor(positions, dtype=torch.float64),
            torch.tensor(velocities, dtype=torch.float64),
        )

    def solve(self, source: float, target: float, w: float) -> SequentialGeodesic:
        """Find v0 by the secant method on the endpoint, then compute the features of the path."""
        earlier, earlier_miss = 0.0, source - target  # at rest the path ends at its source
        v0 = target - source
        for _ in range(SHOOTING_ITERATIONS):
            trajectory, velocity = self.integrate(source, v0, w)
            miss = float(trajectory[-1]) - target
            if miss != earlier_miss:  # equal once converged up to rounding; all iterations are run
                secant = (v0 - earlier) / (miss - earlier_miss)
                v0, earlier, earlier_miss = v0 - miss * secant, v0, miss
        speed = self._metric(trajectory.tolist(), w).sqrt() * velocity.abs()
        features = torch.stack(
            [
                trajectory[-1],
                torch.trapezoid(trajectory, dx=1 / STEPS),
                torch.trapezoid(speed, dx=1 / STEPS),
                velocity.abs().max(),
                torch.tensor(w, dtype=torch.float64),
            ]
        )
        return SequentialGeodesic(trajectory, velocity, features)

    def _metric(self, positions: list[float], w: float) -> Float[Tensor, "point"]:
        """Metric g at some positions, in float64 on the CPU, counted as one call."""
        self.calls += 1
        points = torch.tensor([(x, w) for x in positions], dtype=torch.float64)
        with torch.no_grad():
            return self.metric(points).to("cpu", torch.float64)


class MetricModule(torch.nn.Module):
    """One learned metric as a plain module of `torch.nn` layers."""

    def __init__(self, metric: Metric, model: int) -> None:
        super().__init__()
        self.network = plain_module(metric.network, model)
        self.like = metric.network.weights[0]

    def forward(self, points: Float[Tensor, "point 2"]) -> Float[Tensor, "point"]:
        """Metric g at points (x, w)."""
        return softplus(self.network(points.to(self.like))).squeeze(-1) + FLOOR


class SequentialDecoder:
    """Decoder of path features that is trained alone."""

    def __init__(
        self,
        first: Perceptron,
        features: Float[Tensor, "row feature"],
        targets: Float[Tensor, "row"],
        parameters: DecodersParameters,
    ) -> None:
        """Train by Adam, with clipped gradients and rates of half a cosine wave.

        Features of the training pairs are standardised, constant ones centred alone; targets are
        the standardised signal at their ends.
        """
        self._module = plain_module(first, 0).to(features)
        deviation, self._mean = torch.std_mean(features, dim=0, correction=0)
        varied = deviation > torch.finfo(features.dtype).eps * (1 + self._mean.abs())
        self._deviation = torch.where(varied, deviation, 1.0)
        self.losses: list[float] = []
        weights, rate, epochs = self._module.parameters, parameters.learning_rate, parameters.epochs
        optimiser = torch.optim.Adam(weights(), lr=rate)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=epochs)
        for _ in range(epochs):
            loss = (self(features) - targets).square().mean()
            self.losses.append(loss.item())
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(weights(), parameters.gradient_clip)
            optimiser.step()
            schedule.step()

    def __call__(self, features: Float[Tensor, "*row feature"]) -> Float[Tensor, "*row"]:
        """Standardised signal at the ends of geodesics."""
        return self._module((features - self._mean) / self._deviation).squeeze(-1)


def plain_module(network: Perceptron, model: int) -> torch.nn.Sequential:
    """One of several perceptrons as a module of `torch.nn` layers."""
    layers: list[torch.nn.Module] = []
    for weight, bias in zip(network.weights, network.biases, strict=True):
        linear = torch.nn.Linear(*weight.shape[1:]).to(weight)
        linear.weight.data, linear.bias.data = weight[model].T.clone(), bias[model, 0].clone()
        layers += [linear, torch.nn.Tanh()]
    return torch.nn.Sequential(*layers[:-1])


def _advance(
    x: float,
    v: float,
    step: float,
    weights: tuple[float, ...],
    stages: list[tuple[float, float]],
) -> tuple[float, float]:
    """State advanced along the weighted mean of stage derivatives."""
    return (
        x + step * sum(a * dx for a, (dx, _) in zip(weights, stages, strict=True)),
        v + step * sum(a * dv for a, (_, dv) in zip(weights, stages, strict=True)),
    )


def published_calls(pairs: int = 30, wavelengths: int = 601, models: int = 6) -> int:
    """Metric-network calls of the published method: 162,270,000,000 for its own series."""
    per_geodesic = SHOOTING_ITERATIONS * STEPS * len(STAGE_WEIGHTS)
    return pairs * wavelengths * per_geodesic * EPOCHS * models
