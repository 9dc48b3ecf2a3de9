"""Folders of files with one spectrum each, called by the names of the files."""

from dataclasses import replace
from pathlib import Path

from geonode.errors import SpectraError
from geonode.spectra.common_axis import on_common_axis
from geonode.spectra.sheet import Sheet, Understood, require_values


def together(sheets: dict[str, Sheet]) -> Sheet:
    """The spectra of several files, on one axis.

    Args:
        sheets: of every file, by its name.

    Raises:
        SpectraError: a file has several spectra, units differ, or the axes cannot be brought to
            one.
    """
    files, found = list(sheets), list(sheets.values())
    first = found[0]
    stems: dict[str, str] = {}
    for file, sheet in sheets.items():
        if len(sheet.names) != 1:
            raise SpectraError(
                f"{file}: found {len(sheet.names)} spectra, expected one in every file of a "
                "folder; or read this file alone"
            )
        if sheet.axis_unit != first.axis_unit:
            raise SpectraError(
                f"{file}: found an axis in {sheet.axis_unit}, expected {first.axis_unit} as in "
                f"{files[0]}"
            )
        if (other := stems.setdefault(Path(file).stem, file)) != file:
            raise SpectraError(f"found {other} and {file}, expected one file a spectrum")
    require_values(sum(sheet.values.size for sheet in found))
    axes, values = [sheet.axis for sheet in found], [sheet.values[0] for sheet in found]
    axis, spectra, notes = on_common_axis(axes, values, files)
    about = [sheet.understood for sheet in found]
    return replace(
        first,
        names=list(stems),
        axis=axis,
        values=spectra,
        name_places=files,
        axis_places=[f"wavelength {value:.10g}" for value in axis],
        understood=Understood(
            f"{len(found)} files of one spectrum each, {about[0].format}",
            encoding=about[0].encoding,
            header_rows=about[0].header_rows,
            skipped=tuple(
                f"{file}: {s}" for file, one in zip(files, about, strict=True) for s in one.skipped
            ),
            notes=tuple(dict.fromkeys(note for one in about for note in one.notes)) + notes,
        ),
        names_are="other",
        concentration_unit=None,
        columns=False,
    )
