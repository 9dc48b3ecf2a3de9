"""The artifact of solved geodesics: every (source, target, wavelength) of every model."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geonode.config import GeodesicsParameters
from geonode.devices.device import Device, on_device
from geonode.errors import GeometryError
from geonode.geodesics.closed_form import ClosedForm, Geodesics, Status
from geonode.geodesics.features import FEATURES
from geonode.geodesics.problem import BoundaryValueProblem, ordered_pairs
from geonode.geodesics.verification import network_errors
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.stored import StoredGrids
from geonode.progress import Report, silent
from geonode.spectra.series import Series
from geonode.storage.artifact import ArtifactWriter, open_artifact

DIMS = ("member", "fold", "pair", "wavelength")
# Endpoint errors on the network include the rounding of long sums, in units of the last place.
ROUNDINGS = 32


@dataclass(frozen=True)
class Summary:
    """Counts and worst cases over all geodesics.

    Attributes:
        geodesics: rows solved.
        unconverged: rows whose residual exceeds the tolerance.
        residual_max: largest endpoint residual on the grid (chart units).
        endpoint_error_max: largest endpoint error of the checked rows on the network.
        speed_drift_max: largest relative drift of their speed on the network.
        checked_on_network: rows checked on the network in float64.
    """

    geodesics: int
    unconverged: int
    residual_max: float
    endpoint_error_max: float
    speed_drift_max: float
    checked_on_network: int

    def require(self, tolerance: float, rounding: float) -> None:
        """Refuse geodesics that miss their target, on the grid or on the network.

        Raises:
            GeometryError: with the count and the worst case.
        """
        if self.unconverged:
            raise GeometryError(
                f"{self.unconverged} of {self.geodesics} geodesics miss their target by more than "
                f"{tolerance:g} (worst {self.residual_max:.1e}); raise christoffel.resolution or "
                "geodesics.tolerance"
            )
        if not self.endpoint_error_max <= tolerance + rounding:
            raise GeometryError(
                f"geodesics miss their target by {self.endpoint_error_max:.1e} on the network, "
                f"expected at most {tolerance + rounding:.1e}; write the grid of these metrics "
                "again, raise christoffel.resolution, or raise geodesics.tolerance"
            )


def solve_all(
    path: Path,
    grids: StoredGrids,
    learned: LearnedMetrics,
    series: Series,
    parameters: GeodesicsParameters,
    device: Device,
    report: Report = silent,
) -> Summary:
    """Solve every ordered pair of concentrations at every wavelength for every (member, fold).

    Args:
        path: of the artifact.
        grids: of the metrics.
        learned: the metrics, to check samples against.
        series: the levels and wavelengths.
        parameters: the block `geodesics` of the parameters.
        device: where to solve, and in which format.
        report: told of every model.

    Raises:
        GeometryError: a geodesic misses its target by more than the tolerance, on the grid or,
            beyond rounding, on the network.
        ArtifactError: the artifact cannot be written. An older one is intact in both cases.
    """
    like = torch.empty(0, device=device.place, dtype=device.geometry)
    wavelengths = on_device(series.wavelengths, device.place, device.geometry)
    positions = on_device(learned.positions(series.concentrations), device.place, device.geometry)
    times = torch.linspace(0, 1, max(2, parameters.time_points), dtype=like.dtype).to(like.device)
    metric = learned.metric(device.reference)
    models = metric.network.models
    geodesics = unconverged = 0
    worst = []
    with series.artifact_writer(
        path, {"method": "closed_form", "members": learned.members}
    ) as writer:
        arrays = _Arrays(writer, learned, series, parameters.time_points)
        for model in range(models):
            index = learned.index(model)
            closed_form = ClosedForm(grids.grid(index, like))
            problem = BoundaryValueProblem.all_pairs(positions[index[1]])
            solved = closed_form.solve(problem, wavelengths, parameters.tolerance)
            arrays.write(index, solved)
            if parameters.time_points:
                arrays.write_trajectories(index, closed_form.trajectories(problem, solved, times))
            checked = network_errors(
                metric[model],
                closed_form,
                problem,
                solved,
                wavelengths,
                rows=parameters.check_rows,
                seed=model,
            )
            geodesics += solved.v0.numel()
            unconverged += int((solved.status != Status.CONVERGED).sum())
            errors = (solved.residual, checked.endpoint, checked.drift)
            worst.append([float(error.abs().max()) for error in errors])
            report(1)
        residual, endpoint, drift = np.max(worst, axis=0).tolist()  # NaN, if there is one
        checks = models * parameters.check_rows
        summary = Summary(geodesics, unconverged, residual, endpoint, drift, checks)
        summary.require(parameters.tolerance, ROUNDINGS * torch.finfo(like.dtype).eps)
    return summary


def read_features(
    path: Path, series: Series
) -> Float[np.ndarray, "member fold pair wavelength feature"]:
    """The path features of all geodesics, mapped from the artifact and read-only.

    Raises:
        MissingArtifactError, CorruptArtifactError: there is no artifact, or it is damaged.
        ArtifactError: it was made of other spectra than those at hand.
    """
    artifact = open_artifact(path)
    levels = len(series.concentrations)
    shape = (levels + 1, levels * (levels - 1), len(series.axis), len(FEATURES))
    artifact.require_shape(
        "features", (artifact.attributes.get("members", 0), *shape), "the spectra"
    )
    return artifact["features"]


class _Arrays:
    """The arrays of the artifact, open for writing."""

    def __init__(
        self, writer: ArtifactWriter, learned: LearnedMetrics, series: Series, time_points: int
    ) -> None:
        folds = len(learned.charts)
        source, target = (index.numpy() for index in ordered_pairs(len(series.concentrations)))
        writer.coordinate("fold", np.arange(folds), units="1", long_name="level left out (index)")
        unit = series.labels["concentration_unit"]
        for name, index in (("source", source), ("target", target)):
            writer.coordinate(
                name, series.concentrations[index], units=unit, long_name=name, dims=("pair",)
            )
        shape = (learned.members, folds, len(source), len(series.axis))
        self.v0 = writer.mapped(
            "v0", DIMS, shape, "float64", units="1", long_name="initial velocity x'(0)"
        )
        self.residual = writer.mapped(
            "residual", DIMS, shape, "float64", units="1", long_name="x(1) minus the target"
        )
        self.status = writer.mapped(
            "status", DIMS, shape, "uint8", units="1", long_name="0 where converged"
        )
        self.features = writer.mapped(
            "features",
            (*DIMS, "feature"),
            (*shape, len(FEATURES)),
            "float32",
            units="1",
            long_name=", ".join(FEATURES),
        )
        if time_points:
            writer.coordinate(
                "time", np.linspace(0, 1, time_points), units="1", long_name="affine parameter"
            )
            self.trajectory = writer.stored_blocks(
                "trajectory",
                (*DIMS, "time"),
                (*shape, time_points),
                "float32",
                units="1",
                long_name="charted concentration x(t)",
                block_dims=2,
            )

    def write(self, index: tuple[int, int], solved: Geodesics) -> None:
        """The geodesics of one (member, fold)."""
        self.v0[index] = solved.v0.cpu()
        self.residual[index] = solved.residual.cpu()
        self.status[index] = solved.status.cpu()
        self.features[index] = solved.features.cpu()

    def write_trajectories(self, index: tuple[int, int], positions: Tensor) -> None:
        """Their positions at the time points."""
        self.trajectory[index] = positions.float().cpu().numpy()
