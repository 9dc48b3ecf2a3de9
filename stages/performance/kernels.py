"""Timings of grids, geodesics, and the training and prediction of decoders."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float

from geonode.compute.device import Device, on_device
from geonode.config import DecodersParameters, Parameters
from geonode.geometry.chebyshev import ChebyshevSource
from geonode.geometry.grid import Grid, uniform_nodes
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.solvers.closed_form import ClosedForm
from geonode.learning.context import TrainingRun
from geonode.learning.folds import leave_one_out, training_wavelengths
from geonode.learning.path_decoder import PathDecoders
from geonode.learning.path_features import path_features
from geonode.spectra.series import Series
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
    """Timings of the three costly computations."""

    learned: LearnedMetrics  # trained metrics, of which the first is used
    series: Series  # levels and wavelengths
    device: Device
    parameters: Parameters  # the blocks `christoffel` and `decoders` are used
    repeats: int  # repetitions of every short timing

    def measure(self) -> dict[str, Measured]:
        """Times and rates of grid, geodesics and training."""
        grid, of_grid = self.grid()
        return {
            "christoffel": of_grid,
            "geodesics": self.geodesics(grid),
            "training": self.training(),
        }

    def grid(self) -> tuple[Grid, Measured]:
        """Timing of one grid of ln sqrt(g) and Christoffel symbol, computed from the network."""
        device, nodes = self.device, self.parameters.christoffel.resolution
        positions = uniform_nodes(nodes, device.place, device.geometry)
        wavelengths = on_device(self.series.wavelengths, device.reference, torch.float64)
        metric = self.learned.metric(device.reference)[0]
        source = ChebyshevSource.of(metric, wavelengths)
        whole = self._timed(lambda: ChebyshevSource.of(metric, wavelengths).grid(0, positions))
        evaluation = self._timed(lambda: source.grid(0, positions))
        return source.grid(0, positions), {
            "network_calls": source.calls,
            **_milliseconds("", whole),
            **_milliseconds("evaluation_", evaluation),
        }

    def geodesics(self, grid: Grid) -> Measured:
        """Timing of all pairs of stations at every wavelength, with velocities and features."""
        device = self.device
        wavelengths = on_device(self.series.wavelengths, device.place, device.geometry)
        stations = STATIONS[device.kind]
        positions = uniform_nodes(stations, device.place, device.geometry)
        joining = self._timed(ClosedForm(grid).stations(positions, wavelengths).every_path)
        integrating = self._timed(lambda: ClosedForm(grid).stations(positions, wavelengths))
        rows = stations * (stations - 1) * len(wavelengths)
        return {
            "rows": rows,
            "per_second": rows / joining.median,
            **_milliseconds("", joining),
            **_milliseconds("integration_", integrating),
        }

    def training(self) -> Measured:
        """Timing of an epoch of path decoders, forward and backward, and of their predictions.

        As many levels and wavelengths take part as `MOST_TIMED` and `MOST_ROWS` allow.
        """
        levels, wide = self.series.signal.shape
        run = TrainingRun(leave_one_out(levels)[: min(levels, MOST_TIMED)], 1, self.device)
        models, pairs = len(run.folds), len(run.folds[0].training_pairs)
        wavelengths = max(1, min(wide, MOST_ROWS // (models * pairs)))
        block = self.parameters.decoders.model_copy(
            update={"wavelengths": wavelengths, "members": 1}
        )
        features = path_features(
            first_member(self.learned), self.series, training_wavelengths(wide, wavelengths)
        )
        epoch = time_training(self.series, features, block, run, self.repeats)
        once = block.model_copy(update={"epochs": 1})
        decoders, _ = PathDecoders.fit(self.series, features, once, run)
        predicting = self._timed(
            lambda: decoders.predict_left_out(run.folds, self.series, features)
        )
        rows = pairs * wavelengths
        return {
            "models": models,
            "rows": rows,
            "trained_per_second": models * rows / epoch.median,
            "predicted_per_second": models * (levels - 1) * wavelengths / predicting.median,
            **_milliseconds("epoch_", epoch),
            "prediction_ms": 1e3 * predicting.median,
        }

    def _timed(self, call: Callable[[], object]) -> Quartiles:
        return time_calls(call, self.repeats, self.device.synchronise)


def first_member(learned: LearnedMetrics) -> LearnedMetrics:
    """The metrics of the first member of every fold."""
    return LearnedMetrics(learned.network[: len(learned.charts)], learned.charts)


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
