"""Concentrations of named spectra, from a second table."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from geonode.errors import SpectraError
from geonode.spectra.headers import concentration_header, level, role, same_unit
from geonode.spectra.headings import numbered
from geonode.spectra.sheet import Grid, Sheet, shortest
from geonode.spectra.table import without_rounding


def with_concentrations(sheet: Sheet, grid: Grid, said: str, endings: tuple[str, ...]) -> Sheet:
    """Spectra called by the concentrations of a table of names and concentrations.

    Several samples of one concentration are its scans. A sample whose concentration is empty is
    left out.

    Args:
        sheet: named spectra.
        grid: two columns, or more of which one is called concentration.
        said: what the table is called, for messages.
        endings: of files, that names may have.

    Raises:
        SpectraError: the table has other columns, names a sample twice, or has none of a spectrum;
            a concentration is none, or they disagree in their unit.
    """
    table, unit = _table(grid, said, endings)
    levels, kept, left = [], [], []
    for spectrum, (name, place) in enumerate(zip(sheet.names, sheet.name_places, strict=True)):
        if name not in table:
            known = ", ".join(map(repr, list(table)[:3]))
            raise SpectraError(
                f"{place}: found {name[:40]!r}, which {said} has not ({known}, ...), expected the "
                "name of every spectrum there; leave its concentration empty to leave it out"
            )
        found = table[name]
        if found is None:
            left.append(name)
            continue
        levels.append(found)
        kept.append(spectrum)
    if len({*sheet.names}) < len(sheet.names):
        raise SpectraError("found two spectra of one name, expected every name once")
    skipped = (f"spectra without a concentration: {', '.join(left)}",) if left else ()
    at = np.array(kept, dtype=np.int64)
    return replace(
        sheet,
        names=numbered([shortest(one) for one in without_rounding(np.array(levels))]),
        values=sheet.values[at],
        name_places=[sheet.name_places[spectrum] for spectrum in kept],
        understood=sheet.understood.also(f"concentrations of {said}", skipped=skipped),
        names_are="concentrations",
        concentration_unit=unit or sheet.concentration_unit,
        columns=False,
    )


def _table(
    grid: Grid, said: str, endings: tuple[str, ...]
) -> tuple[dict[str, float | None], str | None]:
    """Concentration by name, and the unit of all."""
    at_name, at_level = _columns(grid, said)
    unit = concentration_header(grid.header[at_level])[1]
    table: dict[str, float | None] = {}
    names, levels = grid.column(at_name), grid.column(at_level)
    for row, name, text in zip(grid.row_numbers, names, levels, strict=True):
        stem = Path(name).stem if Path(name).suffix.lower() in endings else name
        if stem in table:
            raise SpectraError(f"{said}, row {row}: found {name[:40]!r} again, expected it once")
        comma = grid.decimal == "," and "." not in text
        found = level(text.replace(",", ".", 1) if comma else text)
        if text not in ("", "nan") and (found is None or found.scan != 1):
            raise SpectraError(
                f"{said}, row {row}: found {text[:40]!r}, expected a concentration that is finite "
                "and not negative, such as 30 or 30 ppb, or nothing"
            )
        if found and found.unit:
            if unit and not same_unit(found.unit, unit):
                raise SpectraError(
                    f"{said}, row {row}: found concentrations in {found.unit} and in {unit}, "
                    "expected one unit"
                )
            unit = unit or found.unit
        table[stem] = found.concentration if found else None
    return table, unit


def _columns(grid: Grid, said: str) -> tuple[int, int]:
    """Columns of the names and of the concentrations."""
    roles = [role(name) for name in grid.header]
    if roles.count("concentration") == 1:
        at_level = roles.index("concentration")
        others = [place for place in range(len(roles)) if place != at_level]
        named = [place for place in others if roles[place] == "other"] or others
        if len(named) == 1:
            return named[0], at_level
    elif len(roles) == 2 and "concentration" not in roles:
        return 0, 1
    raise SpectraError(
        f"{said}: found the columns {', '.join(map(repr, grid.header[:10]))}, expected name and "
        "concentration"
    )
