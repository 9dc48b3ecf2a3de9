"""Processes that are killed at random moments, and whether what follows ends in the same bytes."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.project import CHECKPOINTS, STAGES, Bench, Row, made, repro, stage

TRAINED = ("metric", "decoders")
PATIENCE = 20  # times that `dvc repro` is run again while the stage of a killed one goes on
BEING_WRITTEN = "is being written by another process"


def killed_stages(bench: Bench, trials: int) -> Iterator[Row]:
    """Every stage killed and run again, where the outputs of another run were before."""
    for number, name in enumerate(STAGES):
        count = len(range(number, trials, len(STAGES)))
        found = [_killed(bench, name) for _ in range(count)]
        problems = [problem for problem, _, _ in found if problem]
        begun, went_on = (sum(kept) for kept in zip(*(part[1:] for part in found), strict=True))
        note = f"{begun} left a checkpoint, {went_on} went on from it" if name in TRAINED else ""
        how = f"`kill -9` of `stages.{name}` at a random moment, run again"
        yield Row("killed stage", how, count, tuple(problems), note)


def _killed(bench: Bench, name: str) -> tuple[str, bool, bool]:
    """What was lost; whether there was a checkpoint; whether the training went on from it."""
    while True:
        bench.give(name, bench.other)
        child = stage(bench.work, name)
        time.sleep(bench.choose.random() * bench.seconds[name])
        if child.kill():
            break
    torn = bench.torn(name)
    begun = any((bench.work / CHECKPOINTS / name).rglob("*.safetensors"))
    status, text = stage(bench.work, name, "--log-level", "info").finish()
    went_on = "training goes on after epoch" in text
    problem = torn or (f"{name}: {text.strip()}" if status else bench.differing())
    if begun and not (problem or went_on):
        problem = f"{name}: did not go on from its checkpoint"
    if problem:
        bench.restore()
    return problem, begun, went_on


def killed_repro(bench: Bench, folder: Path, kills: int, group: bool) -> Row:
    """`dvc repro` of a project that was never run, killed again and again, then left alone.

    Args:
        bench: what it is to end in.
        folder: of the new project.
        kills: how often.
        group: whether its stage is killed with it, or goes on alone while DVC is run again.
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
    note = f"told {refused} times that the old stage still writes" if refused else ""
    return Row("killed pipeline", how, count, (problem,) * count if problem else (), note)


def _close(process: "subprocess.Popen[str]") -> None:
    if process.stdout is not None:
        process.stdout.close()  # a stage that goes on may hold the other end
    process.wait()
