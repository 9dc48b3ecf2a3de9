"""Share of small faults that the tests notice: `make mutants`.

Cosmic Ray changes one operator, comparison or number of a room, drawn at random, but the same for
the same seed and code. Then the tests of the room that are not slow must fail. Some of the faults
change no result, so not all can be noticed.
"""

import os
import random
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from cosmic_ray.ast import ast_nodes, get_ast_from_path
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator

from geonode.progress import bar

ROOT = Path(__file__).parents[1]
FAULTS = [
    *(f"ReplaceBinaryOperator_{pair}" for pair in ("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul")),
    *(f"ReplaceBinaryOperator_{pair}" for pair in ("Pow_Mul", "FloorDiv_Div", "Mod_FloorDiv")),
    *(f"ReplaceComparisonOperator_{pair}" for pair in ("Eq_NotEq", "NotEq_Eq", "Is_IsNot")),
    *(f"ReplaceComparisonOperator_{pair}" for pair in ("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt")),
    *("ReplaceAndWithOr", "ReplaceOrWithAnd", "NumberReplacer"),
    *("ReplaceUnaryOperator_Delete_Not", "ReplaceUnaryOperator_Delete_USub"),
]
"""Operators of Cosmic Ray; others make faults that every import would notice."""

LONGEST = 300
"""Seconds of the tests of a room; a fault after which they take longer is noticed."""


@dataclass(frozen=True)
class Fault:
    """A change of one place of a module."""

    module: Path  # the file, relative to the project
    line: int  # of the place
    operator: str  # one of `FAULTS`
    occurrence: int  # place among all in the module that the operator can change

    @property
    def room(self) -> str:
        """The folder of the module within the package."""
        return self.module.parts[1]

    def code(self) -> str:
        """The module with the change."""
        text = (ROOT / self.module).read_text(encoding="utf-8")
        return mutate_code(text, get_operator(f"core/{self.operator}")(), self.occurrence)


def faults(room: str) -> list[list[Fault]]:
    """All faults of a room: for every place, those that are possible there."""
    at: dict[tuple[Path, tuple[int, int]], list[Fault]] = {}
    for path in sorted((ROOT / "geonode" / room).rglob("*.py")):
        module, nodes = path.relative_to(ROOT), [*ast_nodes(get_ast_from_path(path))]
        for operator in FAULTS:
            positions = get_operator(f"core/{operator}")().mutation_positions
            starts = [start for node in nodes for start, _ in positions(node)]
            for occurrence, start in enumerate(starts):
                one = Fault(module, start[0], operator, occurrence)
                at.setdefault((module, start), []).append(one)
    return [at[place] for place in sorted(at)]


def notice(room: str, fault: Fault | None = None) -> bool:
    """True if the tests of a room fail, with a fault or without, in a copy of what git has."""
    command = [sys.executable, "-m", "pytest", "-x", "-m", "not slow", "-p", "no:cacheprovider"]
    with tempfile.TemporaryDirectory() as copy:
        export = ["git", "checkout-index", "--all", f"--prefix={copy}/"]
        subprocess.run(export, cwd=ROOT, check=True)
        if fault is not None:
            (Path(copy) / fault.module).write_text(fault.code(), encoding="utf-8")
        variables = {"PYTHONPATH": copy, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            run = subprocess.run(
                [*command, f"tests/{room}"],
                cwd=copy,
                env=os.environ | variables,
                capture_output=True,
                timeout=LONGEST,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return True
        return run.returncode != 0


def main(
    rooms: Annotated[
        list[str] | None, typer.Argument(help="Folders of geonode; all if none is named.")
    ] = None,
    each: Annotated[int, typer.Option(help="Faults in every folder.")] = 4,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    processes: Annotated[int, typer.Option(help="Tests run at once.")] = os.cpu_count() or 1,
) -> None:
    """Seed faults, and print those that no test notices and the share of the others."""
    rooms = rooms or sorted(path.parent.name for path in ROOT.glob("geonode/*/__init__.py"))
    drawn = []
    for room in rooms:
        draw, places = random.Random(f"{seed} {room}"), faults(room)
        drawn += [draw.choice(place) for place in draw.sample(places, min(each, len(places)))]
    with ThreadPoolExecutor(processes) as pool:
        if any(failing := [*pool.map(notice, rooms)]):
            broken = [room for room, fails in zip(rooms, failing, strict=True) if fails]
            raise typer.BadParameter(f"their tests fail without a fault: {', '.join(broken)}")
        with bar("faults", len(drawn)) as report:
            noticed = []
            for one in pool.map(lambda fault: notice(fault.room, fault), drawn):
                noticed.append(one)
                report(1)
    for fault, seen in zip(drawn, noticed, strict=True):
        if not seen:
            print(f"unnoticed: {fault.module}:{fault.line} {fault.operator}")
    print(f"{sum(noticed)} of {len(drawn)} faults noticed ({sum(noticed) / len(drawn):.0%})")


if __name__ == "__main__":
    typer.run(main)
