"""Designs of several substances, as `geonode inspect` tells them."""

from pathlib import Path
from typing import Any

import numpy as np

from geonode.commands.common import aligned, echo_json
from geonode.config import SpectraParameters
from geonode.errors import GeonodeError
from geonode.mixtures.design import Design
from geonode.reading.inspection import in_lines, noise_said, of_file, one_line_spectra
from geonode.reading.sense import doubts_of_cells
from geonode.reading.series_file import sheet_and_mixtures
from geonode.spectra.mixture_series import MixtureSeries
from geonode.spectra.noise import noise_along_the_axis
from geonode.spectra.replicates import Replicates
from geonode.terminal import tell


def inspect_mixtures(parameters: SpectraParameters, options: str, *, as_json: bool) -> bool:
    """Say how a file is understood, and what can follow; False: it has not several amounts.

    Args:
        parameters: by which it is read.
        options: words of a command line that reads it in this way.
        as_json: whether to print JSON.

    Raises:
        SpectraError: it cannot be read.
    """
    read = sheet_and_mixtures(parameters)
    if read is None:
        return False
    sheet, masked, series = read
    found = of_file(Path(parameters.source), sheet, series.axis, masked)
    found |= _design(series) | {"options": options}
    found["doubts"] = [*sheet.understood.notes, *doubts_of_cells(sheet)]
    if as_json:
        echo_json(found)
        return True
    facts = {
        "samples": f"{found['samples']} of {found['compositions']} different compositions",
        "noise": noise_said(found["noise"], found["replicate_noise"]),
        "design": found["problem"] or "all substances can be calibrated together",
    }
    columns = ["substance", "lowest", "highest", "amounts", "correlation"]
    design = [columns + [""] * (len(series.substances) - 1)]
    for at, name in enumerate(series.named):
        numbers = [f"{found[key][at]:.4g}" for key in ("lowest", "highest", "different")]
        design.append([name, *numbers, *(f"{one:.2f}" for one in found["correlation"][at])])
    shapes = {"mean": series.signal.mean(axis=0), "deviation": series.signal.std(axis=0)}
    commands = [("one alone", f"geonode calibrate {options} --target NAME")]
    if not found["problem"]:
        commands[:0] = [
            ("all together", f"geonode calibrate {options}"),
            ("what to prepare next", f"geonode next {options}"),
        ]
    lines = [*in_lines(found, facts), "", *aligned(design), ""]
    lines += aligned([(name, *one_line_spectra(shape[None])) for name, shape in shapes.items()])
    lines += ["", *(f"doubt: {line}" for line in found["doubts"]), *aligned(commands)]
    tell("\n".join(lines))
    return True


def _design(series: MixtureSeries) -> dict[str, Any]:
    """The design as plain numbers, texts and lists; NaN is the correlation of a constant."""
    amounts, problem = series.amounts, None
    try:
        problem = Design.of(amounts, series.substances).without_surface or None
    except GeonodeError as error:
        problem = str(error)
    away = amounts - amounts.mean(axis=0)
    with np.errstate(invalid="ignore"):
        away = away / np.sqrt(np.sum(away**2, axis=0))
    compositions, composition = np.unique(amounts, axis=0, return_inverse=True)
    each = range(len(compositions))
    noise = Replicates.of([series.signal[composition.ravel() == at] for at in each]).noise
    return {
        "samples": len(amounts),
        "compositions": len(compositions),
        "substances": list(series.substances),
        "units": list(series.units),
        "lowest": amounts.min(axis=0),
        "highest": amounts.max(axis=0),
        "different": [len(np.unique(column)) for column in amounts.T],
        "correlation": away.T @ away,
        "problem": problem,
        "replicate_noise": None if noise is None else float(np.sqrt(np.mean(noise**2))),
        "noise": noise_along_the_axis(series.axis, series.signal),
    }
