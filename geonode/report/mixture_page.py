"""The page of a calibration of several substances."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from geonode.calibration.mixture_file import MixtureFile
from geonode.report.calibration_data import as_json
from geonode.report.calibration_page import by_command
from geonode.report.mixture_data import surfaces
from geonode.report.mixture_figures import of_pairs, of_substance
from geonode.report.page import Figure, Markup, Part, Section, escaped, page, parts_html
from geonode.report.table import Table

GENERATOR = "geonode calibrate"

SHOWN = (0, 1, 2, 3, -6, -4, -3, -2, -1)
"""Columns of the errors above all sections; the figures have every method."""

OF_UNKNOWN = 3
"""Columns of a substance in the table of unknowns."""

LEFT_OUT = (
    "First: every sample is estimated by a calibration without its composition. Bars are 90% "
    "intervals; how wide they must be was found with these same samples. Second: errors of these "
    "estimates by method (RMSEP); long bars are cut. Third: the change of the signal per amount at "
    "the mean composition."
)
SURFACE = "Signal that the response surface expects; points are samples."
OTHERS = "They may have other amounts of the other substances than the surface."
DESIGN = (
    "Amounts of the samples, and their convex hull: within it estimates are interpolated, beyond "
    "it extrapolated."
)
NEXT = (
    "Mixtures that would make the response surface surer, each as if those before had been "
    "measured. The gain is the share of its expected error that the mixture takes away."
)


def mixture_page(file: MixtureFile, tables: list[Table], saved: Path) -> str:
    """HTML page of a calibration of several substances.

    Args:
        file: what it shows.
        tables: tables of the calibration.
        saved: the calibration file beside it.
    """
    by_name = {table.name: table for table in tables}
    surface, design = of_pairs(file)
    each: list[Part] = [LEFT_OUT]
    for place, name in enumerate(file.series.named):
        each += [Markup(f"<h3>{escaped(name)}</h3>"), _panels(of_substance(file, place))]
    data = surfaces(file)
    said = SURFACE if data["steps"] == 1 else f"{SURFACE} {OTHERS}"
    of_sample = len(by_name["left_out"].columns) // len(file.series.substances)
    sections = [
        Section("substances", "Substances", each),
        Section("design", "Design", [DESIGN, _panels(design)]),
        Section("left-out", "Left-out samples", _parts(by_name["left_out"], 1, of_sample)),
    ]
    if file.calibration.surface:
        shown = Section("surface", "Response surface", [said, _controls(data), _panels(surface)])
        proposed = Section("next", "What to prepare next", [NEXT, by_name["next"]])
        sections = [sections[0], shown, sections[1], proposed, *sections[2:]]
    used: list[Part] = [by_name[name] for name in ("controls", "validated") if name in by_name]
    if "unknowns" in by_name:
        used[:0] = _parts(by_name["unknowns"], 4, 2 * OF_UNKNOWN)
    sections.insert(0, Section("unknown", "Unknown spectra", [*used, by_command(saved)]))
    if "record" in by_name:
        sections.append(Section("record", "Record", [by_name["record"]]))
    kind = "" if file.is_sound else ' class="bad"'
    book = Markup('<p><a href="calibration.xlsx">All tables as an Excel workbook</a></p>')
    first = f"""<div class="first">
<h1>Calibration of {escaped(file.source)}</h1>
<p id="answer"{kind}>{escaped(file.sentence)}</p>
</div>
{parts_html([_chosen(by_name["errors"], SHOWN), book])}"""
    return page(
        f"{file.source}: calibration",
        first,
        sections,
        scripts=("mixture.js",),
        data=as_json(data),
        generator=GENERATOR,
    )


def _panels(figures: Sequence[Figure]) -> Markup:
    """Figures beside each other, one below the other on a phone."""
    return Markup(f'<div class="panels">\n{parts_html(figures)}\n</div>')


def _chosen(table: Table, columns: Sequence[int], part: int = 0) -> Table:
    """A table of some columns; parts after the first have another name and no title."""
    named = table if part == 0 else replace(table, name=f"{table.name}_{part}", title="")
    rows = [[row[at] for at in columns] for row in table.rows]
    return replace(named, columns=[table.columns[at] for at in columns], rows=rows)


def _parts(table: Table, first: int, width: int) -> list[Part]:
    """A table in parts no wider than a page: in each the first columns, and some of the others."""
    starts = range(first, len(table.columns), width)
    return [
        _chosen(table, [*range(first), *range(start, min(start + width, len(table.columns)))], part)
        for part, start in enumerate(starts)
    ]


def _controls(data: dict[str, Any]) -> Markup:
    """Sliders for the wavelength and for the amounts of the other substances."""
    last, steps = data["wavelengths"] - 1, data["steps"]
    others = (
        '<label>other substances at <input type="range" id="others" min="0" '
        f'max="{steps - 1}" value="{steps // 2}"> <output id="others-at"></output></label>'
    )
    return Markup(
        '<div class="controls"><label>wavelength <input type="range" id="wavelength" min="0" '
        f'max="{last}" value="{data["start"]}"> <output id="wavelength-at"></output></label>'
        f"{others if steps > 1 else ''}</div>"
    )
