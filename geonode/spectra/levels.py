"""Concentrations and scans that the names of spectra say."""

import re
from typing import Literal

import numpy as np

from geonode.errors import SpectraError
from geonode.spectra.headers import Level, labelled_level, level, same_unit
from geonode.spectra.sheet import Sheet, shortest
from geonode.spectra.table import without_rounding

Replicates = Literal["ask", "marks", "levels"]
"""Meaning of `20.1` beside `20`: asked about, a further scan of 20, or a level of its own."""

_RENAMED = re.compile(r"(?P<first>[0-9]+)\.(?P<count>[1-9][0-9]*)")


def scans_of(
    sheet: Sheet, replicates: Replicates
) -> tuple[dict[tuple[float, int], int], str | None]:
    """Place of every spectrum by level and scan (from 1 on), and the unit of all.

    Levels that differ by rounding alone are one, and theirs are further scans of it.

    Raises:
        SpectraError: names are no concentrations, may mean two things, or disagree in their unit or
            label, or a scan is there twice.
    """
    found = _without_rounding(_scans(sheet, replicates))
    unit = _unit(sheet, found)
    places: dict[tuple[float, int], int] = {}
    for spectrum, scan in enumerate(found):
        key = scan.concentration, scan.scan
        if key in places:
            _refuse_same(sheet, places[key], spectrum, key[0])
        places[key] = spectrum
    for (concentration, _), spectrum in places.items():
        if (concentration, 1) not in places and found[spectrum].label is None:
            raise SpectraError(
                f"{sheet.name_places[spectrum]}: found {sheet.names[spectrum]!r} but no "
                f"'{shortest(concentration)}'; the first scan of a level has no mark"
            )
    return places, unit


def _without_rounding(found: list[Level]) -> list[Level]:
    """The same of levels that are equal to rounding, whose scans are numbered on."""
    named = [one.concentration for one in found]
    level_of = dict(zip(named, without_rounding(np.array(named)).tolist(), strict=True))
    behind: dict[float, int] = {}
    scans: dict[float, int] = {}
    for name in sorted(level_of, key=lambda name: name != level_of[name]):
        behind[name] = scans.get(level_of[name], 0)
        own = max(one.scan for one in found if one.concentration == name)
        scans[level_of[name]] = behind[name] + own
    return [
        one._replace(
            concentration=level_of[one.concentration],
            scan=one.scan + behind[one.concentration],
        )
        for one in found
    ]


def _scans(sheet: Sheet, replicates: Replicates) -> list[Level]:
    renamed = _renamed(sheet) if sheet.columns and replicates != "levels" else {}
    if renamed and replicates == "ask":
        _ask(sheet, renamed)
        renamed = {}
    seen: dict[str, int] = {}
    labels: dict[str, str] = {}
    found = []
    for name, place in zip(sheet.names, sheet.name_places, strict=True):
        seen[name] = seen.get(name, 0) + 1
        if name in renamed:
            first, count = renamed[name]
            found.append(Level(float(first), count + 1, None, ""))
        elif exact := level(name):
            if exact.unit is None and sheet.names_are == "other":
                raise SpectraError(
                    f"{place}: found {name[:40]!r} as name of a sample, expected a concentration; "
                    "call them concentration, or write the unit, such as 30 ppb, or give them in a "
                    "second table (spectra.concentrations)"
                )
            again = seen[name] if replicates == "marks" and exact.scan == 1 else exact.scan
            found.append(exact._replace(scan=again))
        elif within := labelled_level(name):
            found.append(within)
            _refuse_labels(labels, within, name, place)
        else:
            blank = "; write 0 for a blank" if "blank" in name.lower() else ""
            raise SpectraError(
                f"{place}: found {name[:40]!r}, expected a concentration that is finite and not "
                f"negative, such as 30 or 30 ppb, or 30__r2 for its second scan{blank}; or give "
                "the concentrations in a second table (spectra.concentrations)"
            )
    return found


def _unit(sheet: Sheet, found: list[Level]) -> str | None:
    unit = sheet.concentration_unit
    for scan, place in zip(found, sheet.name_places, strict=True):
        if scan.unit is not None and unit is not None and not same_unit(scan.unit, unit):
            raise SpectraError(
                f"{place}: found concentrations in {scan.unit} and in {unit}, expected one unit"
            )
        unit = unit or scan.unit
    return unit


def _refuse_labels(labels: dict[str, str], found: Level, name: str, place: str) -> None:
    """Refuse concentrations of two substances."""
    labels.setdefault(found.label or "", name)
    if len(labels) > 1:
        one = next(iter(labels.values()))
        raise SpectraError(
            f"{place}: found {name[:40]!r} beside {one[:40]!r}, which are of two substances or "
            "samples, expected one label; take the other columns out, or give the concentrations "
            "in a second table (spectra.concentrations)"
        )


def _refuse_same(sheet: Sheet, one: int, other: int, concentration: float) -> None:
    raise SpectraError(
        f"{sheet.name_places[one]} ({sheet.names[one]!r}) and {sheet.name_places[other]} "
        f"({sheet.names[other]!r}) are the same scan of one level; mark further scans as "
        f"{shortest(concentration)}__r2, __r3"
        + ("" if sheet.names[one] != sheet.names[other] else ", or set spectra.replicates: marks")
    )


def _renamed(sheet: Sheet) -> dict[str, tuple[str, int]]:
    """Names such as `10.1` beside `10`: pandas calls a second column 10 so."""
    names = {*sheet.names}
    found = {}
    for name in sheet.names:
        match = _RENAMED.fullmatch(name)
        if match and match["first"] in names:
            count = int(match["count"])
            if all(f"{match['first']}.{one}" in names for one in range(1, count)):
                found[name] = match["first"], count
    return found


def _ask(sheet: Sheet, renamed: dict[str, tuple[str, int]]) -> None:
    """Refuse such names; 0.1 alone is left: it is a level of many series that begin with 0."""
    for name, (first, count) in renamed.items():
        if float(first) > 0:
            place = sheet.name_places[sheet.names.index(name)]
            raise SpectraError(
                f"{place}: found {name!r} beside {first!r}: a level of its own, or what pandas "
                f"makes of a second column {first!r}; set spectra.replicates to levels or to marks "
                f"(or write {first}__r{count + 1} for a scan, or {name}0 for a level)"
            )
