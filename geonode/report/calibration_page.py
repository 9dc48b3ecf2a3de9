"""The page of a calibration: the sections of one substance, and those of several."""

import shlex
from collections.abc import Iterable
from pathlib import Path

from geonode.calibration.calibrated_file import CalibratedFile
from geonode.calibration.mixture_file import MixtureFile
from geonode.calibration.verdict import NAMES
from geonode.report import calibration_figures as figures
from geonode.report import mixture_figures
from geonode.report.calibration_tables import components_text, coverage_text, limit_text
from geonode.report.live import curves, drawn_places, surfaces
from geonode.report.page import Command, Link, Note, Page, Panels, Part, Section, Slider, Statement
from geonode.report.series_figures import spectra_figure
from geonode.spectra.chart import spans_decades
from geonode.storage.table import Column, Table

WORKBOOK_LINK = Link("calibration.xlsx", "All tables as an Excel workbook")


def calibration_page(
    file: CalibratedFile | MixtureFile, tables: Iterable[Table], saved: Path
) -> Page:
    """Page of a calibration.

    Args:
        file: what it shows.
        tables: tables of the calibration.
        saved: the calibration file beside it.
    """
    by_name = {table.name: table for table in tables}
    line = shlex.join(["geonode", "estimate", "unknown.csv", "--calibration", str(saved)])
    command = Command(
        "Estimate unknown spectra with the calibration file beside this page:",
        line,
        "It gives estimates with 90% sets and remarks; --control checks samples of known "
        "concentration, and --out writes all of it with a record.",
    )
    if isinstance(file, MixtureFile):
        return _of_several(file, by_name, command)
    return _of_one(file, by_name, command)


def _used(tables: dict[str, Table]) -> list[Part]:
    """Tables of what the calibration was used on, narrow enough for a page."""
    names = ("controls", "unknowns", "standards", "validated")
    return [part for name in names if name in tables for part in tables[name].parts(2)]


def _of_one(file: CalibratedFile, tables: dict[str, Table], command: Command) -> Page:
    """The page of one substance."""
    drawn = drawn_places(file)
    wavelength = Slider(
        "wavelength", "wavelength", "curve", len(drawn) - 1, int((drawn < file.place).sum())
    )
    low, high = file.places[[0, -1]].tolist()
    start = float(f"{file.places[len(file.places) // 2]:.4g}")
    unit = "" if file.unit == "1" else file.unit
    box = {"low": low, "high": high, "start": start, "unit": unit}
    concentration = Slider("concentration", "concentration", "predicted", 1000, 500, box)
    sections = [
        Section("spectra", "Spectra", [spectra_figure(file.series, drawn)]),
        Section(
            "curve",
            "Calibration curve",
            [[wavelength], figures.curve(file), Note(name="curve-note")],
        ),
        Section(
            "residuals",
            "Residuals of left-out levels",
            [
                figures.residuals(file),
                tables["calibration"],
                "The method is chosen by these same errors: expect slightly more in use.",
                tables["validation"],
            ],
        ),
        Section("diagnostics", "Diagnostics of PLS and PCR", _diagnostics(file, tables)),
        Section("peaks", "Peaks", [tables["peaks"]]),
        Section(
            "predicted",
            "Predicted spectrum at any concentration",
            [[concentration], figures.predicted(file)],
        ),
        Section("unknown", "Unknown spectra", [*_used(tables), command]),
        Section("limits", "Limits of detection and quantification", [tables["limits"]]),
        Section(
            "next",
            "What to measure next",
            [
                "Where the predicted spectrum is least certain. The gain is how much this standard "
                "should reduce the total error.",
                tables["next"],
            ],
        ),
    ]
    return Page(
        f"{file.source}: calibration",
        f"Calibration of {file.source}",
        [_short_errors(file), _short_limits(file), Note(_remarks_on_errors(file)), WORKBOOK_LINK],
        sections,
        Statement(file.sentence, file.is_sound),
        figures.true(file),
        curves(file),
        "geonode calibrate",
    )


def _short_errors(file: CalibratedFile) -> Table:
    """Errors of the methods, the one to use marked."""
    methods = file.calibration.verdict.methods
    scores = [one.scores for one in methods]
    columns = [
        Column("method", [one.name for one in methods]),
        Column("median", [one.median_absolute_error for one in scores], file.unit, digits=2),
        Column("% of range", [100 * one.median_error_of_range for one in scores], digits=2),
        Column("RMSEP", [one.rmsep for one in scores], file.unit, digits=2),
        Column("% of range", [100 * one.rmsep_of_range for one in scores], digits=2),
    ]
    title = "Errors of concentration with every level left out in turn (bold: the method used)"
    used = [at for at, one in enumerate(methods) if one.key == file.calibration.method]
    return Table("errors", title, columns, frozenset(used))


def _short_limits(file: CalibratedFile) -> Table:
    found = file.limits
    columns = [
        Column(
            "limit by",
            [one.method if one.detection else f"{one.method} ({one.said})" for one in found],
        ),
        Column("detection", [limit_text(one.detection, file.unit) for one in found]),
        Column("quantification", [limit_text(one.quantification, file.unit) for one in found]),
    ]
    return Table("short_limits", "", columns)


def _remarks_on_errors(file: CalibratedFile) -> str:
    found = file.calibration
    said = (
        f"The 90% intervals of {file.method} contain {coverage_text(found.held(found.method))} of "
        "the left-out levels"
    )
    if found.method != "geonode":
        said += f", the sets of geonode {coverage_text(found.held('geonode'))}"
    said += "."
    if ambiguous := sum(len(parts) > 1 for parts in found.sets["geonode"]):
        said += (
            f" For {ambiguous} level{'s' * (ambiguous > 1)} two or more concentrations fit; a "
            "diluted sample tells which."
        )
    if spans_decades(file.series.concentrations):
        said += (
            " The levels span more than two decades, so these are the errors of the highest ones; "
            "the table of left-out levels has the relative errors of the low ones."
        )
    return said


def _diagnostics(file: CalibratedFile, tables: dict[str, Table]) -> list[Part]:
    """Regression vector, influence of the levels, and the choice of components."""
    found, used = file.diagnostics, file.calibration.method
    without = "" if found.key == used else f" ({file.method}, the method used, has none)"
    return [
        f"{NAMES[found.key]} with {components_text(found.components)}{without}. An estimate is the "
        "mean level plus the product of regression vector and deviation from the mean spectrum. "
        "The vector should be large where the substance absorbs, and smooth.",
        figures.regression(file),
        "A level right of the dashed line is unlike the others along the components. One above "
        "the other line has something that the components do not describe. The limits hold 95% of "
        "normal samples.",
        figures.influence(file),
        "Errors of left-out levels by number of components (dashed: the number used). The fewest "
        "from which the error no longer falls are safest.",
        figures.components(file),
        tables["samples"],
    ]


def _of_several(file: MixtureFile, tables: dict[str, Table], command: Command) -> Page:
    """The page of several substances."""
    data = surfaces(file)
    sliders = [Slider("wavelength", "wavelength", "surface", len(data["axis"]) - 1, data["start"])]
    surface = "Signal that the response surface expects; points are samples."
    if (steps := data["steps"]) > 1:
        label = "other substances at"
        sliders.append(Slider("others", label, "surface", steps - 1, steps // 2))
        surface += " They may have other amounts of the other substances than the surface."
    substances = [
        Panels(mixture_figures.of_substance(file, place), name)
        for place, name in enumerate(file.series.named)
    ]
    of_surfaces, designs = mixture_figures.of_pairs(file)
    sections = [
        Section("unknown", "Unknown spectra", [*_used(tables), command]),
        Section(
            "substances",
            "Substances",
            [
                "First: every sample is estimated by a calibration without its composition. Bars "
                "are 90% intervals; how wide they must be was found with these same samples. "
                "Second: errors of these estimates by method (RMSEP); long bars are cut. Third: "
                "the change of the signal per amount at the mean composition.",
                *substances,
            ],
        ),
        Section("surface", "Response surface", [surface, sliders, Panels(of_surfaces)]),
        Section(
            "design",
            "Design",
            [
                "Amounts of the samples, and their convex hull: within it estimates are "
                "interpolated, beyond it extrapolated.",
                Panels(designs),
            ],
        ),
        Section(
            "next",
            "What to prepare next",
            [
                "Mixtures that would make the response surface surer, each as if those before had "
                "been measured. The gain is the share of its expected error that the mixture takes "
                "away.",
                tables["next"],
            ],
        ),
        Section("left-out", "Left-out samples", tables["left_out"].parts(1)),
    ]
    if "record" in tables:
        sections.append(Section("record", "Record", [tables["record"]]))
    shown = ("RMSEP, combined", "RMSEP, PLS of each substance", "RMSEP, PLS2", "best method")
    of_range = ("RMSEP of the range", "inside the intervals", "lowest", "highest")
    errors = tables["errors"].only("substance", *shown, *of_range)
    return Page(
        f"{file.source}: calibration",
        f"Calibration of {file.source}",
        [errors, WORKBOOK_LINK],
        sections,
        Statement(file.sentence, file.is_sound),
        data=data,
        generator="geonode calibrate",
    )
