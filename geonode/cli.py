"""Command `geonode`: its commands and their groups."""

from typing import Annotated

import typer

from geonode import __version__
from geonode.app.command import serve
from geonode.commands.artifacts import verify
from geonode.commands.common import Commands
from geonode.commands.devices import devices
from geonode.commands.estimate import estimate
from geonode.commands.geodesic import geodesic
from geonode.commands.panel import panel
from geonode.commands.predict import predict
from geonode.commands.spectra_file import calibrate, inspect, next_levels
from geonode.terminal import documentation

_SPECTRA, _PIPELINE, _MACHINE = "Your spectra", "The pipeline", "This machine"

app = typer.Typer(
    cls=Commands,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="Calibrate with spectra; estimate unknowns with intervals.",
)


def _version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"geonode {__version__}")
        raise typer.Exit
    return wanted


@app.callback(
    epilog="Exit status: 0 done; 1 done, but problems were found; 2 could not begin, nothing was "
    "written; 130 interrupted."
)
def main(
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Results and errors only: no progress, no notes.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="A log on stderr, and tracebacks of errors.")
    ] = False,
    _: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", callback=_version, is_eager=True),
    ] = False,
) -> None:
    """Options of all commands."""
    if quiet and verbose:
        raise typer.BadParameter("found --quiet and --verbose, expected one of them")


for name, command, group, example in (
    ("inspect", inspect, _SPECTRA, "geonode inspect spectra.csv"),
    ("calibrate", calibrate, _SPECTRA, "geonode calibrate spectra.csv --unknown unknown.csv"),
    ("next", next_levels, _SPECTRA, "geonode next spectra.csv --count 2"),
    ("app", serve, _SPECTRA, "geonode app"),
    ("panel", panel, _SPECTRA, "geonode panel DIR --out scores.csv"),
    ("predict", predict, _SPECTRA, "geonode predict --concentration 45 --out predicted.csv"),
    ("estimate", estimate, _SPECTRA, "geonode estimate unknown.csv --out estimates.csv"),
    ("geodesic", geodesic, _PIPELINE, "geonode geodesic 10 40 --wavelength 520"),
    ("verify", verify, _PIPELINE, "geonode verify data"),
    ("devices", devices, _MACHINE, "geonode devices"),
):
    paragraphs = documentation(command).split("\n\n")
    app.command(
        name,
        help="\n\n".join(" ".join(text.split()) for text in paragraphs),  # as wide as the terminal
        rich_help_panel=group,
        epilog=f"Example: {example}",
    )(command)


if __name__ == "__main__":
    app()
