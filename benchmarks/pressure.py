"""Stages without disk space or permission, concurrent writers, and long work."""

import importlib
import math
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import typer

from benchmarks.crash import BEING_WRITTEN
from benchmarks.project import (
    CHECKPOINTS,
    MADE,
    STAGES,
    Bench,
    Child,
    FaultRow,
    made,
    repro,
    run_stage,
    stage,
)
from geonode.decoders.kinds import KINDS
from geonode.decoders.path_features import path_features
from geonode.devices.device import Device
from geonode.errors import ArtifactError
from geonode.geodesics.solved import solve_all
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.stored import StoredGrids
from geonode.observation.usage import GROWTH, Growth, own_memory
from geonode.parameters_file import read_parameters
from geonode.spectra.series import read_series
from geonode.storage.artifact import open_artifact
from geonode.storage.artifact_writer import artifact_writer
from geonode.storage.document import read_document
from geonode.training.context import TrainingRun
from geonode.training.folds import leave_one_out, training_wavelengths

SHARES = (0.0, 0.3, 0.9)
"""Available space as shares of the largest file or of the largest output."""

NOBODY = 65534
DISK_MB = 64
ARRAYS = ("mapped", "stored")


@dataclass(frozen=True)
class Limit:
    """Limit of a stage.

    Attributes:
        fault: name of the limit.
        provoked: description of the limit.
        impose: function that imposes it in the process of the stage.
        expected: parts of the expected error message.
    """

    fault: str
    provoked: str
    impose: Callable[[], None]
    expected: tuple[str, ...]


def _limited(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def _forbidden(name: str) -> None:
    """Run the stage once, then make the folders of its outputs read-only.

    The superuser may write anywhere, so the process becomes another user, who perhaps may not read
    the packages; they are imported by then.
    """
    importlib.import_module(f"stages.{name}").app([], standalone_mode=False)
    _allow(Path.cwd(), 0o555)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def _stage_within(impose: Callable[[], None], name: str) -> None:
    impose()
    run_stage(name)


def _refused(bench: Bench, name: str, limit: Limit) -> str:
    """Problem, if any, of a stage that rewrites the outputs of another run under a limit."""
    status, text = Child(bench.work, _stage_within, limit.impose, name).finish()
    last = next((line for line in text.splitlines() if line.startswith("error: ")), "")
    missing = [part for part in ("cannot be written", *limit.expected) if part not in last]
    if status != 2 or missing:
        return f"{name}: status {status}, without {missing}: {text.strip()}"
    left = set(made(bench.work)) - set(made(bench.whole)) - set(made(bench.other))
    left = {file for file in left if not file.startswith(CHECKPOINTS)}  # for the next run
    if left:
        return f"{name}: left {', '.join(sorted(left))}"
    return bench.torn(name)


def files_too_large(bench: Bench) -> FaultRow:
    """Every stage with a size limit below its largest file."""
    problems = []
    for name in STAGES:
        for share in SHARES:
            bench.give(name, bench.other)
            files = [bench.other / file for file in made(bench.other, *bench.outputs[name])]
            size = int(share * max(file.stat().st_size for file in files if file.is_file()))
            limit = Limit(
                "largest file",
                "a limit (RLIMIT_FSIZE) of 0, 30 and 90% of the largest file, every stage",
                partial(_limited, size),
                (f"{size:,} bytes", "ulimit -f"),
            )
            problems += [problem for problem in [_refused(bench, name, limit)] if problem]
            bench.restore()
    return FaultRow(limit.fault, limit.provoked, len(STAGES) * len(SHARES), tuple(problems))


def disk_full(bench: Bench, folder: Path) -> FaultRow:
    """Every stage on a disk with less space than its largest output needs."""
    how = "a tmpfs with room for 0, 30 and 90% of the largest output, every stage"
    with _disk(folder) as mounted:
        if not mounted:
            return FaultRow("full disk", how, 0, note="needs the right to mount")
        small = Bench(
            bench.whole, bench.other, folder / "work", bench.seconds, bench.outputs, bench.choose
        )
        small.work.mkdir()
        shutil.copy2(bench.work / "params.yaml", small.work)
        problems = []
        for name in STAGES:
            for share in SHARES:
                small.restore()
                small.give(name, bench.other)
                sizes = [_pages(bench.other / path) for path in bench.outputs[name]]
                _fill(folder / "full", math.floor(share * max(sizes)))
                limit = Limit("full disk", how, _nothing, ("bytes free", "make room"))
                problems += [problem for problem in [_refused(small, name, limit)] if problem]
                (folder / "full").unlink()
        return FaultRow("full disk", how, len(STAGES) * len(SHARES), tuple(problems))


def read_only(bench: Bench) -> FaultRow:
    """Every stage in read-only folders."""
    how = "data/ and metrics/ without the right to write, not as the superuser, every stage"
    problems = []
    for name in STAGES:
        impose, expected = partial(_forbidden, name), ("Permission denied", "make ", "writable")
        problem = _refused(bench, name, Limit("read-only folder", how, impose, expected))
        _allow(bench.work, 0o755)
        problem = problem or bench.differing()
        problems += [problem] if problem else []
    return FaultRow("read-only folder", how, len(STAGES), tuple(problems))


def two_stages(bench: Bench, trials: int) -> FaultRow:
    """A stage started twice at the same moment."""
    problems, count = [], 0
    for trial in range(trials):
        name = STAGES[trial % len(STAGES)]
        bench.give(name, bench.other)
        ended = [child.finish() for child in [stage(bench.work, name) for _ in range(2)]]
        refused = [text for status, text in ended if status]
        count += len(refused)
        if len(refused) == 2 or not all(BEING_WRITTEN in text for text in refused):
            problems.append(f"{name}: {ended}")
        elif wrong := bench.differing():
            problems.append(f"{name}: {wrong}")
        bench.restore()
    note = f"{count} were refused as the other one was writing, the others wrote after it"
    return FaultRow("two writers", "the same stage twice at once", trials, tuple(problems), note)


def second_writer(folder: Path, trials: int) -> FaultRow:
    """An artifact that another process is writing until it is killed."""
    path, problems = folder / "held.zarr", []
    _write(path, 0.0)
    for _ in range(trials):
        holder = Child(folder, _hold, path)
        while not any(folder.glob(".held.zarr.geonode/new/*")):
            pass
        try:
            _write(path, 2.0)
            problems.append("a second writer was let in")
        except ArtifactError as error:
            if f"{BEING_WRITTEN} ({holder.process.pid})" not in str(error):
                problems.append(str(error))
        holder.kill()
        _write(path, 0.0)
        if [entry.name for entry in folder.iterdir()] != [path.name]:
            problems.append(f"left: {sorted(entry.name for entry in folder.iterdir())}")
    how = "an artifact begun while another process writes it; again when that one is killed"
    return FaultRow("two writers", how, trials, tuple(problems))


def torn_reads(folder: Path, trials: int) -> FaultRow:
    """Stored and mapped arrays read while another process keeps replacing the artifact."""
    path, problems, refused = folder / "read.zarr", [], 0
    _write(path, 0.0)
    writer = Child(folder, _rewrite, path)
    for _ in range(trials):
        try:
            artifact = open_artifact(path)
            found = np.concatenate([np.array(artifact[name]).ravel() for name in ARRAYS])
        except ArtifactError as error:
            refused += 1
            if "was replaced" not in str(error) and "not found" not in str(error):
                problems.append(str(error))
            continue
        if not (found == found[0]).all():
            problems.append(f"torn: {np.unique(found)}")
    if not writer.kill():
        problems.append("the writer failed")
    note = f"{trials - refused - len(problems)} were of one version, {refused} were refused"
    how = "all arrays read while another process keeps replacing the artifact"
    return FaultRow("reader and writer", how, trials, tuple(problems), note)


def two_pipelines(bench: Bench, trials: int) -> FaultRow:
    """`dvc repro` started twice at the same moment."""
    problems, count = [], 0
    for _ in range(trials):
        processes = [repro(bench.work) for _ in range(2)]
        ended = [(process.communicate()[0], process.returncode) for process in processes]
        refused = [text for text, status in ended if status]
        count += len(refused)
        if len(refused) == 2 or not all("lock" in text.lower() for text in refused):
            problems.append(f"dvc repro: {ended}")
        elif wrong := bench.differing():
            problems.append(wrong)
    note = f"{count} were refused by the lock of DVC"
    return FaultRow("two pipelines", "`dvc repro` twice at once", trials, tuple(problems), note)


def long_work(folder: Path) -> Iterator[FaultRow]:
    """Memory of a training of 1,000 epochs, and of geodesics in many tiles."""
    small = ("--wavelengths-step", "0.2")
    for name, options in (
        ("generate", small),
        ("spectra", ()),
        ("metric", ("--epochs", "1", "--checkpoint-every", "0")),
        ("christoffel", ()),
    ):
        status, text = stage(folder, name, *options).finish()
        if status:
            raise ArtifactError(f"{name}: {text}")
    for what, call in (("1,000 epochs of decoders", _train), ("geodesics in tiles", _solve)):
        status, text = Child(folder, call, folder).finish()
        *_, first, last = text.split()
        growth = int(last) / int(first) - 1
        problem = f"{what}: memory grew by {growth:.1%}" if status or growth > GROWTH else ""
        note = f"{int(first) / 1e6:,.0f} MB after a tenth, {growth:+.1%} at the end"
        yield FaultRow("long work", what, 1, (problem,) if problem else (), note)


def _train(folder: Path) -> None:
    series = read_series(folder / "data/spectra.zarr")
    learned = LearnedMetrics.read(folder / "data/metric.safetensors")
    block = read_parameters(folder / "params.yaml").decoders
    block = block.model_copy(update={"epochs": 1000, "checkpoint_every": 0})
    chosen = training_wavelengths(len(series.axis), block.wavelengths)
    features = path_features(learned, series, chosen)
    device = Device.from_description(read_document(folder / "data/device.json"))
    folds = leave_one_out(len(series.concentrations))
    growth = Growth(block.epochs * len(folds))
    KINDS["path"].fit(series, features, block, TrainingRun(folds, 1, device, report=growth.count))
    _print_memory(growth)


def _solve(folder: Path) -> None:
    series = read_series(folder / "data/spectra.zarr")
    learned = LearnedMetrics.read(folder / "data/metric.safetensors")
    block = read_parameters(folder / "params.yaml").geodesics
    block = block.model_copy(update={"memory_mb": 1})
    device = Device.from_description(read_document(folder / "data/device.json"))
    grids = StoredGrids(folder / "data/christoffel.zarr", learned, series)
    growth = Growth(learned.network.models)
    path = folder / "data/geodesics.zarr"
    solve_all(path, grids, learned, series, block, device, growth.count)
    _print_memory(growth)


def _print_memory(growth: Growth) -> None:
    typer.echo(f"{growth.first} {own_memory()}")


def _write(path: Path, value: float) -> None:
    """Write arrays of both kinds in several files, all of one number."""
    with artifact_writer(path, {}) as writer:
        shape, about = (3, 50, 70), {"units": "1", "long_name": "number"}
        mapped = writer.mapped("mapped", tuple("abc"), shape, "float64", **about)
        mapped[...] = value
        blocks = writer.stored_blocks(
            "stored", tuple("abc"), shape, "float64", block_dims=1, **about
        )
        for index in range(shape[0]):
            blocks[(index,)] = np.full(shape[1:], value)


def _rewrite(path: Path) -> None:
    value = 0.0
    while True:
        value += 1.0
        _write(path, value)


def _hold(path: Path) -> None:
    with artifact_writer(path, {}) as writer:
        writer.stored("held", ("a",), np.ones(3), units="1", long_name="held")
        while True:
            os.sched_yield()


@contextmanager
def _disk(folder: Path) -> Iterator[bool]:
    """Context with a small disk mounted at a folder; yields whether this was permitted."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(folder)]
    try:
        mounted = not subprocess.run(mount, capture_output=True, check=False).returncode
    except FileNotFoundError:
        mounted = False
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)


def _fill(file: Path, room: int) -> None:
    """Fill the disk of a file except for some room (bytes)."""
    free = shutil.disk_usage(file.parent).free
    with file.open("wb") as stream:
        stream.write(bytes(max(0, free - room)))


def _pages(path: Path) -> int:
    """Disk space of a file or folder in whole pages (bytes)."""
    files = [file for file in (path, *path.rglob("*")) if file.is_file()]
    page = resource.getpagesize()
    return sum(-(-file.stat().st_size // page) * page for file in files)


def _nothing() -> None:
    """No limit to impose, as the disk is full."""


def _allow(root: Path, mode: int) -> None:
    for path in MADE:
        for folder in (root / path, *(root / path).rglob("*")):
            if folder.is_dir():
                folder.chmod(mode)
