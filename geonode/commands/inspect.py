"""`geonode inspect`: what a file of spectra holds."""

from pathlib import Path
from typing import Annotated

import typer

from geonode.commands.common import AsJson, echo_json
from geonode.commands.spectra_options import (
    Gaps,
    Marks,
    Missing,
    Replicates,
    SecondTable,
    Sheet,
    Window,
)
from geonode.terminal import tell


def inspect(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Spectra, in any known format, or a folder.")
    ],
    window: Window = None,
    missing: Missing = Gaps.mask,
    sheet: Sheet = None,
    concentrations: SecondTable = None,
    replicates: Replicates = Marks.ask,
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
