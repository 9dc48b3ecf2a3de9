"""`geonode next`: concentrations worth measuring."""

from typing import Annotated

import typer

from geonode.commands.common import AsJson, aligned, echo_json
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


def next_levels(
    file: KnownSpectra,
    count: Annotated[
        int, typer.Option(min=1, max=20, help="Concentrations, each after those before.")
    ] = 3,
    concentration_unit: ConcentrationUnit = None,
    window: Window = None,
    preprocess: Preprocess = None,
    missing: Missing = Gaps.refuse,
    sheet: Sheet = None,
    concentrations: SecondTable = None,
    replicates: Replicates = Marks.ask,
    as_json: AsJson = False,
) -> None:
    """Propose the concentrations to measure next, with what each should gain.

    Each is where the predicted spectrum is least sure. The gain is the part of the expected error
    over the whole range that the measurement should take away.
    """
    from geonode.estimation.next_levels import propose  # noqa: PLC0415
    from geonode.spectra.series import read_series_csv  # noqa: PLC0415

    series = read_series_csv(
        spectra_parameters(
            file,
            concentration_unit=concentration_unit,
            window=window,
            preprocess=preprocess,
            missing=missing,
            sheet=sheet,
            concentrations=concentrations,
            replicates=replicates,
        )
    )
    with bar("comparing concentrations", count) as report:
        found = propose(series.concentrations, series.signal, count, report)
    unit = series.labels["concentration_unit"]
    if as_json:
        echo_json({"unit": unit, "next": [one._asdict() | {"gain": one.gain} for one in found]})
        return
    lines = [("concentration" if unit == "1" else f"concentration ({unit})", "error there", "gain")]
    for one in found:
        lines.append((f"{one.concentration:.4g}", f"{one.expected_error:.3g}", f"{one.gain:.0%}"))
    tell("\n".join(aligned(lines)))
