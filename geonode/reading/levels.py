"""Concentrations and scans of named spectra."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np

from geonode.errors import SpectraError
from geonode.reading.headers import (
    NamedLevel,
    amount_name,
    has_concentration,
    is_marked_amount,
    labelled_level,
    level,
    marked_number,
    role,
    same_unit,
    with_point,
)
from geonode.reading.layouts.table_place import counts_rows
from geonode.reading.refusals import unexpected
from geonode.reading.sheet import EMPTY, THOUSANDS, Sheet, some_of
from geonode.spectra.table import FEWEST_LEVELS, shortest, without_rounding

RenamedColumns = Literal["ask", "marks", "levels"]
"""Meaning of `20.1` beside `20`: asked about, a further scan of 20, or a level of its own."""

SECOND_TABLE = "give concentrations in a second table (spectra.concentrations)"
"""Advice where names are no concentrations."""

_BLANK = re.compile("bl(?:an|n)?[kc]|zero|solvent|water|buffer|control|^ref|leer|null", re.I)
_NATURAL = re.compile(
    "(?:tap|river|lake|sea|well|waste|drink|ground|rain|spring)\\w*[ _-]?water", re.I
)
_DATE = re.compile(
    r"\d{4}-\d\d-\d\d.*|\d{1,2}[-./][A-Za-z]{3}|[A-Za-z]{3}[-./]\d{1,2}|\d{1,2}/\d{1,2}(?:/\d+)?"
)
_RENAMED = re.compile(r"(?P<first>[0-9]+)\.(?P<count>[1-9][0-9]*)")


def places_by_level(
    sheet: Sheet, renamed_are: RenamedColumns
) -> tuple[dict[float, list[int]], str | None]:
    """Places of the spectra of every level, which ascend, by their scans, and the unit of levels.

    Levels that differ by rounding alone are one; their spectra are further scans of it.

    Raises:
        SpectraError: there are several amounts, or names are no concentrations, may mean two things
            or disagree in unit or label, or a scan is there twice.
    """
    if several := [repr(amount_name(amount.header)[:40]) for amount in sheet.sure_amounts]:
        names = some_of(several)
        raise SpectraError(f"found several amounts, {names}; choose one by spectra.target")
    found = _scans(sheet, renamed_are)
    named = [one.concentration for one in found]
    level_of = dict(zip(named, without_rounding(np.array(named)).tolist(), strict=True))
    # Of a level, scans of the name that is it come first, and then by their marks.
    order = sorted(level_of, key=lambda name: name != level_of[name]).index
    keys = [(level_of[one.concentration], order(one.concentration), one.scan) for one in found]
    first = {name: mark for _, name, mark in sorted(keys, reverse=True)}
    for one, key, name, place in zip(found, keys, sheet.names, sheet.name_places, strict=True):
        if one.label is None and first[key[1]] > 1:
            raise SpectraError(
                f"{place}: found {name!r} but no '{shortest(one.concentration)}'; the first scan "
                "of a level has no mark, or 1"
            )
    unit = sheet.concentration_unit
    for scan, place in zip(found, sheet.name_places, strict=True):
        unit = common_unit(place, unit, scan.unit)
    places: dict[tuple[float, int, int], int] = {}
    for spectrum, key in enumerate(keys):
        if key in places:
            both = places[key], spectrum
            named_so = [f"{sheet.name_places[at]} ({sheet.names[at]!r})" for at in both]
            alike = len({sheet.names[at] for at in both}) == 1
            raise SpectraError(
                f"{' and '.join(named_so)} are the same scan of one level; mark further scans as "
                f"{shortest(key[0])}__r2, __r3{', or set spectra.replicates: marks' * alike}"
            )
        places[key] = spectrum
    by_level: dict[float, list[int]] = {}
    for key in sorted(places):
        by_level.setdefault(key[0], []).append(places[key])
    return by_level, unit


def _scans(sheet: Sheet, renamed_are: RenamedColumns) -> list[NamedLevel]:
    """Level and scan that each name states."""
    renamed = _renamed(sheet, renamed_are) if sheet.columns and renamed_are != "levels" else {}
    seen: Counter[str] = Counter()
    labels: dict[str | None, str] = {}
    found = []
    for written, place in zip(sheet.names, sheet.name_places, strict=True):
        number = marked_number(written) or ""
        # 0,5 ppb is of one meaning, and 1,000 ppb is not.
        is_decimal = "," in number and not THOUSANDS.fullmatch(number)
        name = with_point(written) if is_decimal else written
        seen[name] += 1
        if name in renamed:
            found.append(renamed[name])
        elif exact := level(name):
            if exact.unit is None and sheet.of_samples:
                others = [repr(amount_name(amount.header)[:40]) for amount in sheet.amounts[:10]]
                wish = f", or choose {' or '.join(others)} by spectra.target" if others else ""
                raise SpectraError(
                    f"{place}: found {name[:40]!r} as name of a sample, expected a concentration; "
                    f"call them so, or write the unit, such as 30 ppb, or {SECOND_TABLE}{wish}"
                )
            again = seen[name] if renamed_are == "marks" and not exact.scan else exact.scan
            found.append(exact._replace(scan=again))
        elif within := labelled_level(name):
            found.append(within)
            labels.setdefault(within.label, name)
            if len(labels) > 1:
                raise SpectraError(
                    f"{place}: found {name[:40]!r} beside {next(iter(labels.values()))[:40]!r}, "
                    "which are of two substances or samples, expected one label; take the other "
                    f"columns out, or {SECOND_TABLE}"
                )
        else:
            hint = "; write 0 for a blank" if _BLANK.search(name) else ""
            if _DATE.fullmatch(name):
                hint = ", and not a date, which spreadsheets make of such as 1-5 or 1.5"
            expected = "a concentration that is finite and not negative, such as 30 or 30 ppb, or "
            expected += f"30__r2 for its second scan{hint}; or {SECOND_TABLE}"
            raise unexpected(place, name, expected)
    return found


def common_unit(place: str, unit: str | None, other: str | None) -> str | None:
    """The unit of concentrations, of which each gives its own, or nothing.

    Raises:
        SpectraError: they are in two units.
    """
    if unit is not None and other is not None and not same_unit(other, unit):
        raise SpectraError(
            f"{place}: found concentrations in {other} and in {unit}, expected one unit"
        )
    return unit or other


def _renamed(sheet: Sheet, renamed_are: RenamedColumns) -> dict[str, NamedLevel]:
    """Names such as `10.1` beside `10`, which is what pandas calls a second column 10."""
    names = {*sheet.names}
    found = {}
    for name, place in zip(sheet.names, sheet.name_places, strict=True):
        match = _RENAMED.fullmatch(name)
        if match is None or match["first"] not in names:
            continue
        first, count = match["first"], int(match["count"])
        if not all(f"{first}.{one}" in names for one in range(1, count)):
            continue
        if renamed_are == "marks":
            found[name] = NamedLevel(float(first), count + 1, None, "")
        elif float(first) > 0:
            raise SpectraError(
                f"{place}: found {name!r} beside {first!r}: a level of its own, or what pandas "
                f"makes of a second column {first!r}; set spectra.replicates to levels or to marks "
                f"(or write {first}__r{count + 1} for a scan, or {name}0 for a level)"
            )
    return found


def unknown_apart(sheet: Sheet) -> Sheet:
    """Spectra whose names are concentrations; those with other names are unknowns beside them.

    Names that may be meant as a concentration stay. All do if few are concentrations, or if bare
    numbers may be names too.
    """
    found = [level(name) or labelled_level(name) for name in sheet.names]
    others = [at for at, name in enumerate(sheet.names) if not found[at] and _is_name_alone(name)]
    known = [one for one in found if one]
    bare = [f"{one.concentration:g}" for one in known if one.unit is None]
    may_be_names = bare and (not sheet.columns or counts_rows(bare))
    if may_be_names or len({one.concentration for one in known}) < FEWEST_LEVELS:
        return sheet
    return sheet.apart(others, "concentration")


def _is_name_alone(name: str) -> bool:
    """True where a name can be no concentration that is meant, nor the header of a column."""
    is_header = role(name) not in (None, "other") or is_marked_amount(name)
    is_blank = name.lower() in EMPTY or _BLANK.search(_NATURAL.sub("", name))
    says_more = is_header or is_blank or _DATE.fullmatch(name) or has_concentration(name)
    return name[:1].isalpha() and not says_more


def with_scan_marks(names: Sequence[str]) -> list[str]:
    """Names of which those of a concentration that was there before are marked as its scans."""
    scans: Counter[object] = Counter()
    marked = []
    for name in names:
        found = level(name)
        key = (found.concentration, found.unit) if found else name
        is_mark = found is not None and found.scan > 0
        scans[key] += not is_mark
        marked.append(name if is_mark or scans[key] == 1 else f"{name}__r{scans[key]}")
    return marked
