"""The page of a calibration: the sections of one substance, and those of several."""

import shlex
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

from geonode.calibration.calibration_file import CalibrationFile
from geonode.calibration.one_substance import OneSubstance
from geonode.calibration.results import brief_unknowns, misfits_said
from geonode.calibration.several_substances import SeveralSubstances
from geonode.calibration.verdict import NAMES
from geonode.report import calibration_figures as figures
from geonode.report.calibration_tables import (
    MEDIAN_OF_RANGE,
    RMSEP_OF_RANGE,
    coverage_text,
    limit_text,
    with_geonode,
    working_range_text,
)
from geonode.report.kit import Figure, spectra_figure
from geonode.report.page import Note, Page, Part, Section, SideBySide, Statement
from geonode.spectra.chart import spans_decades
from geonode.spectra.series import labelled
from geonode.storage.table import Table
from geonode.wording import listed, number, percent, quantity


def calibration_page(file: CalibrationFile[Any], tables: Iterable[Table], saved: Path) -> Page:
    """Page of a calibration.

    Args:
        file: what it shows.
        tables: tables of the calibration.
        saved: the calibration file beside it.
    """
    by_name = {table.name: table for table in tables}
    answer = Statement(file.model.sentence, file.model.is_sound)
    results = result_parts(file)
    titles = f"{file.source}: calibration", f"Calibration of {file.source}"
    if file.series.is_of_one:
        figure: Figure | None = _left_out_figure(file.model)
        lead, sections = _lead(file.model, by_name), _of_one(file.model, by_name, saved)
    else:
        figure = None
        shown = ("substance", "RMSEP, combined", "RMSEP, PLS on preprocessings")
        of_range = (RMSEP_OF_RANGE, "inside the intervals", "lowest", "highest")
        lead = [by_name["errors"].only(*shown, "best method", *of_range)]
        lead.append(by_name["limits"])
        sections = _of_several(file, by_name, saved)
    if "record" in by_name:
        sections.append(Section("record", "Record", [by_name["record"]]))
    if results:
        errors = [*([figure] if figure else []), *lead]
        sections = [Section("errors", "How far off estimates are", errors), *sections]
        sections = [replace(section, folded=True) for section in sections]
        lead, figure = [], None
    lead = [*lead, Note("All tables as an Excel workbook", link="calibration.xlsx")]
    return Page(*titles, lead, sections, results, answer, figure, "geonode calibrate")


def result_parts(file: CalibrationFile[Any]) -> list[Part]:
    """Checks by controls and validations, corrections, and the estimates of unknowns."""
    failed = [check for check in file.controls if not check.passed]
    checks = [Statement(check.sentence(file.unit), False) for check in failed]
    if file.controls and not failed:
        checks = [Statement(f"{len(file.controls)} of {len(file.controls)} controls passed.", True)]
    checks += [Statement(one.sentence, not one.rejects) for one in file.violations]
    checks += [Statement(check.sentence(file.unit), not check.fails) for check in file.validations]
    checks += [Statement(doubt, False) for doubt in file.doubts]
    if file.correction:
        checks.append(Statement(f"Estimates are {file.correction.sentence(file.unit)}."))
    unknowns = [brief_unknowns(file)] if file.unknowns else []
    misfits = [Statement(said, False)] if (said := misfits_said(file)) else []
    parts: list[Part] = [checks, *unknowns, misfits]
    return [part for part in parts if part]


def _unknown(tables: dict[str, Table], saved: Path) -> Section:
    """Tables of the checks of the calibration, and how to use it."""
    used = [tables[name] for name in ("controls", "standards", "validated") if name in tables]
    command: list[Part] = [
        "Estimate unknown spectra with the calibration file beside this page:",
        shlex.join(["geonode", "estimate", "unknown.csv", "--calibration", str(saved)]),
        "It gives estimates with intervals and remarks; --control checks samples of known "
        "concentration, and --out writes all of it with a record.",
    ]
    return Section("unknown", "Unknown spectra", [*used, *command])


def _of_one(model: OneSubstance, tables: dict[str, Table], saved: Path) -> list[Section]:
    left_out: list[Part] = [
        figures.residuals(model),
        tables["calibration"],
        "The errors of the combination are those of the whole procedure; those of a method that "
        "was chosen by them are slightly larger in use. Q2 is 1 for perfect estimates, and 0 for "
        "the mean of the other levels.",
        tables["validation"].only("method", "Q2", "beside the best single one"),
    ]
    drawn = figures.drawn_places(model)
    always = [
        Section("residuals", "Residuals of left-out levels", left_out),
        Section("diagnostics", "Diagnostics of PLS and PCR", _diagnostics(model, tables)),
        Section("peaks", "Peaks", [tables["peaks"]]),
        _unknown(tables, saved),
        Section("precision", "How precise estimates are", _precise(model)),
        Section("limits", "Limits of detection and quantification", [tables["limits"]]),
    ]
    spectra = Section("spectra", "Spectra", [spectra_figure(model.series, drawn)])
    if model.calibration.curve is None:
        return [spectra, *always]
    standards = (
        "Where the predicted spectrum is least certain, and which share of its error, summed over "
        "the range, this standard should remove."
    )
    return [
        spectra,
        Section("curve", "Calibration curve", [figures.curve(model)]),
        *always,
        Section("predicted", "Predicted spectra", [figures.predicted(model)]),
        Section("next", "What to measure next", [standards, tables["next"]]),
    ]


def _precise(model: OneSubstance) -> list[Part]:
    """Standard error over the concentration, working ranges, and the information at wavelengths."""
    precision, unit = model.precision, model.series.unit
    parts: list[Part] = [
        f"About {max(1, round(precision.length))} concentrations can be distinguished between the "
        "lowest level and the highest.",
        *(working_range_text(model, largest) for largest in model.working),
        figures.precision(model),
    ]
    if blind := [f"{number(low)} to {quantity(high, unit)}" for low, high in precision.blind]:
        parts.append(f"Estimates are vague from {listed(blind)}.")
    if places := model.telling:
        parts += [
            f"The most informative wavelengths: {listed([model.at(place) for place in places])}. "
            "The squares of the information of all add up to 1 / (standard error)² by the law of "
            "errors alone.",
            figures.telling(model),
        ]
    return parts


def _left_out_figure(model: OneSubstance) -> Figure:
    """Estimates of left-out levels by geonode, and by the method used."""
    calibration, levels = model.calibration, model.series.concentrations
    interval = f"{percent(calibration.level)}% interval"
    estimates = {
        f"{NAMES[key]}, {interval}": (calibration.left_out[key], calibration.sets[key])
        for key in reversed(with_geonode(calibration))
    }
    amount = labelled("concentration", model.series.unit)
    return figures.left_out("true", amount, levels, estimates, 60)


def _lead(model: OneSubstance, tables: dict[str, Table]) -> list[Part]:
    """Errors of the methods, the one to use marked, limits, and remarks on the errors."""
    best, unit = model.limits[0], model.series.unit
    names = ("method", "median error", MEDIAN_OF_RANGE, "RMSEP", RMSEP_OF_RANGE)
    errors = tables["validation"].only(*names)
    errors = replace(errors, columns=[replace(one, digits=2) for one in errors.columns])
    of_limits = (
        f"Limit of detection {limit_text(best.detection, unit)}, of quantification "
        f"{limit_text(best.quantification, unit)}: {best.said}. Limits by other definitions are "
        "below."
    )
    return [errors, of_limits, Note(_remarks_on_errors(model))]


def _remarks_on_errors(model: OneSubstance) -> str:
    calibration = model.calibration
    own, *others = (coverage_text(calibration.covered(key)) for key in with_geonode(calibration))
    remarks = f"The {percent(calibration.level)}% intervals of {model.method} contain {own} of the "
    remarks += "left-out levels"
    remarks += "".join(f", the sets of geonode {other}" for other in others) + "."
    if ambiguous := sum(len(parts) > 1 for parts in calibration.sets.get("geonode", [])):
        remarks += (
            f" For {ambiguous} level{'s' * (ambiguous > 1)} two or more concentrations fit; a "
            "diluted sample tells which."
        )
    if spans_decades(model.series.concentrations):
        remarks += (
            " The levels span more than two decades, so these are the errors of the highest ones; "
            "the table of left-out levels has the relative errors of the low ones."
        )
    return remarks


def _diagnostics(model: OneSubstance, tables: dict[str, Table]) -> list[Part]:
    """Regression vector, influence of the levels, and the choice of components."""
    diagnostics, used = model.diagnostics, model.calibration.method
    count = diagnostics.components
    without = "" if diagnostics.key == used else f" ({model.method}, the method used, has none)"
    return [
        f"{NAMES[diagnostics.key]} with {count} component{'s' * (count != 1)}{without}. An "
        "estimate is the mean level plus the product of regression vector and deviation from the "
        "mean spectrum. The vector should be large where the substance absorbs, and smooth.",
        figures.regression(model),
        "A level right of the dashed line is unlike the others along the components. One above "
        "the other line has something that the components do not describe. The limits contain 95% "
        "of normal samples.",
        figures.influence(model),
        "Errors of left-out levels by number of components (dashed: the number used). The fewest "
        "from which the error no longer falls are safest.",
        figures.component_errors(model),
        tables["samples"],
    ]


def _of_substance(model: SeveralSubstances, place: int) -> list[Figure]:
    """Left-out estimates, errors of the methods, and the spectrum of one substance."""
    calibration = model.calibration
    sets = calibration.left_out_intervals(model.level)[:, place, None].tolist()
    estimates = {
        f"combined, {percent(model.level)}% interval": (
            calibration.left_out["combined"][:, place],
            sets,
        ),
        "PLS on preprocessings": (calibration.left_out["preprocessed_pls"][:, place], None),
    }
    true = model.series.amounts[:, place]
    pure = [figures.pure_spectrum(model, place)] if calibration.surface else []
    return [
        figures.left_out(f"true_{place}", model.series.named[place], true, estimates, 36),
        *pure,
    ]


def _of_several(
    file: CalibrationFile[SeveralSubstances],
    tables: dict[str, Table],
    saved: Path,
) -> list[Section]:
    text = (
        "Signal that the response surface expects, with the other substances at their mean "
        "amounts; points are samples, which may have other amounts of them."
    )
    left_out = (
        "First: every sample is estimated by a calibration without its composition. Bars are "
        "intervals; how wide they must be was found with these same samples. Second: the change of "
        "the signal per amount at the mean composition."
    )
    design = (
        "Amounts of the samples, and their convex hull: within it estimates are interpolated, "
        "beyond it extrapolated."
    )
    mixtures = (
        "Mixtures that would make the response surface surer, each as if those before had been "
        "measured, and the share of its expected error that the mixture removes."
    )
    substances = [
        SideBySide(_of_substance(file.model, place), name)
        for place, name in enumerate(file.series.named)
    ]
    pairs = [*combinations(range(len(file.series.substances)), 2)]
    surface, following = [], []
    if file.model.calibration.surface:
        drawn = SideBySide([figures.surface(file.model, *pair) for pair in pairs])
        surface = [Section("surface", "Response surface", [text, drawn])]
        following = [Section("next", "What to prepare next", [mixtures, tables["next"]])]
    designs = SideBySide([figures.design(file, *pair) for pair in pairs])
    return [
        _unknown(tables, saved),
        Section("substances", "Substances", [left_out, *substances]),
        *surface,
        Section("design", "Design", [design, designs]),
        *following,
        Section("left-out", "Left-out samples", tables["left_out"].parts()),
    ]
