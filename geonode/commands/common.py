"""The frame of all commands: errors as one line, notes, results, and how much of them is shown.

A command is a plain function. It raises a `GeonodeError` where it cannot go on, tells how it gets
on with `note` and `geonode.progress.bar`, and hands over what it found with `tell` or
`echo_json`. Imports of what computes belong inside of it, so that help is quick.
"""

import json
import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from geonode.config import Format, Parameters
from geonode.errors import GeonodeError
from geonode.observation.log import logged
from geonode.parameters_file import read_parameters
from geonode.progress import is_quiet, quietly
from geonode.terminal import printable, refuse, remark, tell

PARAMETERS = Path("params.yaml")

ParameterFile = Annotated[Path, typer.Option("--params", metavar="FILE", help="Parameter file.")]
Preset = Annotated[
    str | None, typer.Option("--preset", metavar="NAME", help="In place of that of the file.")
]
DeviceName = Annotated[
    str | None, typer.Option("--device", metavar="NAME", help="In place of that of the file.")
]
Root = Annotated[
    Path, typer.Option("--root", metavar="DIR", help="Folder of the pipeline, that of dvc.yaml.")
]
SheetName = Annotated[
    str | None, typer.Option("--sheet", metavar="NAME", help="Sheet of a workbook.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace files that are there.")]
CacheDtype = Annotated[
    Format | None,
    typer.Option("--cache-dtype", help="Format of the numbers in a .zarr.", show_default="float64"),
]


class Commands(TyperGroup):
    """Commands framed by `--quiet` and `--verbose`, with expected errors in one line."""

    def invoke(self, ctx: Any) -> Any:  # a Context of the click that Typer is built on
        """Run the command that was asked for."""
        quiet, verbose = ctx.params["quiet"], ctx.params["verbose"]
        with quietly() if quiet else nullcontext(), logged("debug") if verbose else nullcontext():
            try:
                return super().invoke(ctx)
            except GeonodeError as error:
                if verbose:
                    remark("".join(traceback.format_exception(error)).rstrip())
                refuse(str(error))
                raise typer.Exit(2) from error
            except KeyboardInterrupt as error:
                refuse("interrupted")
                raise typer.Exit(130) from error


def parameters_of(file: Path, preset: str | None, device: str | None) -> Parameters:
    """The parameters of a file, but for a preset and a device that were given in their place."""
    given = {"preset": preset, "device": device}
    return read_parameters(file, {key: value for key, value in given.items() if value is not None})


def note(line: str) -> None:
    """Say on stderr how the work gets on; not with `--quiet`."""
    if not is_quiet():
        remark(line)


def found_wrong(line: str) -> NoReturn:
    """End a command that has done its work and found something wrong, with exit status 1."""
    refuse(line)
    raise typer.Exit(1)


def echo_json(content: dict[str, Any]) -> None:
    """Print a result as JSON.

    Args:
        content: nested mappings and sequences, NumPy arrays among them; NaN and infinity become
            null.
    """
    from geonode.storage.document import plain  # noqa: PLC0415 - NumPy, which help can do without

    dumps = partial(json.dumps, plain(content), indent=2, allow_nan=False)
    text = dumps(ensure_ascii=False)
    # JSON escapes in its own way what a terminal must not get.
    escaped = dumps(ensure_ascii=True).replace("\x7f", "\\u007f")
    tell(text if printable(text) == text else escaped)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table whose columns are as wide as they must be.

    Args:
        rows: of the same length.
    """
    rows = [[" ".join(cell.split()) if "\n" in cell else cell for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
