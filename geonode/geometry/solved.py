"""The artifact of solved geodesics: every (source, target, wavelength) of every model.

What is stored at every wavelength is for people: first velocities, residuals, and trajectories, of
which the report draws a few. Later stages read the path features alone, which are stored at the
wavelengths that decoders are trained at.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int

from geonode.compute.device import Device, on_device, one_thread, unless_out_of_memory
from geonode.compute.engine import LOCAL, Engine, Recipe
from geonode.compute.profile import profile_of
from geonode.config import GeodesicsParameters
from geonode.errors import ArtifactError, GeometryError
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.problem import BoundaryValueProblem, ordered_pairs
from geonode.geometry.solvers.closed_form import ClosedForm
from geonode.geometry.solvers.methods import METHODS
from geonode.geometry.stations import FEATURES
from geonode.geometry.stored import StoredGrids
from geonode.geometry.summary import Summary
from geonode.geometry.verification import network_errors
from geonode.progress import Progress, silent
from geonode.spectra.series import Series
from geonode.storage.artifact import JSON, open_artifact
from geonode.storage.artifact_writer import ArtifactWriter, Parts
from geonode.storage.lineage import NOTHING

DIMS = ("member", "fold", "pair", "wavelength")
# Memory of a row while it is solved in float64: 710 bytes measured by Newton's method, less in
# closed form. Of every time point there are two copies in float64 and one in float32.
BYTES_PER_ROW, BYTES_PER_TIME = 800, 20
# Tables of a closed form, as large as one of the grid: the two of the grid and its bend; sqrt(g),
# its slope and its integral, and half of these on every second node; copies of these four and a
# half with nodes side by side; and value, slope and integral of x sqrt(g).
TABLES = 15
# Endpoint errors on the network include the rounding of long sums, in units of the last place.
ROUNDINGS = 32


def solve_all(
    path: Path,
    grids: StoredGrids,
    learned: LearnedMetrics,
    series: Series,
    chosen: Int[np.ndarray, "training"],
    parameters: GeodesicsParameters,
    device: Device,
    report: Progress = silent,
    engine: Engine = LOCAL,
    made_from: Mapping[str, str] = NOTHING,
) -> Summary:
    """Solve every ordered pair of concentrations at every wavelength for every (member, fold).

    First velocities are those of the method, and path features and trajectories follow from them.

    Args:
        path: of the artifact.
        grids: of the metrics.
        learned: the metrics, to check samples against.
        series: the levels and wavelengths.
        chosen: indices of the wavelengths at which path features are stored, ascending.
        parameters: the block `geodesics` of the parameters.
        device: where to solve, and in which format.
        report: called after every model.
        engine: solves the models, several at a time.
        made_from: as `consistent_artifacts` yields it.

    Raises:
        GeometryError: more geodesics than allowed miss their target by more than the tolerance on
            the grid, or one that does not misses it on the network, beyond rounding.
        ArtifactError: the artifact cannot be written. An older one is intact in both cases.
    """
    summary = Summary(parameters.method)
    attributes: dict[str, JSON] = {
        "method": parameters.method,
        "members": learned.members,
        "made_from": {**made_from},
    }
    with series.artifact_writer(path, attributes) as writer:
        _declare(writer, learned, series, chosen, parameters.time_points)
        outer = replace(learned, inner=None)  # the inner metrics are not looked at
        solver: Recipe[int, Summary] = partial(
            _Solver, writer.parts, grids, outer, series, chosen, parameters, device
        )
        models, cores = range(learned.network.models), profile_of(device.place).tiles
        with one_thread():
            engine.work(solver, models, lambda _, found: summary.join(found), report, cores)
        _require(summary, series, parameters, torch.finfo(device.geometry).eps)
    return summary


class _Solver:
    """Solves the geodesics of one model after the other, and stores them.

    Args:
        parts: of the artifact.
        grids, learned, series, chosen, parameters, device: as for `solve_all`.
    """

    def __init__(
        self,
        parts: Parts,
        grids: StoredGrids,
        learned: LearnedMetrics,
        series: Series,
        chosen: Int[np.ndarray, "training"],
        parameters: GeodesicsParameters,
        device: Device,
    ) -> None:
        place, dtype = device.place, device.geometry
        self._parts, self._grids, self._learned = parts, grids, learned
        self._chosen, self._parameters = chosen, parameters
        self._memory = device.budget // profile_of(place).tiles
        self._like = torch.empty(0, device=place, dtype=dtype)
        self._wavelengths = on_device(series.wavelengths, place, dtype)
        self._positions = on_device(learned.positions(series.concentrations), place, dtype)
        self._times = on_device(np.linspace(0, 1, parameters.time_points), place, dtype)
        self._metric = learned.metric(device.reference)
        self._tables = [parts.mapped(name) for name in ("v0", "residual", "status")]
        self._features = parts.mapped("features")

    def __call__(self, model: int, report: Progress) -> Summary:
        """Solve all geodesics of a model; on a card that is short of memory some at a time."""
        while True:
            less = f"solving geodesics in {self._memory // 2e6:,.0f} MB, which changes no result"
            summary = unless_out_of_memory(partial(self._solve, model), less)
            if summary is not None:
                report(1)
                return summary
            self._memory //= 2

    def _solve(self, model: int) -> Summary:
        parameters, chosen, index = self._parameters, self._chosen, self._learned.index(model)
        summary = Summary(parameters.method)
        problem = BoundaryValueProblem.all_pairs(self._positions[index[1]])
        pairs = len(problem.source)
        grid = self._grids.grid(index, self._like)
        width = grid.log_sqrt.shape[1]
        of_grid = TABLES * len(grid.positions) * self._like.itemsize
        row = BYTES_PER_ROW + BYTES_PER_TIME * parameters.time_points
        column = of_grid + pairs * row
        if self._memory < column:
            raise GeometryError(
                f"memory_mb: found {self._memory / 1e6:.3g} MB for geodesics, expected at least "
                f"the {column / 1e6:.3g} MB of one wavelength; raise memory_mb, or lower "
                "christoffel.resolution"
            )
        trajectories = np.empty((pairs, width, parameters.time_points), dtype=np.float32)
        for block in torch.arange(width).split(self._memory // column):
            columns = slice(int(block[0]), int(block[-1]) + 1)
            wavelengths = self._wavelengths[columns]
            closed_form = ClosedForm(grid.at_wavelengths(columns))
            solution = METHODS[parameters.method](closed_form, problem, parameters)
            missed = (~solution.converged).to(torch.uint8)
            found = (solution.v0, solution.residual, missed)
            for table, part in zip(self._tables, found, strict=True):
                table[(*index, slice(None), columns)] = part.cpu()
            if parameters.time_points:
                positions = closed_form.trajectories(problem, solution.v0, self._times)
                trajectories[:, columns] = positions.float().cpu()
            places = slice(*np.searchsorted(chosen, (columns.start, columns.stop)).tolist())
            if places.start < places.stop:
                inside = torch.from_numpy(chosen[places] - columns.start).to(self._like.device)
                stations = ClosedForm(closed_form.grid.at_wavelengths(inside)).stations(
                    problem.stations, wavelengths[inside]
                )
                _, features = stations.every_path(solution.v0[:, inside])
                self._features[(*index, slice(None), places)] = features.cpu()
            errors = network_errors(
                self._metric[model],
                closed_form,
                problem,
                solution,
                wavelengths,
                rows=math.ceil(parameters.check_rows * len(block) / width),
                seed=model,
            )
            summary.add(index, columns.start, solution, errors)
        if parameters.time_points:
            self._parts.write("trajectory", index, trajectories)
        for table in (*self._tables, self._features):
            table.flush()
        return summary


def _require(summary: Summary, series: Series, parameters: GeodesicsParameters, eps: float) -> None:
    """Refuse geodesics that miss their target, on the grid or on the network.

    Raises:
        GeometryError: with the count and the worst cases.
    """
    tolerance = parameters.tolerance
    # what is left on the grid leads astray on the network too; beside that the grid may be off
    bound = tolerance + min(tolerance, summary.residual_max) + ROUNDINGS * eps
    if summary.unconverged > parameters.allow_unconverged:
        raise GeometryError(
            f"{summary.unconverged} of {summary.geodesics} geodesics miss their target by more "
            f"than {tolerance:g}, expected at most {parameters.allow_unconverged}. Worst: "
            f"{summary.worst_rows(series)}. Raise christoffel.resolution, geodesics.steps or "
            "geodesics.tolerance, or permit them with --allow-unconverged"
        )
    if not summary.endpoint_error_max <= bound:
        raise GeometryError(
            f"geodesics miss their target by {summary.endpoint_error_max:.1e} on the network, "
            f"expected at most {bound:.1e}; write the grid of these metrics again, or raise "
            "christoffel.resolution, geodesics.steps or geodesics.tolerance"
        )


def read_features(
    path: Path, series: Series, chosen: Int[np.ndarray, "training"]
) -> Float[np.ndarray, "member fold pair training feature"]:
    """The path features of all geodesics, mapped from the artifact and read-only.

    Args:
        path: of the artifact.
        series: the levels and wavelengths.
        chosen: indices of the wavelengths that decoders are trained at.

    Raises:
        MissingArtifactError, CorruptArtifactError: there is no artifact, or it is damaged.
        ArtifactError: it was made of other spectra than those at hand, or for other wavelengths.
    """
    artifact = open_artifact(path)
    levels = len(series.concentrations)
    shape = (levels + 1, levels * (levels - 1), len(chosen), len(FEATURES))
    artifact.require_shape(
        "features", (artifact.attributes.get("members", 0), *shape), "the spectra"
    )
    if not np.array_equal(artifact["training"], series.axis[chosen]):
        raise ArtifactError(
            f"{path}: holds features at other wavelengths than those of the decoders; run "
            "`dvc repro`"
        )
    return artifact["features"]


def _declare(
    writer: ArtifactWriter,
    learned: LearnedMetrics,
    series: Series,
    chosen: Int[np.ndarray, "training"],
    time_points: int,
) -> None:
    """Add the arrays of the artifact, to be filled."""
    folds = len(learned.charts)
    source, target = (index.numpy() for index in ordered_pairs(len(series.concentrations)))
    writer.coordinate("fold", np.arange(folds), units="1", long_name="level left out (index)")
    unit = series.labels["concentration_unit"]
    for name, index in (("source", source), ("target", target)):
        writer.coordinate(
            name, series.concentrations[index], units=unit, long_name=name, dims=("pair",)
        )
    units, axis = series.labels["axis_unit"], series.labels["axis"]
    writer.coordinate(
        "training", series.axis[chosen], units=units, long_name=f"{axis} of the decoders"
    )
    shape = (learned.members, folds, len(source), len(series.axis))
    writer.mapped("v0", DIMS, shape, "float64", units="1", long_name="initial velocity x'(0)")
    writer.mapped("residual", DIMS, shape, "float64", units="1", long_name="x(1) minus the target")
    writer.mapped("status", DIMS, shape, "uint8", units="1", long_name="0 where converged")
    writer.mapped(
        "features",
        (*DIMS[:3], "training", "feature"),
        (*shape[:3], len(chosen), len(FEATURES)),
        "float32",
        units="1",
        long_name=", ".join(FEATURES),
    )
    if time_points:
        times = np.linspace(0, 1, time_points)
        writer.coordinate("time", times, units="1", long_name="affine parameter")
        writer.stored_blocks(
            "trajectory",
            (*DIMS, "time"),
            (*shape, time_points),
            "float32",
            units="1",
            long_name="charted concentration x(t)",
            block_dims=2,
        )
