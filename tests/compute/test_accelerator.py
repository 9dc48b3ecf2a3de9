"""The same numbers on an accelerator as on the CPU, up to rounding. Skipped where there is none."""

import pytest
import torch

from geonode.compute.device import Device
from geonode.geometry.chebyshev import ChebyshevSource
from geonode.geometry.grid import uniform_nodes
from geonode.geometry.problem import BoundaryValueProblem
from geonode.geometry.solvers.closed_form import ClosedForm
from geonode.geometry.solvers.methods import SOLVERS
from geonode.learning.context import TrainingRun
from geonode.learning.end_to_end import EndToEnd
from geonode.learning.folds import leave_one_out
from geonode.learning.objective import fit
from tests.geometry.small_series import small_metrics, small_series
from tests.geometry.test_solved import parameters as geodesics_parameters
from tests.learning.series import metric_parameters, positions, series

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
CPU, CUDA = torch.device("cpu"), torch.device("cuda")
LEVELS, WAVELENGTHS = 5, 11
SERIES = series(LEVELS, WAVELENGTHS)
RUNS = [
    TrainingRun(leave_one_out(LEVELS), 2, Device(kind, "test", torch.float64, torch.float64))
    for kind in ("cpu", "cuda")
]


def largest_difference(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found.cpu() - expected).abs().max())


def test_metrics_are_trained_alike():
    parameters = metric_parameters(members=2, epochs=20)
    (on_cpu, history), (on_cuda, other) = (
        fit(EndToEnd(SERIES, positions(LEVELS), parameters), run) for run in RUNS
    )
    assert largest_difference(other, history) < 1e-9
    for found, expected in zip(on_cuda.parameters, on_cpu.parameters, strict=True):
        assert largest_difference(found, expected) < 1e-8


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 5e-6)])
def test_grids_and_geodesics_agree(dtype, tolerance):
    series = small_series()
    learned = small_metrics(series, gain=2.0)
    solved = []
    for device in (CPU, CUDA):
        metric = learned.metric(device)
        w = torch.from_numpy(series.wavelengths).to(device, dtype)
        nodes = uniform_nodes(500, device, dtype)
        source = ChebyshevSource.of(metric, w)
        stations = torch.from_numpy(series.positions).to(device, dtype)
        problem = BoundaryValueProblem.all_pairs(stations)
        closed_form = ClosedForm(source.grid(0, nodes))
        times = torch.linspace(0, 1, 7, dtype=dtype, device=device)
        parts = []
        for name in ("closed_form", "newton"):
            solution = SOLVERS[name](closed_form, problem, geodesics_parameters(1e-5, steps=100))
            assert solution.converged.all()
            parts += closed_form.stations(stations, w).every_path(solution.v0)
            parts.append(closed_form.trajectories(problem, solution.v0, times))
        solved.append(parts)
    for expected, found in zip(*solved, strict=True):
        assert largest_difference(found, expected) < tolerance
