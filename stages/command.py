"""Shared parts of all stage commands: options that default to params.yaml, errors, progress, log.

A stage is a function of the parameters that returns one line about what it did. `stage` makes a
Typer application of it with one option for every parameter of the stage's blocks; values are
YAML, so a list is written as in the file: --concentrations "[0, 10, 20, 40]".
"""

import inspect
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from ruamel.yaml.error import YAMLError

from geonode.config import Parameters
from geonode.errors import ParameterError
from geonode.parameters_file import parse_yaml, read_parameters
from geonode.progress import bar as progress  # noqa: F401 - for the stages
from geonode.terminal import Level, OneLineCommand, documentation, logged, tell
from stages.paths import METRICS, PARAMETERS, PIPELINE, RECORDS

_LOG = logging.getLogger("geonode.stages")

SCORE_DIGITS = 6
"""Significant digits of scores, as of tables: where nothing is trained, processors agree about
them."""


def stage(
    *blocks: str, also: tuple[str, ...] = ()
) -> Callable[[Callable[[Parameters], str]], typer.Typer]:
    """Decorator that turns a stage into a command.

    Args:
        blocks: keys of params.yaml whose parameters become options. The options of a single block
            are named without the block.
        also: further keys, whose options are named in full.
    """

    def decorate(run: Callable[[Parameters], str]) -> typer.Typer:
        stage_name = Path(inspect.getfile(run)).stem
        options = {
            "_".join(path[1:] if len(blocks) == 1 and path[0] in blocks else path): (path, field)
            for path, field in _leaves(Parameters, ())
            if path[0] in (*blocks, *also)
        }

        def command(params: Path, log_level: Level, **given: str | None) -> None:
            overrides = {}
            for name, text in given.items():
                if text is not None:
                    overrides[".".join(options[name][0])] = _parsed(name, text)
            parameters = read_parameters(params, overrides)
            with logged(log_level), _followed(stage_name, overrides):
                summary = run(parameters)
            tell(summary)

        signature = _signature(options)
        command.__signature__ = signature  # type: ignore[attr-defined]
        command.__annotations__ = {n: p.annotation for n, p in signature.parameters.items()}
        application = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        application.command(cls=OneLineCommand, help=documentation(run))(command)
        return application

    return decorate


def write_scores(name: str, scores: dict[str, Any]) -> None:
    """Write metrics/NAME.json with numbers rounded to `SCORE_DIGITS`."""
    from geonode.storage.document import write_json  # it imports NumPy

    write_json(METRICS / f"{name}.json", scores, SCORE_DIGITS)


def _signature(options: dict[str, tuple[tuple[str, ...], FieldInfo]]) -> inspect.Signature:
    """Signature for Typer: the options of all stages, and those of one."""
    keyword = partial(inspect.Parameter, kind=inspect.Parameter.KEYWORD_ONLY)
    file = typer.Option("--params", help="Parameter file.")
    level = typer.Option(
        "--log-level",
        help="Messages on stderr: info, what is run and for how long; debug, also the resources "
        "used.",
    )
    found = [
        keyword("params", default=PARAMETERS, annotation=Annotated[Path, file]),
        keyword("log_level", default="warning", annotation=Annotated[Level, level]),
    ]
    for name, (path, field) in options.items():
        meaning = " ".join(str(field.description).split()).rstrip(".")
        option = typer.Option(
            f"--{name.replace('_', '-')}",
            help=f"{meaning} (default: {'.'.join(path)} of the file)",
            metavar=_metavar(field.annotation),
            show_default=False,
        )
        found.append(keyword(name, default=None, annotation=Annotated[str | None, option]))
    return inspect.Signature(found)


@contextmanager
def _followed(stage_name: str, overrides: dict[str, Any]) -> Iterator[None]:
    """Log start and end of a stage, and what overrides the file; record one of the pipeline."""
    from geonode.storage.record import recorded  # it imports NumPy

    given = ", ".join(f"{key} {value}" for key, value in overrides.items())
    _LOG.info("%s begins%s", stage_name, given and f", with {given}")
    began, ended = time.perf_counter(), "failed"
    try:
        with recorded(RECORDS / f"{stage_name}.json") if stage_name in PIPELINE else nullcontext():
            yield
        ended = "is done"
    finally:
        _LOG.info("%s %s after %.2f s", stage_name, ended, time.perf_counter() - began)


def _leaves(
    block: type[BaseModel], above: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], FieldInfo]]:
    """Path and field of every parameter that is no block."""
    for name, field in block.model_fields.items():
        path = (*above, name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _leaves(field.annotation, path)
        else:
            yield path, field


def _parsed(name: str, text: str) -> Any:
    try:
        return parse_yaml(text)
    except YAMLError as error:
        raise ParameterError("command line", f"--{name}", text, "a YAML value") from error


def _metavar(annotation: Any) -> str:
    if get_origin(annotation) is Literal:
        return "|".join(str(choice) for choice in get_args(annotation))
    return {int: "INTEGER", float: "NUMBER", str: "TEXT"}.get(annotation, "YAML")
