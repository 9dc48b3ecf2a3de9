"""Small project for fault injection: its files, its stages as processes, and their outputs."""

import hashlib
import importlib
import json
import multiprocessing
import os
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from geonode.parameters_file import parse_yaml
from stages.paths import PIPELINE

STAGES = (*PIPELINE, "report")
"""All stages except `benchmark`, whose numbers are times, and `ablation`, which is frozen."""

MADE = ("data", "metrics")
ROOT = Path(__file__).parents[1]
CHECKPOINTS = "data/checkpoints"
RECORDS = "data/records"

_SMALL: dict[str, Any] = {
    "generate.concentrations": [0, 10, 20, 40],
    "generate.wavelengths.step": 20.0,
    "inner.members": 1,
    "metric.members": 1,
    "metric.epochs": 30,
    "metric.wavelengths": 8,
    "metric.checkpoint_every": 1,
    "christoffel.resolution": 100,
    "geodesics.time_points": 3,
    "decoders.members": 1,
    "decoders.epochs": 80,
    "decoders.wavelengths": 8,
    "decoders.checkpoint_every": 1,
}
_SEEDS = ("generate.seed", "metric.seed", "decoders.seed")
_COPIED = ("dvc.yaml", "stages", "geonode")

# The server imports the modules of all stages once, and then forks a process in milliseconds.
_PROCESSES = multiprocessing.get_context("forkserver")
# No warnings about semaphores of killed processes, which are removed at the end.
os.environ.setdefault("PYTHONWARNINGS", "ignore:resource_tracker:UserWarning")
_PROCESSES.set_forkserver_preload(
    [
        "benchmarks.project",
        "geonode.evaluation.estimation",
        "geonode.report.figures",
        "geonode.geometry.stored",
        "geonode.learning.metric_learning",
        "geonode.report.sections",
        *(f"stages.{name}" for name in STAGES),
    ]
)


def make(folder: Path, seed: int = 0) -> None:
    """Create a project: code, pipeline, and parameters for a run of some seconds.

    Args:
        folder: new folder of the project.
        seed: seed of spectra, metrics and decoders.
    """
    folder.mkdir(parents=True)
    for name in _COPIED:
        copy(ROOT / name, folder / name)
    content = parse_yaml((ROOT / "params.yaml").read_text(encoding="utf-8"))
    for key, value in {**_SMALL, **dict.fromkeys(_SEEDS, seed)}.items():
        *above, last = key.split(".")
        block = content
        for name in above:
            block = block[name]
        block[last] = value
    (folder / "params.yaml").write_text(json.dumps(content, indent=1), encoding="utf-8")


class Child:
    """Process that calls a function in a folder, with its output captured."""

    def __init__(self, folder: Path, call: Callable[..., None], *arguments: Any) -> None:
        self._read, write = _PROCESSES.Pipe(duplex=False)
        self.process = _PROCESSES.Process(target=_run, args=(write, folder, call, *arguments))
        self.process.start()
        write.close()

    def kill(self) -> bool:
        """Kill the process by SIGKILL; return whether it was still running."""
        self.process.kill()
        self.process.join()
        self._read.close()
        return self.process.exitcode != 0

    def finish(self) -> tuple[int, str]:
        """Wait for the end; return the exit status and the output on stdout and stderr."""
        text = b""
        while part := os.read(self._read.fileno(), 1 << 16):
            text += part
        self.process.join()
        self._read.close()
        return self.process.exitcode or 0, text.decode()


def _run(write: Connection, folder: Path, call: Callable[..., None], *arguments: Any) -> None:
    os.dup2(write.fileno(), 1)
    os.dup2(write.fileno(), 2)
    os.chdir(folder)
    call(*arguments)


def run_stage(name: str, options: tuple[str, ...] = ()) -> None:
    """Run a stage like `python -m stages.NAME`, in the working folder."""
    importlib.import_module(f"stages.{name}").app(options, prog_name=name)


def stage(folder: Path, name: str, *options: str) -> Child:
    """Start a stage in a process of its own."""
    return Child(folder, run_stage, name, options)


def made(folder: Path, *paths: str) -> dict[str, str]:
    """SHA-256 of every file below some paths, by path; empty for folders.

    Records of time and memory are left out, as they always differ.

    Args:
        folder: folder of the project.
        paths: paths in it; all outputs of stages if none are given.
    """
    found = {}
    for path in paths or MADE:
        for file in (folder / path, *(folder / path).rglob("*")):
            name = file.relative_to(folder).as_posix()
            if name.startswith(RECORDS):
                continue
            if file.is_file():
                found[name] = hashlib.sha256(file.read_bytes()).hexdigest()
            elif file.is_dir():
                found[name] = ""
    return found


@dataclass(frozen=True)
class Bench:
    """Two finished projects of different seeds, and a copy of the first that is broken.

    Attributes:
        whole: project that was not disturbed.
        other: project of other seeds.
        work: copy of `whole` that is broken.
        seconds: time of every stage.
        outputs: outputs of every stage.
        choose: random numbers.
    """

    whole: Path
    other: Path
    work: Path
    seconds: dict[str, float]
    outputs: dict[str, list[str]]
    choose: random.Random = field(default_factory=lambda: random.Random(0))

    @classmethod
    def of(cls, folder: Path, seconds: dict[str, float]) -> "Bench":
        """Bench of the projects `whole` and `other` in a folder, with a new copy of the first."""
        whole = folder / "whole"
        shutil.copytree(whole, folder / "work")
        stages = parse_yaml((whole / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
        written = {
            name: [
                out if isinstance(out, str) else next(iter(out))
                for key in ("outs", "metrics", "plots")
                for out in stage.get(key, ())
            ]
            for name, stage in stages.items()
        }
        return cls(whole, folder / "other", folder / "work", seconds, written)

    def give(self, name: str, source: Path) -> None:
        """Replace the outputs of a stage by those of another project."""
        for path in self.outputs[name]:
            copy(source / path, self.work / path)

    def restore(self) -> None:
        """Restore the copy."""
        for path in MADE:
            copy(self.whole / path, self.work / path)

    def torn(self, name: str) -> str:
        """Message about an output of a stage that is of neither project; empty if none is.

        A folder that was moved aside just before its replacement counts as in place.
        """
        for path in self.outputs[name]:
            found = made(self.work, path)
            stepped = Path(path).with_name(f".{Path(path).name}.geonode") / "old"
            if not found and (aside := made(self.work, stepped.as_posix())):
                found = {
                    file.replace(stepped.as_posix(), path, 1): value
                    for file, value in aside.items()
                }
            if found not in (made(self.whole, path), made(self.other, path)):
                return f"{name}: {path} is neither the old nor the new one"
        return ""

    def differing(self) -> str:
        """Message about differences from the undisturbed project; empty if there are none."""
        expected, found = made(self.whole), made(self.work)
        names = sorted(expected.keys() | found.keys())
        wrong = [name for name in names if expected.get(name) != found.get(name)]
        return f"differing: {', '.join(wrong)}" if wrong else ""


def copy(source: Path, target: Path) -> None:
    """Replace a file or folder by a copy of another."""
    if target.is_dir():
        shutil.rmtree(target)
    else:
        target.unlink(missing_ok=True)
    if source.is_dir():
        shutil.copytree(source, target)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)


@dataclass(frozen=True)
class FaultRow:
    """Result of the trials of a fault.

    Attributes:
        fault: name of the fault.
        provoked: description of the trials.
        trials: number of trials.
        problems: one line for every trial with a loss.
        note: further counts.
    """

    fault: str
    provoked: str
    trials: int
    problems: tuple[str, ...] = ()
    note: str = ""
