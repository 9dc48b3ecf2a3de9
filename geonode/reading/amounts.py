"""Amounts beside spectra: of a second table, and the one of them that names the spectra."""

from dataclasses import replace
from pathlib import Path

from geonode.errors import SpectraError
from geonode.reading.headers import (
    amount_name,
    concentration_header,
    is_marked_amount,
    level,
    role,
)
from geonode.reading.layouts.layout import amounts_of, column_labels
from geonode.reading.levels import with_scan_marks
from geonode.reading.sheet import Cells, Labels, Sheet, plain_name, same_name


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
        return sheet
    name, places = amount_name(chosen.header), range(len(sheet.names))
    known = chosen.at([at for at in places if chosen.known[at]])
    if not known.cells:
        raise SpectraError(f"found no spectrum with a {name}, expected some")
    others = [amount.header for amount in sheet.amounts if amount is not chosen]
    sheet = sheet.apart([at for at in places if not chosen.known[at]], name)
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
