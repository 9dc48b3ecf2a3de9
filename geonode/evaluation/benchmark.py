"""What the benchmark times inside its own process: the sequential way, geodesics, training."""

import time
from collections.abc import Callable

import numpy as np
from jaxtyping import Float

from geonode.config import DecodersParameters
from geonode.devices.device import Device, on_device, one_thread
from geonode.evaluation.timing import Quartiles, time_calls
from geonode.geodesics.closed_form import ClosedForm
from geonode.geodesics.problem import BoundaryValueProblem
from geonode.geometry.grid import uniform_nodes
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.metric import Metric
from geonode.geometry.sources import DirectSource
from geonode.learning.decoders import KINDS
from geonode.learning.folds import leave_one_out
from geonode.learning.run import Run
from geonode.progress import Report, silent
from geonode.reference.sequential import MetricModule, SequentialSolver
from geonode.spectra.series import Series

SHORT_TRAINING, LONG_TRAINING = 5, 25


def time_sequential(
    learned: LearnedMetrics, series: Series, device: Device, sample: int, report: Report = silent
) -> Quartiles:
    """Seconds per metric call of the sequential way.

    On a CPU it has one thread, at its best: networks of one row at a time gain nothing from several
    and on a busy machine lose much waiting for each other.

    Args:
        learned: trained metrics, of which the first is used.
        series: levels and wavelengths to choose from.
        device: where the metric network is called.
        sample: how many random geodesics are solved; the quartiles are over them.
        report: told of every geodesic.
    """
    metric = MetricModule(Metric(learned.network.to(device.place, device.training)), 0)
    positions = learned.positions(series.concentrations)[0]
    random = np.random.default_rng(0)
    seconds = []
    for _ in range(sample):
        source, target = random.choice(positions, 2, replace=False).tolist()
        solver = SequentialSolver(metric)
        with one_thread():
            start = time.perf_counter()
            solver.solve(source, target, float(random.choice(series.wavelengths)))
            seconds.append((time.perf_counter() - start) / solver.calls)
        report(1)
    return Quartiles.of(seconds)


def time_geodesics(
    learned: LearnedMetrics, series: Series, device: Device, resolution: int, repeats: int
) -> tuple[int, Quartiles]:
    """Closed-form solution of one model with all features, from a grid in memory.

    Returns:
        How many geodesics, and the seconds that all of them take.
    """
    nodes = uniform_nodes(resolution, device.place, device.geometry)
    wavelengths = on_device(series.wavelengths, device.place, device.geometry)
    levels = learned.positions(series.concentrations)[0]
    stations = on_device(levels, device.place, device.geometry)
    problem = BoundaryValueProblem.all_pairs(stations)
    grid = DirectSource(learned.metric(device.reference), wavelengths).grid(0, nodes)

    def solve() -> tuple[object, object]:
        closed_form = ClosedForm(grid)
        return closed_form.solve(problem, 1e-6), closed_form.features(problem, wavelengths)

    seconds = time_calls(solve, repeats, device.synchronise)
    return len(problem.source) * len(wavelengths), seconds


def time_training(
    series: Series,
    features: Float[np.ndarray, "member fold pair training feature"],
    parameters: DecodersParameters,
    device: Device,
    repeats: int,
) -> float:
    """Seconds of one epoch of all decoders.

    A long training less a short one, divided by the epochs between: what comes before the first
    epoch cancels.
    """
    run = Run(leave_one_out(len(series.concentrations)), parameters.members, device)

    def fit(epochs: int) -> Callable[[], object]:
        block = parameters.model_copy(update={"epochs": epochs})
        return lambda: KINDS["path"].fit(series, features, block, run)

    short, long = (
        time_calls(fit(epochs), repeats, device.synchronise).median
        for epochs in (SHORT_TRAINING, LONG_TRAINING)
    )
    return (long - short) / (LONG_TRAINING - SHORT_TRAINING)
