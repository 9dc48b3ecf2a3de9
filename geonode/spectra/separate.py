"""Folders of files with one spectrum each, called by the names of the files."""

from dataclasses import dataclass, replace
from pathlib import Path

from geonode.errors import SpectraError
from geonode.spectra.common_axis import on_common_axis
from geonode.spectra.sheet import Sheet, Understood, require_values


@dataclass(frozen=True, eq=False)
class One:
    """A file with one spectrum.

    Attributes:
        file: its name.
        sheet: the spectrum.
    """

    file: str
    sheet: Sheet

    @property
    def stem(self) -> str:
        """Name of the file without its ending."""
        return Path(self.file).stem


def together(found: list[One]) -> Sheet:
    """The spectra of several files, on one axis.

    Raises:
        SpectraError: a file has several spectra, units differ, or the axes cannot be brought to
            one.
    """
    first = found[0]
    for one in found:
        if len(one.sheet.names) != 1:
            raise SpectraError(
                f"{one.file}: found {len(one.sheet.names)} spectra, expected one in every file of "
                "a folder; or read this file alone"
            )
        units = one.sheet.axis_unit, first.sheet.axis_unit
        if units[0] != units[1]:
            raise SpectraError(
                f"{one.file}: found an axis in {units[0]}, expected {units[1]} as in {first.file}"
            )
        stems = [other.file for other in found if other.stem == one.stem]
        if len(stems) > 1:
            raise SpectraError(f"found {stems[0]} and {stems[1]}, expected one file a spectrum")
    require_values(sum(one.sheet.values.size for one in found))
    files = [one.file for one in found]
    axes, values = [one.sheet.axis for one in found], [one.sheet.values[0] for one in found]
    axis, spectra, notes = on_common_axis(axes, values, files)
    said = tuple(f"{one.file}: {text}" for one in found for text in one.sheet.understood.skipped)
    own = tuple(dict.fromkeys(note for one in found for note in one.sheet.understood.notes))
    words = first.sheet.understood.format
    understood = Understood(f"{len(found)} files of one spectrum each, {words}", skipped=said)
    return replace(
        first.sheet,
        names=[one.stem for one in found],
        axis=axis,
        values=spectra,
        name_places=files,
        axis_places=[f"wavelength {value:.10g}" for value in axis],
        cell_place=lambda spectrum, place: f"{files[spectrum]} at {axis[place]:.10g}",
        understood=replace(
            understood,
            encoding=first.sheet.understood.encoding,
            header_rows=first.sheet.understood.header_rows,
            notes=own + notes,
        ),
        names_are="other",
        concentration_unit=None,
        columns=False,
    )
