"""Processes killed at random moments, after which a new run must end in the same bytes."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.project import CHECKPOINTS, STAGES, Bench, FaultRow, made, repro, stage

TRAINED = ("metric", "decoders")
PATIENCE = 20  # runs of `dvc repro` while the stage of a killed one still runs
BEING_WRITTEN = "is being written by another process"


def killed_stages(bench: Bench, trials: int) -> Iterator[FaultRow]:
    """Every stage killed and run again, over the outputs of another run."""
    for number, name in enumerate(STAGES):
        count = len(range(number, trials, len(STAGES)))
        found = [_killed(bench, name) for _ in range(count)]
        problems = [problem for problem, _, _ in found if problem]
        begun, resumed = (sum(kept) for kept in zip(*(part[1:] for part in found), strict=True))
        note = f"{begun} left a checkpoint, {resumed} resumed from it" if name in TRAINED else ""
        how = f"`kill -9` of `stages.{name}` at a random moment, run again"
        yield FaultRow("killed stage", how, count, tuple(problems), note)


def _killed(bench: Bench, name: str) -> tuple[str, bool, bool]:
    """Problem, if any; whether there was a checkpoint; whether the training resumed from it."""
    while True:
        bench.give(name, bench.other)
        child = stage(bench.work, name)
        time.sleep(bench.choose.random() * bench.seconds[name])
        if child.kill():
            break
    torn = bench.torn(name)
    begun = any((bench.work / CHECKPOINTS / name).rglob("*.safetensors"))
    status, text = stage(bench.work, name, "--log-level", "info").finish()
    resumed = "training goes on after epoch" in text
    problem = torn or (f"{name}: {text.strip()}" if status else bench.differing())
    if begun and not (problem or resumed):
        problem = f"{name}: did not resume from its checkpoint"
    if problem:
        bench.restore()
    return problem, begun, resumed


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
    if process.returncode:
        problem = f"dvc repro: {' '.join(text.split()[-60:])}"
    elif made(folder) != made(bench.whole):
        wrong = sorted(set(made(folder).items()) ^ set(made(bench.whole).items()))
        problem = f"dvc repro: differing: {', '.join(sorted({name for name, _ in wrong}))}"
    what = "and its stage" if group else "alone, whose stage goes on"
    how = f"`kill -9` of `dvc repro` {what}, every 2 to 7 s on its way, then run to its end"
    note = f"refused {refused} times while the old stage still wrote" if refused else ""
    return FaultRow("killed pipeline", how, count, (problem,) * count if problem else (), note)


def _close(process: "subprocess.Popen[str]") -> None:
    if process.stdout is not None:
        process.stdout.close()  # a running stage may hold the other end
    process.wait()
