"""Command `geonode panel`: scores of every series of a folder."""

from pathlib import Path
from typing import Annotated

import typer

from geonode.commands.common import PARAMETERS, aligned, found_wrong, note
from geonode.parameters_file import read_parameters
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
    out: Annotated[Path, typer.Option(metavar="FILE", help="Table of the scores, .json or .csv.")],
    params: Annotated[Path, typer.Option(metavar="FILE", help="Parameter file.")] = PARAMETERS,
    preset: InPlace = None,
    device: InPlace = None,
) -> None:
    """Predict every spectrum of every series of a folder from the others, and score them.

    Several cores score several series at once. The table is written after each. A new run skips
    series whose files, parameters and code have not changed; a table of other series is refused.
    The exit status is 1 if some series could not be scored.
    """
    from geonode.evaluation.panel import Panel  # noqa: PLC0415
    from geonode.evaluation.panel_table import mean_ratio, table  # noqa: PLC0415

    given = {"preset": preset, "device": device}
    replaced = {key: name for key, name in given.items() if name is not None}
    with Panel.opened(folder, out, read_parameters(params, replaced)) as found:
        found.write()
        for name, row in found.rows.items():
            note(f"{name}: {row.error or 'unchanged, skipped'}")
        steps = sum(series.steps for series in found.pending.values())
        with bar(f"scoring {len(found.pending)} series", steps) as report:
            for name in found.score(report, found.processes):
                row = found.rows[name]
                note(f"{name}: {row.error or f'scored in {row.seconds:.0f} s'}")
    tell("\n".join([*aligned(table(found.rows)), mean_ratio(found.rows)]))
    if found.failed:
        names = ", ".join(found.failed)
        found_wrong(f"{len(found.failed)} of {len(found.rows)} series have no scores: {names}")
