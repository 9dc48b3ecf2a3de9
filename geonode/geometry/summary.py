"""Counts and worst cases of many solved geodesics, collected block by block."""

import math
from dataclasses import dataclass, field, fields

import numpy as np
import torch

from geonode.geometry.problem import Solution, ordered_pairs
from geonode.geometry.verification import NetworkErrors
from geonode.spectra.series import Series

WORST = 3  # rows that an error names


@dataclass
class Summary:
    """Counts and worst cases over all geodesics.

    Attributes:
        method: that solved them.
        geodesics: rows solved.
        unconverged: rows whose residual exceeds the tolerance, or is not finite.
        evaluations: positions at which the method asked for the geometry.
        residual_max: largest endpoint residual on the grid (chart units); NaN if one is.
        endpoint_error_max: largest endpoint error of the checked rows on the network.
        speed_drift_max: largest relative drift of their speed on the network.
        checked_on_network: converged rows checked on the network in float64.
        worst: residual and (member, fold, pair, wavelength) of the rows that miss most.
    """

    method: str
    geodesics: int = 0
    unconverged: int = 0
    evaluations: int = 0
    residual_max: float = 0.0
    endpoint_error_max: float = 0.0
    speed_drift_max: float = 0.0
    checked_on_network: int = 0
    worst: list[tuple[float, tuple[int, ...]]] = field(default_factory=list)

    def add(
        self, at: tuple[int, int], first: int, solution: Solution, errors: NetworkErrors
    ) -> None:
        """Neighbouring wavelengths of one (member, fold), from the first one on."""
        missed, residual = ~solution.converged, solution.residual.abs()
        count = int(missed.sum())
        lost = ~(solution.v0.isfinite() & residual.isfinite())
        sizes = torch.where(missed, residual.masked_fill(lost, torch.inf), -torch.inf)
        largest = sizes.cpu().flatten().topk(min(WORST, count))
        rows = [divmod(row, residual.shape[1]) for row in largest.indices.tolist()]
        worst: list[tuple[float, tuple[int, ...]]] = [
            (size, (*at, pair, first + wavelength))
            for size, (pair, wavelength) in zip(largest.values.tolist(), rows, strict=True)
        ]
        found = (residual, errors.endpoint.abs(), errors.drift)
        residual_max, endpoint, drift = (float(p.max()) if p.numel() else 0.0 for p in found)
        asked, checked = int(solution.evaluations.sum()), len(errors.endpoint)
        counts = (residual.numel(), count, asked)
        self.join(Summary(self.method, *counts, residual_max, endpoint, drift, checked, worst))

    def join(self, other: "Summary") -> None:
        """Add the counts and worst cases of others."""
        for name in ("geodesics", "unconverged", "evaluations", "checked_on_network"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("residual_max", "endpoint_error_max", "speed_drift_max"):
            found = np.maximum(getattr(self, name), getattr(other, name))  # NaN, if there is one
            setattr(self, name, float(found))
        self.worst = sorted(self.worst + other.worst, reverse=True)[:WORST]

    def metrics(self) -> dict[str, str | int | float]:
        """Document of counts and worst cases."""
        names = [part.name for part in fields(self) if part.name != "worst"]
        return {name: getattr(self, name) for name in names}

    def worst_rows(self, series: Series) -> str:
        """The rows that miss most, in the reader's units."""
        source, target = (index.tolist() for index in ordered_pairs(len(series.concentrations)))
        levels, unit = series.concentrations, series.labels["concentration_unit"]
        return "; ".join(
            f"{levels[source[pair]]:g} to {levels[target[pair]]:g} {unit} at "
            f"{series.axis[wavelength]:g} {series.labels['axis_unit']} (member {member}, fold "
            f"{fold}): {f'{size:.1e}' if math.isfinite(size) else 'not finite'}"
            for size, (member, fold, pair, wavelength) in self.worst
        )
