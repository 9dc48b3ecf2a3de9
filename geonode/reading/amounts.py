"""Names and amounts of spectra: of labels beside them, of one amount, and of a second table."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from geonode.errors import SpectraError
from geonode.reading.headers import (
    CONCENTRATION_UNIT,
    amount_name,
    concentration_header,
    is_marked_amount,
    level,
    role,
    with_point,
)
from geonode.reading.layouts.table_place import counts_rows
from geonode.reading.levels import with_scan_marks
from geonode.reading.sheet import (
    NOT_KNOWN,
    Cells,
    Labels,
    Sheet,
    Understood,
    plain_name,
    same_name,
    to_number,
)


@dataclass(frozen=True)
class Asked:
    """Wishes with which a table is read."""

    series: bool = False
    """True where its spectra should be named by concentrations rather than by names."""
    target: str | None = None
    """Amount to take where a table gives several; None: the only one."""
    called: str = "signal"
    """Name of a spectrum to which the table gives none."""


def named_spectra(
    labels: Sequence[Labels],
    asked: Asked,
    understood: Understood,
    *,
    columns: bool = False,
    of_samples: bool = False,
    **spectra: Any,
) -> Sheet:
    """Spectra of a layout with their names, and those of a series with their amounts.

    Names are what a header calls so, or texts; without any, the first labels are.

    Args:
        labels: all texts about the spectra.
        asked: what they are read for.
        understood: reading of the file.
        columns: whether the names are headers of columns.
        of_samples: whether they are known to be names of samples.
        spectra: axis and values, as of `Sheet`.
    """
    amounts = {} if columns else amounts_of(labels)
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
    return Sheet(
        names=with_scan_marks(cells) if by_name and asked.series and not columns else cells,
        name_places=names.places,
        understood=understood.also(skipped=skipped),
        of_samples=of_samples or (is_about and not columns),
        concentration_unit=concentration_header(names.header)[1] if by_name else None,
        columns=columns,
        amounts=tuple(amounts.values()) if asked.series else (),
        **spectra,
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
    for at, one in enumerate(labels):
        cells, means = one.cells, role(one.header)
        for of_units in unit_columns(headers, at):
            cells = with_unit_column(cells, labels[of_units].cells)
        if at not in called and (
            means not in (None, "about")
            or not one.header
            or not all(level(cell) or cell.lower() in NOT_KNOWN for cell in cells)
        ):
            continue
        is_sure = at in called or not (called or means or counts_rows(one.cells))
        found[at] = one._replace(cells=cells, is_sure=is_sure)
    return found


def unit_columns(headers: Sequence[str], amount: int) -> list[int]:
    """Place of the column called unit of an amount: the only one, or else that behind it."""
    found = [at for at, one in enumerate(headers) if re.fullmatch(r"(?i:units?)(?:\.\d+)?", one)]
    return found if len(found) == 1 else [at for at in found if at == amount + 1]


def with_unit_column(cells: list[str], units: list[str]) -> list[str]:
    """Amounts with the units that a column called unit gives."""
    return [
        f"{cell} {unit}" if cell and re.fullmatch(CONCENTRATION_UNIT, unit) else cell
        for cell, unit in zip(cells, units, strict=True)
    ]


def column_labels(grid: Cells, column: int) -> Labels:
    """Texts of one column, levels among them with a decimal point."""
    cells = [cell if grid.decimal == "." else with_point(cell) for cell in grid.column(column)]
    places = [f"row {row}, column {column + 1}" for row in grid.row_numbers]
    return Labels(grid.header[column], cells, places)


def named_by_amount(sheet: Sheet, target: str | None) -> Sheet:
    """Spectra named by their only amount, or by the one that is asked for; else as they are.

    Those without it are unknowns, and those of one amount are its scans.

    Args:
        sheet: spectra with their amounts.
        target: name of the amount to take, whole or without its unit and `y_`; None: the only one.

    Raises:
        SpectraError: no amount, or several, have the name, or no spectrum has the amount.
    """
    chosen = _chosen_amount(sheet, target)
    if chosen is None:
        left = [amount.header for amount in sheet.amounts if not amount.is_sure]
        skipped = (f"columns {', '.join(left)}",) if left and sheet.sure_amounts else ()
        return replace(sheet, understood=sheet.understood.also(skipped=skipped))
    name, is_known = amount_name(chosen.header), chosen.known
    known = chosen.at([at for at, one in enumerate(is_known) if one])
    if not known.cells:
        raise SpectraError(f"found no spectrum with a {name}, expected some")
    others = [amount.header for amount in sheet.amounts if amount is not chosen]
    sheet = sheet.apart([at for at, one in enumerate(is_known) if not one], name)
    called = target or role(chosen.header) == "concentration" or is_marked_amount(chosen.header)
    notes = () if called else (f"column {chosen.header!r} is interpreted as the concentrations",)
    skipped = (f"columns {', '.join(others)}",) if others else ()
    return replace(
        sheet,
        names=with_scan_marks(known.cells),
        name_places=known.places,
        understood=sheet.understood.also(skipped=skipped, notes=notes),
        of_samples=False,
        concentration_unit=concentration_header(chosen.header)[1] or sheet.concentration_unit,
        columns=False,
        amounts=(),
    )


def _chosen_amount(sheet: Sheet, target: str | None) -> Labels | None:
    if target is None:
        return sheet.sure_amounts[0] if len(sheet.sure_amounts) == 1 else None
    if not sheet.amounts:
        raise SpectraError(
            f"found {sheet.understood.format}, which has no column of amounts, and the amount "
            f"{target[:40]!r} asked for; leave spectra.target out"
        )
    named = [one for one in sheet.amounts if same_name(amount_name(one.header), target)]
    for amounts in ([one for one in sheet.amounts if same_name(one.header, target)], named):
        if len(amounts) == 1:
            return amounts[0]
    known = ", ".join(repr(amount_name(one.header)[:40]) for one in sheet.amounts[:10])
    raise SpectraError(
        f"found {'two amounts' if named else 'no amount'} called {target[:40]!r}, expected one of "
        f"{known} (spectra.target)"
    )


def with_second_table(sheet: Sheet, grid: Cells, title: str, endings: tuple[str, ...]) -> Sheet:
    """Spectra with the amounts that a second table gives for their names.

    Args:
        sheet: named spectra.
        grid: a column of names, and one or more of amounts.
        title: of the table, for messages.
        endings: endings of files, which names may have.

    Raises:
        SpectraError: the table has other columns, names a sample twice or lacks a spectrum.
    """
    header, columns = grid.header, range(len(grid.header))
    labels = [column_labels(grid, at) for at in columns]
    amounts = amounts_of(labels)
    others = [at for at in columns if at not in amounts]
    named = [at for at in others if role(header[at]) == "other"] or others
    if len(header) == 2 and len(named) != 1:
        named, amounts = [0], amounts_of(labels[1:])
    if not amounts or len(named) != 1 or any(map(level, header)):
        raise SpectraError(
            f"{title}: found the columns {', '.join(map(repr, header[:10]))}, expected name and "
            "concentration"
        )
    rows: dict[str, int] = {}
    for place, (row, cells) in enumerate(grid.rows):
        name = plain_name(cells[named[0]])
        name = Path(name).stem if Path(name).suffix.lower() in endings else name
        if name in rows:
            raise SpectraError(f"{title}, row {row}: found {name[:40]!r} again, expected it once")
        rows[name] = place
    at = []
    for name, where in zip(sheet.names, sheet.name_places, strict=True):
        row_of = rows.get(plain_name(name), rows.get(plain_name(where)))  # or the name of its file
        if row_of is None:
            known = ", ".join(map(repr, list(rows)[:3]))
            raise SpectraError(
                f"{where}: found {name[:40]!r}, which {title} has not ({known}, ...), expected the "
                "name of every spectrum there; leave its concentration empty to leave it out"
            )
        at.append(row_of)
    chosen = tuple(
        amount.at(at)._replace(places=[f"{title}, {amount.places[row]}" for row in at])
        for amount in amounts.values()
    )
    understood = sheet.understood.also(f"concentrations of {title}")
    return replace(sheet, understood=understood, amounts=chosen, columns=False)
