"""Counts and worst cases of many solved geodesics, collected block by block."""

import math
from dataclasses import dataclass

import numpy as np
import torch

from geonode.geodesics.problem import ordered_pairs
from geonode.geodesics.solution import Solution, Status
from geonode.geodesics.verification import NetworkErrors
from geonode.spectra.series import Series

WORST = 3  # rows that an error names


@dataclass(frozen=True)
class Summary:
    """Counts and worst cases over all geodesics.

    Attributes:
        method: that solved them.
        geodesics: rows solved.
        unconverged: rows whose residual exceeds the tolerance, or is not finite.
        evaluations: positions at which the method asked for the geometry.
        residual_max: largest endpoint residual on the grid (chart units).
        endpoint_error_max: largest endpoint error of the checked rows on the network.
        speed_drift_max: largest relative drift of their speed on the network.
        checked_on_network: converged rows checked on the network in float64.
    """

    method: str
    geodesics: int
    unconverged: int
    evaluations: int
    residual_max: float
    endpoint_error_max: float
    speed_drift_max: float
    checked_on_network: int


class Tally:
    """Counts, worst cases and the rows behind them, block after block of wavelengths."""

    def __init__(self, method: str) -> None:
        self._method = method
        self._counts = np.zeros(4, dtype=np.int64)  # rows, missed, evaluations, checked
        self._worst = np.zeros(3)  # residual, endpoint, drift
        self._rows: list[tuple[float, tuple[int, ...]]] = []

    def add(
        self, at: tuple[int, int], first: int, solution: Solution, errors: NetworkErrors
    ) -> None:
        """Neighbouring wavelengths of one (member, fold), from the first one on."""
        missed = ~solution.converged
        counts = (
            solution.v0.numel(),
            int(missed.sum()),
            int(solution.evaluations.sum()),
            len(errors.endpoint),
        )
        self._counts += counts
        residual = solution.residual.abs().cpu()
        found = (residual, errors.endpoint.abs().cpu(), errors.drift.cpu())
        worst = [float(part.max()) if part.numel() else 0.0 for part in found]
        self._worst = np.maximum(self._worst, worst)  # NaN, if there is one
        if counts[1]:
            lost = (solution.status == Status.NOT_FINITE).cpu()
            size = torch.where(missed.cpu(), residual.masked_fill(lost, torch.inf), -torch.inf)
            size = size.flatten()
            for row in size.topk(min(WORST, counts[1])).indices.tolist():
                pair, wavelength = divmod(row, residual.shape[1])
                self._rows.append((float(size[row]), (*at, pair, first + wavelength)))
            self._rows = sorted(self._rows, reverse=True)[:WORST]

    def join(self, other: "Tally") -> None:
        """Add the counts and worst cases of another tally."""
        self._counts += other._counts
        self._worst = np.maximum(self._worst, other._worst)
        self._rows = sorted(self._rows + other._rows, reverse=True)[:WORST]

    def summary(self) -> Summary:
        """Summary of all blocks until now."""
        geodesics, unconverged, evaluations, checked = self._counts.tolist()
        residual, endpoint, drift = self._worst.tolist()
        return Summary(
            method=self._method,
            geodesics=geodesics,
            unconverged=unconverged,
            evaluations=evaluations,
            residual_max=residual,
            endpoint_error_max=endpoint,
            speed_drift_max=drift,
            checked_on_network=checked,
        )

    def worst_rows(self, series: Series) -> str:
        """The rows that miss most, in the reader's units."""
        source, target = (index.tolist() for index in ordered_pairs(len(series.concentrations)))
        levels, unit = series.concentrations, series.labels["concentration_unit"]
        return "; ".join(
            f"{levels[source[pair]]:g} to {levels[target[pair]]:g} {unit} at "
            f"{series.axis[wavelength]:g} {series.labels['axis_unit']} (member {member}, fold "
            f"{fold}): {f'{size:.1e}' if math.isfinite(size) else 'not finite'}"
            for size, (member, fold, pair, wavelength) in self._rows
        )
