"""Timings of grids, geodesics and training, each beside its least possible time."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from geonode.compute.device import Device, on_device
from geonode.compute.profile import profile_of
from geonode.config import DecodersParameters, Parameters
from geonode.geometry.chebyshev import ChebyshevSource
from geonode.geometry.grid import Grid, uniform_nodes
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.solvers.closed_form import ClosedForm
from geonode.learning.context import TrainingRun
from geonode.learning.folds import leave_one_out, training_wavelengths
from geonode.learning.path_decoder import PathDecoders
from geonode.learning.path_features import DECODER_SIZES, path_features
from geonode.spectra.series import Series
from stages.performance.floors import Rates, grid_work, paths_work, training_work
from stages.performance.timing import Quartiles, time_calls

SHORT_TRAINING = 2  # epochs
# Additional epochs of the longer training: enough to exceed the time before the first epoch.
MORE_EPOCHS = {"cpu": 5, "mps": 50, "cuda": 500}
MOST_ROWS = 60_000
"""Pairs times wavelengths of all decoders of a timed training, at most."""

MOST_TIMED = 6
"""Decoders that are trained together, at most."""


STATIONS = {"cpu": 30, "cuda": 100, "mps": 30}
"""Number of concentrations between which geodesics are timed. On a CPU the result then has 25 MB;
for a larger one, new memory from the system takes longer than the computation."""

Measured = dict[str, float | int]


@dataclass(frozen=True)
class Kernels:
    """Timings of the three costly computations, each with its least possible time (floor)."""

    learned: LearnedMetrics  # trained metrics, of which the first is used
    series: Series  # levels and wavelengths
    device: Device
    parameters: Parameters  # the blocks `christoffel` and `decoders` are used
    repeats: int  # repetitions of every short timing

    def measure(self) -> dict[str, Measured]:
        """Rates of the device, and grid, geodesics and training, by the keys of the metrics."""
        geometry = Rates.of(self.device, self.device.geometry, self.repeats, 1)
        grid, of_grid = self.grid(geometry)
        of_geodesics = self.geodesics(grid, geometry)
        of_training, training = self.training()
        return {
            "rates": {
                "geometry_gflops": geometry.operations / 1e9,
                "training_gflops": training.operations / 1e9,
                "copied_gb_per_second": geometry.bytes / 1e9,
            },
            "christoffel": of_grid,
            "geodesics": of_geodesics,
            "training": of_training,
        }

    def grid(self, rates: Rates) -> tuple[Grid, Measured]:
        """Timing of one grid of ln sqrt(g) and Christoffel symbol, computed from the network."""
        device, nodes = self.device, self.parameters.christoffel.resolution
        positions = uniform_nodes(nodes, device.place, device.geometry)
        wavelengths = on_device(self.series.wavelengths, device.reference, torch.float64)
        metric = self.learned.metric(device.reference)[0]

        def source() -> ChebyshevSource:
            return ChebyshevSource.of(metric, wavelengths)

        def measured(call: Callable[[], object]) -> Quartiles:
            return time_calls(call, self.repeats, device.synchronise)

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
        device, repeats = self.device, self.repeats
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

    def training(self) -> tuple[Measured, Rates]:
        """Timing of an epoch of path decoders, forward and backward, and of their predictions.

        As many levels and wavelengths take part as `MOST_TIMED` and `MOST_ROWS` allow.
        """
        device, repeats = self.device, self.repeats
        levels, wide = self.series.signal.shape
        folds = min(levels, MOST_TIMED)
        pairs = len(leave_one_out(levels)[0].training_pairs)
        wavelengths = max(1, min(wide, MOST_ROWS // (folds * pairs)))
        epoch, run, features = self.epoch(folds, wavelengths)
        block = self._block(wavelengths).model_copy(update={"epochs": 1})
        decoders, _ = PathDecoders.fit(self.series, features, block, run)
        predicting = time_calls(
            lambda: decoders.predict_left_out(run.folds, self.series, features),
            repeats,
            device.synchronise,
        )
        rates = Rates.of(device, device.products, repeats, profile_of(device.place).batches)
        rows = pairs * wavelengths
        work = training_work(folds, rows, DECODER_SIZES, device.products.itemsize)
        return {
            "models": folds,
            "rows": rows,
            "trained_per_second": folds * rows / epoch.median,
            "predicted_per_second": folds * (levels - 1) * wavelengths / predicting.median,
            **_milliseconds("epoch_", epoch),
            "prediction_ms": 1e3 * predicting.median,
            "floor_ms": 1e3 * work.floor(rates),
            "ratio_to_floor": work.ratio(epoch, rates),
        }, rates

    def epoch(
        self, folds: int, wavelengths: int
    ) -> tuple[Quartiles, TrainingRun, Float[np.ndarray, "1 fold pair training feature"]]:
        """Seconds of an epoch of the decoders of some folds; their run and their features."""
        run = TrainingRun(leave_one_out(len(self.series.concentrations))[:folds], 1, self.device)
        features = self.features_at(training_wavelengths(len(self.series.axis), wavelengths))
        block, repeats = self._block(wavelengths), self.repeats
        return time_training(self.series, features, block, run, repeats), run, features

    def features_at(
        self, chosen: Int[np.ndarray, "training"]
    ) -> Float[np.ndarray, "member fold pair training feature"]:
        """Features of the geodesics of the first member, at some wavelengths by their indices."""
        first = LearnedMetrics(
            self.learned.network[: len(self.learned.charts)], self.learned.charts
        )
        return path_features(first, self.series, chosen)

    def _block(self, wavelengths: int) -> DecodersParameters:
        return self.parameters.decoders.model_copy(
            update={"wavelengths": wavelengths, "members": 1}
        )


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
        PathDecoders.fit(series, features, block, run)
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
