"""Tables of a calibration: the same cells for CSV, for the workbook and for the page."""

from dataclasses import astuple
from typing import Any

import numpy as np
from jaxtyping import Bool
from scipy.signal import find_peaks

from geonode import __version__
from geonode.calibration.calibration_file import CalibrationFile
from geonode.calibration.limits import Line
from geonode.calibration.one_substance import OneSubstance
from geonode.calibration.verdict import NAMES
from geonode.posterior.prior import COVERAGE
from geonode.report.mixture_tables import mixture_tables
from geonode.report.results import interval_columns, result_tables, set_text
from geonode.report.table import Cell, Columns, Table
from geonode.spectra.noise import noise_along_the_axis
from geonode.spectra.series import Series, labelled
from geonode.wording import quantity, share

SMALLEST_PEAK = 0.03
"""Prominence of a peak, of the range of its spectrum."""

NOISES = 5.0
"""Standard deviations of the noise that a peak must stand out by."""

MOST_PEAKS = 12
"""Peaks of a table; the most prominent."""


def tables(file: CalibrationFile[Any]) -> list[Table]:
    """All tables, the summary first."""
    if not file.series.is_of_one:
        return mixture_tables(file, result_tables(file))
    made = [make(file) for make in (_summary, _levels, _methods)]
    made += result_tables(file)
    rest = [_left_out, _limits, _samples, _components, _regression, _peaks, _predicted, _spectra]
    return made + [make(file) for make in (*rest, _next)]


def said_limit(ends: tuple[float, float] | None, unit: str) -> str:
    """A limit, or the interval that it is in, in words."""
    if ends is None:
        return "none"
    low, high = (quantity(end, "1", 2) for end in ends)
    numbers = low if low == high else f"{low} to {high}"
    return numbers if unit == "1" else f"{numbers} {unit}"


def _summary(file: CalibrationFile[OneSubstance]) -> Table:
    series, verdict, unit = file.series, file.model.calibration.verdict, file.unit
    low, high = series.axis[[0, -1]].tolist()
    errors: list[list[Cell]] = []
    for key in dict.fromkeys((file.model.calibration.method, "geonode")):
        one, held = verdict.by_key(key), file.model.calibration.held(key)
        errors += [
            [f"{one.name}, median error of left-out levels", one.scores.median_absolute_error],
            [f"{one.name}, RMSEP of left-out levels", one.scores.rmsep],
            [f"{one.name}, RMSEP as share of the range", one.scores.rmsep_of_range],
            [f"{one.name}, left-out levels inside their 90% intervals", float(held.sum())],
        ]
    limits: list[list[Cell]] = [
        [f"limit of detection, {one.method}", said_limit(one.detection, unit)]
        for one in file.model.limits
    ]
    rows: list[list[Cell]] = [
        ["verdict", file.model.sentence],
        ["unknowns by", file.method],
        ["file", file.source],
        ["levels", float(len(series.concentrations))],
        ["lowest level", series.concentrations[0]],
        ["highest level", series.concentrations[-1]],
        ["unit of concentrations", "" if unit == "1" else unit],
        ["wavelengths", float(len(series.axis))],
        ["axis", f"{low:.10g} to {high:.10g} {series.labels['axis_unit']}".removesuffix(" 1")],
        *errors,
        ["wavelength of the straight line", float(series.axis[file.model.place])],
        *limits,
        ["made by", f"geonode {__version__} calibrate"],
    ]
    return Table("summary", "Summary", ["what", "value"], rows)


def _next(file: CalibrationFile[OneSubstance]) -> Table:
    unit = file.unit
    error = labelled("expected error there", file.series.labels["signal_unit"])
    columns = [labelled("concentration", unit), error, "gain over the range"]
    rows: list[list[Cell]] = [
        [*one.amounts, one.expected_error, one.gain] for one in file.model.proposals
    ]
    return Table("next", "Levels to measure next, each after those before", columns, rows)


def _levels(file: CalibrationFile[OneSubstance]) -> Table:
    unit, calibration = file.unit, file.model.calibration
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
        rows.append([*row, *of_geonode[:3], len(sets) > 1, of_geonode[3], set_text(sets)])
    title = f"Left-out levels, estimated by {file.method} with {COVERAGE:.0%} intervals"
    return Table("calibration", title, columns, rows)


def _methods(file: CalibrationFile[OneSubstance]) -> Table:
    verdict, unit = file.model.calibration.verdict, file.unit
    columns = ["method", "use", labelled("median error", unit), "of the range"]
    columns += [labelled("RMSEP", unit), "RMSEP of the range", "Q2", "p against the best"]
    rows: list[list[Cell]] = [
        [
            one.name,
            one.key == file.model.calibration.method,
            *astuple(one.scores),  # in the order of the columns
            verdict.p_value(one),
        ]
        for one in verdict.methods
    ]
    return Table("validation", "Methods, by levels that were left out", columns, rows)


def _left_out(file: CalibrationFile[OneSubstance]) -> Table:
    """Estimates of every level by all methods."""
    verdict, unit = file.model.calibration.verdict, file.unit
    columns: Columns = [(labelled("level", unit), verdict.levels)]
    columns += [(labelled(one.name, unit), one.estimates) for one in verdict.methods]
    return Table.of_columns("left_out", "Left-out levels, estimated by every method", columns)


def _limits(file: CalibrationFile[OneSubstance]) -> Table:
    unit = file.unit
    ends = [labelled(f"{limit} {end}", unit) for limit in ("LOD", "LOQ") for end in ("low", "high")]
    columns = ["by", *ends, "how, or why not"]
    none = (None, None)
    rows: list[list[Cell]] = [
        [one.method, *(one.detection or none), *(one.quantification or none), one.said]
        for one in file.model.limits
    ]
    return Table("limits", "Limits of detection and of quantification", columns, rows)


def _samples(file: CalibrationFile[OneSubstance]) -> Table:
    """Leverage and Q of every level."""
    found, levels = file.model.diagnostics, file.series.concentrations
    limits = [
        ("leverage", found.leverages, found.leverage_limit),
        ("Q", found.residuals, found.residual_limit),
    ]
    columns: Columns = [(labelled("level", file.unit), levels)]
    for name, values, limit in limits:
        columns += [(name, values), (f"limit of {name}", [limit] * len(levels))]
    columns.append(("inside both limits", found.inside))
    title = f"Levels by {NAMES[found.key]}, {components_said(found.components)}: 95% limits"
    return Table.of_columns("samples", title, columns)


def components_said(count: int) -> str:
    """A number of components in words."""
    return f"{count} component{'' if count == 1 else 's'}"


def _components(file: CalibrationFile[OneSubstance]) -> Table:
    """Errors by number of components."""
    errors = file.model.diagnostics.rmsecv
    counts = np.arange(1.0, 1 + max(map(len, errors.values())))
    columns: Columns = [("components", counts)]
    for key, of_key in errors.items():
        padded = [*of_key.tolist(), *[None] * (len(counts) - len(of_key))]
        columns.append((labelled(f"RMSECV of {NAMES[key]}", file.unit), padded))
    title = "Errors of left-out levels by number of components"
    return Table.of_columns("components", title, columns)


def _regression(file: CalibrationFile[OneSubstance]) -> Table:
    """Regression vector with the mean spectrum."""
    series, found = file.series, file.model.diagnostics
    columns: Columns = [
        (series.axis_label, series.axis),
        (f"mean {series.signal_label}", series.signal.mean(axis=0)),
        (f"regression vector of {NAMES[found.key]}", found.vector),
    ]
    return Table.of_columns("regression", "Regression vector", columns)


def _spectra(file: CalibrationFile[OneSubstance]) -> Table:
    """Every scan of the series, as it was calibrated with."""
    series = file.series
    level, scans = file.model.scans
    columns: Columns = [(series.axis_label, series.axis)]
    names = [quantity(float(one), file.unit, 6) for one in series.concentrations[level]]
    order = np.argsort(level, kind="stable")
    columns += [(name, scan) for name, scan in ((names[at], scans[at]) for at in order)]
    title = f"Spectra of the levels: {series.signal_label}"
    return Table.of_columns("spectra", title, columns)


def _peaks(file: CalibrationFile[OneSubstance]) -> Table:
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


def _predicted(file: CalibrationFile[OneSubstance]) -> Table:
    series, unit = file.series, file.unit
    _, half = file.model.predictions.band
    columns: Columns = [(series.axis_label, series.axis)]
    for at in np.searchsorted(file.model.places, file.model.tabulated).tolist():
        level = quantity(float(file.model.places[at]), unit, 4)
        spectrum = file.model.predictions.spectra[at]
        ends = (spectrum - half[at], spectrum + half[at])
        columns += zip(
            (level, f"{level}, low90", f"{level}, high90"), (spectrum, *ends), strict=True
        )
    return Table.of_columns("predicted", "Predicted spectra with 90% intervals", columns)


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
