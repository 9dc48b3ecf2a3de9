"""Spectra of several files, on one axis."""

from dataclasses import replace
from pathlib import Path

from geonode.errors import SpectraError
from geonode.spectra.common_axis import on_common_axis
from geonode.spectra.sheet import Sheet, joined_amounts, require_values, signal_over


def joined(sheets: dict[str, Sheet], *, by_title: bool) -> Sheet:
    """The spectra of several files, on one axis.

    Args:
        sheets: contents of each file, by its name.
        by_title: whether spectra have the names in the files, rather than those of their files.

    Raises:
        SpectraError: two files have one name, units differ, or the axes cannot be brought to one.
    """
    (first_file, first), *_ = sheets.items()
    stems: dict[str, str] = {}
    for file, sheet in sheets.items():
        found, expected = (
            signal_over(one.signal, one.axis_name, one.axis_unit)
            if by_title
            else f"an axis in {one.axis_unit}"
            for one in (sheet, first)
        )
        if found != expected:
            raise SpectraError(f"{file}: found {found}, expected {expected} as in {first_file}")
        if by_title and sheet.of_samples != first.of_samples:
            one, other = ("TITLE" if of.of_samples else "CONCENTRATIONS" for of in (sheet, first))
            raise SpectraError(
                f"{file}: found spectra named by {one}, expected {other} as in {first_file}"
            )
        if (other := stems.setdefault(Path(file).stem, file)) != file and not by_title:
            raise SpectraError(f"found {other} and {file}, expected one file a spectrum")
    require_values(sum(sheet.values.size for sheet in sheets.values()))
    spectra = [
        (name, sheet.axis, values, place)
        for sheet in sheets.values()
        for name, values, place in zip(sheet.names, sheet.values, sheet.name_places, strict=True)
    ]
    names, axes, values, places = (list(part) for part in zip(*spectra, strict=True))
    axis, common, notes = on_common_axis(axes, values, places)
    about = {file: sheet.understood for file, sheet in sheets.items()}
    understood = replace(
        first.understood,
        format=f"{len(sheets)} files of one spectrum each, {first.understood.format}",
        skipped=tuple(f"{file}: {part}" for file, one in about.items() for part in one.skipped),
        notes=tuple(dict.fromkeys(note for one in about.values() for note in one.notes)) + notes,
    )
    return replace(
        first,
        names=names,
        axis=axis,
        values=common,
        name_places=places,
        axis_places=[f"wavelength {value:.10g}" for value in axis],
        understood=understood,
        concentration_unit=None,
        columns=False,
        amounts=joined_amounts(
            [
                {one.header: one.cells[at] for one in sheet.amounts}
                for sheet in sheets.values()
                for at in range(len(sheet.names))
            ],
            places,
            is_sure=any(one.is_sure for sheet in sheets.values() for one in sheet.amounts),
        ),
    )
