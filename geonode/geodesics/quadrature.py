"""Geodesics in closed form, row by row, from any field: quadrature along the path, no grid.

With S(x) = integral of sqrt(g) dx the geodesic from a to b has speed l = S(b) - S(a), first
velocity v0 = l / sqrt(g(a)) and position x(t) = S^-1(S(a) + t l); its velocity is x' = l exp(-u)
with u = ln sqrt(g). Source: the first integral sqrt(g) x' = const of x'' = -G x'^2 with G = u'
(M. P. do Carmo, Riemannian Geometry, chapter 3, in one dimension).

Integrals are composite Gauss-Legendre sums, which converge geometrically for an analytic metric.
Everything may be differentiated twice with respect to the parameters of the field and the end
points. What is found by iteration is found without gradients; one last step, with gradients, then
makes the derivatives right: a step of order p takes an error e + d, of which d is the change under
differentiation, to order (e + d)^p, so with p = 3 the first two derivatives of what is left vanish
with e.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geonode.errors import GeometryError
from geonode.geodesics.solvers.rows import require_alike, require_path, require_start
from geonode.geometry.field import Field, GridField

# Over the whole chart, 48 nodes integrate sqrt(g) of Xavier networks of gain 2 to 1e-14.
PANELS, NODES = 4, 12
# How often a panel of the torsion may be halved: to 1e-9 of the path.
LEVELS = 28
ITERATIONS = 100


def arc_length(
    field: Field, start: Float[Tensor, "row"], end: Float[Tensor, "row"]
) -> Float[Tensor, "row"]:
    """Signed integral of sqrt(g) from start to end: the speed l of the geodesic.

    Args:
        field: the metric along every row.
        start: chart positions.
        end: chart positions, different from those of the start.

    Raises:
        GeometryError: shapes differ, a position is off the chart, or a path is empty.
    """
    require_path(field, start, end)
    return _arc_length(field, start, end)


def initial_velocity(
    field: Field, start: Float[Tensor, "row"], end: Float[Tensor, "row"]
) -> Float[Tensor, "row"]:
    """Velocity x'(0) of the geodesic that is at start at time 0 and at end at time 1.

    Raises:
        GeometryError: as for `arc_length`.
    """
    require_path(field, start, end)
    return _arc_length(field, start, end) / _root(field, start[:, None])[:, 0]


def trajectories(
    field: Field,
    start: Float[Tensor, "row"],
    end: Float[Tensor, "row"],
    times: Float[Tensor, "time"],
) -> Float[Tensor, "row time"]:
    """Positions x(t) of the geodesics between start and end; the end points are exact.

    Args:
        field: the metric along every row.
        start: chart positions.
        end: chart positions, different from those of the start.
        times: from 0 to 1.

    Raises:
        GeometryError: as for `arc_length`, or a time is out of range.
    """
    require_path(field, start, end)
    _require_times(times)
    path = _Path.between(field, start, end)
    inside = path.at(times * path.marks[:, -1:])
    return torch.where(times == 0, start[:, None], torch.where(times == 1, end[:, None], inside))


def initial_value_positions(
    field: Field,
    start: Float[Tensor, "row"],
    velocity: Float[Tensor, "row"],
    times: Float[Tensor, "time"],
) -> Float[Tensor, "row time"]:
    """Positions x(t) of the geodesics with a given start and first velocity.

    Args:
        field: the metric along every row.
        start: chart positions.
        velocity: x'(0), chart units; 0 stays at the start.
        times: from 0 to 1.

    Raises:
        GeometryError: shapes differ, a start is off the chart, a time is out of range, or a row
            leaves the chart.
    """
    require_start(field, start)
    require_alike("velocity", velocity, "start", start)
    _require_times(times)
    direction = torch.where(velocity < 0, -1, 1).to(start)
    path = _Path.between(field, start, direction)
    reach = times * (direction * velocity * _root(field, start[:, None])[:, 0])[:, None]
    _require_inside(reach, path.marks[:, -1], times)
    found = path.at(reach)
    # rounding must not leave the chart; the gradient stays that of the position found
    on_chart = found + (found.clamp(-1, 1) - found).detach()
    return torch.where(times == 0, start[:, None], on_chart)


def path_features(
    field: Field, start: Float[Tensor, "row"], end: Float[Tensor, "row"]
) -> Float[Tensor, "row feature"]:
    """The features of the geodesics between start and end, in the order of `PATH_FEATURES`.

    An integral over time is one over the path, dt = sqrt(g) dx / l. The curvature of the plane
    curve (t, x(t)) is |x''| / (1 + x'^2)^(3/2), the change of x' / sqrt(1 + x'^2): its integral
    over time is the sum of the changes between turning points, where G = 0, and has no kink to
    integrate over. Source of curvature and torsion: M. P. do Carmo, Differential Geometry of
    Curves and Surfaces, section 1-5.

    Length, mean position and bending energy are as exact as the quadrature. So are maximum speed
    and mean curvature unless G changes sign twice between two neighbouring nodes. The torsion has
    errors up to 1e-9; it jumps where a change of the metric makes the curve straight at a point.
    It reads G'', by forward differentiation: a network has it, a Hermite lookup to first order in
    the step of its grid, a linear lookup not at all.

    Args:
        field: the metric along every row.
        start: chart positions.
        end: chart positions, different from those of the start.

    Raises:
        GeometryError: as for `arc_length`, or the field is a grid.
    """
    require_path(field, start, end)
    if isinstance(field, GridField):
        raise GeometryError(
            "field: found a grid, whose lookups have kinks at the nodes, expected a smooth field "
            "such as a NetworkField"
        )
    fractions, weights = _rule(PANELS, start)
    span = (end - start)[:, None]
    inside = start[:, None] + span * fractions
    points = torch.cat([start[:, None], inside, end[:, None]], dim=1)
    log_sqrt, symbol = field(points)
    root = torch.exp(log_sqrt[:, 1:-1])
    mean_root = (root @ weights)[:, None]
    duration = root * weights / mean_root
    length = span * mean_root
    speed = length / root
    squared = speed.square()
    bending = (symbol[:, 1:-1] * squared).square() / (1 + squared) ** 2.5
    length = length.abs()
    extreme_speeds = length * torch.exp(-_extremes(field, points, log_sqrt, symbol))
    sines = extreme_speeds / (1 + extreme_speeds.square()).sqrt()
    return torch.stack(
        [
            end,
            (duration * inside).sum(1),
            length[:, 0],
            extreme_speeds.amax(1),
            sines.diff(dim=1).abs().sum(1),
            _torsion(field, start, end, length[:, 0]),
            (duration * bending).sum(1),
        ],
        dim=1,
    )


class _Path(NamedTuple):
    """Arc length along rows, and its inverse.

    marks are the distances of the ends of the panels from the start, 0 first.
    """

    field: Field
    start: Tensor
    end: Tensor
    marks: Tensor

    @classmethod
    def between(cls, field: Field, start: Tensor, end: Tensor) -> "_Path":
        fractions, weights = _rule(PANELS, start)
        span = (end - start)[:, None]
        parts = _root(field, start[:, None] + span * fractions) * weights
        lengths = span.abs() * parts.unflatten(1, (PANELS, NODES)).sum(2)
        marks = torch.cat([torch.zeros_like(span), lengths.cumsum(1)], dim=1)
        return cls(field, start, end, marks)

    def at(self, reach: Tensor) -> Tensor:
        """Positions at these distances (row, time) from the start.

        The distance y from the lower mark solves F(y) = 0 for the arc length F that it leaves to
        go. F' = sqrt(g) and F'' = +-G F', so Chebyshev's step -h -+ G h^2 / 2 with h = F / F' has
        order 3. Source: J. F. Traub, Iterative Methods for the Solution of Equations, section 5.1.
        """
        panel = torch.searchsorted(self.marks[:, 1:-1].detach().contiguous(), reach.detach())
        span = (self.end - self.start)[:, None]
        direction = torch.where(span < 0, -1, 1)
        mark = self.start[:, None] + span * panel / PANELS
        beyond = reach - self.marks.gather(1, panel)
        fractions, weights = _rule(1, reach)
        fractions = torch.cat([fractions, torch.ones_like(fractions[:1])])

        def attempt(distance: Tensor) -> tuple[Tensor, Tensor]:
            points = mark[..., None] + (direction * distance)[..., None] * fractions
            values = self.field(points.flatten(1))
            log_sqrt, symbol = (part.reshape(points.shape) for part in values)
            root = torch.exp(log_sqrt)
            missing = distance * (root[..., :-1] @ weights) - beyond
            newton = missing / root[..., -1]
            return missing, -newton - direction * symbol[..., -1] * newton.square() / 2

        with torch.no_grad():
            width = (span.abs() / PANELS).expand_as(reach)
            whole = self.marks.diff(dim=1).gather(1, panel)
            guess = torch.where(whole > 0, width * beyond / whole, 0)
            distance = _zero(attempt, torch.zeros_like(width), width, guess)
        return mark + direction * (distance + attempt(distance)[1])


def _extremes(field: Field, points: Tensor, log_sqrt: Tensor, symbol: Tensor) -> Tensor:
    """Ln sqrt(g) at both ends (first and last point) and, between them in order, where G = 0.

    Rows with fewer zeros than others repeat the value at the end. At a zero u is, from a position
    x near it, u(x) - G(x)^2 / (2 G'(x)) with an error of order 3.
    """
    falling = symbol < 0
    turns = falling[:, :-1] != falling[:, 1:]
    if not turns.any():
        return log_sqrt[:, [0, -1]]
    row, gap = turns.nonzero(as_tuple=True)
    chosen = field[row]
    low, high = (points.detach()[row, side][:, None] for side in (gap, gap + 1))
    sign = torch.where(falling[row, gap], 1, -1)[:, None]

    def symbol_and_slope(x: Tensor) -> tuple[Tensor, Tensor]:
        value, slope = torch.func.jvp(lambda at: chosen(at)[1], (x,), (torch.ones_like(x),))[:2]
        return value, slope

    def attempt(x: Tensor) -> tuple[Tensor, Tensor]:
        value, slope = symbol_and_slope(x)
        return sign * value, -value / slope

    with torch.no_grad():
        at = _zero(attempt, low, high, (low + high) / 2)
        slope = symbol_and_slope(at)[1]
    value, remainder = chosen(at)
    flat = slope == 0
    value = value - torch.where(flat, 0, remainder.square() / torch.where(flat, 1, 2 * slope))
    between = log_sqrt[:, -1:].repeat(1, int(turns.sum(1).max()))
    between = between.index_put((row, turns.cumsum(1)[row, gap] - 1), value[:, 0])
    return torch.cat([log_sqrt[:, :1], between, log_sqrt[:, -1:]], dim=1)


def _torsion(field: Field, start: Tensor, end: Tensor, length: Tensor) -> Tensor:
    """Integral over time of the torsion of (t, x(t), x'(t)).

    The torsion has poles at complex times where r' x r'' vanishes. Where one is close to the path
    the curve is nearly straight and its osculating plane swings around within a moment, so every
    panel that is longer than its distance from a pole is halved.
    """
    total = torch.zeros_like(start)
    row = torch.arange(len(start), device=start.device).repeat_interleave(PANELS)
    low = torch.arange(PANELS, device=start.device).to(start).repeat(len(start)) / PANELS
    width = 1 / PANELS
    for level in range(LEVELS + 1):
        first, span = start[row], (end - start)[row]
        part, long = _torsion_of_panels(field[row], first + span * low, span * width, length[row])
        if level == LEVELS:
            long = torch.zeros_like(long)
        total = total.index_add(0, row[~long], part[~long])
        if not long.any():
            break
        width /= 2
        row, low = row[long].repeat(2), torch.cat([low[long], low[long] + width])
    return total


def _torsion_of_panels(
    field: Field, start: Tensor, width: Tensor, length: Tensor
) -> tuple[Tensor, Tensor]:
    """Integral over the time spent on each panel, and whether a pole is closer than it is long.

    With r = (t, v, a), v = x': det(r', r'', r''') / |r' x r''|^2, 0 where the curve is straight.
    (do Carmo's exercise 12 has the opposite sign.) To first order r' x r'' vanishes at a distance
    |r' x r''| / |r' x r'''|, as r' x r''' is its derivative.
    """
    fractions, weights = _rule(1, start)
    span = width[:, None]
    log_sqrt, symbol, slope, bend = _derivatives(field, start[:, None] + span * fractions)
    duration = span.abs() * weights * torch.exp(log_sqrt) / length[:, None]
    v = torch.where(span < 0, -1, 1) * length[:, None] * torch.exp(-log_sqrt)
    a = -symbol * v**2
    j = (2 * symbol**2 - slope) * v**3
    s = (7 * symbol * slope - 6 * symbol**3 - bend) * v**4
    normal = (v * j - a**2).square() + j.square() + a.square()
    straight = normal == 0
    torsion = torch.where(straight, 0, (a * s - j**2) / torch.where(straight, 1, normal))
    change = ((v * s - a * j).square() + s.square() + j.square()).detach()
    near = duration.detach().sum(1, keepdim=True).square() * change > normal.detach()
    return (duration * torsion).sum(1), near.any(1)


def _derivatives(field: Field, points: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Ln sqrt(g), G, G' and G'', by forward differentiation of the field."""
    one = torch.ones_like(points)

    def first(x: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        values, slopes = torch.func.jvp(field, (x,), (one,))[:2]
        return values, slopes

    (values, slopes), (_, bends) = torch.func.jvp(first, (points,), (one,))[:2]
    return *values, slopes[1], bends[1]


def _zero(
    attempt: Callable[[Tensor], tuple[Tensor, Tensor]], low: Tensor, high: Tensor, guess: Tensor
) -> Tensor:
    """Zeros of ascending functions between low and high, each on its own.

    `attempt` gives the value and the step towards the zero. A step that leaves the bracket, or is
    not half as long as the one before, is replaced by bisection. Source: W. H. Press et al.,
    Numerical Recipes, 3rd ed., section 9.4.
    """
    at, last = guess, high - low
    tolerance = torch.finfo(guess.dtype).eps ** (1 / 3)
    for _ in range(ITERATIONS):
        value, step = attempt(at)
        low, high = torch.where(value > 0, low, at), torch.where(value > 0, at, high)
        size = step.abs()
        inside = (low - at - tolerance <= step) & (step <= high - at + tolerance)
        trusted = inside & ((2 * size <= last) | (size <= tolerance))
        following = torch.where(trusted, at + step, (low + high) / 2)
        last, at = (following - at).abs(), following
        if not (last > tolerance).any():
            break
    return at


def _arc_length(field: Field, start: Tensor, end: Tensor) -> Tensor:
    fractions, weights = _rule(PANELS, start)
    span = end - start
    return span * (_root(field, start[:, None] + span[:, None] * fractions) @ weights)


def _root(field: Field, points: Tensor) -> Tensor:
    """sqrt(g)."""
    return torch.exp(field(points)[0])


def _rule(panels: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Nodes as fractions of a path in equal panels, and weights, which sum to one."""
    points, weights = np.polynomial.legendre.leggauss(NODES)
    fractions = (np.arange(panels)[:, None] + (1 + points) / 2).ravel() / panels
    weights = np.tile(weights / (2 * panels), panels)
    nodes, shares = (
        torch.tensor(part, dtype=like.dtype, device=like.device) for part in (fractions, weights)
    )
    return nodes, shares


def _require_times(times: Tensor) -> None:
    for time in times[~((times >= 0) & (times <= 1))][:1].tolist():
        raise GeometryError(f"times: found {time:.9g}, expected 0 to 1")


def _require_inside(reach: Tensor, available: Tensor, times: Tensor) -> None:
    """Refuse rows that run further than the chart reaches, beyond rounding."""
    allowed = available[:, None] * (1 + 64 * torch.finfo(reach.dtype).eps)
    for row, time in (~(reach <= allowed)).nonzero()[:1].tolist():
        raise GeometryError(
            f"velocity: row {row} leaves the chart: found arc length {reach[row, time]:.9g} from "
            f"the start at time {times[time]:.9g}, expected at most {available[row]:.9g}; lower "
            "its velocity"
        )
