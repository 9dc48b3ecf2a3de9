"""Timings of grids, geodesics and training, each beside its least possible time."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from benchmarks.performance.floors import Rates, grid_work, paths_work, training_work
from benchmarks.performance.timing import Quartiles, time_calls
from geonode.compute.device import Device, on_device
from geonode.config import DecodersParameters, Parameters
from geonode.geometry.grid import Grid, uniform_nodes
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.metric import Metric
from geonode.geometry.problem import BoundaryValueProblem
from geonode.geometry.solvers.closed_form import ClosedForm
from geonode.geometry.sources import ChebyshevSource
from geonode.learning.context import TrainingRun
from geonode.learning.end_to_end import fit_metric
from geonode.learning.folds import leave_one_out
from geonode.learning.kinds import KINDS
from geonode.learning.path_decoder import DECODER_SIZES
from geonode.progress import Progress, silent
from geonode.spectra.series import Series

SHORT_TRAINING = 5  # epochs
# Additional epochs of the longer training: enough to exceed the time before the first epoch.
MORE_EPOCHS = {"cpu": 20, "mps": 200, "cuda": 2_000}
TOLERANCE, LARGEST_DEGREE = 1e-8, 512  # of an expansion whose grid is right to 1e-6
PUBLISHED_EPOCHS = 500
STATIONS = {"cpu": 30, "cuda": 100, "mps": 30}
"""Number of concentrations between which geodesics are timed. On a CPU the result then has 25 MB;
for a larger one, new memory from the system takes longer than the computation."""

Measured = dict[str, float | int]


@dataclass(frozen=True)
class Kernels:
    """Timings of the three costly computations, each with its least possible time (floor).

    Attributes:
        learned: trained metrics, of which the first is used.
        series: levels and wavelengths.
        device: device and number formats.
        parameters: the blocks `christoffel`, `decoders` and `benchmark` are used.
    """

    learned: LearnedMetrics
    series: Series
    device: Device
    parameters: Parameters

    def measure(
        self,
        features: Float[np.ndarray, "member fold pair wavelength feature"],
        report: Progress = silent,
    ) -> dict[str, Measured]:
        """Rates of the device, and grid, geodesics and training, by the keys of the metrics.

        Args:
            features: of the geodesics of one member, for the training.
            report: called after every computation.
        """
        repeats = self.parameters.benchmark.repeats
        geometry = Rates.of(self.device, self.device.geometry, repeats)
        grid, of_grid = self.grid(geometry)
        report(1)
        of_geodesics = self.geodesics(grid, geometry)
        report(1)
        of_training, training = self.training(features)
        report(1)
        geometry_seconds = self.geometry_of_folds()
        training_seconds = PUBLISHED_EPOCHS * of_training["epoch_ms"] / 1e3
        report(1)
        return {
            "rates": {
                "geometry_gflops": geometry.operations / 1e9,
                "training_gflops": training.operations / 1e9,
                "copied_gb_per_second": geometry.bytes / 1e9,
            },
            "christoffel": of_grid,
            "geodesics": of_geodesics,
            "training": of_training,
            "published_work": {
                "geometry_seconds": geometry_seconds,
                "training_seconds": training_seconds,
                "seconds": geometry_seconds + training_seconds,
            },
        }

    def grid(self, rates: Rates) -> tuple[Grid, Measured]:
        """Timing of one grid of ln sqrt(g) and Christoffel symbol, computed from the network."""
        device, nodes = self.device, self.parameters.christoffel.resolution
        positions = uniform_nodes(nodes, device.place, device.geometry)
        wavelengths = on_device(self.series.wavelengths, device.reference, torch.float64)
        metric = self.learned.metric(device.reference)[0]

        def source() -> ChebyshevSource:
            return ChebyshevSource.of(
                metric, wavelengths, tolerance=TOLERANCE, largest_degree=LARGEST_DEGREE
            )

        def measured(call: Callable[[], object]) -> Quartiles:
            return time_calls(call, self.parameters.benchmark.repeats, device.synchronise)

        expanded = source()
        degree = len(expanded.coefficients[0])
        work = grid_work(nodes, len(wavelengths), degree, device.geometry.itemsize)
        whole = measured(lambda: source().grid(0, positions))
        evaluation = measured(lambda: expanded.grid(0, positions))
        return expanded.grid(0, positions), {
            "network_calls": expanded.calls,
            **_milliseconds("", whole),
            **_milliseconds("evaluation_", evaluation),
            "floor_ms": 1e3 * work.floor(rates),
            "ratio_to_floor": work.ratio(evaluation, rates),
        }

    def geodesics(self, grid: Grid, rates: Rates) -> Measured:
        """Timing of all pairs of stations at every wavelength, with velocities and features."""
        device, repeats = self.device, self.parameters.benchmark.repeats
        wavelengths = on_device(self.series.wavelengths, device.place, device.geometry)
        stations = STATIONS[device.kind]
        positions = uniform_nodes(stations, device.place, device.geometry)
        known = ClosedForm(grid).stations(positions, wavelengths)
        rows = stations * (stations - 1) * len(wavelengths)
        joining = time_calls(known.every_path, repeats, device.synchronise)
        integrating = time_calls(
            lambda: ClosedForm(grid).stations(positions, wavelengths), repeats, device.synchronise
        )
        work = paths_work(rows, device.geometry.itemsize)
        return {
            "rows": rows,
            "per_second": rows / joining.median,
            **_milliseconds("", joining),
            **_milliseconds("integration_", integrating),
            "floor_ms": 1e3 * work.floor(rates),
            "ratio_to_floor": work.ratio(joining, rates),
        }

    def geometry_of_folds(self) -> float:
        """Seconds of metrics and geodesics for every level left out and one member.

        The metrics are learned in as many epochs as the publication's, at all wavelengths; then
        every geodesic is solved on the grid, with its features.
        """
        device, (levels, wide) = self.device, self.series.signal.shape
        block = self.parameters.metric.model_copy(
            update={"members": 1, "epochs": PUBLISHED_EPOCHS, "wavelengths": wide}
        )
        run = TrainingRun(leave_one_out(levels)[:-1], 1, device)
        nodes = uniform_nodes(self.parameters.christoffel.resolution, device.place, device.geometry)
        wavelengths = on_device(self.series.wavelengths, device.place, device.geometry)
        charts = self.learned.positions(self.series.concentrations)[:-1]
        start = time.perf_counter()
        network, _ = fit_metric(self.series, charts, block, run)
        metrics = Metric(network.to(device.reference, torch.float64))
        expansion = self.parameters.christoffel
        source = ChebyshevSource.of(
            metrics,
            torch.from_numpy(self.series.wavelengths),
            tolerance=expansion.expansion_tolerance,
            largest_degree=expansion.largest_degree,
        )
        for fold, stations in enumerate(on_device(charts, device.place, device.geometry)):
            form = ClosedForm(source.grid(fold, nodes))
            problem = BoundaryValueProblem.all_pairs(stations)
            solution = form.solve(problem, self.parameters.geodesics.tolerance)
            form.stations(stations, wavelengths).every_path(solution.v0)
        device.synchronise()
        return time.perf_counter() - start

    def training(
        self, features: Float[np.ndarray, "member fold pair wavelength feature"]
    ) -> tuple[Measured, Rates]:
        """Timing of an epoch of one path decoder for every level left out, at all wavelengths."""
        device, repeats = self.device, self.parameters.benchmark.repeats
        run = TrainingRun(leave_one_out(len(self.series.concentrations))[:-1], 1, device)
        every = self.parameters.decoders.model_copy(
            update={"wavelengths": len(self.series.wavelengths), "members": 1}
        )
        epoch = time_training(self.series, features, every, run, repeats)
        rates = Rates.of(device, device.products, repeats)
        rows = len(run.folds[0].training_pairs) * len(self.series.wavelengths)
        work = training_work(len(run.folds), rows, DECODER_SIZES, device.products.itemsize)
        return {
            "models": len(run.folds),
            "rows": rows,
            **_milliseconds("epoch_", epoch),
            "floor_ms": 1e3 * work.floor(rates),
            "ratio_to_floor": work.ratio(epoch, rates),
        }, rates


def time_training(
    series: Series,
    features: Float[np.ndarray, "member fold pair training feature"],
    parameters: DecodersParameters,
    run: TrainingRun,
    repeats: int,
) -> Quartiles:
    """Seconds of one epoch of all path decoders of a run.

    The difference of a long and a short training, divided by that of their epochs, so that the time
    before the first epoch cancels. The quartiles are over pairs of trainings.
    """

    def seconds(epochs: int) -> float:
        block = parameters.model_copy(update={"epochs": epochs})
        start = time.perf_counter()
        KINDS["path"].fit(series, features, block, run)
        run.device.synchronise()
        return time.perf_counter() - start

    more = MORE_EPOCHS[run.device.kind]
    seconds(SHORT_TRAINING)  # warm-up
    pairs = [(seconds(SHORT_TRAINING), seconds(SHORT_TRAINING + more)) for _ in range(repeats)]
    return Quartiles.of([(long - short) / more for short, long in pairs])


def _milliseconds(prefix: str, seconds: Quartiles) -> Measured:
    """Median and quartiles in milliseconds, by name."""
    named = zip(("ms", "ms_q25", "ms_q75"), seconds, strict=True)
    return {prefix + name: 1e3 * value for name, value in named}
