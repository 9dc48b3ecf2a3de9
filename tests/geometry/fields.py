"""Fields whose geometry is known by formula."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tests.geometry.closed_forms import Known


@dataclass(frozen=True)
class FormulaField:
    """One known metric for each row."""

    metrics: Sequence[Known]

    def __call__(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        if len(positions) != len(self.metrics):
            raise IndexError(f"{len(self.metrics)} rows")
        rows = list(zip(self.metrics, positions, strict=True))
        log_sqrt = torch.stack([metric.log_sqrt(x) for metric, x in rows])
        return log_sqrt, torch.stack([metric.symbol(x) for metric, x in rows])

    def __getitem__(self, rows: Tensor) -> "FormulaField":
        return FormulaField([self.metrics[row] for row in rows.tolist()])
