"""`geonode inspect`: what a file of spectra holds."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from geonode.commands.common import AsJson, echo_json
from geonode.terminal import tell


class Gaps(StrEnum):
    """What a missing value does."""

    refuse = "refuse"
    mask = "mask"


def inspect(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Spectra, in any known format.")],
    window: Annotated[
        tuple[float, float] | None,
        typer.Option(metavar="LOW HIGH", help="Part of the axis to look at."),
    ] = None,
    missing: Annotated[Gaps, typer.Option(help="What a missing value does.")] = Gaps.mask,
    as_json: AsJson = False,
) -> None:
    """Say how a file of spectra is understood, how noisy it is, and which parameters read it."""
    from geonode.spectra.inspection import inspect_file  # noqa: PLC0415

    found = inspect_file(file, window=window, missing=missing.value)
    if as_json:
        echo_json(found.to_json())
    else:
        tell(found.text())
