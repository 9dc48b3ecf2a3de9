"""Nested leave-one-out of every series of a folder, and one table of how well it does.

The table is written after every series. Begun again, it keeps the rows whose fingerprint is that
of the file and the parameters at hand, so that an interrupted run goes on where it was.
"""

import hashlib
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from geonode import __version__
from geonode.config import Parameters, SpectraParameters
from geonode.decoders.blend import BLENDS, training_steps
from geonode.devices.device import Device, environment, resolve
from geonode.errors import GeonodeError, ParameterError, SpectraError
from geonode.estimation.model import SpectralModel
from geonode.evaluation.baselines import BASELINES
from geonode.evaluation.comparison import Comparison
from geonode.evaluation.coverage import coverage
from geonode.evaluation.estimation import calibration_scores, estimate_left_out
from geonode.evaluation.panel_table import Row, read_table, row_of, to_csv
from geonode.evaluation.scores import series_scores
from geonode.progress import Progress, silent
from geonode.series_fit import fit_series
from geonode.spectra.folder import parameters_of_folder
from geonode.spectra.reading import files_of
from geonode.spectra.series import Series, read_series_csv
from geonode.storage.atomic import write_bytes
from geonode.storage.document import encode_json
from geonode.training.context import NestedRuns
from geonode.training.folds import leave_one_out

BLOCKS = {"precision", "inner", "metric", "decoders"}
"""Parameters, besides those of a series, that its scores depend on."""


class Task(NamedTuple):
    """A series that is to be scored.

    Attributes:
        series: on its given chart.
        fingerprint: of all that decides its scores.
        steps: of training and prediction, at most: kinds that are not trained take none.
    """

    series: Series
    fingerprint: str
    steps: int


@dataclass(frozen=True)
class Panel:
    """A folder of series, and the table of their scores.

    Attributes:
        out: file of the table.
        parameters: of all series; `spectra` only of those without some of their own.
        device: where to train.
        rows: by series, of those that are scored or cannot be.
        tasks: by series, of the others.
    """

    out: Path
    parameters: Parameters
    device: Device
    rows: dict[str, Row]
    tasks: dict[str, Task]

    @classmethod
    def of(cls, folder: Path, out: Path, parameters: Parameters) -> "Panel":
        """Read a folder, and of the table that is there already the rows that still hold.

        A series that cannot be read, or has too few levels, has its row with the error already.

        Args:
            folder: as `parameters_of_folder`.
            out: a file .json or .csv, which `write` replaces.
            parameters: of all series.

        Raises:
            ParameterError: `out` is of neither format or a CSV in the folder itself, or a file of
                parameters is wrong.
            SpectraError: there is no such folder, or it is empty.
            DeviceError: the device is absent.
            ArtifactError: `out` exists and is no such table.
        """
        _require_format(folder, out)
        device = resolve(parameters.device, parameters.precision, parameters.memory_mb)
        rows, tasks = {}, {}
        stored = read_table(out)
        digest = _digest(parameters, device)
        for name, own in sorted(parameters_of_folder(folder, parameters.spectra).items()):
            try:
                fingerprint = _fingerprint(own, digest)
                known = row_of(stored.get(name))
                if known is not None and known.fingerprint == fingerprint:
                    rows[name] = known
                    continue
                series = read_series_csv(own)
                tasks[name] = Task(series, fingerprint, _steps(series, parameters, device))
            except GeonodeError as error:
                rows[name] = Row(error=str(error))
        return cls(out, parameters, device, rows, tasks)

    @property
    def failed(self) -> dict[str, str]:
        """Why series could not be scored, by series."""
        return {n: row.error for n, row in sorted(self.rows.items()) if row.error is not None}

    def score(self, name: str, report: Progress = silent) -> Row:
        """Score a series, or note why it cannot be, and write the table.

        Args:
            name: one of `tasks`.
            report: told of every step.

        Raises:
            ArtifactError: the table cannot be written; the older one is then intact.
        """
        series, fingerprint, _ = self.tasks[name]
        try:
            row = score(series, self.parameters, self.device, report)
            self.rows[name] = row.model_copy(update={"fingerprint": fingerprint})
        except GeonodeError as error:
            self.rows[name] = Row(error=str(error))
        self.write()
        return self.rows[name]

    def write(self) -> None:
        """Write the rows there are, atomically.

        Raises:
            ArtifactError: the operating system refuses.
        """
        rows = {name: self.rows[name].model_dump() for name in sorted(self.rows)}
        if self.out.suffix == ".csv":
            write_bytes(self.out, to_csv(rows).encode())
            return
        content = {
            "parameters_digest": _digest(self.parameters, self.device),
            "preset": self.parameters.preset,
            "environment": environment(self.device) | {"geonode": __version__},
            "series": rows,
        }
        write_bytes(self.out, encode_json(self.out, content))


def score(series: Series, parameters: Parameters, device: Device, report: Progress = silent) -> Row:
    """Predict every level of a series from the others, by the learned way and by all baselines.

    What the pipeline does, but for the grid: path features come from the networks themselves.

    Args:
        series: on its given chart.
        parameters: blocks `metric`, `inner` and `decoders`.
        device: where to train.
        report: told of every step.

    Raises:
        TrainingError: as `fit_series`.
    """
    start = time.perf_counter()
    blocks = (parameters.inner, parameters.metric, parameters.decoders)
    learned, blend, features = fit_series(series, blocks, device, report)
    *_, whole = leave_one_out(len(series.concentrations))
    model = SpectralModel(series, learned, blend, whole)
    prediction = blend.left_out(series, features)
    measured, predicted = series.signal, prediction.spectra
    scores = series_scores(series.axis, series.concentrations, measured, predicted)
    comparison = Comparison.of(series, report).summary(scores["rmse"])
    baselines = comparison.pop("baselines")
    widths = prediction.half_width
    held = None if widths is None else coverage(measured, predicted, widths)["90"]
    return Row(
        q2=scores["q2"],
        pooled_r2=scores["pooled_r2"],
        interior_pooled_r2=scores["interior_pooled_r2"],
        mean_r2=scores["mean_r2"],
        rmse=scores["rmse"],
        **comparison,
        coverage90=held and held["all"],
        coverage90_interior=held and held["interior"],
        coverage90_ends=held and held["ends"],
        **_of_concentrations(model, report),
        levels=len(series.concentrations),
        wavelengths=len(series.axis),
        seconds=time.perf_counter() - start,
        baseline_rmse={name: found["rmse"] for name, found in baselines.items()},
    )


def _of_concentrations(model: SpectralModel, report: Progress) -> dict[str, Any]:
    """Columns about left-out concentrations; those of estimates only where the model gives them."""
    columns = {
        f"{name}_error": scores["median_error_of_range"]
        for name, scores in calibration_scores(model.series).items()
    }
    estimated = estimate_left_out(model, report)
    if estimated is None:
        return columns
    summary = estimated.summary()
    places = ("coverage90", "coverage90_interior", "coverage90_ends")
    return columns | {
        "concentration_error": summary["median_error_of_range"],
        "concentration_rmsep": summary["rmsep_of_range"],
        **{f"concentration_{place}": summary[place] for place in places},
    }


def _steps(series: Series, parameters: Parameters, device: Device) -> int:
    levels, inner, block = len(series.concentrations), parameters.inner, parameters.decoders
    steps = NestedRuns.of(levels, parameters.metric.members, inner, device).models
    steps *= parameters.metric.epochs
    decoders = NestedRuns.of(levels, block.members, inner, device)
    steps += training_steps(BLENDS[block.kind], block, decoders)
    return steps + len(BASELINES) + 2 * levels


# what is refused, and what decides the scores


def _require_format(folder: Path, out: Path) -> None:
    expected = "a file .json or .csv"
    if out.suffix == ".csv" and out.parent.resolve() == folder.resolve():
        expected = f"a file outside of {folder}, where every CSV is a series"
    elif out.suffix in (".json", ".csv"):
        return
    raise ParameterError("command line", "--out", str(out), expected)


def _digest(parameters: Parameters, device: Device) -> str:
    """SHA-256 of the parameters of all series; `device: auto` is what it chose."""
    values = parameters.model_dump(mode="json", include=BLOCKS) | {"device": device.kind}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _fingerprint(own: SpectraParameters, digest: str) -> str:
    """SHA-256 of all that decides the scores of a series: also its file, its own parameters."""
    try:
        content = b"".join(file.read_bytes() for file in files_of(Path(own.source)))
    except OSError as error:
        raise SpectraError(f"{own.source}: {error.strerror}; expected a file") from error
    values = own.model_dump(mode="json", exclude={"source"})
    head = json.dumps([values, digest, __version__], sort_keys=True)
    return hashlib.sha256(head.encode() + b"\0" + content).hexdigest()


# the table as a file
