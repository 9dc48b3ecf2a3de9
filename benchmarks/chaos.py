"""Fault injection: killed processes, full disks and concurrent runs; exit 1 if data are lost.

`python -m benchmarks.chaos` breaks copies of a small project in a temporary
folder. POSIX only: processes are killed by SIGKILL and limited by RLIMIT_FSIZE. Damaged files,
artifacts of other runs and power cuts are in `tests/storage` and `tests/stages/test_faults.py`.
"""

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import typer

from benchmarks.geometry import Table, markdown
from benchmarks.project import (
    CHECKPOINTS,
    STAGES,
    Bench,
    Child,
    FaultRow,
    made,
    make,
    repro,
    run_stage,
    stage,
)
from geonode.errors import GeonodeError

KILLS = 90
KILLS_OF_DVC = (7, 3)  # with its stage, and without
PATIENCE = 20  # runs of `dvc repro` while the stage of a killed one still runs
SHARES = (0.0, 0.3, 0.9)  # room for a file, of the size of the largest one
BEING_WRITTEN = "is being written by another process"
TIMED = {"metrics/summary.json", "metrics/report.html"}  # tell seconds


def prepared(folder: Path) -> Bench:
    """Run two projects undisturbed: by DVC, and stage by stage with other seeds.

    Raises:
        GeonodeError: a project fails.
    """
    make(folder / "whole")
    process = repro(folder / "whole")
    text, _ = process.communicate()
    if process.returncode:
        raise GeonodeError(f"dvc repro: {text}")
    make(folder / "other", seed=1)
    seconds = {}
    for name in (STAGES[0], *STAGES):  # the very first process starts the fork server
        began = time.perf_counter()
        status, text = stage(folder / "other", name).finish()
        if status:
            raise GeonodeError(f"{name}: {text}")
        seconds[name] = time.perf_counter() - began
    return Bench.of(folder, seconds)


def rows(folder: Path) -> Iterator[FaultRow]:
    """Results of all faults in turn."""
    bench = prepared(folder)
    for number, name in enumerate(STAGES):
        yield killed_stage(bench, name, len(range(number, KILLS, len(STAGES))))
    for kills, group in zip(KILLS_OF_DVC, (True, False), strict=True):
        make(folder / f"fresh{kills}")
        yield killed_repro(bench, folder / f"fresh{kills}", kills, group)
    yield files_too_large(bench)
    yield two_stages(bench, 2 * len(STAGES))


def killed_stage(bench: Bench, name: str, trials: int) -> FaultRow:
    """A stage killed and run again, over the outputs of another run."""
    problems, begun, resumed = [], 0, 0
    for _ in range(trials):
        while True:
            bench.give(name, bench.other)
            child = stage(bench.work, name)
            time.sleep(bench.choose.random() * bench.seconds[name])
            if child.kill():
                break
        torn = bench.torn(name)
        left = any((bench.work / CHECKPOINTS / name).rglob("*.safetensors"))
        status, text = stage(bench.work, name, "--log-level", "info").finish()
        went_on = "training goes on after epoch" in text
        problem = torn or (f"{name}: {text.strip()}" if status else bench.differing())
        if left and not (problem or went_on):
            problem = f"{name}: did not resume from its checkpoint"
        if problem:
            problems.append(problem)
            bench.restore()
        begun, resumed = begun + left, resumed + went_on
    note = f"{begun} left a checkpoint, {resumed} resumed from it" if begun else ""
    how = f"`kill -9` of `stages.{name}` at a random moment, run again"
    return FaultRow("killed stage", how, trials, tuple(problems), note)


def killed_repro(bench: Bench, folder: Path, kills: int, group: bool) -> FaultRow:
    """`dvc repro` of a new project, killed repeatedly, then run to its end.

    Args:
        bench: project with the expected result.
        folder: folder of the new project.
        kills: number of kills.
        group: whether its stage is killed with it, or runs on while DVC is run again.
    """
    problem, count, refused = "", 0, 0
    for _ in range(kills):
        process = repro(folder)
        time.sleep(2 + bench.choose.random() * 5)
        if process.poll() is not None:
            break
        (os.killpg if group else os.kill)(process.pid, signal.SIGKILL)
        _close(process)
        count += 1
    for _ in range(PATIENCE):
        process = repro(folder)
        text, _ = process.communicate()
        if not process.returncode or BEING_WRITTEN not in text:
            break
        refused += 1
        time.sleep(1)
    wrong = {name for name, _ in made(folder).items() ^ made(bench.whole).items()} - TIMED
    if process.returncode:
        problem = f"dvc repro: {' '.join(text.split()[-60:])}"
    elif wrong:
        problem = f"dvc repro: differing: {', '.join(sorted(wrong))}"
    what = "and its stage" if group else "alone, whose stage goes on"
    how = f"`kill -9` of `dvc repro` {what}, every 2 to 7 s on its way, then run to its end"
    note = f"refused {refused} times while the old stage still wrote" if refused else ""
    return FaultRow("killed pipeline", how, count, (problem,) * count if problem else (), note)


def _close(process: "subprocess.Popen[str]") -> None:
    if process.stdout is not None:
        process.stdout.close()  # a running stage may hold the other end
    process.wait()


def files_too_large(bench: Bench) -> FaultRow:
    """Every stage with a size limit below its largest file, over the outputs of another run."""
    problems = []
    for name in STAGES:
        for share in SHARES:
            bench.give(name, bench.other)
            files = [bench.other / file for file in made(bench.other, *bench.outputs[name])]
            size = int(share * max(file.stat().st_size for file in files if file.is_file()))
            if problem := _refused(bench, name, size):
                problems.append(problem)
            bench.restore()
    how = "a limit (RLIMIT_FSIZE) of 0, 30 and 90% of the largest file, every stage"
    return FaultRow("largest file", how, len(STAGES) * len(SHARES), tuple(problems))


def _refused(bench: Bench, name: str, size: int) -> str:
    """Problem, if any, of a stage that may write files up to a size (bytes)."""
    status, text = Child(bench.work, _limited_stage, size, name).finish()
    last = next((line for line in text.splitlines() if line.startswith("error: ")), "")
    expected = ("cannot be written", f"{size:,} bytes", "ulimit -f")
    missing = [part for part in expected if part not in last]
    if status != 2 or missing:
        return f"{name}: status {status}, without {missing}: {text.strip()}"
    left = set(made(bench.work)) - set(made(bench.whole)) - set(made(bench.other))
    left = {file for file in left if not file.startswith(CHECKPOINTS)}  # for the next run
    return f"{name}: left {', '.join(sorted(left))}" if left else bench.torn(name)


def _limited_stage(size: int, name: str) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    run_stage(name)


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


def table(rows: Iterable[FaultRow]) -> Table:
    """Lines of the table of results."""
    return [
        {
            "fault": row.fault,
            "provoked by": row.provoked,
            "trials": row.trials,
            "survived": row.trials - len(row.problems),
            "lost": len(row.problems),
            "": row.note,
        }
        for row in rows
    ]


def main() -> None:
    """Inject every fault, and exit with status 1 if anything is lost."""
    began, found = time.perf_counter(), []
    with tempfile.TemporaryDirectory() as name:
        for row in rows(Path(name)):
            seconds = time.perf_counter() - began
            typer.echo(f"{seconds:5.0f} s  {row.fault}: {row.provoked}: {row.trials}", err=True)
            for problem in row.problems:
                typer.secho(f"lost: {problem}", err=True, fg=typer.colors.RED)
            found.append(row)
    typer.echo(markdown(table(found)))
    sys.exit(any(row.problems for row in found))


if __name__ == "__main__":
    typer.run(main)
