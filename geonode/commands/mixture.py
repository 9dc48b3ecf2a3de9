"""Calibration of several amounts together, as `geonode calibrate` does it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from geonode.commands.common import aligned, note
from geonode.errors import ParameterError
from geonode.progress import bar
from geonode.storage.atomic import replacing
from geonode.terminal import tell

if TYPE_CHECKING:
    from geonode.calibration.mixture_file import MixtureFile
    from geonode.spectra.mixture_series import MixtureSeries

ONE_ALONE = ("method", "control", "validation", "user")
"""Options of a calibration with one substance that several have not."""


def calibrate_mixtures(options: dict[str, Any], series: "MixtureSeries", folder: Path) -> None:
    """Calibrate all substances of a file together, estimate unknowns, and write the folder.

    Args:
        options: of `geonode calibrate`, by name.
        series: samples of its file.
        folder: where page, workbook and tables go.

    Raises:
        GeonodeError: the amounts cannot calibrate, a file cannot be read, or the folder is taken.
    """
    from geonode.calibration.calibrated_file import read_unknown  # noqa: PLC0415
    from geonode.calibration.mixture_file import MixtureFile  # noqa: PLC0415
    from geonode.report.calibration_files import require_folder, write_tables  # noqa: PLC0415
    from geonode.report.mixture_page import mixture_page  # noqa: PLC0415
    from geonode.report.mixture_tables import tables  # noqa: PLC0415

    for name in ONE_ALONE:
        if options[name] not in (None, [], "auto"):
            expected = "none: several amounts are calibrated together; --target NAME takes one"
            raise ParameterError("options", f"--{name}", str(options[name]), expected)
    file: Path = options["file"]
    spectra = {one: read_unknown(one, series) for one in options["unknown"] or []}
    require_folder(folder, [file, *spectra], overwrite=options["overwrite"])
    with bar("calibrating", MixtureFile.steps(series)) as report:
        found = MixtureFile.of(file.name, series, report)
    found = found.with_unknowns(spectra)
    made = tables(found)
    with replacing(folder) as temporary:
        temporary.mkdir()
        write_tables(made, mixture_page(found, made), temporary)
    tell("\n".join([found.sentence, "", *_errors(found), *_unknowns(found)]))
    note(
        f"{len(series.samples)} samples of {len(series.substances)} substances calibrated together "
        f"(--target NAME for one alone) -> {folder / 'index.html'}"
    )


def _errors(found: "MixtureFile") -> list[str]:
    """Errors of the methods, one line a substance."""
    from geonode.calibration.mixture_file import METHODS  # noqa: PLC0415

    errors, shown = found.calibration.rmsep, ("combined", "pls", "pls2")
    rows = [["substance", *(f"RMSEP {METHODS[key]}" for key in shown), "best method"]]
    for place, name in enumerate(found.series.named):
        numbers = [f"{errors[key][place]:.3g}" for key in shown]
        rows.append([name, *numbers, METHODS[found.calibration.verdict[place]]])
    return aligned(rows)


def _unknowns(found: "MixtureFile") -> list[str]:
    """Estimated amounts, one line an unknown spectrum."""
    estimates = found.estimates
    if estimates is None:
        return []
    rows = [["spectrum", *found.series.named, "remark"]]
    for place, (_, name) in enumerate(found.unknowns):
        fits = estimates.fits[place]
        amounts = [
            f"{amount:.4g} ({low:.4g} to {high:.4g})" if fits else "-"
            for amount, (low, high) in zip(
                estimates.amounts[place], estimates.intervals[place], strict=True
            )
        ]
        rows.append([name, *amounts, found.remark(place)])
    return ["", *aligned(rows)]
