"""The artifact of solved geodesics: every ordered pair of levels.

Solved is what is read. Path features of every (member, fold) are what decoders are trained on, at
their wavelengths. First velocities, residuals, status and trajectories are for people: those of the
metrics of all levels, at every wavelength, of which `geonode geodesic` prints any and the page
draws a few.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int

from geonode.compute.device import Device, on_device
from geonode.compute.engine import LOCAL, Engine, Recipe
from geonode.compute.profile import profile_of
from geonode.config import GeodesicsParameters
from geonode.errors import ArtifactError, GeometryError
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.problem import BoundaryValueProblem, Solution, ordered_pairs
from geonode.geometry.solvers.closed_form import ClosedForm
from geonode.geometry.solvers.methods import SOLVERS
from geonode.geometry.stations import FEATURES
from geonode.geometry.stored import StoredGrids
from geonode.geometry.verification import NetworkErrors, network_errors
from geonode.progress import Progress, silent
from geonode.spectra.series import Series
from geonode.storage.artifact import JSON, open_artifact
from geonode.storage.artifact_writer import ArtifactWriter
from geonode.storage.lineage import NO_INPUTS

DIMS = ("member", "pair", "wavelength")
# Memory of a row while it is solved in float64: 710 bytes measured by Newton's method, less in
# closed form. Of every time point there are two copies in float64 and one in float32.
BYTES_PER_ROW, BYTES_PER_TIME = 800, 20
# Tables of a closed form, as large as one of the grid: the two of the grid and its bend; sqrt(g),
# its slope and its integral, and half of these on every second node; copies of these four and a
# half with nodes side by side; and value, slope and integral of x sqrt(g).
TABLES = 15
# Endpoint errors on the network include the rounding of long sums, in units of the last place.
ROUNDINGS = 32
CHECK_ROWS = 64  # per model, integrated again on the network in float64


@dataclass
class Summary:
    """Counts and worst cases over all geodesics."""

    method: str  # that solved them
    geodesics: int = 0  # rows solved
    unconverged: int = 0  # rows whose residual exceeds the tolerance, or is not finite
    evaluations: int = 0  # positions at which the method asked for the geometry
    residual_max: float = 0.0  # largest endpoint residual on the grid (chart units); NaN if one is
    endpoint_error_max: float = 0.0  # largest endpoint error of the checked rows on the network
    speed_drift_max: float = 0.0  # largest relative drift of their speed on the network
    checked_on_network: int = 0  # converged rows checked on the network in float64
    worst: tuple[float, tuple[int, ...]] = (0.0, ())
    """Residual and (member, fold, pair, wavelength) of the row that misses most."""

    @classmethod
    def of(
        cls,
        method: str,
        at: tuple[int, int],
        wavelengths: list[int],
        solution: Solution,
        errors: NetworkErrors,
    ) -> "Summary":
        """Summary of some wavelengths, by index, of one (member, fold)."""
        missed, residual = ~solution.converged, solution.residual.abs()
        lost = ~(solution.v0.isfinite() & residual.isfinite())
        sizes = torch.where(missed, residual.masked_fill(lost, torch.inf), 0.0)
        pair, wavelength = divmod(int(sizes.argmax()), residual.shape[1])
        worst = float(sizes.max()), (*at, pair, wavelengths[wavelength])
        found = (residual, errors.endpoint.abs(), errors.drift)
        residual_max, endpoint, drift = (float(p.max()) if p.numel() else 0.0 for p in found)
        counts = residual.numel(), int(missed.sum()), int(solution.evaluations.sum())
        checked = len(errors.endpoint)
        return cls(method, *counts, residual_max, endpoint, drift, checked, worst)

    def join(self, other: "Summary") -> None:
        """Add the counts and worst cases of others."""
        for name in ("geodesics", "unconverged", "evaluations", "checked_on_network"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("residual_max", "endpoint_error_max", "speed_drift_max"):
            found = np.maximum(getattr(self, name), getattr(other, name))  # NaN, if there is one
            setattr(self, name, float(found))
        self.worst = max(self.worst, other.worst)

    def metrics(self) -> dict[str, str | int | float]:
        """Document of counts and worst cases."""
        names = [part.name for part in fields(self) if part.name != "worst"]
        return {name: getattr(self, name) for name in names}

    def worst_row(self, series: Series) -> str:
        """The row that misses most, in the reader's units."""
        size, (member, fold, pair, wavelength) = self.worst
        ends = [series.concentrations[index][pair] for index in ordered_pairs(len(series.signal))]
        unit, of_axis = series.labels["concentration_unit"], series.labels["axis_unit"]
        return (
            f"{ends[0]:g} to {ends[1]:g} {unit} at {series.axis[wavelength]:g} {of_axis} (member "
            f"{member}, fold {fold}): {f'{size:.1e}' if math.isfinite(size) else 'not finite'}"
        )


@dataclass(frozen=True)
class Geodesics:
    """Geodesics to be solved: every ordered pair of levels.

    Of the metrics of all levels at every wavelength, of the others at those of path decoders, if
    there are any. First velocities are those of the method, and path features and trajectories
    follow from them.
    """

    grids: StoredGrids  # of the metrics
    learned: LearnedMetrics  # the metrics, to check samples against
    series: Series  # the levels and wavelengths
    chosen: Int[np.ndarray, "training"] | None
    """Indices of the wavelengths at which path features are stored, ascending; None: no features
    are wanted, nor the geodesics of folds that leave levels out."""
    parameters: GeodesicsParameters  # the block `geodesics` of the parameters
    device: Device  # where to solve, and in which format

    def solve(
        self,
        path: Path,
        report: Progress = silent,
        engine: Engine = LOCAL,
        made_from: Mapping[str, str] = NO_INPUTS,
    ) -> Summary:
        """Solve all of them, and store what is found.

        `report` is called after every model; the engine solves several at a time.

        Raises:
            GeometryError: more geodesics than allowed miss their target by more than the tolerance
                on the grid, or one that does not misses it on the network, beyond rounding.
            ArtifactError: the artifact cannot be written. An older one is intact in both cases.
        """
        summary = Summary(self.parameters.method)
        attributes: dict[str, JSON] = {
            "method": self.parameters.method,
            "members": self.learned.members,
            "made_from": {**made_from},
        }
        with self.series.artifact_writer(path, attributes) as writer:
            self._declare(writer)
            # the inner metrics are not looked at
            outer = replace(self, learned=replace(self.learned, inner=None))
            solver: Recipe[int, Summary] = partial(_Solver, writer, outer)
            models = self.learned.wanted(self.chosen is not None)
            cores = profile_of(self.device.place).tiles
            engine.work(solver, models, lambda _, found: summary.join(found), report, cores)
            self._require(summary)
        return summary

    def _declare(self, writer: ArtifactWriter) -> None:
        """Add the arrays of the artifact, to be filled."""
        learned, series, chosen = self.learned, self.series, self.chosen
        folds = len(learned.charts)
        source, target = (index.numpy() for index in ordered_pairs(len(series.concentrations)))
        unit = series.labels["concentration_unit"]
        for name, index in (("source", source), ("target", target)):
            writer.coordinate(
                name, series.concentrations[index], units=unit, long_name=name, dims=("pair",)
            )
        shape = (learned.members, len(source), len(series.axis))
        for name, dtype, long_name in (
            ("v0", "float64", "initial velocity x'(0)"),
            ("residual", "float64", "x(1) minus the target"),
            ("status", "uint8", "0 where converged"),
        ):
            writer.mapped(name, DIMS, shape, dtype, units="1", long_name=long_name)
        if chosen is not None:
            long_name = "level left out (index)"
            writer.coordinate("fold", np.arange(folds), units="1", long_name=long_name)
            units, axis = series.labels["axis_unit"], series.labels["axis"]
            long_name = f"{axis} of the decoders"
            writer.coordinate("training", series.axis[chosen], units=units, long_name=long_name)
            writer.mapped(
                "features",
                ("member", "fold", "pair", "training", "feature"),
                (learned.members, folds, len(source), len(chosen), len(FEATURES)),
                "float32",
                units="1",
                long_name=", ".join(FEATURES),
            )
        if time_points := self.parameters.time_points:
            times = np.linspace(0, 1, time_points)
            writer.coordinate("time", times, units="1", long_name="affine parameter")
            writer.mapped(
                "trajectory",
                (*DIMS, "time"),
                (*shape, time_points),
                "float32",
                units="1",
                long_name="charted concentration x(t)",
            )

    def _require(self, summary: Summary) -> None:
        """Refuse geodesics that miss their target, on the grid or on the network."""
        tolerance, allowed = self.parameters.tolerance, self.parameters.allow_unconverged
        eps = torch.finfo(self.device.geometry).eps
        # A miss on the grid is a miss on the network too; the error of the grid comes on top.
        bound = tolerance + min(tolerance, summary.residual_max) + ROUNDINGS * eps
        if summary.unconverged > allowed:
            raise GeometryError(
                f"{summary.unconverged} of {summary.geodesics} geodesics miss their target by more "
                f"than {tolerance:g}, expected at most {allowed}. Worst: "
                f"{summary.worst_row(self.series)}. Raise christoffel.resolution, "
                "geodesics.steps or geodesics.tolerance, or permit them with --allow-unconverged"
            )
        if not summary.endpoint_error_max <= bound:
            raise GeometryError(
                f"geodesics miss their target by {summary.endpoint_error_max:.1e} on the network, "
                f"expected at most {bound:.1e}; write the grid of these metrics again, or raise "
                "christoffel.resolution, geodesics.steps or geodesics.tolerance"
            )


class _Solver:
    """Solves the geodesics of one model after the other, and stores them."""

    def __init__(self, writer: ArtifactWriter, wanted: Geodesics) -> None:
        device, learned, series = wanted.device, wanted.learned, wanted.series
        place, dtype = device.place, device.geometry
        self._writer, self._wanted = writer, wanted
        self._memory = device.budget // profile_of(place).tiles
        self._like = torch.empty(0, device=place, dtype=dtype)
        self._wavelengths = on_device(series.wavelengths, place, dtype)
        self._positions = on_device(learned.positions(series.concentrations), place, dtype)
        self._times = on_device(np.linspace(0, 1, wanted.parameters.time_points), place, dtype)
        self._metric = learned.metric(device.reference)

    def __call__(self, model: int, report: Progress) -> Summary:
        """Solve all geodesics of a model, as many wavelengths at once as fit into memory."""
        parameters, index = self._wanted.parameters, self._wanted.learned.index(model)
        whole = index[1] == len(self._wanted.learned.charts) - 1
        chosen = np.arange(0) if self._wanted.chosen is None else self._wanted.chosen
        # of the columns of the grid, in the series
        axis = np.arange(len(self._wavelengths)) if whole else chosen
        problem = BoundaryValueProblem.all_pairs(self._positions[index[1]])
        pairs = len(problem.source)
        grid = self._wanted.grids.grid(index, self._like)
        grid = grid if whole else grid.at_wavelengths(torch.from_numpy(axis).to(self._like.device))
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
        solutions = []
        features = np.empty((pairs, len(chosen), len(FEATURES)), np.float32)
        trajectory = np.empty((pairs, width, parameters.time_points), np.float32)
        for block in torch.arange(width).split(self._memory // column):
            columns = slice(int(block[0]), int(block[-1]) + 1)
            wavelengths = self._wavelengths[axis[columns]]
            closed_form = ClosedForm(grid.at_wavelengths(columns))
            solution = SOLVERS[parameters.method](closed_form, problem, parameters)
            solutions.append(solution)
            if whole and parameters.time_points:
                positions = closed_form.trajectories(problem, solution.v0, self._times)
                trajectory[:, columns] = positions.float().cpu()
            _, places, here = np.intersect1d(chosen, axis[columns], return_indices=True)
            if len(places):
                inside = torch.from_numpy(here).to(self._like.device)
                stations = ClosedForm(closed_form.grid.at_wavelengths(inside)).stations(
                    problem.stations, wavelengths[inside]
                )
                features[:, places] = stations.every_path(solution.v0[:, inside])[1].cpu()
        solved = Solution(*(torch.cat(parts, dim=1) for parts in zip(*solutions, strict=True)))
        # a sample of all, which does not depend on the memory
        errors = network_errors(
            self._metric[model],
            grid,
            problem,
            solved,
            self._wavelengths[axis],
            rows=CHECK_ROWS,
            seed=model,
        )
        if self._wanted.chosen is not None:
            self._writer.write("features", index, features)
        if whole:
            found = {
                "v0": solved.v0.cpu().double().numpy(),
                "residual": solved.residual.cpu().double().numpy(),
                "status": (~solved.converged).cpu().numpy().astype(np.uint8),
            }
            if parameters.time_points:
                found["trajectory"] = trajectory
            for name, table in found.items():
                self._writer.write(name, index[:1], table)
        report(1)
        return Summary.of(parameters.method, index, axis.tolist(), solved, errors)


def read_features(
    path: Path, series: Series, chosen: Int[np.ndarray, "training"]
) -> Float[np.ndarray, "member fold pair training feature"]:
    """The path features of all geodesics, mapped from the artifact and read-only.

    `chosen` are the indices of the wavelengths that decoders are trained at.

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
            f"{path}: contains features at other wavelengths than those of the decoders; run "
            "`dvc repro`"
        )
    return artifact["features"]
