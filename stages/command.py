"""What all stage commands share: options that default to params.yaml, errors, progress.

A stage is a function of the parameters that returns one line about what it did. `stage` makes a
Typer application of it with one option for every parameter of the stage's blocks; values are
YAML, so a list is written as in the file: --concentrations "[0, 10, 20, 40]".
"""

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from ruamel.yaml.error import YAMLError

from geonode.config import Parameters, parse_yaml, read_parameters
from geonode.errors import GeonodeError, ParameterError
from geonode.progress import bar as progress  # noqa: F401 - for the stages
from stages.paths import PARAMETERS


def stage(
    *blocks: str, also: tuple[str, ...] = ()
) -> Callable[[Callable[[Parameters], str]], typer.Typer]:
    """Make a command of a stage.

    Args:
        blocks: keys of params.yaml whose parameters become options. With one block its name is
            left out of theirs.
        also: further keys; theirs are named in full.
    """

    def decorate(run: Callable[[Parameters], str]) -> typer.Typer:
        options = {
            "_".join(path[1:] if len(blocks) == 1 and path[0] in blocks else path): (path, field)
            for path, field in _leaves(Parameters, ())
            if path[0] in (*blocks, *also)
        }

        def command(params: Path, **given: str | None) -> None:
            try:
                overrides = {
                    ".".join(options[name][0]): _value(name, text)
                    for name, text in given.items()
                    if text is not None
                }
                summary = run(read_parameters(params, overrides))
            except GeonodeError as error:
                typer.secho(f"error: {error}", err=True, fg=typer.colors.RED)
                raise typer.Exit(2) from error
            typer.echo(summary)

        file = typer.Option("--params", help="Parameter file.")
        annotations: dict[str, Any] = {"params": Annotated[Path, file]}
        for name, (path, field) in options.items():
            annotations[name] = Annotated[
                str | None,
                typer.Option(
                    f"--{name.replace('_', '-')}",
                    help=f"{field.description} (default: {'.'.join(path)} of the file)",
                    metavar=_metavar(field.annotation),
                    show_default=False,
                ),
            ]
        keyword = inspect.Parameter.KEYWORD_ONLY
        command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(
                    name,
                    keyword,
                    default=PARAMETERS if name == "params" else None,
                    annotation=annotation,
                )
                for name, annotation in annotations.items()
            ]
        )
        command.__annotations__ = annotations
        application = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        application.command(help=inspect.getdoc(run))(command)
        return application

    return decorate


def _leaves(
    block: type[BaseModel], above: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], FieldInfo]]:
    """Path and field of every parameter that is no block."""
    for name, field in block.model_fields.items():
        path = (*above, field.alias or name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _leaves(field.annotation, path)
        else:
            yield path, field


def _value(name: str, text: str) -> Any:
    try:
        return parse_yaml(text)
    except YAMLError as error:
        raise ParameterError("command line", f"--{name}", text, "a YAML value") from error


def _metavar(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return "|".join(str(choice) for choice in get_args(annotation))
    return {int: "INTEGER", float: "NUMBER", str: "TEXT"}.get(annotation, "YAML")
