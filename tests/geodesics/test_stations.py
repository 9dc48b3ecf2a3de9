import numpy as np
import pytest
import torch

from geonode.geodesics.problem import BoundaryValueProblem, ordered_pairs
from geonode.geodesics.solvers.closed_form import ClosedForm
from geonode.geodesics.stations import Stations
from geonode.geometry.grid import uniform_nodes
from geonode.geometry.sources import DirectSource
from tests.geometry.closed_forms import CPU, random_metric


def stations(count, columns, dtype=torch.float64):
    """Any increasing S will do: what is joined is not looked at."""
    generator = torch.Generator().manual_seed(count)
    tables = torch.rand(4, count, columns, generator=generator, dtype=torch.float64) + 0.1
    positions = torch.linspace(-0.9, 1, count, dtype=torch.float64)
    wavelengths = torch.linspace(-1, 1, columns, dtype=torch.float64)
    parts = (positions, tables[0].cumsum(0), tables[1], tables[2], tables[3, 1:], wavelengths)
    return Stations(*(part.to(dtype) for part in parts))


def by_loops(at):
    """Every pair by itself, in double precision."""
    parts = ("positions", "arc_length", "moment", "root", "slowest", "wavelengths")
    x, s, m, root, slowest, w = (getattr(at, name).double().numpy() for name in parts)
    v0, features = [], []
    for a in range(len(x)):
        for b in range(len(x)):
            if a != b:
                speed, least = s[b] - s[a], slowest[min(a, b) : max(a, b)].min(axis=0)
                v0.append(speed / root[a])
                rows = [x[b] + 0 * w, (m[b] - m[a]) / speed, abs(speed), abs(speed) / least, w]
                features.append(np.stack(rows, axis=-1))
    return np.stack(v0), np.stack(features)


@pytest.mark.parametrize("count", [2, 3, 7])
@pytest.mark.parametrize("columns", [1, 5])
@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-14), (torch.float32, 2e-6)])
def test_every_path_and_some_paths_against_loops(count, columns, dtype, error):
    at = stations(count, columns, dtype)
    expected = by_loops(at)
    for found in (at.every_path(), at.paths(*ordered_pairs(count))):
        for part, truth in zip(found, expected, strict=True):
            assert part.dtype == dtype
            np.testing.assert_allclose(part, truth, rtol=error)


def test_paths_in_any_order_and_more_than_once():
    at = stations(6, 4)
    chosen = torch.tensor([29, 3, 3, 17, 0])
    every = at.every_path()
    some = at.paths(*(index[chosen] for index in ordered_pairs(6)))
    for found, expected in zip(some, every, strict=True):
        torch.testing.assert_close(found, expected[chosen], rtol=1e-14, atol=0)


def test_the_closed_form_takes_either_way():
    grid = DirectSource(random_metric(3), torch.linspace(-1, 1, 4).double()).grid(
        0, uniform_nodes(200, CPU, torch.float64)
    )
    form, wavelengths = ClosedForm(grid), torch.linspace(-1, 1, 4).double()
    problem = BoundaryValueProblem.all_pairs(torch.tensor([-1.0, -0.2, 0.3, 0.9]).double())
    assert problem.joins_every_pair
    backwards = BoundaryValueProblem(
        problem.stations, problem.source.flip(0), problem.target.flip(0)
    )
    assert not backwards.joins_every_pair
    assert not problem.part(slice(0, 5)).joins_every_pair
    whole = form.features(problem, wavelengths)
    torch.testing.assert_close(form.features(backwards, wavelengths), whole.flip(0))
    v0 = form.stations(problem.stations, wavelengths).every_path()[0]
    torch.testing.assert_close(v0, form.solve(problem, 1e-6).v0, rtol=1e-12, atol=0)
