"""`geonode calibrate`: from a file of spectra to a calibration, in one command."""

from pathlib import Path
from typing import Annotated

import typer

from geonode.commands.common import Overwrite, note
from geonode.commands.spectra_options import (
    ConcentrationUnit,
    Gaps,
    KnownSpectra,
    Marks,
    Missing,
    Preprocess,
    Replicates,
    SecondTable,
    Sheet,
    Window,
    spectra_parameters,
)
from geonode.progress import bar
from geonode.terminal import tell

ENDING = "_calibration"

Unknowns = Annotated[
    list[Path] | None,
    typer.Option(metavar="FILE", help="Spectra of unknown concentration; may be repeated."),
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Folder to write.", show_default=f"name of FILE, {ENDING}"),
]


def calibrate(
    file: KnownSpectra,
    unknown: Unknowns = None,
    out: Out = None,
    quantity: Annotated[str, typer.Option(help="What was measured, for labels.")] = "signal",
    unit: Annotated[str, typer.Option(help="Unit of the signal; 1: none.")] = "1",
    concentration_unit: ConcentrationUnit = None,
    window: Window = None,
    preprocess: Preprocess = None,
    missing: Missing = Gaps.refuse,
    sheet: Sheet = None,
    concentrations: SecondTable = None,
    replicates: Replicates = Marks.ask,
    overwrite: Overwrite = False,
) -> None:
    """Calibrate with a file of spectra, and say which method to use and how far off it is.

    Every level is estimated from the others by geonode, PLS, PCR, the best single wavelength and a
    straight line. DIR gets a page (index.html), a workbook (calibration.xlsx) and CSV files.
    """
    from geonode.calibration.files import writing  # noqa: PLC0415
    from geonode.calibration.fit import Calibration, read_unknown  # noqa: PLC0415
    from geonode.spectra.series import read_series_csv  # noqa: PLC0415

    series = read_series_csv(
        spectra_parameters(
            file,
            quantity=quantity,
            unit=unit,
            concentration_unit=concentration_unit,
            window=window,
            preprocess=preprocess,
            missing=missing,
            sheet=sheet,
            concentrations=concentrations,
            replicates=replicates,
        )
    )
    spectra = {one: read_unknown(one, series) for one in unknown or []}
    folder = Path(f"{file.stem}{ENDING}") if out is None else out
    with writing(folder, [file, *spectra], overwrite=overwrite) as write:
        with bar("calibrating", Calibration.steps(series)) as report:
            found = Calibration.of(file.name, series, report)
        for one, read in spectra.items():
            found = found.with_unknown(one, read)
        write(found)
    tell(found.sentence)
    note(f"{len(series.concentrations)} levels calibrated -> {folder / 'index.html'}")
