"""Fault injection: killed processes, damaged files and full disks; exit 1 if data are lost.

`python -m benchmarks.chaos --out chaos.json` breaks copies of a small project in a temporary
folder. POSIX only: processes are killed by SIGKILL and limited by RLIMIT_FSIZE.
"""

import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated

import typer

from benchmarks import corruption, crash, pressure
from benchmarks.project import STAGES, Bench, FaultRow, make, repro, stage
from geonode.devices.device import environment, resolve
from geonode.errors import GeonodeError
from geonode.parameters_file import read_parameters
from geonode.storage.document import write_metrics

KILLS = 90
KILLS_OF_DVC = (7, 3)  # with its stage, and without
FLIPS = 500
DAMAGES = 60
BY_COMMAND = 12


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
    yield from crash.killed_stages(bench, KILLS)
    for kills, group in zip(KILLS_OF_DVC, (True, False), strict=True):
        fresh = folder / f"fresh{kills}"
        make(fresh)
        yield crash.killed_repro(bench, fresh, kills, group)
    yield from corruption.damaged(bench, FLIPS, DAMAGES)
    yield corruption.by_command(bench, BY_COMMAND)
    yield corruption.of_another_run(bench)
    yield corruption.wrong_clock(bench)
    yield pressure.files_too_large(bench)
    yield pressure.disk_full(bench, folder / "disk")
    yield pressure.read_only(bench)
    yield pressure.two_stages(bench, 2 * len(STAGES))
    for name, row in (("held", pressure.second_writer), ("read", pressure.torn_reads)):
        (folder / name).mkdir()
        yield row(folder / name, 20 if name == "held" else 500)
    yield pressure.two_pipelines(bench, 2)
    make(folder / "long")
    (folder / "long/data").mkdir()
    (folder / "long/data/device.json").write_bytes((bench.whole / "data/device.json").read_bytes())
    yield from pressure.long_work(folder / "long")


def markdown(table: Iterable[FaultRow]) -> str:
    """Table of the results in Markdown."""
    lines = ["| fault | provoked by | trials | survived | lost | |", "|---|---|---|---|---|---|"]
    for row in table:
        lost = len(row.problems)
        lines.append(
            f"| {row.fault} | {row.provoked} | {row.trials} | {row.trials - lost} | {lost} "
            f"| {row.note} |"
        )
    return "\n".join(lines)


def main(
    out: Annotated[Path | None, typer.Option(help="JSON file for all counts.")] = None,
) -> None:
    """Inject every fault, and exit with status 1 if anything is lost."""
    began, table = time.perf_counter(), []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # for the stage that does not run as the superuser
        for row in rows(folder):
            seconds = time.perf_counter() - began
            typer.echo(f"{seconds:5.0f} s  {row.fault}: {row.provoked}: {row.trials}", err=True)
            for problem in row.problems:
                typer.secho(f"lost: {problem}", err=True, fg=typer.colors.RED)
            table.append(row)
    typer.echo(markdown(table))
    if out is not None:
        device = resolve("cpu", read_parameters(Path("params.yaml")).precision)
        lines = [
            {
                "fault": row.fault,
                "provoked": row.provoked,
                "trials": row.trials,
                "survived": row.trials - len(row.problems),
                "lost": len(row.problems),
                "problems": list(row.problems),
                "note": row.note,
            }
            for row in table
        ]
        seconds = time.perf_counter() - began
        write_metrics(out, {"machine": environment(device), "seconds": seconds, "faults": lines})
    sys.exit(any(row.problems for row in table))


if __name__ == "__main__":
    typer.run(main)
