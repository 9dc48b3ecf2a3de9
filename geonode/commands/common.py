"""Common parts of all commands: errors as one line, destinations, notes, results.

A command is a plain function. It raises a `GeonodeError` if it cannot continue, reports progress
with `note` and `geonode.progress.bar`, and prints its result with `tell` or `echo_json`. It imports
modules that compute inside of the function, so that help is quick.
"""

import json
import re
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from geonode.config import CalibrateParameters, SpectraParameters
from geonode.errors import ParameterError
from geonode.parameter_types import Format
from geonode.progress import is_quiet, quietly
from geonode.terminal import OneLine, logged, printable, refuse, remark, tell

if TYPE_CHECKING:
    from typer import Context
else:
    Context = typer.Context.__base__  # a command gets one of Click, which newer Typers bring along

PARAMETER_FILE = Path("params.yaml")

MOST_SHOWN = 50
"""Largest number of rows, and of sentences, on the screen."""

ANYWHERE = ("-q", "--quiet", "-v", "--verbose")
"""Options that may stand before and after the name of a command."""

_FIELDS = "|".join([*SpectraParameters.model_fields, *CalibrateParameters.model_fields])
PARAMETER = re.compile(rf"\b(?:spectra|calibrate)\.({_FIELDS})\b(?::(?= (?:mask|marks)\b))?")

Root = Annotated[
    Path, typer.Option("--root", metavar="DIR", help="Folder of the pipeline, with dvc.yaml.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")]
CacheDtype = Annotated[
    Format | None,
    typer.Option("--cache-dtype", help="Format of the numbers in a .zarr.", show_default="float64"),
]


class Commands(OneLine, TyperGroup):
    """Group of commands with `--quiet` and `--verbose`, and expected errors in one line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take `--quiet` and `--verbose` after the command as before it."""
        end = args.index("--") if "--" in args else len(args)
        ours = [one for one in args[:end] if one in ANYWHERE]
        others = [one for one in args[:end] if one not in ANYWHERE]
        return super().parse_args(ctx, [*ours, *others, *args[end:]])

    def said(self, line: str) -> str:
        """A message that names the option, and not the parameter that it sets."""
        return options_said(line)

    def invoke(self, ctx: Any) -> Any:  # a Context of click
        """Run the requested command."""
        quiet, verbose = ctx.params["quiet"], ctx.params["verbose"]
        with quietly() if quiet else nullcontext(), logged("debug") if verbose else nullcontext():
            return super().invoke(ctx)


def options_said(line: str) -> str:
    """A message that names options in place of the parameters that they set."""
    return PARAMETER.sub(lambda found: f"--{found[1].replace('_', '-')}", line)


def require_destination(
    option: str, path: Path | None, *suffixes: str, never: tuple[Path, ...], overwrite: bool
) -> None:
    """Refuse a file that cannot or must not be written.

    Args:
        option: name of the option.
        path: the file; None: nothing is to be written.
        suffixes: permitted suffixes of its name.
        never: files that are read, or folders of such files.
        overwrite: whether an existing file may be replaced.

    Raises:
        ParameterError: the suffix is another, the folder is absent, or the file is read or exists.
    """
    if path is None:
        return
    above = {path.resolve(), *path.resolve().parents}
    read = [one for one in never if one.resolve() in above]
    if path.suffix.lower() not in suffixes:
        expected = f"a name that ends in {' or '.join(suffixes)}"
    elif not path.parent.is_dir():
        expected = f"a file in a folder that exists; make {path.parent} first"
    elif path.exists() and path.is_dir() != (path.suffix.lower() == ".zarr"):
        expected = "a file, not a folder" if path.is_dir() else "a folder, not a file"
    elif read:
        expected = f"another place than {read[0]}, which is read here"
    elif not overwrite and (path.exists() or path.is_symlink()):
        expected = "a name that is not taken; --overwrite replaces the file"
    else:
        return
    raise ParameterError("options", option, str(path), expected)


def refuse_given(context: Context, options: Sequence[str], expected: str) -> None:
    """Refuse options that mean nothing here.

    Args:
        context: of the command.
        options: names of its arguments.
        expected: instead of them.

    Raises:
        ParameterError: one was given.
    """
    for name in options:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            found = context.params[name]
            found = str(found) if isinstance(found, Path) else found
            raise ParameterError("options", f"--{name.replace('_', '-')}", found, expected)


def note(line: str) -> None:
    """Print a note on stderr, except with `--quiet`."""
    if not is_quiet():
        remark(line)


def found_wrong(line: str) -> NoReturn:
    """End a command that found problems, with exit status 1."""
    refuse(line)
    raise typer.Exit(1)


def echo_json(content: dict[str, Any]) -> None:
    """Print a result as JSON.

    Args:
        content: nested mappings and sequences, NumPy arrays among them; NaN and infinity become
            null.
    """
    from geonode.storage.document import plain  # noqa: PLC0415 - NumPy, which help does not need

    dumps = partial(json.dumps, plain(content), indent=2, allow_nan=False)
    text = dumps(ensure_ascii=False)
    # Control characters are escaped as by JSON.
    escaped = dumps(ensure_ascii=True).replace("\x7f", "\\u007f")
    tell(text if printable(text) == text else escaped)
