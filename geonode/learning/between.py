"""Geodesics from one concentration to another: stored ones, or solved where none is stored."""

from pathlib import Path

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from geonode.compute.device import CPU
from geonode.config import GeodesicsParameters
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.metric import Metric
from geonode.geometry.problem import BoundaryValueProblem, ordered_pairs
from geonode.learning.path_features import closed_forms
from geonode.spectra.series import Series
from geonode.storage.artifact import open_artifact

INSTANTS = 11  # of a path that is solved now
SMALLEST_MISS = GeodesicsParameters().tolerance


def between(
    series: Series,
    learned: LearnedMetrics,
    ends: tuple[float, float],
    wavelengths: Float[np.ndarray, "wavelength"],
    stored: Path,
) -> pd.DataFrame:
    """Geodesics of the metrics of all levels; of several members the means and the worst misses.

    Args:
        series: the measured series.
        learned: its metrics.
        ends: different concentrations in the range of the levels.
        wavelengths: in the range of the axis.
        stored: artifact of geodesics; it may be absent.

    Returns:
        A row for every wavelength: `wavelength`; `initial_velocity` x'(0), `length` (integral of
        sqrt(g)) and `residual` (largest distance of x(1) from the target) in units of the chart,
        whose range is 2; `status`, converged or missed; `method`, stored or that which solved it
        now; and the concentration along it in columns `t=0` to `t=1`.

    Raises:
        CorruptArtifactError: the artifact is damaged.
        GeometryError: a metric is not finite, or too sharp for a grid.
    """
    chart, last = learned.charts[-1], learned.wanted(folds=False)
    positions = torch.from_numpy(chart.position(np.array(ends)))
    charted = torch.from_numpy(np.interp(wavelengths, series.axis, series.wavelengths))
    found, method = _stored(stored, series, ends, wavelengths), "stored"
    if found is None:
        times, method = torch.linspace(0, 1, INSTANTS, dtype=torch.float64), "closed_form"
        stations, rank = positions.unique(return_inverse=True)
        problem = BoundaryValueProblem(stations, rank[:1], rank[1:])
        parts = []
        for form in closed_forms(learned, last, charted):
            one = form.solve(problem, SMALLEST_MISS)
            paths = form.trajectories(problem, one.v0, times)
            parts.append((one.v0[0], one.residual[0], ~one.converged[0], paths[0]))
        found = *(torch.stack(part).numpy() for part in zip(*parts, strict=True)), times.numpy()
    v0, residual, missed, path, instants = found
    metric = Metric(learned.metric(CPU).network[last])
    length = abs(v0) * np.exp(metric.log_sqrt(positions[:1], charted)[:, 0].numpy())
    columns = {
        "wavelength": wavelengths,
        "initial_velocity": v0.mean(0),
        "length": length.mean(0),
        "residual": abs(residual).max(0),
        "status": np.where(missed.any(0), "missed", "converged"),
        "method": method,
    }
    along = chart.concentration(path.astype(float).mean(0)).T
    return pd.DataFrame(columns | {f"t={t:.6g}": c for t, c in zip(instants, along, strict=True)})


def _stored(
    path: Path, series: Series, ends: tuple[float, float], wavelengths: np.ndarray
) -> tuple[np.ndarray, ...] | None:
    """First velocities, residuals, status and trajectories of all members, and times, if stored."""
    levels, at = series.concentrations, np.searchsorted(series.axis, wavelengths)
    source, target = (levels[index] for index in ordered_pairs(len(levels)))
    pair = np.flatnonzero((source == ends[0]) & (target == ends[1]))
    if not path.exists() or not len(pair) or not np.array_equal(series.axis[at], wavelengths):
        return None
    artifact = open_artifact(path)
    if "time" not in artifact.arrays:
        return None
    names = ("v0", "residual", "status", "trajectory")
    return *(artifact[name][:, pair[0], at] for name in names), artifact["time"]
