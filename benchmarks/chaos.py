"""Fault injection: killed processes, full disks and concurrent runs; exit 1 if data are lost.

`python -m benchmarks.chaos` breaks copies of a small project in a temporary
folder. POSIX only: processes are killed by SIGKILL and limited by RLIMIT_FSIZE. Damaged files,
artifacts of other runs and power cuts are in `tests/storage` and `tests/stages/test_faults.py`.
"""

import resource
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
    run_stage,
    stage,
)
from geonode.errors import GeonodeError

KILLS = 90
SHARES = (0.0, 0.3, 0.9)  # room for a file, of the size of the largest one
BEING_WRITTEN = "is being written by another process"


def prepared(folder: Path) -> Bench:
    """Run two projects of different seeds undisturbed.

    Raises:
        GeonodeError: a stage fails.
    """
    seconds = {}
    for seed, project in enumerate(("whole", "other")):
        make(folder / project, seed)
        for name in STAGES:
            began = time.perf_counter()
            status, text = stage(folder / project, name).finish()
            if status:
                raise GeonodeError(f"{name}: {text}")
            # of the second project: the very first process starts the fork server
            seconds[name] = time.perf_counter() - began
    return Bench.of(folder, seconds)


def rows(folder: Path) -> Iterator[FaultRow]:
    """Results of all faults in turn."""
    bench = prepared(folder)
    for number, name in enumerate(STAGES):
        yield killed_stage(bench, name, len(range(number, KILLS, len(STAGES))))
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
