"""The page of a calibration."""

import shlex
from pathlib import Path

from geonode.calibration.calibration_file import CalibrationFile
from geonode.calibration.one_substance import OneSubstance
from geonode.calibration.verdict import NAMES
from geonode.report.calibration_data import page_json
from geonode.report.calibration_figures import drawn_places, figures
from geonode.report.calibration_tables import (
    components_said,
    coverage,
    said_limit,
)
from geonode.report.kit import Figure
from geonode.report.page import Markup, Part, Section, escaped, page, parts_html
from geonode.report.table import Cell, Table
from geonode.spectra.chart import spans_decades
from geonode.spectra.series import labelled
from geonode.wording import number

GENERATOR = "geonode calibrate"

NEXT = (
    "Where the predicted spectrum is least certain. The gain is how much this standard should "
    "reduce the total error."
)
CHOSEN = "The method is chosen by these same errors: expect slightly more in use."
GEOMETRY = (
    "The learned metric: where √g is large, a small step of concentration changes the spectrum "
    "much, and concentrations are easily told apart."
)


def calibration_page(file: CalibrationFile[OneSubstance], tables: list[Table], saved: Path) -> str:
    """HTML page of a calibration.

    Args:
        file: what it shows.
        tables: tables of the calibration.
        saved: the calibration file beside it.
    """
    drawn, by_name = figures(file), {table.name: table for table in tables}
    return page(
        f"{file.source}: calibration",
        _first(file, drawn["true"]),
        _sections(file, drawn, by_name, saved),
        scripts=("calibration.js",),
        data=page_json(file),
        generator=GENERATOR,
    )


def _first(file: CalibrationFile[OneSubstance], figure: Figure) -> str:
    """The first screen: the method to use, its errors and its limits."""
    kind = "" if file.model.is_sound else ' class="bad"'
    said = Markup(f'<p class="note">{escaped(_remarks(file))}</p>')
    book = Markup('<p><a href="calibration.xlsx">All tables as an Excel workbook</a></p>')
    return f"""<div class="first">
<h1>Calibration of {escaped(file.source)}</h1>
<p id="answer"{kind}>{escaped(file.model.sentence)}</p>
{parts_html([figure])}
<div>
{parts_html([_errors(file), _short_limits(file), said, book])}
</div>
</div>"""


def _errors(file: CalibrationFile[OneSubstance]) -> Table:
    """Errors of the methods, the one to use marked."""
    methods, rows = file.model.calibration.verdict.methods, []
    for method in methods:
        found = method.scores
        shares = (100 * found.median_error_of_range, 100 * found.rmsep_of_range)
        errors = (found.median_absolute_error, shares[0], found.rmsep, shares[1])
        row: list[Cell] = [method.name, *(number(error, 2) for error in errors)]
        rows.append(row)
    used = frozenset(i for i, one in enumerate(methods) if one.key == file.model.calibration.method)
    median, rmsep = (labelled(name, file.unit) for name in ("median", "RMSEP"))
    columns = ["method", median, "% of range", rmsep, "% of range"]
    title = "Errors of concentration with every level left out in turn (bold: the method used)"
    return Table("errors", title, columns, rows, used)


def _short_limits(file: CalibrationFile[OneSubstance]) -> Table:
    rows: list[list[Cell]] = []
    for limit in file.model.limits:
        by = limit.method if limit.detection else f"{limit.method} ({limit.said})"
        ends = (limit.detection, limit.quantification)
        rows.append([by, *(said_limit(one, file.unit) for one in ends)])
    return Table("short_limits", "", ["limit by", "detection", "quantification"], rows)


def _remarks(file: CalibrationFile[OneSubstance]) -> str:
    """Remarks on the errors."""
    held = coverage(file.model.calibration.held(file.model.calibration.method))
    said = f"The 90% intervals of {file.method} hold {held} of the left-out levels"
    if file.model.calibration.method != "geonode":
        said += f", the sets of geonode {coverage(file.model.calibration.held('geonode'))}"
    said += "."
    if ambiguous := sum(len(parts) > 1 for parts in file.model.calibration.sets["geonode"]):
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


def _sections(
    file: CalibrationFile[OneSubstance],
    drawn: dict[str, Figure],
    tables: dict[str, Table],
    saved: Path,
) -> list[Section]:
    """All sections below the first screen."""
    note = Markup('<p class="note" id="curve-note" aria-live="polite"></p>')
    left_out: list[Part] = [drawn["residuals"], tables["calibration"], CHOSEN, tables["validation"]]
    predicted: list[Part] = [_concentration(file), drawn["predicted"]]
    used = ("controls", "unknowns", "standards", "validated")
    unknown: list[Part] = [tables[name] for name in used if name in tables]
    return [
        Section("spectra", "Spectra", [drawn["spectra"]]),
        Section("curve", "Calibration curve", [_wavelength(file), drawn["curve"], note]),
        Section("residuals", "Residuals of left-out levels", left_out),
        Section("diagnostics", "Diagnostics of PLS and PCR", _diagnostics(file, drawn, tables)),
        Section("peaks", "Peaks", [tables["peaks"]]),
        Section("predicted", "Predicted spectrum at any concentration", predicted),
        Section("unknown", "Unknown spectra", [*unknown, by_command(saved)]),
        Section("limits", "Limits of detection and quantification", [tables["limits"]]),
        Section("next", "What to measure next", [NEXT, tables["next"]]),
        Section("geometry", "Geometry", [GEOMETRY, drawn["posterior_metric"]]),
    ]


def _diagnostics(
    file: CalibrationFile[OneSubstance], drawn: dict[str, Figure], tables: dict[str, Table]
) -> list[Part]:
    """Regression vector, influence of the levels, and the choice of components."""
    found, used = file.model.diagnostics, file.model.calibration.method
    without = "" if found.key == used else f" ({file.method}, the method used, has none)"
    return [
        f"{NAMES[found.key]} with {components_said(found.components)}{without}. An estimate is the "
        "mean level plus the product of regression vector and deviation from the mean spectrum. "
        "The vector should be large where the substance absorbs, and smooth.",
        drawn["regression"],
        "A level right of the dashed line is unlike the others along the components. One above "
        "the other line has something that the components do not describe. The limits hold 95% of "
        "normal samples.",
        drawn["influence"],
        "Errors of left-out levels by number of components (dashed: the number used). The fewest "
        "from which the error no longer falls are safest.",
        drawn["components"],
        tables["samples"],
    ]


def _wavelength(file: CalibrationFile[OneSubstance]) -> Markup:
    """A slider for one wavelength."""
    drawn = drawn_places(file)
    return Markup(
        '<div class="controls"><label>wavelength <input type="range" id="wavelength" min="0" '
        f'max="{len(drawn) - 1}" value="{(drawn < file.model.place).sum()}"> '
        '<output id="wavelength-at"></output></label></div>'
    )


def _concentration(file: CalibrationFile[OneSubstance]) -> Markup:
    """A slider and a number for one concentration."""
    low, high = file.model.places[[0, -1]].tolist()
    start = float(f"{file.model.places[len(file.model.places) // 2]:.4g}")
    unit = "" if file.unit == "1" else escaped(file.unit)
    return Markup(
        '<div class="controls"><label>concentration <input type="range" id="concentration" min="0" '
        'max="1000" value="500"></label><label><input type="number" id="concentration-number" '
        f'step="any" min="{low:g}" max="{high:g}" value="{start:g}" aria-label="concentration"> '
        f"{unit}</label></div>"
    )


def by_command(saved: Path) -> Markup:
    """The command that estimates unknown spectra by a calibration file, and what it gives."""
    words = ["geonode", "estimate", "unknown.csv", "--calibration", str(saved)]
    return Markup(
        "<p>Estimate unknown spectra with the calibration file beside this page:</p>\n"
        f"<p><code>{escaped(shlex.join(words))}</code></p>\n"
        "<p>It gives estimates with 90% sets and remarks; <code>--control</code> checks samples of "
        "known concentration, and <code>--out</code> writes all of it with a record.</p>"
    )
