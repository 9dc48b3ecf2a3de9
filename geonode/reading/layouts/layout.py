"""Parts that layouts of a table share.

A layout is a class with a `name` for people, `fit` (whether a table is laid out so, and why or why
not), and `long`: values by spectrum and wavelength of one that is, and all texts about the spectra.
They are grouped by spectrum: a damaged axis of a wide table has to be seen before values are sorted
by it, and one row a value would need three times the memory.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from geonode.errors import SpectraError
from geonode.reading.headers import (
    CONCENTRATION_UNIT,
    concentration_header,
    is_marked_amount,
    level,
    role,
    wavelength,
    with_point,
)
from geonode.reading.layouts.table_place import counts_rows
from geonode.reading.levels import with_scan_marks
from geonode.reading.sheet import NOT_KNOWN, Cells, Labels, Sheet, to_number


@dataclass(frozen=True)
class Asked:
    """Wishes with which a table is read."""

    series: bool = False
    """True where its spectra should be named by concentrations rather than by names."""
    target: str | None = None
    """Amount to take where a table gives several; None: the only one."""
    called: str = "signal"
    """Name of a spectrum to which the table gives none."""


def axis_of(
    texts: Sequence[str], places: Sequence[str], unit: str
) -> tuple[Float[np.ndarray, "wavelength"], str]:
    """Spectral axis and its unit.

    Args:
        texts: cells of the axis, with or without a unit.
        places: where each stands, for messages.
        unit: unit in the name of the axis; "1" if it has none.

    Raises:
        SpectraError: a cell is no finite number, or has another unit.
    """
    axis = np.empty(len(texts))
    for at, (text, place) in enumerate(zip(texts, places, strict=True)):
        found, own = wavelength(text) or (np.nan, None)
        if not np.isfinite(found):
            raise SpectraError(
                f"{place}: found {text[:40]!r} on the axis, expected a finite number, such as 400 "
                "or 400 nm"
            )
        if own is not None and unit not in ("1", own):
            raise SpectraError(
                f"{place}: found units {unit} and {own} on one axis, expected one; convert it first"
            )
        axis[at], unit = found, own or unit
    return axis, unit


def named_spectra(table: Sheet, asked: Asked) -> Sheet:
    """Spectra of a layout with their names, and those of a series with their amounts.

    Names are what a header calls so, or texts; without any, the first labels are.
    """
    labels = table.amounts
    amounts = {} if table.columns else amounts_of(labels)
    sure = [at for at, one in amounts.items() if one.is_sure]
    by_name = not (sure and asked.series)
    roles = [role(one.header) for one in labels]
    called = [at for at, one in enumerate(roles) if one == "other"]
    texts = [
        at
        for at, one in enumerate(labels)
        if roles[at] is None and at not in sure and any(to_number(c) is None for c in one.cells)
    ]
    unnamed = not by_name or len(sure) > 1 or is_marked_amount(labels[0].header)
    at_names = [*called, *texts, *([] if unnamed else [0])]
    names = labels[at_names[0] if at_names else 0]
    cells = names.cells if at_names else [place.partition(",")[0] for place in names.places]
    others = [one.header for at, one in enumerate(labels) if at not in (*amounts, *at_names[:1])]
    if names.header and at_names and not (by_name or called or len(sure) > 1):
        others.append(names.header)  # as the amount takes its place
    is_about = role(names.header) not in (None, "concentration")
    skipped = (f"columns {', '.join(others)}",) if others else ()
    return replace(
        table,
        names=with_scan_marks(cells) if by_name and asked.series and not table.columns else cells,
        name_places=names.places,
        understood=table.understood.also(skipped=skipped),
        of_samples=table.of_samples or (is_about and not table.columns),
        concentration_unit=concentration_header(names.header)[1] if by_name else None,
        amounts=tuple(amounts.values()) if asked.series else (),
    )


def amounts_of(labels: Sequence[Labels]) -> dict[int, Labels]:
    """Labels that are amounts, by their place among all.

    Those that are called so are sure; without any, numbers are that do not count the spectra.
    """
    headers, found = [one.header for one in labels], dict[int, Labels]()
    called = [
        at
        for at, header in enumerate(headers)
        if role(header) == "concentration" or is_marked_amount(header)
    ]
    units = next((one.cells for one in labels if one.header.lower() in ("unit", "units")), None)
    for at, one in enumerate(labels):
        cells, means = with_unit_column(one.cells, units), role(one.header)
        if at not in called and (
            means not in (None, "about")
            or not one.header
            or not all(level(cell) or cell.lower() in NOT_KNOWN for cell in cells)
        ):
            continue
        is_sure = at in called or not (called or means or counts_rows(one.cells))
        found[at] = one._replace(cells=cells, is_sure=is_sure)
    return found


def with_unit_column(cells: list[str], units: list[str] | None) -> list[str]:
    """Amounts with the units that a column called unit gives."""
    return [
        f"{cell} {unit}" if cell and re.fullmatch(CONCENTRATION_UNIT, unit) else cell
        for cell, unit in zip(cells, units or cells, strict=True)
    ]


def column_labels(grid: Cells, column: int) -> Labels:
    """Texts of one column, levels among them with a decimal point."""
    cells = [cell if grid.decimal == "." else with_point(cell) for cell in grid.column(column)]
    places = [f"row {row}, column {column + 1}" for row in grid.row_numbers]
    return Labels(grid.header[column], cells, places)
