"""Warnings about spectra that are possible but hardly meant, with their cells.

Stuck detectors: flat tops at a ceiling, and one number instead of a band. Rounding makes tops flat
too: within n values beside n equal ones a parabola then falls by at most ((3 n - 1) / (n - 1))^2
rounding steps, 16 for three. Baselines may be zero. A number that most of a spectrum has is suspect
only where lower levels have a band, and higher ones if there are some.

Drift in the order of measuring, by a permutation test on the scans of one level: with d_i the
deviation of a scan from the mean of its level, and t_i its place in the file less the mean place
of that level, the statistic is the squared norm of sum t_i d_i. Without a drift all orders of the
scans within their levels are equally likely, whatever their noise is, so that the test is exact:
P. Good, Permutation, Parametric and Bootstrap Tests of Hypotheses, 3rd edition, Springer 2005.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import numpy as np
from jaxtyping import Bool, Float, Int

from geonode.reading.headers import labelled_level, level
from geonode.reading.sheet import Sheet
from geonode.spectra.table import MOST_LEVELS, SpectraTable, shortest, without_rounding
from geonode.ties import first_largest, first_smallest

FAR_RATIO = 1e3
"""Ratio to the largest of all other values beyond which a value is named: no band is so high."""

CODES = np.array(
    [
        *(float(f"{'9' * whole}.{'9' * part}") for whole in range(2, 11) for part in range(4)),
        *(10.0**power for power in range(6, 31)),
        *(32768.0, 2147483648.0),
    ]
)
"""Sizes of numbers by which programs mark a missing value."""

CODES_APART = 10.0
"""Ratio to the largest other value of its sign beyond which such a number counts as a code."""

STRAY = 10.0
"""Ratio to the median distance of levels from the line between their neighbours."""

FLATTER = 4.0
"""Ratio of the largest slope of the signal to the last one from which it saturates."""

SWAPPED = 5.0
"""Factor by which a swap of two labels must bring levels nearer to the lines between their
neighbours (root mean square) for it to be reported. On simulated series of 6 and more levels
without a mistake (`simulation`) that happens in 1 to 2%; those are made worse than most
measurements."""

LEADING = 2
"""Principal components in which swapped labels are looked for."""

LARGEST_STEP = 3.0
"""Ratio to the largest inner step between levels up to which a step to an end is usual."""

CELLS_NAMED = 3
"""Cells that are named."""

TINIEST = np.finfo(float).tiny


def doubts(sheet: Sheet, table: SpectraTable | None = None) -> list[str]:
    """The notes on a file, and one line for each kind of doubt.

    Args:
        sheet: spectra as their file has them, for the places of cells.
        table: the series that they are; None: they have no concentrations, and flat tops are told.
    """
    codes, measured = _codes(sheet)
    wrong = [*codes, *_far(measured)]
    if table is None:
        tops = np.array([*_flat_tops(measured.values)], dtype=np.int64).reshape(-1, 2)
        flat = _named_cells(measured, tops, f"flat tops of {FLAT_VALUES} values or more begin")
        return [*sheet.understood.notes, *wrong, *flat]
    # A value that is no measurement makes its level a stray one.
    orders = () if wrong else _orders(table)
    about = *_merged(sheet), *_copied(table), *orders, *_drifts(table)
    return [*sheet.understood.notes, *wrong, *about]


def unstuck(
    sheet: Sheet,
    window: tuple[float, float] | None,
    missing: str,
    levels: Float[np.ndarray, "spectrum"] | None = None,
) -> tuple[Sheet, Int[np.ndarray, "kept"], Float[np.ndarray, "masked"]]:
    """Spectra with a note on levels at which a detector was stuck, and the wavelengths selected.

    Args:
        sheet: the spectra.
        window: as of `Sheet.selected`.
        missing: "mask" leaves out wavelengths at which a spectrum is stuck, but not throughout.
        levels: of the spectra; None: of samples of several substances.

    Raises:
        SpectraError: as `Sheet.selected`.
    """
    kept, masked = sheet.selected(window, missing)
    if not len(kept) or _codes(sheet)[0]:
        return sheet, kept, masked
    stuck = _stuck(sheet.values[:, kept], levels)
    names = np.array(sheet.names, dtype=object) if levels is None else levels
    shares = {name: stuck[names == name].mean() for name in np.unique(names)}
    text = "{} ({:.1%})" if levels is None else "{:g} ({:.1%})"
    named = [text.format(name, share) for name, share in shares.items() if share]
    what = "sample" if levels is None else "level"
    out = stuck[~stuck.all(axis=1)].any(axis=0) & (missing == "mask")
    if named:
        sheet = sheet.noted(
            f"one number at {what} {', '.join(named)} of the wavelengths, "
            f"as of a saturated or dark detector: dilute and measure again, or leave the {what} "
            f"out, or the wavelengths (`missing: mask`; {out.sum()} are left out)"
        )
    return sheet, kept[~out], np.sort(np.append(masked, sheet.axis[kept[out]]))


def _codes(sheet: Sheet) -> tuple[list[str], Sheet]:
    """Codes that stand apart from all values of their sign, and the spectra without them."""
    values = sheet.values
    codes = np.isin(np.abs(values), CODES)
    others = values[~codes & np.isfinite(values)]
    low, high = others.min(initial=0.0), others.max(initial=0.0)
    codes &= (values > CODES_APART * high) | (values < CODES_APART * low)
    shown = ", ".join(f"{value:.10g}" for value in np.unique(values[codes])[:CELLS_NAMED])
    doubt = f"values of {shown}, which often mean that one is missing (empty the cell if so)"
    cells = _named_cells(sheet, np.argwhere(codes), doubt)
    return [*cells], replace(sheet, values=np.where(codes, np.nan, values))


def _far(sheet: Sheet) -> Iterator[str]:
    """Values beyond a gap in their sizes; a spectrum with most of its values there is large."""
    sizes = np.nan_to_num(np.abs(sheet.values))
    known = np.sort(sizes[sizes > 0])
    upper = known[len(known) // 2 :]
    gaps = np.flatnonzero(upper[1:] > FAR_RATIO * upper[:-1])
    if gaps.size:
        usual = upper[gaps[0]]
        far = sizes > usual
        far &= far.mean(axis=1, keepdims=True) < 0.5
        doubt = f"values of more than {FAR_RATIO:g} times the largest of the others, {usual:.3g}"
        yield from _named_cells(sheet, np.argwhere(far), doubt)


def _named_cells(sheet: Sheet, places: Int[np.ndarray, "cell 2"], what: str) -> Iterator[str]:
    if not len(places):
        return
    named = "; ".join(sheet.cell_place(int(row), int(at)) for row, at in places[:CELLS_NAMED])
    more = f" and {len(places) - CELLS_NAMED} more" if len(places) > CELLS_NAMED else ""
    yield f"{what}: {named}{more}"


def _merged(sheet: Sheet) -> Iterator[str]:
    """Levels that differ by rounding."""
    named = filter(None, (level(name) or labelled_level(name) for name in sheet.names))
    levels = np.unique([each.concentration for each in named])
    for name, same in zip(levels, without_rounding(levels), strict=True):
        if name != same:
            pair = f"levels {shortest(name)} and {shortest(same)}"
            yield f"{pair} differ by rounding alone: read as one level"


def _copied(table: SpectraTable) -> Iterator[str]:
    """Equal spectra of different levels; spectra without any band may well be equal."""
    seen: dict[bytes, dict[str, None]] = {}
    for concentration, scans in zip(table.concentrations, table.scans, strict=True):
        for scan in scans[np.ptp(scans, axis=1) > 0]:
            seen.setdefault(scan.tobytes(), {})[f"{concentration:g}"] = None
    for *others, last in seen.values():
        if others:
            yield (
                f"levels {', '.join(others)} and {last} have one and the same spectrum: look for "
                "one that was copied, or exported twice"
            )


def _orders(table: SpectraTable) -> Iterator[str]:
    """Levels out of line with the series: one stray, and two that may have been swapped.

    Of many samples none is sought: they differ in more than one concentration.
    """
    levels = table.concentrations
    if not 5 <= len(levels) <= MOST_LEVELS:
        return
    centred = table.spectra - table.spectra.mean(axis=0)
    away = np.sqrt(_away(_apart(centred), np.arange(len(levels))))
    # A stray level pulls the lines of both its neighbours, by half of its own distance or more.
    worst = int(first_largest(away))
    others = np.delete(away, range(max(0, worst - 1), min(len(away), worst + 2)))
    usual = float(np.median(others)) if len(others) > 1 else 0.0
    # Noise is in all directions, what a series does in few.
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    slopes = np.diff(left[:, 0]) / np.diff(levels)
    # A curve that rises throughout leaves the lines between levels that are decades apart.
    is_curve = (slopes > 0).all() or (slopes < 0).all()
    is_stray = usual > 0 and away[worst] > STRAY * usual
    if is_stray and not is_curve:
        yield (
            f"level {levels[worst + 1]:g} is {away[worst] / usual:.0f} times as far from the line "
            "between its neighbours as other levels are: look for a sample that was exchanged"
        )
    elif is_stray and abs(slopes[-1]) < abs(slopes).max() / FLATTER:
        yield (
            f"the signal saturates: from level {levels[-2]:g} to {levels[-1]:g} it changes less "
            f"than 1/{FLATTER:g} as much per unit of concentration as between lower levels"
        )
    yield from _swapped(levels, _apart(left[:, :LEADING] * sizes[:LEADING]))


def _swapped(levels: np.ndarray, apart: Float[np.ndarray, "level level"]) -> Iterator[str]:
    """The two levels most likely to have each other's spectrum."""
    order = np.arange(len(levels))
    pairs = np.array(list(combinations(order, 2)))
    orders = np.tile(order, (len(pairs), 1))
    np.put_along_axis(orders, pairs, pairs[:, ::-1], axis=1)
    away, then = _away(apart, order), _away(apart, orders).sum(axis=1)
    best = int(first_smallest(then))
    first, *inner, last = np.sqrt(apart[orders[best, :-1], orders[best, 1:]])
    if away.sum() <= SWAPPED**2 * then[best]:
        return
    # Levels that hardly differ, such as a blank and one near it, may lie in another order, and a
    # stray level is out of the way at an end.
    far = np.sqrt(away.max()) > np.median([first, *inner, last]) / 4
    if far and max(first, last) < LARGEST_STEP * max(inner):
        one, other = levels[pairs[best]]
        yield (
            f"levels {one:g} and {other:g} look swapped: with each other's spectra the series "
            f"would be more than {SWAPPED:g} times as smooth"
        )


def _apart(points: Float[np.ndarray, "level axis"]) -> Float[np.ndarray, "level level"]:
    """Squared distances of all points from each other."""
    products = points @ points.T
    sizes = products.diagonal()
    return np.maximum(sizes[:, None] + sizes - 2 * products, 0)


def _away(
    apart: Float[np.ndarray, "level level"], orders: Int[np.ndarray, "*order level"]
) -> Float[np.ndarray, "*order inner"]:
    """Squared distances of inner levels from the line between their neighbours."""
    before, here, behind = orders[..., :-2], orders[..., 1:-1], orders[..., 2:]
    across, first = apart[before, behind], apart[before, here]
    along = (across + first - apart[here, behind]) / 2  # a product of vectors, by the cosine rule
    share = (along / np.maximum(across, TINIEST)).clip(0, 1)
    return np.maximum(first - 2 * share * along + share**2 * across, 0)


FLAT_VALUES, STEEP = 3, 20.0
"""Fewest equal values of a flat top, and the rounding steps by which no rounded band falls."""

BAND_SHARE = 0.05
"""Signal of a band, as a share of the range of all values."""


def _flat_tops(values: Float[np.ndarray, "spectrum wavelength"]) -> Iterator[tuple[int, int]]:
    """Spectrum and first wavelength of every flat top, but of spectra that are flat throughout."""
    step = np.diff(np.unique(values[np.isfinite(values)][:100_000])).min(initial=np.inf)
    for spectrum, row in enumerate(values):
        top = np.pad(row == np.nanmax(row, initial=-np.inf), 1)
        for start, end in np.flatnonzero(top[1:] != top[:-1]).reshape(-1, 2).tolist():
            beside = row[max(2 * start - end, 0) : 2 * end - start]
            if end - start >= FLAT_VALUES and row[start] - np.nanmin(beside) > STEEP * step:
                yield spectrum, start


def _stuck(
    values: Float[np.ndarray, "spectrum wavelength"],
    levels: Float[np.ndarray, "spectrum"] | None,
) -> Bool[np.ndarray, "spectrum wavelength"]:
    """True where finite values are of a detector at its ceiling or, at known levels, a dark one."""
    found = np.zeros(values.shape, dtype=bool)
    for spectrum, _ in _flat_tops(values):
        found[spectrum] = values[spectrum] == values[spectrum].max()
    if levels is None:
        return found
    same = values == np.median(values, axis=1, keepdims=True)
    # A blank may well be zero throughout.
    for spectrum in np.flatnonzero((same.mean(axis=1) > 0.5) & (levels > levels.min())).tolist():
        band = np.abs(values - np.median(values[spectrum])) > BAND_SHARE * np.ptp(values)
        sides = levels < levels[spectrum], levels > levels[spectrum]
        seen = np.all([band[side].any(axis=0) for side in sides if side.any()], axis=0)
        if same[spectrum].all() or (same[spectrum] & seen).sum() >= FLAT_VALUES:
            found[spectrum] |= same[spectrum]
    return found


ORDERS = 1999
"""Random orders that are compared with that of the file."""

UNLIKELY_ORDER = 0.01
"""Probability of such an order without a drift, below which it is reported."""

MOST_DEVIATIONS = 1_000_000
"""Deviations that are looked at; of more, evenly spaced wavelengths."""


def _drifts(table: SpectraTable) -> Iterator[str]:
    """Line of warning if scans of the same levels drift in the order of the file."""
    away = table.replicates.deviations
    away = away[:, :: 1 + away.size // MOST_DEVIATIONS]
    random, orders = np.random.default_rng(0), list[np.ndarray]()
    for places in table.places:
        if len(places) > 1:
            order = np.tile(np.array(places) - np.mean(places), (ORDERS + 1, 1))
            order[1:] = random.permuted(order[1:], axis=1)
            orders.append(order)
    if not orders:
        return
    sizes = np.square(np.concatenate(orders, axis=1) @ away).sum(axis=1)
    chance = float(np.mean(sizes >= sizes[0] * (1 - 1e-9)))
    if chance < UNLIKELY_ORDER:
        yield (
            f"scans of the same levels drift in the order of the file (p = {chance:.1g}); if they "
            "were measured in it, intervals do not cover the drift: measure levels in random order "
            "and a standard repeatedly"
        )
