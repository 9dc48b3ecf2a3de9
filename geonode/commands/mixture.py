"""Calibration of several amounts together, as `geonode calibrate` does it."""

from pathlib import Path
from typing import TYPE_CHECKING

from geonode.commands.common import aligned, note
from geonode.progress import bar
from geonode.storage.atomic import replacing
from geonode.terminal import tell

if TYPE_CHECKING:
    from geonode.calibration.mixture_file import MixtureFile
    from geonode.spectra.mixture_series import MixtureSeries


def calibrate_mixtures(
    file: Path, series: "MixtureSeries", unknowns: list[Path], folder: Path, *, overwrite: bool
) -> None:
    """Calibrate all substances of a file together, estimate unknowns, and write the folder.

    Args:
        file: the file.
        series: its samples.
        unknowns: files of unknown spectra.
        folder: where page, workbook and tables go.
        overwrite: whether an older calibration there may be replaced.

    Raises:
        GeonodeError: the amounts cannot calibrate, a file cannot be read, or the folder is taken.
    """
    from geonode.calibration.calibrated_file import read_unknown  # noqa: PLC0415
    from geonode.calibration.mixture_file import MixtureFile  # noqa: PLC0415
    from geonode.report.calibration_files import require_folder, write_tables  # noqa: PLC0415
    from geonode.report.mixture_page import mixture_page  # noqa: PLC0415
    from geonode.report.mixture_tables import tables  # noqa: PLC0415

    spectra = {one: read_unknown(one, series) for one in unknowns}
    require_folder(folder, [file, *spectra], overwrite=overwrite)
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
