"""Geodesics from one concentration to another: stored ones, or solved where none is stored."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float

from geonode.config import GeodesicsParameters
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.metric import Metric
from geonode.geometry.problem import BoundaryValueProblem, ordered_pairs
from geonode.learning.path_features import CPU, closed_forms
from geonode.spectra.series import Series
from geonode.storage.artifact import open_artifact

TIMES = 11
TOLERANCE = GeodesicsParameters().tolerance


@dataclass(frozen=True)
class Between:
    """Geodesics of the metrics of all levels; of several members the means and the worst misses."""

    method: str
    """`stored`, or the method that solved them now."""
    wavelengths: Float[np.ndarray, "wavelength"]
    """Where they are (unit of the axis)."""
    times: Float[np.ndarray, "time"]
    """Affine parameter t, from 0 to 1."""
    path: Float[np.ndarray, "wavelength time"]
    """Concentration along the geodesics."""
    velocity: Float[np.ndarray, "wavelength"]
    """x'(0) in units of the chart, whose range is 2."""
    length: Float[np.ndarray, "wavelength"]
    """Integral of sqrt(g) over the path, chart units."""
    residual: Float[np.ndarray, "wavelength"]
    """Largest distance of x(1) from the target, chart units."""
    converged: Bool[np.ndarray, "wavelength"]
    """Whether every member arrived within the tolerance."""

    @classmethod
    def of(
        cls,
        series: Series,
        learned: LearnedMetrics,
        ends: tuple[float, float],
        wavelengths: Float[np.ndarray, "wavelength"],
        stored: Path,
    ) -> "Between":
        """Geodesics at some wavelengths.

        Args:
            series: the measured series.
            learned: its metrics.
            ends: concentrations at which they start and end: two different ones in the range of the
                levels.
            wavelengths: in the range of the axis; any, for what is not stored is solved.
            stored: artifact of geodesics; it may be absent.

        Raises:
            CorruptArtifactError: the artifact is damaged.
            GeometryError: a metric is not finite, or too sharp for a grid.
        """
        chart = learned.charts[-1]
        start, end = positions = chart.position(np.array(ends)).tolist()
        charted = torch.from_numpy(np.interp(wavelengths, series.axis, series.wavelengths))
        last = learned.wanted(folds=False)
        found = _stored(stored, series, ends, wavelengths)
        method = "stored"
        if found is None:
            method, times = "closed_form", np.linspace(0, 1, TIMES)
            low, high = sorted(positions)
            rows = torch.tensor([0 if start == low else 1]), torch.tensor([0 if end == low else 1])
            problem = BoundaryValueProblem(torch.tensor([low, high], dtype=torch.float64), *rows)
            parts = []
            for form in closed_forms(learned, last, charted):
                one = form.solve(problem, TOLERANCE)
                paths = form.trajectories(problem, one.v0, torch.from_numpy(times))
                parts.append((one.v0[0], one.residual[0], ~one.converged[0], paths[0]))
            v0, residual, missed, path = (
                np.stack([tensor.numpy() for tensor in part]) for part in zip(*parts, strict=True)
            )
        else:
            v0, residual, missed, path, times = found
        at_start = torch.tensor([start], dtype=torch.float64)
        metric = Metric(learned.metric(CPU).network[last])
        log_sqrt = metric.log_sqrt(at_start, charted)[:, 0].numpy()
        return cls(
            *(method, wavelengths, times, chart.concentration(path.astype(float).mean(0))),
            *(v0.mean(0), (abs(v0) * np.exp(log_sqrt)).mean(0), abs(residual).max(0)),
            ~missed.astype(bool).any(0),
        )


def _stored(
    path: Path, series: Series, ends: tuple[float, float], wavelengths: np.ndarray
) -> tuple[np.ndarray, ...] | None:
    """First velocities, residuals, status and trajectories of all members, and times, if stored."""
    levels, columns = series.concentrations, np.searchsorted(series.axis, wavelengths)
    if not path.exists() or not {*ends} <= {*levels.tolist()}:
        return None
    artifact = open_artifact(path)
    known = np.array_equal(series.axis[columns], wavelengths) and "time" in artifact.names
    if not known:
        return None
    source, target = ordered_pairs(len(levels))
    place = (levels[source] == ends[0]) & (levels[target] == ends[1])
    pair = int(np.flatnonzero(place)[0])
    names = ("v0", "residual", "status", "trajectory")
    return *(artifact[name][:, pair, columns] for name in names), artifact["time"]
