"""Nested leave-one-out of every series of a folder, and one table of scores.

The table is written after every series. A new run keeps the rows whose fingerprint matches the
current files, parameters and code, so that an interrupted run resumes. A table has the series of
one folder, and one process at a time writes it.
"""

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from geonode import __version__
from geonode.compute.device import Device, resolve
from geonode.compute.processes import finished, processes_for
from geonode.config import Parameters, SpectraParameters
from geonode.errors import ArtifactError, GeonodeError, ParameterError, SpectraError
from geonode.estimation.series_fit import fit_steps
from geonode.evaluation.panel_scores import PARTS, Job, row_of_parts, score_part
from geonode.evaluation.panel_table import PanelRow, read_table, row_of, to_csv
from geonode.machine import machine
from geonode.progress import Progress, silent
from geonode.spectra.folder import parameters_of_folder
from geonode.spectra.reading import files_of
from geonode.spectra.series import Series, read_series_csv
from geonode.storage.atomic import scratch_folder, write_bytes
from geonode.storage.document import encode_json
from geonode.storage.lineage import code_digest

BLOCKS = {"precision", "inner", "metric", "decoders"}
"""Blocks of parameters that the scores of all series depend on."""


class PendingSeries(NamedTuple):
    """Series still to be scored.

    Attributes:
        series: series on its given chart.
        fingerprint: hash of all inputs of its scores.
        steps: largest number of steps of training and prediction.
    """

    series: Series
    fingerprint: str
    steps: int

    @property
    def work(self) -> int:
        """Size of the work, by which the longest begins first: steps on pairs of levels."""
        return self.steps * len(self.series.concentrations)


@dataclass(frozen=True)
class Panel:
    """Folder of series, with the table of their scores.

    Attributes:
        out: file of the table.
        parameters: parameters of all series; `spectra` is for those without a file of their own.
        device: device to train on.
        rows: rows by name of the series that have scores or cannot have any.
        pending: other series by name.
    """

    out: Path
    parameters: Parameters
    device: Device
    rows: dict[str, PanelRow]
    pending: dict[str, PendingSeries]

    @classmethod
    def of(cls, folder: Path, out: Path, parameters: Parameters) -> "Panel":
        """Read a folder, and the rows of an existing table that are still valid.

        A series that cannot be read, or has too few levels, gets a row with the error.

        Args:
            folder: folder for `parameters_of_folder`.
            out: a file .json or .csv, which `write` replaces.
            parameters: parameters of all series.

        Raises:
            ParameterError: `out` is of neither format or a CSV in the folder itself, or a file of
                parameters is wrong.
            SpectraError: there is no such folder, or it is empty.
            DeviceError: the device is absent.
            ArtifactError: `out` exists and is no such table, or that of another folder.
        """
        _require_format(folder, out)
        device = resolve(parameters.device, parameters.precision, parameters.memory_mb)
        rows, pending = {}, {}
        found, stored = parameters_of_folder(folder, parameters.spectra), read_table(out)
        _require_series(folder, out, set(stored) - set(found))
        digest = _digest(parameters, device)
        for name, own in sorted(found.items()):
            try:
                fingerprint = _fingerprint(own, digest)
                known = row_of(stored.get(name))
                if known is not None and known.fingerprint == fingerprint:
                    rows[name] = known
                    continue
                series = read_series_csv(own)
                steps = _steps(series, parameters, device)
                pending[name] = PendingSeries(series, fingerprint, steps)
            except GeonodeError as error:
                rows[name] = PanelRow(error=str(error))
        return cls(out, parameters, device, rows, pending)

    @classmethod
    @contextmanager
    def opened(cls, folder: Path, out: Path, parameters: Parameters) -> Iterator["Panel"]:
        """Panel as of `of`, whose table no other process opens until the context ends.

        Raises:
            ArtifactError: another process has it open.
        """
        _require_format(folder, out)
        with scratch_folder(out.with_name(f"{out.name}.panel")):  # `write` takes the lock of `out`
            yield cls.of(folder, out, parameters)

    @property
    def processes(self) -> int:
        """Number of processes to use on this machine."""
        return processes_for(len(PARTS) * len(self.pending), self.device.kind)

    @property
    def failed(self) -> dict[str, str]:
        """Error messages of the series without scores, by name."""
        return {n: row.error for n, row in sorted(self.rows.items()) if row.error is not None}

    def score(self, report: Progress = silent, processes: int = 1) -> Iterator[str]:
        """Score the pending series, and write the table after each.

        A series is scored in two independent parts, so that two processes help even with one
        series. Those with most work come first, to keep all processes busy to the end.

        Args:
            report: called after every step.
            processes: number of processes.

        Yields:
            Name of a series whose row was written, with scores or the error.

        Raises:
            ArtifactError: the table cannot be written; the older one is then intact.
            EngineError: a process died.
        """
        device = self.device.shared(processes)
        names = sorted(self.pending, key=lambda name: -self.pending[name].work)
        jobs = [
            Job(name, part, self.pending[name].series, self.parameters, device)
            for name in names
            for part in PARTS
        ]
        parts: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        for job, columns in finished(score_part, jobs, processes, report):
            parts[job.name].append(columns)
            if len(parts[job.name]) == len(PARTS):
                row = row_of_parts(parts[job.name], self.pending[job.name].fingerprint)
                self.rows[job.name] = row
                self.write()
                yield job.name

    def write(self) -> None:
        """Write the table with the present rows, atomically.

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
            "environment": self.device.describe() | machine() | {"geonode": __version__},
            "series": rows,
        }
        write_bytes(self.out, encode_json(self.out, content))


def _steps(series: Series, parameters: Parameters, device: Device) -> int:
    levels = len(series.concentrations)
    blocks = (parameters.inner, parameters.metric, parameters.decoders)
    return fit_steps(levels, blocks, device) + 3 * levels


# checks and fingerprints


def _require_format(folder: Path, out: Path) -> None:
    expected = "a file .json or .csv"
    if out.suffix == ".csv" and out.parent.resolve() == folder.resolve():
        expected = f"a file outside of {folder}, where every CSV is a series"
    elif out.suffix in (".json", ".csv"):
        return
    raise ParameterError("command line", "--out", str(out), expected)


def _require_series(folder: Path, out: Path, others: set[str]) -> None:
    """Refuse a table with rows that would be lost.

    Raises:
        ArtifactError: there are rows of other series than those of the folder.
    """
    if others:
        named = ", ".join(sorted(others)[:5]) + (", ..." if len(others) > 5 else "")
        raise ArtifactError(
            f"{out}: found {len(others)} rows of series that {folder} has not ({named}), expected "
            "rows of its series alone; name another file by --out, or take these rows out"
        )


def _digest(parameters: Parameters, device: Device) -> str:
    """SHA-256 of the parameters of all series, with the chosen device for `auto`."""
    values = parameters.model_dump(mode="json", include=BLOCKS) | {"device": device.kind}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def _fingerprint(own: SpectraParameters, digest: str) -> str:
    """SHA-256 of all inputs of the scores of a series: files, own and common parameters, code."""
    values = own.model_dump(mode="json", exclude={"source"})
    head = json.dumps([values, digest, __version__, code_digest()], sort_keys=True)
    found = hashlib.sha256(head.encode())
    for source in map(Path, filter(None, (own.source, own.concentrations))):
        try:
            for file in files_of(source):
                name, content = file.relative_to(source).as_posix(), file.read_bytes()
                found.update(json.dumps([name, len(content)]).encode() + content)
        except OSError as error:
            raise SpectraError(f"{source}: {error.strerror}; expected a file") from error
    return found.hexdigest()
