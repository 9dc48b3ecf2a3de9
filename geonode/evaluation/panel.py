"""Scores of every series of a folder, as one table.

Models that were learned before come from the store of the user, so that a run that was interrupted,
or a second one, learns nothing again.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from geonode.compute.device import Device, resolve
from geonode.compute.processes import finished
from geonode.config import Parameters
from geonode.errors import GeonodeError
from geonode.estimation.curve import posteriors_at_knots
from geonode.evaluation.baselines import BASELINES
from geonode.evaluation.evaluate import (
    CHOSEN_BASELINE,
    GEONODE,
    Job,
    Learned,
    classical,
    score_rows,
)
from geonode.learning.folds import leave_one_out
from geonode.posterior.prior import packaged_prior
from geonode.prediction.model import SpectralModel
from geonode.progress import Progress, silent
from geonode.reading.folder import parameters_of_folder
from geonode.reading.series_file import read_series_csv
from geonode.spectra.series import Series, require_levels
from geonode.spectra.table import FEWEST_LEVELS
from geonode.storage.document import write_text
from geonode.storage.table import Column, Table

COLUMNS = (
    *("series", "levels", "wavelengths", "method", "seed", "rmse", "q2", "mean_r2", "pooled_r2"),
    *("interior_pooled_r2", "coverage90", "coverage90_interior", "coverage90_ends"),
    *("concentration_error", "concentration_rmsep", "concentration_coverage90"),
    *("concentration_coverage90_interior", "concentration_coverage90_ends", "seconds", "error"),
)
"""Columns of the table: those of `score_rows`, and the message of a series without scores."""

JOBS_OF_SERIES = 2
"""Independent jobs of every series, so that two processes help even with one."""


@dataclass(frozen=True)
class Panel:
    """Folder of series, and what is known of their scores."""

    parameters: Parameters  # parameters of all series
    device: Device  # device to train on, or to compute posteriors on where it is `batched`
    series: dict[str, Series] = field(default_factory=dict)  # series to be scored, by name
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Rows of the table, by name of a series; one with the `error` if it has no scores."""

    @classmethod
    def of(cls, folder: Path, parameters: Parameters) -> "Panel":
        """Read a folder. A series that cannot be read, or has too few levels, gets an error.

        The parameter `spectra` is for series without a file of their own.

        Raises:
            ParameterError: a file of parameters is wrong.
            SpectraError: there is no such folder, or it is empty.
            DeviceError: the device is absent.
        """
        device = resolve(parameters.device, parameters.precision, parameters.memory_mb)
        found = cls(parameters, device)
        for name, own in sorted(parameters_of_folder(folder, parameters.spectra).items()):
            try:
                series = read_series_csv(own)
                require_levels(series.concentrations)
                found.series[name] = series
            except GeonodeError as error:
                found.rows[name] = [{"series": name, "error": str(error)}]
        return found

    @property
    def failed(self) -> dict[str, str]:
        """Error messages of the series without scores, by name."""
        return {
            name: row["error"]
            for name in sorted(self.rows)
            if "error" in (row := self.rows[name][0])
        }

    @property
    def batched(self) -> bool:
        """True if a GPU with double precision has nothing to train, and so computes posteriors."""
        trained = SpectralModel.steps(FEWEST_LEVELS, self.parameters, self.device)
        return self.device.kind == "cuda" and not trained

    def steps(self, name: str) -> int:
        """Steps that are reported for a series, at most."""
        levels = len(self.series[name].concentrations)
        return Learned(self.parameters, self.device).steps(levels) + 2 * levels

    def score(self, report: Progress = silent, processes: int = 1) -> Iterator[str]:
        """Score all series, those with most work first, to keep all processes busy to the end.

        `report` is called after every step.

        Yields:
            Name of a series that now has its rows.

        Raises:
            EngineError: a process died.
        """
        learned = Learned(self.parameters, self.device.shared(processes))
        parts: dict[str, list[list[dict[str, Any]]]] = {name: [] for name in self.series}
        for job, found in finished(rows_or_error, self._jobs(learned), processes, report):
            parts[job.name].append(found)
            if len(parts[job.name]) == JOBS_OF_SERIES:
                errors = [rows for rows in parts[job.name] if "error" in rows[0]]
                self.rows[job.name] = errors[0] if errors else list(chain(*parts[job.name]))
                yield job.name

    def _jobs(self, learned: Learned) -> Iterator[Job]:
        """Jobs of all series. A GPU computes posteriors here while other processes are at work."""
        # All folds of all series of one shape together: those of one do not fill a GPU.
        work = {name: self.steps(name) * len(one.axis) for name, one in self.series.items()}
        shapes = defaultdict[tuple[int, ...], list[str]](list)
        for name in sorted(work, key=lambda name: -work[name]):
            if self.batched:
                shapes[self.series[name].signal.shape].append(name)
            else:
                yield Job(name, self.series[name], learned)
            yield Job(name, self.series[name], classical)
        for (levels, _), names in shapes.items():
            folds = leave_one_out(levels)[:-1]
            every = [(self.series[name], fold) for name in names for fold in folds]
            found = iter(posteriors_at_knots(every, packaged_prior(self.device.place)))
            for name in names:
                given = list(islice(found, levels))
                alone = replace(learned.device, kind="cpu")  # the GPU is for this process
                yield Job(name, self.series[name], replace(learned, given=given, device=alone))

    @property
    def table(self) -> pd.DataFrame:
        """A row for every method on every series, or one with the error of a series."""
        rows = chain.from_iterable(self.rows[name] for name in sorted(self.rows))
        return pd.DataFrame(rows, columns=COLUMNS)

    def write(self, out: Path) -> None:
        """Write the table with the present rows as CSV, atomically.

        Raises:
            ArtifactError: the operating system refuses.
        """
        columns = [
            Column(name, values.tolist(), digits=None, exponent=True)
            for name, values in self.table.items()
        ]
        write_text(out, Table("panel", "Methods on every series", columns).csv())

    def overview(self) -> pd.DataFrame:
        """The scores that matter, one row for every series, for the screen."""
        wide = self.table.pivot(index="series", columns="method")
        methods = [GEONODE, CHOSEN_BASELINE, "pls", *BASELINES]
        wide = wide.reindex(columns=pd.MultiIndex.from_product([COLUMNS, methods]))
        ours, rmse = wide.xs(GEONODE, axis=1, level=1), wide["rmse"].astype(float)
        baselines = rmse[[*BASELINES]]
        best = baselines.min(axis=1)
        columns = {
            "levels": ours.levels,
            "Q2": ours.q2,
            "R2": ours.pooled_r2,
            "interior R2": ours.interior_pooled_r2,
            "RMSE": ours.rmse,
            "best baseline": baselines.fillna(np.inf).idxmin(axis=1).where(best.notna()),
            "its RMSE": best,
            "ratio": rmse[GEONODE] / best,
            "skill": 1 - rmse[GEONODE] / rmse[CHOSEN_BASELINE],
            "coverage 90%": ours.coverage90,
            "concentration error": ours.concentration_error,
            "by PLS": wide["concentration_error", "pls"],
        }
        found = pd.DataFrame(columns).reindex(pd.Index(sorted(self.rows), name="series"))
        return found.replace([np.inf, -np.inf], np.nan)

    def text(self) -> str:
        """The overview, and the geometric mean of its ratios to the best baseline."""
        found = self.overview()
        mean = np.exp(np.log(found["ratio"].astype(float)).mean())
        cells = found.reset_index().to_string(index=False, na_rep="-", float_format="{:.4g}".format)
        words = "geometric mean of RMSE / RMSE of the best baseline"
        return f"{cells}\n{words}: {'-' if np.isnan(mean) else f'{mean:.4g}'}"


def rows_or_error(job: Job, report: Progress) -> list[dict[str, Any]]:
    """Rows of a job, or one with the error that stopped it."""
    try:
        return score_rows(job, report)
    except GeonodeError as error:
        return [{"series": job.name, "error": str(error)}]
