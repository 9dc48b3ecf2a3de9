"""Tables of a calibration, of one substance or several."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Bool

from geonode import __version__
from geonode.calibration.calibration_file import CalibrationFile
from geonode.calibration.fit import Calibration
from geonode.calibration.limits import Limit, Line
from geonode.calibration.one_substance import PROPOSALS, OneSubstance
from geonode.calibration.peaks import peaks
from geonode.calibration.results import ends_called, interval_columns, result_tables
from geonode.calibration.several_substances import COMPARED, SeveralSubstances
from geonode.calibration.verdict import NAMES
from geonode.mixtures.next_compositions import propose_mixtures
from geonode.posterior.next_levels import Proposal
from geonode.storage.table import Cell, Column, Table
from geonode.wording import listed, number, per, percent, quantity, share

RMSEP_OF_RANGE, MEDIAN_OF_RANGE = "RMSEP, % of range", "median, % of range"


def tables(file: CalibrationFile[Any]) -> list[Table]:
    """All tables, the results first."""
    model, made = file.model, [*result_tables(file), _summary_table(file)]
    if not file.series.is_of_one:
        made += [errors_table(model), _left_out_samples(model)]
        names = {"substance": model.series.named}
        made.append(_limits_table(names, model.limits, "1", "of every substance"))
        if surface := model.calibration.surface:
            mixtures = propose_mixtures(surface, PROPOSALS)
            made += [_pure_spectra(model), _next("Mixtures to prepare next", model, mixtures)]
        return made
    makers = [_left_out_levels, _compared, _by_every_method, _precision, _limits, _influences]
    makers += [_errors_by_components, _regression_vector, _peaks]
    if model.calibration.curve is None:
        return [*made, *(make(model) for make in makers)]
    makers += [_predicted_spectra, _scan_spectra]
    title = "Levels to measure next, each after those before"
    return [*made, *(make(model) for make in makers), _next(title, model, model.proposals)]


def with_geonode(calibration: Calibration) -> list[str]:
    """The method that estimates, and geonode beside it if it takes part."""
    return [
        key for key in dict.fromkeys((calibration.method, "geonode")) if key in calibration.sets
    ]


def limit_text(limit: float | None, unit: str) -> str:
    """A limit in words."""
    return "none" if limit is None else quantity(limit, unit, 2)


def working_range_text(model: OneSubstance, precision: float) -> str:
    """Sentence on the concentrations whose standard error is at most a share of them."""
    low, high = model.precision.working_range(precision) or (0.0, 0.0)
    place = "nowhere"
    if number(low) != number(high):
        place = f"from {number(low)} to {quantity(high, model.series.unit)}"
    return f"The standard error is at most {precision:.0%} of the concentration {place}."


def coverage_text(contained: Bool[np.ndarray, "level"]) -> str:
    """Number of left-out levels inside their intervals, in words."""
    return f"{contained.sum()} of {len(contained)} ({share(round(float(contained.mean()), 2))})"


def _summary_table(file: CalibrationFile[Any]) -> Table:
    series, model = file.series, file.model
    low, high = series.axis[[0, -1]].tolist()
    axis = f"{low:.10g} to {high:.10g} {series.labels['axis_unit']}".removesuffix(" 1")
    about: dict[str, Cell] = {"verdict": model.sentence, "file": file.source}
    if series.is_of_one:
        levels = series.concentrations.tolist()
        about |= {"unknowns by": file.method, "levels": len(levels)}
        about |= {"lowest level": levels[0], "highest level": levels[-1]}
        about["unit of concentrations"] = file.unit.removeprefix("1")
    else:
        about["samples"] = len(series.samples)
        about["compositions"] = int(model.calibration.design.compositions)
        about["substances"] = listed(series.named)
    about |= {"wavelengths": len(series.axis), "axis": axis}
    about["made by"] = f"geonode {__version__} calibrate"
    return Table.of_facts("summary", about.items())


def _left_out_levels(model: OneSubstance) -> Table:
    calibration, unit = model.calibration, model.series.unit
    levels, key = calibration.concentrations, calibration.method
    errors = calibration.left_out[key] - levels
    relative = [
        error / level if level else None for error, level in np.column_stack([errors, levels])
    ]
    columns = [
        Column("level", levels, unit),
        Column("method", [model.method] * len(levels)),
        *interval_columns(
            [calibration.left_out[key], *_ends(calibration.sets[key])], unit, calibration.level
        ),
        Column("error", errors, unit),
        Column("error relative to the level", relative),
        Column("inside the interval", calibration.covered(key)),
    ]
    if sets := calibration.sets.get("geonode"):
        if key != "geonode":
            numbers = [calibration.left_out["geonode"], *_ends(sets)]
            columns += interval_columns(numbers, unit, calibration.level, "geonode ")
        columns += [
            Column("geonode ambiguous", [len(parts) > 1 for parts in sets]),
            Column("inside the set of geonode", calibration.covered("geonode")),
            Column(f"geonode set{percent(calibration.level)}", sets, unit),
        ]
    title = (
        f"Left-out levels, estimated by {model.method} with {percent(calibration.level)}% intervals"
    )
    return Table("calibration", title, columns)


def _ends(sets: Sequence[Sequence[tuple[float, float]]]) -> tuple[list[float], list[float]]:
    """Lowest and highest concentrations of sets."""
    return [parts[0][0] for parts in sets], [parts[-1][1] for parts in sets]


def _compared(model: OneSubstance) -> Table:
    verdict, unit = model.calibration.verdict, model.series.unit
    methods = verdict.methods
    scores = [method.scores for method in methods]
    used = [method.key == model.calibration.method for method in methods]
    columns = [
        Column("method", [method.name for method in methods]),
        Column("use", used),
        Column("median error", [score.median_absolute_error for score in scores], unit),
        Column(MEDIAN_OF_RANGE, [100 * score.median_error_of_range for score in scores]),
        Column("RMSEP", [score.rmsep for score in scores], unit),
        Column(RMSEP_OF_RANGE, [100 * score.rmsep_of_range for score in scores]),
        Column("Q2", [score.q2 for score in scores]),
        Column("beside the best single one", [verdict.beside_best(method) for method in methods]),
    ]
    title = "Errors, median and root mean square (RMSEP), with every level (concentration of "
    title += "standards) left out in turn (bold: used)"
    return Table("validation", title, columns, frozenset(np.flatnonzero(used).tolist()))


def _by_every_method(model: OneSubstance) -> Table:
    verdict, unit = model.calibration.verdict, model.series.unit
    columns = [Column("level", verdict.levels, unit)]
    columns += [Column(method.name, method.estimates, unit) for method in verdict.methods]
    return Table("left_out", "Left-out levels, estimated by every method", columns)


def _limits(model: OneSubstance) -> Table:
    by = {"by": [limit.method for limit in model.limits]}
    found = _limits_table(by, model.limits, model.series.unit, "the recommended ones first")
    return replace(found, marked=frozenset({0}))


def _limits_table(of: dict[str, list[str]], limits: list[Limit], unit: str, which: str) -> Table:
    columns = [
        *(Column(*one) for one in of.items()),
        Column("LOD", [limit.detection for limit in limits], unit),
        Column("LOQ", [limit.quantification for limit in limits], unit),
        Column("how, or why not", [limit.said for limit in limits]),
    ]
    title = f"Limits of detection (LOD) and of quantification (LOQ), {which}"
    return Table("limits", title, columns)


def _precision(model: OneSubstance) -> Table:
    """Precision profile where spectra are predicted."""
    profile, unit, at = model.precision, model.series.unit, model.places
    errors, positive = profile.at(at), np.where(at > 0, at, np.nan)
    columns = [
        Column("concentration", at, unit),
        Column("standard error", errors, unit),
        Column("% of the concentration", 100 * errors / positive),
    ]
    if (floor := model.floor) is not None:
        alone = np.interp(at, profile.concentrations, floor)
        columns.append(Column("by the law of errors alone", alone, unit))
    return Table("precision", "Standard error of an estimate over the concentration", columns)


def _influences(model: OneSubstance) -> Table:
    diagnostics, levels = model.diagnostics, model.series.concentrations
    columns = [
        Column("level", levels, model.series.unit),
        Column("leverage", diagnostics.leverages),
        Column("limit of leverage", [diagnostics.leverage_limit] * len(levels)),
        Column("T2", diagnostics.t2(diagnostics.leverages)),
        Column("limit of T2", [diagnostics.t2(diagnostics.leverage_limit)] * len(levels)),
        Column("Q", diagnostics.residuals),
        Column("limit of Q", [diagnostics.residual_limit] * len(levels)),
        Column("inside both limits", diagnostics.inside),
    ]
    count = diagnostics.components
    used = f"{NAMES[diagnostics.key]}, {count} component{'s' * (count != 1)}"
    return Table("samples", f"Levels by {used}: 95% limits", columns)


def _errors_by_components(model: OneSubstance) -> Table:
    errors = model.diagnostics.rmsecv
    most = max(map(len, errors.values()))
    columns = [Column("components", range(1, 1 + most))]
    for key, of_key in errors.items():
        padded: list[Cell] = [*of_key.tolist(), *[None] * (most - len(of_key))]
        columns.append(Column(f"RMSECV of {NAMES[key]}", padded, model.series.unit))
    return Table("components", "Errors of left-out levels by number of components", columns)


def _regression_vector(model: OneSubstance) -> Table:
    series, diagnostics = model.series, model.diagnostics
    columns = [
        Column(series.axis_label, series.axis),
        Column(f"mean {series.signal_label}", series.signal.mean(axis=0)),
        Column(
            f"regression vector of {NAMES[diagnostics.key]}",
            diagnostics.vector,
            per(series.unit, series.labels["signal_unit"]),
        ),
    ]
    return Table("regression", "Regression vector", columns)


def _scan_spectra(model: OneSubstance) -> Table:
    """Every scan of the series, as it was calibrated with."""
    series, (level, scans) = model.series, model.series.scans
    names = [
        quantity(float(amount), model.series.unit, 6) for amount in series.concentrations[level]
    ]
    order = np.argsort(level, kind="stable")
    columns = [Column(series.axis_label, series.axis)]
    columns += [Column(names[at], scans[at]) for at in order]
    return Table("spectra", f"Spectra of the levels: {series.signal_label}", columns)


def _peaks(model: OneSubstance) -> Table:
    series, unit = model.series, model.series.unit
    signal_unit, signal = series.labels["signal_unit"], series.labels["signal"]
    at, prominences, widths = peaks(series)
    lines = [Line.of(series, place) for place in at.tolist()]
    low, high = series.concentrations[[0, -1]].tolist()
    columns = [
        Column(series.axis_label, series.axis[at]),
        Column(f"{signal} at {quantity(low, unit)}", series.signal[0, at], signal_unit),
        Column(f"{signal} at {quantity(high, unit)}", series.signal[-1, at], signal_unit),
        Column("prominence", prominences, signal_unit),
        Column("full width at half prominence", widths, series.labels["axis_unit"]),
        Column("slope of the line", [line.slope for line in lines], per(signal_unit, unit)),
        Column("R2 of the line", [line.r2 for line in lines]),
        Column("% RSE of the line", [line.relative_error for line in lines]),
        Column("slope differs from zero", [line.is_sloped for line in lines]),
    ]
    return Table("peaks", f"Peaks of the spectrum of {quantity(high, unit)}", columns)


def _predicted_spectra(model: OneSubstance) -> Table:
    series, (band, half) = model.series, model.predictions.band(model.level)
    low, high = ends_called(model.level)
    columns = [Column(series.axis_label, series.axis)]
    for at in np.searchsorted(model.places, model.tabulated).tolist():
        level = quantity(float(model.places[at]), model.series.unit, 4)
        spectrum = model.predictions.spectra[at]
        columns += [
            Column(level, spectrum),
            Column(f"{level}, {low}", spectrum - half[at]),
            Column(f"{level}, {high}", spectrum + half[at]),
        ]
    return Table("predicted", f"Predicted spectra with {band}s", columns)


def _next(title: str, model: OneSubstance | SeveralSubstances, proposals: list[Proposal]) -> Table:
    amounts = zip(*(proposal.amounts for proposal in proposals), strict=True)
    errors = [proposal.expected_error for proposal in proposals]
    columns = [
        *(Column(*amount) for amount in zip(model.series.named, amounts, strict=True)),
        Column("expected error of the signal there", errors, model.series.labels["signal_unit"]),
        Column("share of the error removed", [proposal.gain for proposal in proposals]),
    ]
    return Table("next", title, columns)


def errors_table(model: SeveralSubstances) -> Table:
    """Errors of all methods, the combined one first, by substance."""
    calibration, design = model.calibration, model.calibration.design
    ends, amounts = calibration.left_out_intervals(model.level), model.series.amounts
    inside = ((ends[..., 0] <= amounts) & (amounts <= ends[..., 1])).sum(axis=0)
    columns = [
        Column("substance", model.series.named),
        *(Column(f"RMSEP, {COMPARED[key]}", errors) for key, errors in calibration.rmsep.items()),
        Column("best method", [COMPARED[key] for key in calibration.verdict]),
        Column("its weight", calibration.weights.max(axis=0)),
        Column(RMSEP_OF_RANGE, 100 * np.array(model.of_range)),
        Column("inside the intervals", [f"{count} of {len(design.amounts)}" for count in inside]),
        Column("lowest", design.low),
        Column("highest", design.high),
    ]
    return Table("errors", "Errors of samples whose composition was left out", columns)


def _left_out_samples(model: SeveralSubstances) -> Table:
    calibration, series, names = model.calibration, model.series, ends_called(model.level)
    intervals = calibration.left_out_intervals(model.level)
    columns = [Column("sample", series.samples)]
    for place, (name, unit) in enumerate(zip(series.substances, series.units, strict=True)):
        numbers = {
            "measured": series.amounts[:, place],
            "estimated": calibration.left_out["combined"][:, place],
            **dict(zip(names, intervals[:, place].T, strict=True)),
        } | {
            f"by {COMPARED[key]}": calibration.left_out[key][:, place]
            for key in ("geonode", "preprocessed_pls", "reweighted_pls")
            if key in calibration.left_out
        }
        columns += [
            Column(f"{name} {what}", values, unit, group=name) for what, values in numbers.items()
        ]
    return Table("left_out", "Samples, estimated without their composition", columns)


def _pure_spectra(model: SeveralSubstances) -> Table:
    series, half = model.series, model.pure_half_widths
    columns = [Column(series.axis_label, series.axis)]
    for place, (name, of_name) in enumerate(zip(series.substances, series.units, strict=True)):
        unit, slope = per(series.labels["signal_unit"], of_name), f"d signal / d {name}"
        columns.append(Column(slope, model.pure[:, place], unit))
        columns.append(Column(f"{slope}, ± {percent(model.level)}%", half[:, place], unit))
    title = "Spectra of the substances: change of the signal per amount"
    return Table("pure", title, columns)
