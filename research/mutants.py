"""Draw of the faults that `make mutants` tries, from all that Cosmic Ray can make.

`python -m research.mutants SESSION` keeps in a new session of Cosmic Ray as many faults of every
room as are asked for, drawn at random, but the same for the same seed and code: a place, and one of
the faults that are possible there. Others are removed, not skipped, as `cr-rate` counts what is
skipped as noticed. Some faults change no result, so not all can be noticed.
"""

import random
from pathlib import Path
from typing import Annotated, Any

import typer
from cosmic_ray.work_db import use_db

FAULTS = [
    *(f"ReplaceBinaryOperator_{pair}" for pair in ("Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul")),
    *(f"ReplaceBinaryOperator_{pair}" for pair in ("Pow_Mul", "FloorDiv_Div", "Mod_FloorDiv")),
    *(f"ReplaceComparisonOperator_{pair}" for pair in ("Eq_NotEq", "NotEq_Eq", "Is_IsNot")),
    *(f"ReplaceComparisonOperator_{pair}" for pair in ("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt")),
    *("ReplaceAndWithOr", "ReplaceOrWithAnd", "NumberReplacer"),
    *("ReplaceUnaryOperator_Delete_Not", "ReplaceUnaryOperator_Delete_USub"),
]
"""Operators of Cosmic Ray; others make faults that every import would notice."""


def main(
    session: Annotated[Path, typer.Argument(help="File that `cosmic-ray init` has written.")],
    rooms: Annotated[
        list[str] | None, typer.Argument(help="Folders of geonode; all if none is named.")
    ] = None,
    each: Annotated[int, typer.Option(help="Faults in every folder.")] = 4,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
) -> None:
    """Keep some faults of every room in a session."""
    places: dict[str, dict[tuple[Any, ...], list[Any]]] = {}
    with use_db(str(session)) as database:
        for item in database.work_items:
            (fault,) = item.mutations
            room, name = fault.module_path.parts[1], fault.operator_name.removeprefix("core/")
            if name in FAULTS and room in (rooms or [room]):
                possible = places.setdefault(room, {}).setdefault(
                    (fault.module_path, fault.start_pos), []
                )
                possible.append((FAULTS.index(name), fault.occurrence, item))
        drawn = []
        for room, at in places.items():
            draw = random.Random(f"{seed} {room}")
            for place in draw.sample(sorted(at), min(each, len(at))):
                drawn.append(draw.choice(sorted(at[place], key=lambda one: one[:2]))[-1])
        database.clear()
        database.add_work_items(drawn)


if __name__ == "__main__":
    typer.run(main)
