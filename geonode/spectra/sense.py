"""Warnings about spectra that are possible but hardly meant, with their cells."""

from collections.abc import Iterator

import numpy as np
from jaxtyping import Int

from geonode.spectra.sheet import Sheet
from geonode.spectra.table import SpectraTable

FAR = 1e6
"""Times the median size of the values, beyond which one is named."""

FLAT = 3
"""Values beside each other that are the largest of their spectrum: a detector at its ceiling."""

STRAY = 10.0
"""Times the median distance of a level from the line between its neighbours."""

NAMED = 3
"""Cells that are named."""


def doubts(sheet: Sheet, table: SpectraTable) -> list[str]:
    """One line for each kind of doubt.

    Args:
        sheet: spectra as their file has them, for the places of cells.
        table: the series that they are.
    """
    return [*_far(sheet), *_flat(sheet), *_stray(table)]


def _far(sheet: Sheet) -> Iterator[str]:
    sizes = np.abs(sheet.values)
    some = sizes[np.isfinite(sizes) & (sizes > 0)]
    if not some.size:
        return
    median = float(np.median(some))
    yield from _line(
        sheet,
        np.argwhere(sizes > FAR * median),
        f"values of more than {FAR:g} times the median size, {median:.3g}",
    )


def _flat(sheet: Sheet) -> Iterator[str]:
    """Tops without a slope; spectra that are flat throughout say nothing of a detector."""
    values = sheet.values
    with np.errstate(invalid="ignore"):
        top = values == np.nanmax(values, axis=1, keepdims=True, initial=-np.inf)
    run = np.lib.stride_tricks.sliding_window_view(np.pad(top, ((0, 0), (0, FLAT - 1))), FLAT, 1)
    starts = run.all(axis=2) & ~top.all(axis=1, keepdims=True)
    first = starts & ~np.pad(starts, ((0, 0), (1, 0)))[:, :-1]
    yield from _line(sheet, np.argwhere(first), f"flat tops of {FLAT} values or more begin")


def _line(sheet: Sheet, places: Int[np.ndarray, "cell 2"], what: str) -> Iterator[str]:
    if not len(places):
        return
    named = "; ".join(sheet.cell_place(int(row), int(at)) for row, at in places[:NAMED])
    more = f" and {len(places) - NAMED} more" if len(places) > NAMED else ""
    yield f"{what}: {named}{more}"


def _stray(table: SpectraTable) -> Iterator[str]:
    levels, spectra = table.concentrations, table.spectra
    if len(levels) < 5:
        return
    # Wherever between its neighbours it is: levels need not be even, nor the response.
    across, here = spectra[2:] - spectra[:-2], spectra[1:-1] - spectra[:-2]
    length = np.maximum((across**2).sum(axis=1), np.finfo(float).tiny)
    share = ((across * here).sum(axis=1) / length).clip(0, 1)[:, None]
    away = np.sqrt(((here - share * across) ** 2).mean(axis=1))
    # A stray level pulls the lines of both its neighbours, by half of its own distance or more.
    worst = int(away.argmax())
    others = np.delete(away, range(max(0, worst - 1), min(len(away), worst + 2)))
    usual = float(np.median(others)) if len(others) > 1 else 0.0
    if usual > 0 and away[worst] > STRAY * usual:
        yield (
            f"level {levels[worst + 1]:g} is {away[worst] / usual:.0f} times as far from the line "
            "between its neighbours as other levels are: look for a sample that was exchanged"
        )
