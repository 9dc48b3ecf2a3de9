from dataclasses import fields, replace

import pytest
import torch

from geonode.arguments import choose
from geonode.errors import GeometryError
from geonode.geodesics.problem import BoundaryValueProblem
from geonode.geodesics.quadrature import initial_velocity
from geonode.geodesics.solution import Solution, Status
from geonode.geodesics.solvers.closed_form import ClosedForm
from geonode.geodesics.solvers.methods import METHODS, Settings, rows_of
from geonode.geometry.field import NetworkField
from geonode.geometry.sources import DirectSource
from tests.geometry.closed_forms import (
    RECIPROCAL,
    constant,
    exponential,
    grid_of,
    nodes,
    random_metric,
)

STATIONS = torch.tensor([-1.0, -0.6, -0.2, 0.1, 0.35, 1.0], dtype=torch.float64)
PROBLEM = BoundaryValueProblem.all_pairs(STATIONS)
BATCHED = [name for name in METHODS if name != "scipy"]  # which goes one row at a time
SETTINGS = Settings(tolerance=1e-6)
METRIC, WAVELENGTHS = random_metric(71, 2.0), nodes(7)
METRICS = [constant(2.5), exponential(0.7), exponential(-1.0), RECIPROCAL]


@pytest.fixture(scope="module")
def on_network():
    return ClosedForm(DirectSource(METRIC, WAVELENGTHS).grid(0, nodes(2000)))


@pytest.mark.parametrize("method", BATCHED)
def test_velocities_of_known_metrics(method):
    closed_form = ClosedForm(grid_of(METRICS, nodes(2000)))
    solution = METHODS[method](closed_form, PROBLEM, SETTINGS)
    start, end = (STATIONS[index] for index in (PROBLEM.source, PROBLEM.target))
    for i, metric in enumerate(METRICS):
        length = metric.arc_length(end) - metric.arc_length(start)
        v0 = length / metric.log_sqrt(start).exp()
        # where that velocity leads, to first order: the sensitivity is sqrt(g_s / g_1)
        endpoint = (solution.v0[:, i] - v0) * (metric.log_sqrt(start) - metric.log_sqrt(end)).exp()
        assert endpoint.abs().max() <= (1e-10 if method == "closed_form" else 1e-5)
    assert (solution.status == Status.CONVERGED).all()
    assert solution.converged.all()
    assert (solution.residual.abs() <= 1e-6).all()
    assert (solution.evaluations > 0).all()


@pytest.mark.parametrize("method", [*BATCHED, pytest.param("scipy", marks=pytest.mark.slow)])
def test_velocities_of_a_network_by_quadrature(on_network, method):
    some = slice(2, 5) if method == "scipy" else slice(None)
    problem = BoundaryValueProblem(STATIONS, PROBLEM.source[some], PROBLEM.target[some])
    solution = METHODS[method](on_network, problem, SETTINGS)
    _, start, end = rows_of(on_network, problem)
    field = NetworkField(METRIC, WAVELENGTHS.repeat(len(problem.source)))
    expected = initial_velocity(field, start, end).reshape(-1, len(WAVELENGTHS))
    assert (solution.v0 - expected).abs().max() <= 1e-5
    assert solution.converged.all()
    shape = (len(problem.source), len(WAVELENGTHS))
    assert {getattr(solution, part.name).shape for part in fields(Solution)} == {shape}


@pytest.mark.parametrize(
    ("method", "dtype"),
    [  # by dopri5 all rows share their steps
        ("closed_form", torch.float64),
        ("newton", torch.float32),
        ("lbfgs", torch.float64),
        ("adam", torch.float32),
    ],
)
def test_bits_do_not_depend_on_what_else_is_solved(method, dtype):
    grid = DirectSource(METRIC, WAVELENGTHS).grid(0, nodes(500, dtype))
    stations, short = STATIONS.to(dtype), replace(SETTINGS, steps=10)

    def solve(pairs, columns):
        problem = BoundaryValueProblem(stations, PROBLEM.source[pairs], PROBLEM.target[pairs])
        return METHODS[method](ClosedForm(grid.at_wavelengths(columns)), problem, short)

    everything = torch.arange(30), torch.arange(7)
    whole = solve(*everything)
    generator = torch.Generator().manual_seed(0)
    shuffled = (torch.randperm(30, generator=generator), torch.randperm(7, generator=generator))
    parts = [shuffled, (torch.tensor([17]), torch.tensor([4])), (everything[0], torch.tensor([6]))]
    for pairs, columns in [*parts, (torch.tensor([3, 29, 3]), everything[1])]:
        part = solve(pairs, columns)
        for name in (field.name for field in fields(Solution)):
            assert torch.equal(getattr(part, name), getattr(whole, name)[pairs][:, columns]), name


@pytest.mark.slow
@pytest.mark.parametrize("method", ["newton", "lbfgs"])
def test_all_geodesics_of_a_series_of_601_wavelengths(method):
    w = nodes(601)
    closed_form = ClosedForm(DirectSource(random_metric(72, 2.0), w).grid(0, nodes(800)))
    exact = closed_form.solve(PROBLEM, 1e-6)
    solution = METHODS[method](closed_form, PROBLEM, SETTINGS)
    assert solution.v0.numel() == 18_030
    assert solution.converged.all()
    assert (solution.v0 - exact.v0).abs().max() <= 1e-5


def test_rows_are_pairs_with_wavelengths_fastest(on_network):
    field, start, end = rows_of(on_network, PROBLEM)
    assert torch.equal(field.columns[:14], torch.arange(7).repeat(2))
    assert torch.equal(start.reshape(30, 7), STATIONS[PROBLEM.source][:, None].expand(-1, 7))
    assert torch.equal(end.reshape(30, 7), STATIONS[PROBLEM.target][:, None].expand(-1, 7))


def test_an_unknown_method_is_refused_with_those_there_are():
    with pytest.raises(GeometryError, match=r"method: found 'shooting', expected .*newton, lbfgs"):
        choose(METHODS, "shooting", "method")
