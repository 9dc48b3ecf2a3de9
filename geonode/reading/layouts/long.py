"""One row a value: columns of amounts or of the sample, of the wavelength, and of the value."""

from collections import Counter

import numpy as np

from geonode.errors import SpectraError
from geonode.reading.amounts import (
    Asked,
    column_labels,
    named_spectra,
    unit_columns,
    with_unit_column,
)
from geonode.reading.headers import (
    Role,
    axis_header,
    is_marked_amount,
    labelled_level,
    level,
    role,
)
from geonode.reading.levels import with_scan_marks
from geonode.reading.sheet import Cells, Sheet, to_number
from geonode.spectra.arrays import require_values


class OneRowAValue:
    """One row a value."""

    name = "one row a value"

    def fit(self, grid: Cells, asked: Asked) -> tuple[bool, str]:  # noqa: ARG002
        """Headers name one axis, and amounts or the sample."""
        header, roles = grid.header, [role(name) for name in grid.header]
        why_not = ""
        if len(grid.headings) > 1 or roles.count("axis") != 1 or len(roles) < 3:
            why_not = "no column of wavelengths stands beside two others"
        elif {*roles[1:]} == {"concentration"}:  # names with units, declared to be no levels
            why_not = "every header but the first is a concentration"
        elif "concentration" in roles:
            # A level in a wide header has its number; a column of levels has none.
            numbers = [name for name in header if level(name) or labelled_level(name)]
            # Beside samples at wavelengths that all repeat themselves it is a name, as Red 40 is.
            repeats = Counter(grid.column(roles.index("axis"))).values()
            is_named = "other" in roles and min(repeats, default=0) > 1
            is_wide = numbers and not is_named
            why_not = f"the header {numbers[0][:40]!r} is a level" if is_wide else ""
        elif "other" not in roles and not any(map(is_marked_amount, header)):
            why_not = "no column names the samples"
        elif len({*(axis := grid.column(roles.index("axis")))}) == len(axis):
            # Spectra may be called sample and blank, but then the axis does not repeat itself.
            why_not = "no wavelength repeats itself"
        return not why_not, why_not or "headers name an axis, what was measured there, a value"

    def spectra(self, grid: Cells, asked: Asked) -> Sheet:
        """The spectra; a column of replicates numbers scans of one sample or of its amounts."""
        header, rows = grid.header, grid.row_numbers
        roles = _roles(grid)
        left = [at for at, one in enumerate(roles) if one is None and _is_text(grid.column(at))]
        left = left if len(left) < roles.count(None) else []
        if (
            roles.count("other") > 1
            or roles.count("replicate") > 1
            or roles.count(None) != len(left) + 1
        ):
            found = ", ".join(map(repr, header[:10]))
            raise SpectraError(
                f"row {grid.header_row}: found the columns {found}, expected those of "
                "concentrations or samples, one of wavelengths, one of values and at most one of "
                "replicates; remove the others"
            )
        (at_value,) = [at for at, one in enumerate(roles) if one is None and at not in left]
        amounts, sample, replicate = (
            [at for at, one in enumerate(roles) if one == wanted]
            for wanted in ("concentration", "other", "replicate")
        )
        of_series = asked.series and bool(amounts)  # samples of the same amounts are scans of them
        keys = [*(amounts if of_series or not sample else ()), *sample, *replicate]
        labels = {at: column_labels(grid, at) for at in {*keys, *sample, *amounts}}
        for at in amounts:
            for of_units in unit_columns(header, at):
                texts = with_unit_column(labels[at].cells, grid.column(of_units))
                labels[at] = labels[at]._replace(cells=texts)
        of_level = {cell: level(cell) or cell for at in keys for cell in {*labels[at].cells}}
        each = list(zip(*([of_level[c] for c in labels[at].cells] for at in keys), strict=True))
        spectrum_of: dict[object, int] = {}
        spectra = [spectrum_of.setdefault(key, len(spectrum_of)) for key in each]
        order = np.unique(spectra, return_index=True)[1].tolist()
        about = [labels[at].at(order) for at in (*sample, *amounts * (of_series or not sample))]
        if not sample and (len(amounts) > 1 or not of_series):
            joined = map(", ".join, zip(*(one.cells for one in about), strict=True))
            about = [about[0]._replace(header="", cells=[*joined]), *about * of_series]
        names = about[0].cells
        if not of_series:
            about[0] = about[0]._replace(cells=with_scan_marks(names))
        wavelengths = grid.numbers([at_axis := roles.index("axis")])[:, 0]
        wrong = np.flatnonzero(~np.isfinite(wavelengths))
        if wrong.size:
            raise SpectraError(
                f"row {rows[wrong[0]]}, column {grid.header[at_axis]!r}: found no number on the "
                "axis, expected a finite one"
            )
        axis, columns = np.unique(wavelengths, return_inverse=True)
        require_values(len(names) * len(axis))
        values = np.full((len(names), len(axis)), np.nan)
        cells = np.array(spectra) * len(axis) + columns
        values.flat[cells] = grid.numbers([at_value])[:, 0]
        _, first_of, cell = np.unique(cells, return_index=True, return_inverse=True)
        for again in np.flatnonzero(first_of[cell] < np.arange(len(rows))).tolist():
            raise SpectraError(
                f"row {rows[again]}: found {names[spectra[again]]} at {wavelengths[again]:.10g} "
                f"again, first in row {rows[first_of[cell[again]]]}; number scans in a column "
                "called replicate"
            )
        axis_name, axis_unit = axis_header(grid.header[at_axis])
        unused = [at for at, one in enumerate(roles) if at in left or one == "about"]
        skipped = tuple(f"column {grid.header[at]!r}" for at in unused)
        scans = "samples are scans" if of_series and sample else ""
        return named_spectra(
            about,
            asked,
            grid.understood.also(scans, skipped=skipped),
            axis=axis,
            axis_name=axis_name,
            axis_unit=axis_unit,
            axis_places=[f"wavelength {value:.10g}" for value in axis],
            values=values,
            signal=header[at_value],
        )


def _roles(grid: Cells) -> list[Role | None]:
    """Roles of the columns; numbers that are the same in every row of a sample are amounts."""
    roles: list[Role | None] = [
        "concentration" if is_marked_amount(name) else role(name) for name in grid.header
    ]
    numbers = [at for at, one in enumerate(roles) if one is None and not _is_text(grid.column(at))]
    if "other" in roles and len(numbers) > 1:
        samples = grid.column(roles.index("other"))
        for at in filter(grid.header.__getitem__, numbers):
            if len({*zip(samples, grid.column(at), strict=True)}) == len({*samples}):
                roles[at] = "concentration"
    return roles


def _is_text(cells: list[str]) -> bool:
    """True if cells are words throughout, such as the type of a well."""
    return all(not cell[:1].isdigit() and to_number(cell, ",") is None for cell in cells)
