"""Damaged artifacts, which `geonode verify` and the stage that reads them must report."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.project import Bench, Child, FaultRow, copy, made, repro, run_command, stage
from geonode.devices.device import Device
from geonode.errors import GeonodeError
from geonode.estimation.model import SpectralModel
from geonode.geodesics.solved import read_features
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.stored import StoredGrids
from geonode.spectra.series import read_series
from geonode.storage.document import read_document
from geonode.storage.integrity import verify
from geonode.storage.lineage import consistent_artifacts

DEVICE = "data/device.json"
SPECTRA, METRIC = "data/spectra.zarr", "data/metric.safetensors"
CHRISTOFFEL, GEODESICS = "data/christoffel.zarr", "data/geodesics.zarr"
DECODERS = "data/decoders.safetensors"

YEARS = (1971, 2100)
"""Years of wrong clocks."""


class Reader(NamedTuple):
    """Reader of an artifact.

    Attributes:
        stage: a stage that reads it.
        read: function that reads it as the stage does, in the folder of a project.
    """

    stage: str
    read: Callable[[Path], object]


def _read_metrics(root: Path) -> object:
    with consistent_artifacts(root / SPECTRA, root / METRIC):
        return LearnedMetrics.read(root / METRIC)


def _read_grids(root: Path) -> object:
    with consistent_artifacts(root / SPECTRA, root / METRIC, root / CHRISTOFFEL):
        learned = LearnedMetrics.read(root / METRIC)
        return StoredGrids(root / CHRISTOFFEL, learned, read_series(root / SPECTRA))


def _read_features(root: Path) -> object:
    with consistent_artifacts(root / SPECTRA, root / METRIC, root / GEODESICS):
        return read_features(root / GEODESICS, read_series(root / SPECTRA))


READERS = {
    DEVICE: Reader("metric", lambda root: Device.from_description(read_document(root / DEVICE))),
    SPECTRA: Reader("metric", lambda root: read_series(root / SPECTRA)),
    METRIC: Reader("christoffel", _read_metrics),
    CHRISTOFFEL: Reader("geodesics", _read_grids),
    GEODESICS: Reader("decoders", _read_features),
    DECODERS: Reader("validate", lambda root: SpectralModel.read(root / "data")),
}
"""Readers of all sealed artifacts."""

TOGETHER = {
    "christoffel": (SPECTRA, METRIC),
    "geodesics": (SPECTRA, METRIC, CHRISTOFFEL),
    "decoders": (SPECTRA, METRIC, GEODESICS),
    "validate": (SPECTRA, METRIC, GEODESICS, DECODERS),
    "report": (SPECTRA, CHRISTOFFEL, GEODESICS),
}
"""Artifacts that a stage reads together, which must be of one run."""

UNSEALED = ("data/synthetic.csv", "metrics")


def flip(bench: Bench, file: Path) -> None:
    """Flip one random bit."""
    content = bytearray(file.read_bytes())
    content[bench.choose.randrange(len(content))] ^= 1 << bench.choose.randrange(8)
    file.write_bytes(content)


def cut(bench: Bench, file: Path) -> None:
    """Truncate a file at a random place."""
    content = file.read_bytes()
    file.write_bytes(content[: bench.choose.randrange(1, len(content))])


def empty(_: Bench, file: Path) -> None:
    """Empty a file."""
    file.write_bytes(b"")


def remove(_: Bench, file: Path) -> None:
    """Remove a file."""
    file.unlink()


def exchange(bench: Bench, file: Path) -> None:
    """Replace a file by that of another run."""
    file.write_bytes((bench.other / file.relative_to(bench.work)).read_bytes())


DAMAGES: dict[str, tuple[str, Callable[[Bench, Path], None]]] = {
    "flipped bit": ("one random bit of a random file", flip),
    "cut file": ("a random part of a random file", cut),
    "empty file": ("a random file emptied", empty),
    "lost file or chunk": ("a random file removed", remove),
    "file of another run": ("a random file exchanged", exchange),
}


def damaged(bench: Bench, flips: int, others: int) -> Iterator[FaultRow]:
    """Every damage to random files of all sealed artifacts, with the readers in this process.

    Args:
        bench: the projects.
        flips: trials of flipped bits.
        others: trials of every other damage.
    """
    for fault, (how, damage) in DAMAGES.items():
        trials = flips if damage is flip else others
        problems = []
        for _ in range(trials):
            # The device is the same in every run.
            known = [name for name in READERS if damage is not exchange or name != DEVICE]
            artifact = bench.choose.choice(known)
            problem = _unreported(bench, artifact, _file(bench, artifact, damage), damage)
            problems += [problem] if problem else []
        reported = "reported by `geonode verify` and by the reader, with file and array"
        yield FaultRow(fault, f"{how} of all sealed artifacts; {reported}", trials, tuple(problems))
    yield _unsealed(bench, others)


def by_command(bench: Bench, trials: int) -> FaultRow:
    """Flipped bits, with `geonode verify` and a stage as processes."""
    problems = []
    for trial in range(trials):
        artifact = list(READERS)[trial % len(READERS)]
        file = _file(bench, artifact, flip)
        kept = file.read_bytes()
        flip(bench, file)
        runs = {
            "geonode verify": (1, Child(bench.work, run_command, "verify").finish()),
            READERS[artifact].stage: (2, stage(bench.work, READERS[artifact].stage).finish()),
        }
        for name, (expected, (status, text)) in runs.items():
            if status != expected or artifact not in text:
                problems.append(f"{name}: status {status} of {file.name}: {text.strip()}")
        file.write_bytes(kept)
        if wrong := bench.differing():
            problems.append(wrong)
            bench.restore()
    how = "one random bit; reported by `geonode verify` and a stage as processes, nothing written"
    return FaultRow("flipped bit", how, trials, tuple(problems))


def of_another_run(bench: Bench) -> FaultRow:
    """Intact artifacts of another run, with every stage that reads several as a process."""
    pairs = [(name, artifact) for name, read in TOGETHER.items() for artifact in read]
    problems = []
    for name, artifact in pairs:
        copy(bench.other / artifact, bench.work / artifact)
        findings = [found.message for found in verify(bench.work) if found.problem == "stale"]
        if not any(artifact in message for message in findings):
            problems.append(f"{artifact}: verify found {findings}")
        status, text = stage(bench.work, name).finish()
        if status != 2 or artifact not in text or "of another run" not in text:
            problems.append(f"{name}: status {status} of {artifact}: {text.strip()}")
        copy(bench.whole / artifact, bench.work / artifact)
        if wrong := bench.differing():
            problems.append(wrong)
            bench.restore()
    how = "a whole artifact exchanged; reported by `geonode verify`, whatever `dvc.lock` says, and "
    how += "by every stage that reads it with others, as a process, nothing written"
    return FaultRow("artifact of another run", how, len(pairs), tuple(problems))


def wrong_clock(bench: Bench) -> FaultRow:
    """Files with times of wrong clocks, with `geonode verify` and `dvc repro`."""
    years = (*YEARS, None)
    problems = []
    bench.restore()  # including records, which differ between runs
    for year in years:
        for name in made(bench.work):
            at = bench.choose.randrange(*YEARS) if year is None else year
            seconds = (at - 1970) * 365 * 24 * 3600
            os.utime(bench.work / name, (seconds, seconds))
        if found := [one.message for one in verify(bench.work) if one.problem != "absent"]:
            problems.append(f"{year}: verify found {found}")
        text, _ = repro(bench.work).communicate()
        ran = re.findall("Running stage '(.*?)'", text)
        if ran != ["probe"]:
            problems.append(f"{year}: dvc repro ran {ran}")
        if wrong := bench.differing():
            problems.append(f"{year}: {wrong}")
            bench.restore()
    how = "every output of 1971, of 2100, or each of another year; intact to `geonode verify`, and "
    how += "`dvc repro` runs no stage again"
    return FaultRow("wrong clock", how, len(years), tuple(problems))


def _file(bench: Bench, artifact: str, damage: Callable[[Bench, Path], None]) -> Path:
    """Random file of an artifact; to exchange it, one that differs in another run."""
    path = bench.work / artifact
    files = sorted(file for file in path.rglob("*") if file.is_file()) or [path]
    if damage is exchange:
        twins = {file: bench.other / file.relative_to(bench.work) for file in files}
        files = [
            file
            for file, twin in twins.items()
            if twin.is_file() and twin.read_bytes() != file.read_bytes()
        ] or files
    return bench.choose.choice(files)


def _unreported(
    bench: Bench, artifact: str, file: Path, damage: Callable[[Bench, Path], None]
) -> str:
    """Damage a file, check the reports, and restore it; a message if a report is missing."""
    kept = file.read_bytes()
    damage(bench, file)
    try:
        inside = file != bench.work / artifact
        part = file.relative_to(bench.work / artifact).as_posix() if inside else ""
        named = [artifact, part, f"array {part.split('/')[0]!r}" if "/" in part else ""]
        if damage is exchange and part == "zarr.json":
            named = [artifact]  # the root and the files that it lists are of two runs
        finding = next((found for found in verify(bench.work) if found.path == artifact), None)
        if finding is None or not all(name in finding.message for name in named):
            return f"{artifact}: {part}: {damage.__name__}: verify found {finding}"
        try:
            READERS[artifact].read(bench.work)
        except GeonodeError as error:
            message = str(error)
        else:
            message = "nothing"
        if not all(name in message for name in named):
            return f"{artifact}: {part}: {damage.__name__}: the reader says {message}"
        return ""
    finally:
        file.write_bytes(kept)


def _unsealed(bench: Bench, trials: int) -> FaultRow:
    """Flipped bits in tables, figures and metrics, whose only checksum is in `dvc.lock`."""
    files = [
        file
        for name in UNSEALED
        for file in (bench.work / name, *(bench.work / name).rglob("*"))
        if file.is_file()
    ]
    problems = []
    for _ in range(trials):
        file = bench.choose.choice(sorted(files))
        kept, name = file.read_bytes(), file.relative_to(bench.work).as_posix()
        flip(bench, file)
        if not any(found.path == name for found in verify(bench.work)):
            problems.append(f"{name}: verify found nothing")
        file.write_bytes(kept)
    how = "one random bit of a table, a figure or metrics; reported by `geonode verify`"
    return FaultRow("flipped bit", how, trials, tuple(problems))
