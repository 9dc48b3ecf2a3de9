"""Prediction of the peak memory of every stage: the program, and the arrays of a series.

The memory of interpreter, imports and libraries is measured by running the same stages on a series
of four levels and three wavelengths, whose arrays are negligible. Imports alone are not enough, as
torch loads and compiles as much again when it first trains. The bytes of the arrays alive at the
peak of a stage, counted from shapes and parameters, are added. The model assumes that no nodes are
added to the grid and that one process does all the work.
"""

import itertools
import json
import math
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from geonode.config import Parameters
from geonode.decoders.blend import BLENDS
from geonode.devices.device import Device
from geonode.devices.profile import profile_of
from geonode.estimation.curve import CHART_KNOTS
from geonode.evaluation.figures import ROWS
from geonode.evaluation.timing import time_command
from geonode.geodesics.solved import Memory
from geonode.geodesics.stations import FEATURES
from geonode.geometry.metric import SIZES
from geonode.geometry.resolution import BLOCK, CHECKS
from geonode.geometry.stored import STORAGE
from geonode.observation.record import Record
from geonode.training.batches import batch_limits
from geonode.training.context import NestedRuns
from geonode.training.footprint import Footprint, of_end_to_end, of_path_decoders

HELD = 1.5
"""Memory of short-lived arrays of some MB relative to those alive: gaps between arrays that stay
are not returned to the system. Measured with glibc on two series; 1.3 to 1.9 from run to run."""

TUNING = 2**28
"""Bytes that Triton writes between trials of a kernel to empty the caches."""

SINGLE, DOUBLE = 4, 8
CHARACTERS = 19  # per number in a table of spectra


def predicted_peaks(
    parameters: Parameters, levels: int, replicates: int, wavelengths: int, device: Device
) -> dict[str, float]:
    """Largest resident memory of every stage (MB, 10^6 bytes), comparable with its record.

    Takes some seconds per stage, to start it.

    Args:
        parameters: parameters of the pipeline.
        levels: number of levels of the series.
        replicates: scans per level.
        wavelengths: number of wavelengths of the series.
        device: device of the stages.

    Raises:
        GeonodeError: a stage fails on the smallest series.
        TrainingError: there are too few levels for the inner folds.
    """
    sizes = _Sizes(parameters, levels, wavelengths, device)
    readings = levels * replicates * wavelengths
    arrays = {
        "probe": 0.0,
        # per reading: the number, its copy in the rows of the table, and its text
        "generate": readings * (2 * DOUBLE + CHARACTERS),
        # per reading: its text and the number
        "spectra": readings * (CHARACTERS + DOUBLE),
        "metric": sizes.on_host(sizes.metric_training) + sizes.metric_weights,
        "christoffel": HELD * sizes.christoffel,
        "geodesics": HELD * sizes.on_host(sizes.tables) + sizes.on_host(sizes.rows) + sizes.solved,
        "decoders": sizes.on_host(sizes.decoder_training) + sizes.decoder_weights + sizes.features,
        "validate": sizes.features + HELD * sizes.estimation,
    }
    bases = _bases(parameters, device, list(arrays))
    return {name: bases[name] + size / 1e6 for name, size in arrays.items()}


def predicted_device_peaks(
    parameters: Parameters, levels: int, wavelengths: int, device: Device
) -> dict[str, float]:
    """Largest memory on the device of the stages that compute there (MB).

    On a GPU it is the memory that torch counts as allocated, without the CUDA context and cached
    blocks. cuBLAS has a workspace per thread and stream: a training multiplies in one thread and,
    backwards, in another; a captured one on a stream of its own.

    Args:
        parameters: parameters of the pipeline.
        levels: number of levels of the series.
        wavelengths: number of wavelengths of the series.
        device: device of the stages.
    """
    sizes = _Sizes(parameters, levels, wavelengths, device)
    profile = profile_of(device.place)
    workspace = 1e6 * profile.workspace_mb
    tuned = TUNING if profile.kernels else workspace
    found = {
        # captured, and evaluated afterwards
        "metric": sizes.metric_training + 3 * workspace,
        "christoffel": sizes.grids + workspace,
        "geodesics": sizes.tables + sizes.rows + tuned,
        # the evidence, and decoders if their products are not kernels
        "decoders": sizes.decoder_training + (2 if profile.kernels else 4) * workspace,
    }
    return {name: size / 1e6 for name, size in found.items()}


@dataclass(frozen=True)
class _Sizes:
    """Bytes of arrays by purpose."""

    parameters: Parameters
    levels: int
    wavelengths: int
    device: Device

    def on_host(self, size: int) -> int:
        """Bytes in the memory of the host: none of arrays on a GPU."""
        return 0 if self.device.kind == "cuda" else size

    @property
    def pairs(self) -> int:
        return self.levels * (self.levels - 1)

    def runs(self, members: int) -> NestedRuns:
        return NestedRuns.of(self.levels, members, self.parameters.inner, self.device)

    @property
    def metrics(self) -> int:
        """Number of metrics with a grid."""
        flat = self.parameters.metric.learning == "flat"
        return (1 if flat else self.parameters.metric.members) * (self.levels + 1)

    @property
    def metric_training(self) -> int:
        block = self.parameters.metric
        width = min(self.wavelengths, block.wavelengths)
        nodes = (self.levels - 1) * block.quadrature_nodes + self.levels
        footprint = None
        if block.learning != "flat":
            footprint = of_end_to_end(self.levels, width, block, self.device)
        return self._training(block.members, math.ceil(nodes * width / self.pairs), footprint)

    @property
    def decoder_training(self) -> int:
        block = self.parameters.decoders
        width = min(self.wavelengths, block.wavelengths)
        trained = "path" in BLENDS[block.kind]
        footprint = of_path_decoders(width, block, self.device) if trained else None
        return self._training(block.members, width, footprint)

    def _training(self, members: int, rows_per_pair: int, footprint: Footprint | None) -> int:
        """Memory of the largest batch and its weights, once per thread."""
        if footprint is None:
            return 0
        largest = 0
        for run in filter(None, self.runs(members)):
            for left_out in {len(fold.left_out) for fold in run.folds}:
                remaining = self.levels - left_out
                pairs = remaining * (remaining - 1)
                alike = run.members * sum(len(fold.left_out) == left_out for fold in run.folds)
                most, parts = batch_limits(run, pairs, rows_per_pair, footprint)
                models = min(alike, most)
                # parameters, gradients, two moments, and a temporary array of each in a step
                weights = 5 * 2 * models * _weights() * self.device.training.itemsize
                largest = max(largest, models * footprint.bytes(pairs, parts) + weights)
        return profile_of(self.device.place).batches * largest

    @property
    def metric_weights(self) -> int:
        """Weights of all metrics: as trained, in order, and as written."""
        return 3 * self.runs(self.parameters.metric.members).models * _weights() * SINGLE

    @property
    def decoder_weights(self) -> int:
        """Weights of all decoders: as trained, in order, and as written."""
        return 3 * self.runs(self.parameters.decoders.members).models * _weights() * SINGLE

    @property
    def christoffel(self) -> int:
        """Largest of three: check of a grid, resolution check of cells, and figure."""
        size, stored = self._number, STORAGE[self.parameters.christoffel.storage].itemsize
        # ln sqrt(g) and the symbol: as a grid, in the stored format, and packed; then g, its
        # difference from the mean, the square of that, and three for the trapezoidal rule
        checked = 2 * size + 2 * stored + 2 * stored + 6 * size
        if self.parameters.metric.members > 1:
            checked += 2 * size  # the sums over members
        # per block of cells: two tables of exact values, and twelve in a cubic lookup
        cells = 14 * size * BLOCK * len(CHECKS)
        # sums, means, g and magnitude of the symbol, and two heat maps: corners (2), values (1) and
        # colours (4) of every quadrilateral
        drawn = 6 * size * self._nodes + 2 * 7 * DOUBLE * ROWS
        return self.wavelengths * max(checked * self._nodes, cells, drawn)

    @property
    def grids(self) -> int:
        """Memory of a grid under evaluation: tables, g, its square, two for the mean, and sums."""
        tables = 8 if self.parameters.metric.members > 1 else 6
        return tables * self._number * self._nodes * self.wavelengths

    @property
    def _nodes(self) -> int:
        return self.parameters.christoffel.resolution

    @property
    def _number(self) -> int:
        """Bytes per number of a grid."""
        return self.device.geometry.itemsize

    @property
    def _of_geodesics(self) -> Memory:
        return Memory(self._nodes, self._number, self.parameters.geodesics.time_points)

    @property
    def _columns(self) -> int:
        """Number of wavelengths of a closed form."""
        return min(self.wavelengths, self._of_geodesics.columns(self.device.budget, self.pairs))

    @property
    def tables(self) -> int:
        """Memory of the tables of a closed form, with those of the whole grid."""
        rest = 2 * (self.wavelengths - self._columns) * self._nodes * self._number
        return self._of_geodesics.table * self._columns + rest

    @property
    def rows(self) -> int:
        """Memory of the geodesics of one block of wavelengths."""
        return self.pairs * self._columns * self._of_geodesics.row

    @property
    def solved(self) -> int:
        """Mapped pages of the output file: velocities, residuals, statuses and features."""
        row = 2 * DOUBLE + 1 + len(FEATURES) * SINGLE
        return self.metrics * self.pairs * self.wavelengths * row

    @property
    def features(self) -> int:
        """Mapped pages of all features, and a copy of the selected ones."""
        inner = self.runs(self.parameters.metric.members).inner
        models = 0 if inner is None else inner.members * len(inner.folds)
        width = min(self.wavelengths, self.parameters.decoders.wavelengths)
        chosen = (self.metrics + models) * width
        return (self.metrics * self.wavelengths + chosen) * self.pairs * len(FEATURES) * SINGLE

    @property
    def estimation(self) -> int:
        """Memory of the factors of a block of predictions, in four copies.

        These are those of every kind, weighted for the mixture, concatenated, and projected.
        """
        sources, kinds = self.levels - 1, len(BLENDS[self.parameters.decoders.kind])
        factors = sources * self.parameters.decoders.members + sources + kinds
        return 4 * CHART_KNOTS * factors * self.wavelengths * DOUBLE


def _weights() -> int:
    """Number of parameters of a network."""
    return sum(a * b + b for a, b in itertools.pairwise(SIZES))


def _bases(parameters: Parameters, device: Device, stages: list[str]) -> dict[str, float]:
    """Largest resident memory (MB) of the stages on the smallest series."""
    modules = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    environment = {"PYTHONPATH": os.pathsep.join(filter(None, modules))}
    bases = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        smallest = json.dumps(_smallest(parameters, device))  # which is YAML as well
        file = folder / "smallest.yaml"
        file.write_text(smallest, encoding="utf-8")
        for stage in stages:
            command = [sys.executable, "-m", f"stages.{stage}", "--params", str(file)]
            peak = time_command(command, folder, environment).peak_mb
            # the peak of the record, where the system reports it
            record = Record.read(folder / "data" / "records" / f"{stage}.json")
            bases[stage] = peak if record.peak_mb is None else record.peak_mb
    return bases


def _smallest(parameters: Parameters, device: Device) -> dict[str, Any]:
    """Parameters changed to four levels, three wavelengths and one training step."""
    text = parameters.model_dump(mode="json", by_alias=True)
    training = {"members": 1, "epochs": 1, "wavelengths": 2, "accumulation": 1}
    changes: dict[str, dict[str, Any]] = {
        "engine": {"kind": "local", "scheduler": None},
        "generate": {
            "concentrations": [0.0, 1.0, 2.0, 3.0],
            "replicates": 1,
            "wavelengths": {"start": 300.0, "stop": 302.0, "step": 1.0},
        },
        "spectra": {"source": "data/synthetic.csv", "window": None}
        | {"chart": "linear", "kappa": None},
        "inner": {"members": min(1, parameters.inner.members), "levels": None},
        "metric": training,
        "christoffel": {"resolution": 20},
        "decoders": training,
    }
    changed = {name: text[name] | change for name, change in changes.items()}
    return {**text, **changed, "device": device.kind, "preset": "none", "presets": {"none": {}}}
