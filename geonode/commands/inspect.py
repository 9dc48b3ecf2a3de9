"""`geonode inspect`: what a file of spectra holds."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from geonode.commands.common import AsJson, SheetName, echo_json
from geonode.terminal import tell


class Gaps(StrEnum):
    """What a missing value does."""

    refuse = "refuse"
    mask = "mask"


class Marks(StrEnum):
    """What `20.1` beside `20` is."""

    ask = "ask"
    marks = "marks"
    levels = "levels"


def inspect(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Spectra, in any known format, or a folder.")
    ],
    window: Annotated[
        tuple[float, float] | None,
        typer.Option(metavar="LOW HIGH", help="Part of the axis to look at."),
    ] = None,
    missing: Annotated[Gaps, typer.Option(help="What a missing value does.")] = Gaps.mask,
    sheet: SheetName = None,
    concentrations: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Second table, of names and concentrations."),
    ] = None,
    replicates: Annotated[
        Marks, typer.Option(help="What a column 20.1 beside 20 is: a scan (marks), or a level.")
    ] = Marks.ask,
    as_json: AsJson = False,
) -> None:
    """Say how a file of spectra is understood, how noisy it is, and which parameters read it."""
    from geonode.spectra.inspection import inspect_file  # noqa: PLC0415
    from geonode.spectra.reading import Choices  # noqa: PLC0415

    choices = Choices(sheet, concentrations, replicates.value)
    found = inspect_file(file, window=window, missing=missing.value, choices=choices)
    if as_json:
        echo_json(found.to_json())
    else:
        tell(found.text())
