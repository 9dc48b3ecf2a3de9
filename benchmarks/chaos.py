"""Fault injection: killed processes, full disks and concurrent runs; exit 1 if data are lost.

`python -m benchmarks.chaos` breaks copies of a small project in a temporary folder. POSIX only:
processes are killed by SIGKILL and limited by RLIMIT_FSIZE. Damaged files, artifacts of other runs
and power cuts are in `tests/storage` and `tests/stages/test_faults.py`.
"""

import hashlib
import importlib
import json
import multiprocessing
import os
import random
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from benchmarks.geometry import markdown
from geonode.errors import GeonodeError
from geonode.parameters_file import parse_yaml
from stages.paths import CHECKPOINTS, PIPELINE, RECORDS

ROOT = Path(__file__).parents[1]
STAGES = (*PIPELINE, "report")
"""All stages except `benchmark`, whose numbers are times, and `ablation`, which is frozen."""

KILLS = 90
SHARES = (0.0, 0.3, 0.9)  # room for a file, of the size of the largest one
BEING_WRITTEN = "is being written by another process"
MADE = ("data", "metrics")

SMALL: dict[str, Any] = {
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
"""Parameters of a run of some seconds that writes a checkpoint in every epoch."""

# The server imports the modules of all stages once, and then forks a process in milliseconds.
_PROCESSES = multiprocessing.get_context("forkserver")
# No warnings about semaphores of killed processes, which are removed at the end.
os.environ.setdefault("PYTHONWARNINGS", "ignore:resource_tracker:UserWarning")
_PROCESSES.set_forkserver_preload(
    [
        "benchmarks.chaos",
        "geonode.evaluation.evaluate",
        "geonode.geometry.stored",
        "geonode.learning.metric_learning",
        "geonode.report.page",
        *(f"stages.{name}" for name in STAGES),
    ]
)


# projects and processes


def make(folder: Path, seed: int = 0) -> None:
    """Create a small project: code, pipeline and parameters.

    Args:
        folder: new folder of the project.
        seed: seed of spectra, metrics and decoders.
    """
    folder.mkdir(parents=True)
    for name in ("dvc.yaml", "stages", "geonode", "data/concentrations.csv"):
        copy(ROOT / name, folder / name)
    content = parse_yaml((ROOT / "params.yaml").read_text(encoding="utf-8"))
    seeds = dict.fromkeys(("generate.seed", "metric.seed", "decoders.seed"), seed)
    for key, value in (SMALL | seeds).items():
        *above, last = key.split(".")
        block = content
        for name in above:
            block = block[name]
        block[last] = value
    (folder / "params.yaml").write_text(json.dumps(content, indent=1), encoding="utf-8")


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
            if file.exists() and not name.startswith(RECORDS.as_posix()):
                content = file.read_bytes() if file.is_file() else None
                found[name] = "" if content is None else hashlib.sha256(content).hexdigest()
    return found


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


class Child:
    """A stage in a process of its own, with its output captured.

    Args:
        folder: folder of the project.
        name: the stage.
        options: its options.
        largest: size of a file that it may write (bytes); None: any.
    """

    def __init__(self, folder: Path, name: str, *options: str, largest: int | None = None) -> None:
        self._read, write = _PROCESSES.Pipe(duplex=False)
        arguments = (write, folder, name, options, largest)
        self.process = _PROCESSES.Process(target=_run, args=arguments)
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


def _run(
    write: Any, folder: Path, name: str, options: tuple[str, ...], largest: int | None
) -> None:
    os.dup2(write.fileno(), 1)
    os.dup2(write.fileno(), 2)
    os.chdir(folder)
    if largest is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    importlib.import_module(f"stages.{name}").app(options, prog_name=name)


@dataclass(frozen=True)
class Bench:
    """Two finished projects of different seeds, and a copy of the first that is broken.

    Attributes:
        whole: project that was not disturbed.
        other: project of other seeds.
        work: copy of `whole` that is broken.
        outputs: outputs of every stage.
        seconds: time of every stage.
        choose: random numbers.
    """

    whole: Path
    other: Path
    work: Path
    outputs: dict[str, list[str]]
    seconds: dict[str, float] = field(default_factory=dict)
    choose: random.Random = field(default_factory=lambda: random.Random(0))

    @classmethod
    def of(cls, folder: Path) -> "Bench":
        """Projects in a folder, whose stages have run undisturbed.

        Raises:
            GeonodeError: a stage fails.
        """
        stages = parse_yaml((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]
        outputs = {
            name: [
                out if isinstance(out, str) else next(iter(out))
                for key in ("outs", "metrics", "plots")
                for out in stages[name].get(key, ())
            ]
            for name in STAGES
        }
        bench = cls(folder / "whole", folder / "other", folder / "work", outputs)
        for seed, project in enumerate((bench.whole, bench.other)):
            make(project, seed)
            for name in STAGES:
                began = time.perf_counter()
                status, text = Child(project, name).finish()
                if status:
                    raise GeonodeError(f"{name}: {text}")
                # of the second project: the very first process starts the fork server
                bench.seconds[name] = time.perf_counter() - began
        shutil.copytree(bench.whole, bench.work)
        return bench

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


# faults, each yielding what was lost in a trial, or nothing


def killed_stages(bench: Bench) -> Iterator[str]:
    """A stage killed at a random moment and run again, over the outputs of another run."""
    for trial in range(KILLS):
        name = STAGES[trial % len(STAGES)]
        while True:
            bench.give(name, bench.other)
            child = Child(bench.work, name)
            time.sleep(bench.choose.random() * bench.seconds[name])
            if child.kill():
                break
        torn = bench.torn(name)
        left = any((bench.work / CHECKPOINTS / name).rglob("*.safetensors"))
        status, text = Child(bench.work, name, "--log-level", "info").finish()
        problem = torn or (f"{name}: {text.strip()}" if status else bench.differing())
        if left and not problem and "training goes on after epoch" not in text:
            problem = f"{name}: did not resume from its checkpoint"
        if problem:
            bench.restore()
        yield problem


def files_too_large(bench: Bench) -> Iterator[str]:
    """A stage with a size limit below its largest file, over the outputs of another run."""
    for name in STAGES:
        for share in SHARES:
            bench.give(name, bench.other)
            files = [bench.other / file for file in made(bench.other, *bench.outputs[name])]
            size = int(share * max(file.stat().st_size for file in files if file.is_file()))
            status, text = Child(bench.work, name, largest=size).finish()
            last = next((line for line in text.splitlines() if line.startswith("error: ")), "")
            missing = [part for part in ("cannot be written", "ulimit -f") if part not in last]
            known = {*made(bench.whole), *made(bench.other)}
            left = [
                file
                for file in sorted(set(made(bench.work)) - known)
                if not file.startswith(CHECKPOINTS.as_posix())  # for the next run
            ]
            problem = f"{name}: left {', '.join(left)}" if left else bench.torn(name)
            if status != 2 or missing:
                problem = f"{name}: status {status}, without {missing}: {text.strip()}"
            bench.restore()
            yield problem


def two_writers(bench: Bench) -> Iterator[str]:
    """A stage started twice at the same moment."""
    for name in 2 * STAGES:
        bench.give(name, bench.other)
        ended = [child.finish() for child in [Child(bench.work, name) for _ in range(2)]]
        refused = [text for status, text in ended if status]
        problem = bench.differing() and f"{name}: {bench.differing()}"
        if len(refused) == 2 or not all(BEING_WRITTEN in text for text in refused):
            problem = f"{name}: {ended}"
        bench.restore()
        yield problem


FAULTS = {
    "`kill -9` of every stage at random moments, run again": killed_stages,
    "room for 0, 30 and 90% of the largest file (RLIMIT_FSIZE), every stage": files_too_large,
    "two writers: a stage twice at once": two_writers,
}


def main() -> None:
    """Inject every fault, and exit with status 1 if anything is lost."""
    table = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench.of(Path(folder))
        for fault, inject in FAULTS.items():
            trials = list(inject(bench))
            problems = list(filter(None, trials))
            for problem in problems:
                typer.secho(f"lost: {problem}", err=True, fg=typer.colors.RED)
            survived = len(trials) - len(problems)
            row = {"fault": fault, "trials": len(trials), "survived": survived}
            table.append(row | {"lost": len(problems)})
    typer.echo(markdown(table))
    sys.exit(any(row["lost"] for row in table))


if __name__ == "__main__":
    typer.run(main)
