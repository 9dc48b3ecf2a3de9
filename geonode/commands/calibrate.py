"""`geonode calibrate`: from a file of spectra to a calibration, in one command."""

from pathlib import Path
from typing import Annotated

import typer

from geonode.commands.common import Overwrite, note
from geonode.commands.inspect import Gaps
from geonode.progress import bar
from geonode.terminal import tell

ENDING = "_calibration"


def calibrate(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Spectra of known concentration, in any format.")
    ],
    unknown: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Spectra of unknown concentration; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Folder to write.", show_default=f"name of FILE, {ENDING}"
        ),
    ] = None,
    quantity: Annotated[str, typer.Option(help="What was measured, for labels.")] = "signal",
    unit: Annotated[str, typer.Option(help="Unit of the signal; 1: none.")] = "1",
    concentration_unit: Annotated[
        str | None, typer.Option(help="Unit of the levels.", show_default="that of the file")
    ] = None,
    window: Annotated[
        tuple[float, float] | None,
        typer.Option(metavar="LOW HIGH", help="Part of the axis to use."),
    ] = None,
    missing: Annotated[Gaps, typer.Option(help="What a missing value does.")] = Gaps.refuse,
    overwrite: Overwrite = False,
) -> None:
    """Calibrate with a file of spectra, and say which method to use and how far off it is.

    Every level is estimated from the others by geonode, PLS, PCR, the best single wavelength and a
    straight line. DIR gets a page (index.html), a workbook (calibration.xlsx) and CSV files.
    """
    from geonode.calibration.files import writing  # noqa: PLC0415
    from geonode.calibration.fit import (  # noqa: PLC0415
        Calibration,
        Labels,
        read_calibration,
        read_unknown,
    )

    folder = Path(f"{file.stem}{ENDING}") if out is None else out
    inputs = [file, *(unknown or [])]
    labels = Labels(quantity, unit, concentration_unit)
    series = read_calibration(file, labels, window, missing.value)
    spectra = {one: read_unknown(one, series) for one in unknown or []}
    with writing(folder, inputs, overwrite=overwrite) as write:
        with bar("calibrating", Calibration.steps(series)) as report:
            found = Calibration.of(file.name, series, report)
        for one, read in spectra.items():
            found = found.with_unknown(one, read)
        write(found)
    tell(found.sentence)
    note(f"{len(series.concentrations)} levels calibrated -> {folder / 'index.html'}")
