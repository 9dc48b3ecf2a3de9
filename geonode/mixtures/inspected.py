"""Inspection of a file of mixtures: what is understood, refused, and can follow."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from geonode.config import SpectraParameters
from geonode.errors import GeonodeError
from geonode.mixtures.design import Design
from geonode.reading.inspection import facts_of_file, in_lines, noise_in_words, one_line_spectra
from geonode.reading.sense import doubts
from geonode.reading.series_file import samples_of
from geonode.reading.sheet import Sheet
from geonode.spectra.noise import noise_along_the_axis
from geonode.spectra.replicates import Replicates
from geonode.spectra.series import Series
from geonode.terminal import aligned


@dataclass(frozen=True, eq=False)
class MixtureInspection:
    """A file of samples of several substances as it was understood."""

    series: Series
    """The samples."""
    found: dict[str, Any]
    """Reading of the file, and its design, as plain numbers, texts and lists."""

    @classmethod
    def of(cls, sheet: Sheet, parameters: SpectraParameters) -> "MixtureInspection":
        """Look at a sheet with several amounts, of `known_sheet`, that was read by parameters.

        Raises:
            SpectraError: as `samples_of`.
        """
        sheet, masked, series = samples_of(sheet, parameters)
        found = facts_of_file(parameters, sheet, series.axis, masked) | _design(series)
        found["doubts"] = doubts(sheet)
        return cls(series, found)

    def to_json(self) -> dict[str, Any]:
        """The inspection as plain numbers, texts and lists."""
        return self.found

    def text(self) -> str:
        """The inspection for people."""
        series, found, options = self.series, self.found, self.found["options"]
        facts = {
            "samples": f"{found['samples']} of {found['compositions']} different compositions",
            "noise": noise_in_words(found["noise"], found["replicate_noise"]),
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
        return "\n".join(lines)


def _design(series: Series) -> dict[str, Any]:
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
