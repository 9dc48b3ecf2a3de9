"""One row a value: columns of the concentration or sample, of the wavelength, and of the value."""

import numpy as np

from geonode.errors import SpectraError
from geonode.spectra.headers import (
    Level,
    axis_header,
    concentration_header,
    labelled_level,
    level,
    role,
)
from geonode.spectra.layouts.layout import NAMES_ARE, Asked, Fit, chosen_amount
from geonode.spectra.layouts.rows import texts_of
from geonode.spectra.sheet import Grid, Sheet, require_values, to_number


class OneRowAValue:
    """One row a value."""

    name, has_amounts = "one row a value", True

    def fit(self, grid: Grid, asked: Asked) -> Fit:  # noqa: ARG002
        """Headers name one axis, and the concentration or the sample."""
        header = grid.header
        roles = [role(name) for name in header]
        why_not = ""
        if len(grid.headings) > 1 or roles.count("axis") != 1 or len(roles) < 3:
            why_not = "no column of wavelengths stands beside two others"
        elif {*roles[1:]} == {"concentration"}:  # names with units that are said to be no levels
            why_not = "every header but the first is a concentration"
        elif "concentration" in roles:
            # A level in a wide header has its number; a column of levels has none.
            numbers = [name for name in header if level(name) or labelled_level(name)]
            why_not = f"the header {numbers[0][:40]!r} is a level" if numbers else ""
        elif "other" not in roles:
            why_not = "no column names the samples"
        elif len({*(axis := grid.column(roles.index("axis")))}) == len(axis):
            # Spectra may be called sample and blank, but then the axis does not repeat itself.
            why_not = "no wavelength repeats itself"
        return Fit(not why_not, why_not or "headers name an axis, what was measured there, a value")

    def sheet(self, grid: Grid, asked: Asked) -> Sheet:
        """The spectra; a column of replicates numbers scans of one concentration."""
        roles = [role(name) for name in grid.header]
        left = [at for at, one in enumerate(roles) if one is None and _is_text(grid.column(at))]
        left = left if len(left) < roles.count(None) else []
        amounts = {at: grid.header[at] for at, one in enumerate(roles) if one == "concentration"}
        wanted = "concentration" if amounts and (asked.series or "other" not in roles) else "other"
        if (
            roles.count("other") > 1
            or roles.count("replicate") > 1
            or roles.count(None) != len(left) + 1
        ):
            found = ", ".join(map(repr, grid.header[:10]))
            raise SpectraError(
                f"row {grid.header_row}: found the columns {found}, expected one of "
                "concentrations, one of wavelengths, one of values and at most one of replicates; "
                "remove the others"
            )
        at_name = roles.index("other") if wanted == "other" else None
        if at_name is None:
            at_name = chosen_amount(amounts, asked.target, f"row {grid.header_row}") or 0
        at_axis = roles.index("axis")
        (at_value,) = [at for at, one in enumerate(roles) if one is None and at not in left]
        rows = grid.row_numbers
        wavelengths = grid.column_of_numbers(at_axis)
        wrong = np.flatnonzero(~np.isfinite(wavelengths))
        if wrong.size:
            raise SpectraError(
                f"row {rows[wrong[0]]}, column {grid.header[at_axis]!r}: found no number on the "
                "axis, expected a finite one"
            )
        axis, columns = np.unique(wavelengths, return_inverse=True)
        # Samples of one concentration are scans of it.
        by_sample = wanted != "other" and "other" in roles
        marks = [grid.column(roles.index(one)) for one in ("replicate", "other") if one in roles]
        marks = marks if wanted != "other" else marks[:-1]
        told = (
            [" ".join(cells) for cells in zip(*marks, strict=True)] if marks else [""] * len(rows)
        )
        names, spectra = _spectra_of_rows(texts_of(grid, at_name), told)
        require_values(len(names) * len(axis))
        values = np.full((len(names), len(axis)), np.nan)
        first: dict[tuple[int, int], int] = {}
        cells = zip(spectra, columns.tolist(), strict=True)
        for row, cell, value in zip(rows, cells, grid.column_of_numbers(at_value), strict=True):
            if cell in first:
                raise SpectraError(
                    f"row {row}: found {names[cell[0]]} at {axis[cell[1]]:.10g} again, first in "
                    f"row {first[cell]}; number scans in a column called replicate"
                )
            first[cell] = row
            values[cell] = value
        axis_name, axis_unit = axis_header(grid.header[at_axis])
        skipped = tuple(f"column {grid.header[at]!r}" for at in left)
        first_rows = dict(zip(reversed(spectra), reversed(rows), strict=True))
        return Sheet(
            names=names,
            axis=axis,
            axis_name=axis_name,
            axis_unit=axis_unit,
            values=values,
            name_places=[f"row {first_rows[n]}, column {at_name + 1}" for n in range(len(names))],
            axis_places=[f"wavelength {value:.10g}" for value in axis],
            understood=grid.understood.also("samples are scans" * by_sample, skipped=skipped),
            names_are=NAMES_ARE.get(roles[at_name], "unknown"),
            concentration_unit=concentration_header(grid.header[at_name])[1],
            signal=grid.header[at_value],
        )


def _is_text(cells: list[str]) -> bool:
    """Whether cells are words throughout, such as the type of a well."""
    return all(not cell[:1].isdigit() and to_number(cell, ",") is None for cell in cells)


def _spectra_of_rows(levels: list[str], marks: list[str]) -> tuple[list[str], list[int]]:
    """Names of the spectra, in the order of the file, and the spectrum of each row."""
    places: dict[tuple[str | Level, str], int] = {}
    scans: dict[str | Level, int] = {}
    names: list[str] = []
    spectra = []
    numbers = {name: level(name) or name for name in set(levels)}
    for name, mark in zip(levels, marks, strict=True):
        found = numbers[name]  # 10 is also 10.0, but 10 ppb is not 10 ppm
        if (found, mark) not in places:
            places[found, mark] = len(places)
            scans[found] = scans.get(found, 0) + 1
            names.append(name if scans[found] == 1 else f"{name}__r{scans[found]}")
        spectra.append(places[found, mark])
    return names, spectra
