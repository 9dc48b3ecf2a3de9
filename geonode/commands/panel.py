"""Command `geonode panel`: scores of every series of a folder."""

from pathlib import Path
from typing import Annotated

import typer

from geonode.commands.common import (
    PARAMETER_FILE,
    Overwrite,
    found_wrong,
    note,
    require_destination,
)
from geonode.parameters_file import default_parameters, read_parameters
from geonode.progress import bar
from geonode.terminal import tell

InPlace = Annotated[str | None, typer.Option(metavar="NAME", help="Replaces that of the file.")]


def panel(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Folder of files of spectra, one per series; NAME.yaml next to NAME.csv has its "
            "own values of the block spectra.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FILE", help="Table of the scores, .csv.")],
    params: Annotated[Path, typer.Option(metavar="FILE", help="Parameter file.")] = PARAMETER_FILE,
    preset: InPlace = None,
    device: InPlace = None,
    overwrite: Overwrite = False,
) -> None:
    """Predict every spectrum of every series of a folder from the others, and score them.

    Several cores score several series at once. The table has a row for every series and method; it
    is written after each series. Models that were learned before are not learned again. The exit
    status is 1 if some series could not be scored.
    """
    from geonode.compute.processes import import_early, processes_for  # noqa: PLC0415

    require_destination("--out", out, ".csv", never=(folder,), overwrite=overwrite)
    import_early("geonode.evaluation.panel")
    from geonode.evaluation.panel import JOBS_OF_SERIES, Panel  # noqa: PLC0415

    given = {"preset": preset, "device": device}
    replaced = {key: name for key, name in given.items() if name is not None}
    if params == PARAMETER_FILE and not params.is_file():  # outside of a project
        parameters = default_parameters(replaced)
    else:
        parameters = read_parameters(params, replaced)
    found = Panel.of(folder, parameters)
    found.write(out)
    for name, error in found.failed.items():
        note(f"{name}: {error}")
    kind = "cpu" if found.batched else found.device.kind
    processes = processes_for(JOBS_OF_SERIES * len(found.series), kind)
    steps = sum(map(found.steps, found.series))
    with bar(f"scoring {len(found.series)} series", steps) as report:
        for name in found.score(report, processes):
            found.write(out)
            note(f"{name}: {found.failed.get(name, 'scored')}")
    tell(found.text())
    if found.failed:
        names = ", ".join(found.failed)
        found_wrong(f"{len(found.failed)} of {len(found.rows)} series have no scores: {names}")
