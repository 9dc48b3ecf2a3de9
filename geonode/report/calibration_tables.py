"""Tables of a calibration: the same cells for CSV, for the workbook and for the page."""

from dataclasses import astuple
from typing import Any

import numpy as np
from jaxtyping import Bool
from scipy.signal import find_peaks

from geonode import __version__
from geonode.calibration.calibrated_file import CalibratedFile
from geonode.calibration.limits import Line
from geonode.calibration.mixture_file import MixtureFile
from geonode.calibration.verdict import NAMES
from geonode.learning.predicted import COVERAGE
from geonode.report.mixture_tables import mixture_tables, unknown_mixtures
from geonode.report.page import Cell, Table
from geonode.spectra.inspection import noise_along_the_axis
from geonode.spectra.series import Series, labelled
from geonode.wording import quantity, share

SMALLEST_PEAK = 0.03
"""Prominence of a peak, of the range of its spectrum."""

NOISES = 5.0
"""Standard deviations of the noise that a peak must stand out by."""

Columns = list[tuple[str, Any]]
"""Headers, each with its numbers: an array, or a list of cells."""

MOST_PEAKS = 12
"""Peaks of a table; the most prominent."""


def tables(file: CalibratedFile | MixtureFile) -> list[Table]:
    """All tables, the summary first."""
    if isinstance(file, MixtureFile):
        return mixture_tables(file, result_tables(file))
    made = [make(file) for make in (_summary, _levels, _methods)]
    made += result_tables(file)
    rest = (_limits, _samples, _components, _regression, _peaks, _predicted, _spectra, _next)
    return made + [make(file) for make in rest]


def result_tables(file: CalibratedFile | MixtureFile) -> list[Table]:
    """Tables of what the calibration was used on, and the record."""
    made = {
        _unknowns: file.unknowns,
        _controls: file.controls,
        _validated: file.validations,
        _standards: file.correction,
        _record: file.record,
    }
    return [make(file) for make, there in made.items() if there]


def interval_columns(unit: str, of: str = "") -> list[str]:
    """Columns of a concentration with its 90% interval."""
    return [labelled(f"{of}{name}", unit) for name in ("estimated", "low90", "high90")]


def said_limit(ends: tuple[float, float] | None, unit: str) -> str:
    """A limit, or the interval that it is in, in words."""
    if ends is None:
        return "none"
    low, high = (quantity(end, "1", 2) for end in ends)
    numbers = low if low == high else f"{low} to {high}"
    return numbers if unit == "1" else f"{numbers} {unit}"


def _summary(file: CalibratedFile) -> Table:
    series, verdict, unit = file.series, file.calibration.verdict, file.unit
    low, high = series.axis[[0, -1]].tolist()
    errors: list[list[Cell]] = []
    for key in dict.fromkeys((file.calibration.method, "geonode")):
        one, held = verdict.by_key(key), file.calibration.held(key)
        errors += [
            [f"{one.name}, median error of left-out levels", one.scores.median_absolute_error],
            [f"{one.name}, RMSEP of left-out levels", one.scores.rmsep],
            [f"{one.name}, RMSEP as share of the range", one.scores.rmsep_of_range],
            [f"{one.name}, left-out levels inside their 90% intervals", float(held.sum())],
        ]
    limits: list[list[Cell]] = [
        [f"limit of detection, {one.method}", said_limit(one.detection, unit)]
        for one in file.limits
    ]
    rows: list[list[Cell]] = [
        ["verdict", file.sentence],
        ["unknowns by", file.method],
        ["file", file.source],
        ["levels", float(len(series.concentrations))],
        ["lowest level", series.concentrations[0]],
        ["highest level", series.concentrations[-1]],
        ["unit of concentrations", "" if unit == "1" else unit],
        ["wavelengths", float(len(series.axis))],
        ["axis", f"{low:.10g} to {high:.10g} {series.labels['axis_unit']}".removesuffix(" 1")],
        *errors,
        ["wavelength of the straight line", float(series.axis[file.place])],
        *limits,
        ["made by", f"geonode {__version__} calibrate"],
    ]
    return Table("summary", "Summary", ["what", "value"], rows)


def _next(file: CalibratedFile) -> Table:
    unit = file.unit
    error = labelled("expected error there", file.series.labels["signal_unit"])
    columns = [labelled("concentration", unit), error, "gain over the range"]
    rows: list[list[Cell]] = [
        [one.concentration, one.expected_error, one.gain] for one in file.proposals
    ]
    return Table("next", "Levels to measure next, each after those before", columns, rows)


def _levels(file: CalibratedFile) -> Table:
    unit, calibration = file.unit, file.calibration
    columns = [labelled("level", unit), "method", *interval_columns(unit)]
    columns += [labelled("error", unit), "error relative to the level", "inside the interval"]
    columns += interval_columns(unit, "geonode ")
    columns += ["geonode ambiguous", "inside the set of geonode", labelled("geonode set90", unit)]
    both = [
        (calibration.verdict.by_key(key).estimates, calibration.sets[key], calibration.held(key))
        for key in (calibration.method, "geonode")
    ]
    rows: list[list[Cell]] = []
    for place, level in enumerate(calibration.concentrations.tolist()):
        own, of_geonode = (
            [float(found[place]), sets[place][0][0], sets[place][-1][1], bool(held[place])]
            for found, sets, held in both
        )
        relative = own[0] / level - 1 if level else None
        sets = calibration.sets["geonode"][place]
        row: list[Cell] = [level, file.method, *own[:3], own[0] - level, relative, own[3]]
        rows.append([*row, *of_geonode[:3], len(sets) > 1, of_geonode[3], _set_text(sets)])
    title = f"Left-out levels, estimated by {file.method} with {COVERAGE:.0%} intervals"
    return Table("calibration", title, columns, rows)


def _set_text(sets: list[tuple[float, float]]) -> str:
    return "; ".join(f"{low:.4g} to {high:.4g}" for low, high in sets)


def _methods(file: CalibratedFile) -> Table:
    verdict, unit = file.calibration.verdict, file.unit
    columns = ["method", "use", labelled("median error", unit), "of the range"]
    columns += [labelled("RMSEP", unit), "RMSEP of the range", "Q2", "p against the best"]
    names = [labelled(f"left out {level:g}", unit) for level in verdict.levels]
    rows: list[list[Cell]] = [
        [
            one.name,
            one.key == file.calibration.method,
            *astuple(one.scores),  # in the order of the columns
            verdict.p_value(one),
            *one.estimates.tolist(),
        ]
        for one in verdict.methods
    ]
    return Table("validation", "Methods, by levels that were left out", columns + names, rows)


def _limits(file: CalibratedFile) -> Table:
    unit = file.unit
    ends = [labelled(f"{limit} {end}", unit) for limit in ("LOD", "LOQ") for end in ("low", "high")]
    columns = ["by", *ends, "how, or why not"]
    none = (None, None)
    rows: list[list[Cell]] = [
        [one.method, *(one.detection or none), *(one.quantification or none), one.said]
        for one in file.limits
    ]
    return Table("limits", "Limits of detection and of quantification", columns, rows)


def _samples(file: CalibratedFile) -> Table:
    """Leverage and Q of every level."""
    found, levels = file.diagnostics, file.series.concentrations
    limits = [
        ("leverage", found.leverages, found.leverage_limit),
        ("Q", found.residuals, found.residual_limit),
    ]
    columns: Columns = [(labelled("level", file.unit), levels)]
    inside = np.ones(len(levels), bool)
    for name, values, limit in limits:
        columns += [(name, values), (f"limit of {name}", [limit] * len(levels))]
        inside &= values <= (np.inf if limit is None else limit)
    columns.append(("inside both limits", inside))
    title = f"Levels by {NAMES[found.key]}, {components_said(found.components)}: 95% limits"
    return _of_columns("samples", title, columns)


def components_said(count: int) -> str:
    """A number of components in words."""
    return f"{count} component{'' if count == 1 else 's'}"


def _components(file: CalibratedFile) -> Table:
    """Errors by number of components."""
    errors = file.diagnostics.rmsecv
    counts = np.arange(1.0, 1 + max(map(len, errors.values())))
    columns: Columns = [("components", counts)]
    for key, of_key in errors.items():
        padded = [*of_key.tolist(), *[None] * (len(counts) - len(of_key))]
        columns.append((labelled(f"RMSECV of {NAMES[key]}", file.unit), padded))
    title = "Errors of left-out levels by number of components"
    return _of_columns("components", title, columns)


def _regression(file: CalibratedFile) -> Table:
    """Regression vector with the mean spectrum."""
    series, found = file.series, file.diagnostics
    columns: Columns = [
        (series.axis_label, series.axis),
        (f"mean {series.signal_label}", series.signal.mean(axis=0)),
        (f"regression vector of {NAMES[found.key]}", found.vector),
    ]
    return _of_columns("regression", "Regression vector", columns)


def _of_columns(name: str, title: str, columns: Columns) -> Table:
    """A table of columns of equal length."""
    headers, values = zip(*columns, strict=True)
    listed = (one.tolist() if isinstance(one, np.ndarray) else one for one in values)
    return Table(name, title, headers, [list(row) for row in zip(*listed, strict=True)])


def _unknowns(file: CalibratedFile | MixtureFile) -> Table:
    unit = file.unit
    failed = "a control failed" if not all(one.passed for one in file.controls) else ""
    if isinstance(file, MixtureFile):
        return unknown_mixtures(file, failed)
    columns = ["file", "spectrum", "method", *interval_columns(unit)]
    columns += interval_columns(unit, "geonode ")
    columns += ["ambiguous", "fits", "p", labelled("geonode set90", unit), "remark"]
    corrected = [labelled("uncorrected", unit)] if file.correction else []
    rows: list[list[Cell]] = []
    for name, found in file.unknowns:
        for one in found:
            row = one.of_geonode
            said = [file.range_remark(one.concentration), row.sentence("" if unit == "1" else unit)]
            remark = "; ".join(part for part in (*said, failed) if part)
            numbers: list[Cell] = [one.concentration, one.low, one.high]
            of_geonode: list[Cell] = [row.mode, row.low, row.high, row.ambiguous, row.fits]
            ends: list[Cell] = [row.p_value, _set_text(row.sets), remark]
            before: list[Cell] = [one.uncorrected] if corrected else []
            rows.append([name, row.name, file.method, *numbers, *of_geonode, *ends, *before])
    by = f"{file.method}, corrected by standards" if corrected else file.method
    title = f"Unknown spectra, estimated by {by}, geonode beside it"
    return Table("unknowns", title, columns + corrected, rows)


def _controls(file: CalibratedFile | MixtureFile) -> Table:
    unit = file.unit
    columns = ["file", "control", labelled("known", unit), *interval_columns(unit)]
    columns += ["fits", "passed"]
    rows: list[list[Cell]] = [[*astuple(one), one.passed] for one in file.controls]
    return Table("controls", "Controls, which must lie in their 90% intervals", columns, rows)


def _validated(file: CalibratedFile | MixtureFile) -> Table:
    unit, several = file.unit, len(file.validations) > 1
    columns = [*["file"] * several, "spectrum", labelled("known", unit)]
    columns += [*interval_columns(unit), labelled("error", unit), "inside the interval", "fits"]
    rows: list[list[Cell]] = []
    for found in file.validations:
        each = np.column_stack([found.known, found.estimated, found.ends])
        each = np.column_stack([each, found.estimated - found.known]).tolist()
        of_each = zip(found.names, each, found.held.tolist(), found.fits.tolist(), strict=True)
        names = [found.file] * several
        rows += [[*names, name, *numbers, *said] for name, numbers, *said in of_each]
    said = ". ".join(one.sentence(unit) for one in file.validations)
    return Table("validated", f"{said[0].upper()}{said[1:]}", columns, rows)


def _standards(file: CalibratedFile | MixtureFile) -> Table:
    assert file.correction
    found, unit = file.correction, file.unit
    after = found.intercept + found.slope * found.estimated
    columns: Columns = [("spectrum", found.names), (labelled("known", unit), found.known)]
    columns += [
        (labelled("estimated", unit), found.estimated),
        (labelled("corrected", unit), after),
    ]
    said = found.sentence(unit)
    return _of_columns("standards", f"Estimates are {said}", columns)


def _record(file: CalibratedFile | MixtureFile) -> Table:
    rows: list[list[Cell]] = [[*one] for one in file.record]
    return Table("record", "Record", ["what", "value"], rows)


def _spectra(file: CalibratedFile) -> Table:
    """Every scan of the series, as it was calibrated with."""
    series = file.series
    level, scans = file.scans
    columns: Columns = [(series.axis_label, series.axis)]
    names = [quantity(float(one), file.unit, 6) for one in series.concentrations[level]]
    order = np.argsort(level, kind="stable")
    columns += [(name, scan) for name, scan in ((names[at], scans[at]) for at in order)]
    title = f"Spectra of the levels: {series.signal_label}"
    return _of_columns("spectra", title, columns)


def _peaks(file: CalibratedFile) -> Table:
    series, unit = file.series, file.unit
    axis_unit, signal_unit = series.labels["axis_unit"], series.labels["signal_unit"]
    signal, levels = series.labels["signal"], series.concentrations[[0, -1]]
    per_level = unit if signal_unit == "1" else f"{signal_unit}/{unit}"
    columns = [series.axis_label]
    columns += [labelled(f"{signal} at {level:g}", signal_unit) for level in levels]
    columns += [labelled("prominence", signal_unit)]
    columns += [labelled("full width at half prominence", axis_unit)]
    columns += [labelled("slope per concentration", per_level)]
    columns += ["R2 of the line", "slope differs from zero"]
    rows: list[list[Cell]] = []
    for place, prominence, width in maxima(series):
        line = Line.of(series, place)
        ends = series.signal[[0, -1], place].tolist()
        of_line = (line.slope, line.r2, line.is_sloped)
        rows.append([float(series.axis[place]), *ends, prominence, width, *of_line])
    level = quantity(float(levels[-1]), unit)
    return Table("peaks", f"Peaks of the spectrum of {level}", columns, rows)


def _predicted(file: CalibratedFile) -> Table:
    series, unit = file.series, file.unit
    _, half = file.predictions.band
    columns: Columns = [(series.axis_label, series.axis)]
    for at in np.searchsorted(file.places, file.tabulated).tolist():
        level = quantity(float(file.places[at]), unit, 4)
        spectrum = file.predictions.spectra[at]
        ends = (spectrum - half[at], spectrum + half[at])
        columns += zip(
            (level, f"{level}, low90", f"{level}, high90"), (spectrum, *ends), strict=True
        )
    return _of_columns("predicted", "Predicted spectra with 90% intervals", columns)


def coverage(held: Bool[np.ndarray, "level"]) -> str:
    """Number of left-out levels inside their intervals, in words."""
    return f"{held.sum()} of {len(held)} ({share(round(float(held.mean()), 2))})"


def maxima(series: Series) -> list[tuple[int, float, float]]:
    """Peaks of the spectrum of the highest level; none where all maxima are noise.

    Returns:
        Index of the wavelength; height above the higher of the two minima beside it (signal unit);
        width at half of that height (axis unit). Ascending.
    """
    spectrum, axis = series.signal[-1], series.axis
    noise = noise_along_the_axis(axis, series.signal)
    least = max(SMALLEST_PEAK * float(np.ptp(spectrum)), NOISES * noise)
    if least == 0:
        return []
    places, found = find_peaks(spectrum, prominence=least, width=0)
    at = np.arange(len(axis))
    ends = (np.interp(found[f"{side}_ips"], at, axis) for side in ("right", "left"))
    widths = np.subtract(*ends)
    chosen = np.sort(np.argsort(-found["prominences"], kind="stable")[:MOST_PEAKS])
    columns = (places[chosen], found["prominences"][chosen], widths[chosen])
    return list(zip(*(column.tolist() for column in columns), strict=True))
