"""The command `geonode`: what needs no pipeline."""

from pathlib import Path
from typing import Annotated

import typer

from geonode.config import read_parameters
from geonode.errors import GeonodeError
from geonode.progress import bar

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)


@app.callback()
def main() -> None:
    """Geodesics of a learned concentration metric, from measured spectra to predictions."""


@app.command()
def panel(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Folder of wide CSV files, one a series; NAME.yaml beside NAME.csv has its own "
            "values of the block spectra.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Table of the scores, .json or .csv.")],
    params: Annotated[Path, typer.Option(help="Parameter file.")] = Path("params.yaml"),
    preset: Annotated[str | None, typer.Option(help="In place of that of the file.")] = None,
    device: Annotated[str | None, typer.Option(help="In place of that of the file.")] = None,
) -> None:
    """Predict every spectrum of every series of a folder from the others, and score them.

    The table is written after every series. Started again, series whose file and parameters have
    not changed are left as they are. The exit status is 1 if some series could not be scored, 2 if
    nothing could begin.
    """
    from geonode.evaluation.panel import Panel, table  # noqa: PLC0415 - so that --help is quick

    given = {"preset": preset, "device": device}
    overrides = {key: value for key, value in given.items() if value is not None}
    try:
        found = Panel.of(folder, out, read_parameters(params, overrides))
        found.write()
        for name, row in found.rows.items():
            _say(f"{name}: {row.error or 'unchanged, skipped'}")
        for place, (name, task) in enumerate(found.tasks.items(), 1):
            with bar(f"{name} ({place} of {len(found.tasks)})", task.steps) as report:
                row = found.score(name, report)
            _say(f"{name}: {row.error or f'scored in {row.seconds:.0f} s'}")
    except GeonodeError as error:
        _refuse(str(error))
        raise typer.Exit(2) from error
    typer.echo(table(found.rows))
    if found.failed:
        names = ", ".join(found.failed)
        _refuse(f"{len(found.failed)} of {len(found.rows)} series have no scores: {names}")
        raise typer.Exit(1)


def _say(line: str) -> None:
    typer.echo(line, err=True)


def _refuse(line: str) -> None:
    typer.secho(f"error: {line}", err=True, fg=typer.colors.RED)


if __name__ == "__main__":
    app()
