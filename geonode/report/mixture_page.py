"""The page of a calibration of several substances."""

from itertools import combinations
from typing import Any

import altair as alt

from geonode.calibration.mixture_file import MixtureFile
from geonode.report.calibration_figures import DASHES, DOTS, DRAWN
from geonode.report.kit import (
    INK,
    MODEL,
    MUTED,
    SECOND,
    Figure,
    keyed,
    marks,
    sample,
    x_axis,
    y_axis,
    zoom,
)
from geonode.report.page import Markup, Part, Section, escaped, page, parts_html
from geonode.report.table import Table
from geonode.spectra.series import labelled

GENERATOR = "geonode calibrate"

BY_COMMAND = Markup(
    '<p class="note">Further spectra are estimated by <code>geonode estimate FILE --calibration '
    "calibration.safetensors</code>, which is beside this page; the page itself estimates none.</p>"
)

LEFT_OUT = (
    "Every sample is estimated by a calibration without its composition. Bars are 90% intervals; "
    "how wide they must be was found with these same samples."
)
PURE = "The right panel is the change of the signal per amount at the mean composition."
DESIGN = (
    "Amounts of the samples: between them estimates are interpolated, beyond them extrapolated."
)


def mixture_page(file: MixtureFile, tables: list[Table]) -> str:
    """HTML page of a calibration of several substances.

    Args:
        file: what it shows.
        tables: tables of the calibration.
    """
    by_name = {table.name: table for table in tables}
    design = [_design(file, *pair) for pair in combinations(range(len(file.series.substances)), 2)]
    each: list[Part] = [LEFT_OUT + " " + PURE]
    for place, name in enumerate(file.series.named):
        each += [
            Markup(f"<h3>{escaped(name)}</h3>"),
            _row([_true(file, place), _pure(file, place)]),
        ]
    sections = [
        Section("substances", "Substances", each),
        Section("design", "Design", [DESIGN, _row(design)]),
        Section("left-out", "Left-out samples", [by_name["left_out"]]),
    ]
    used = [by_name[name] for name in ("controls", "unknowns", "validated") if name in by_name]
    sections.insert(0, Section("unknown", "Unknown spectra", [*used, BY_COMMAND]))
    if "record" in by_name:
        sections.append(Section("record", "Record", [by_name["record"]]))
    kind = "" if file.is_sound else ' class="bad"'
    book = Markup('<p><a href="calibration.xlsx">All tables as an Excel workbook</a></p>')
    first = f"""<div class="first">
<h1>Calibration of {escaped(file.source)}</h1>
<p id="answer"{kind}>{escaped(file.sentence)}</p>
</div>
{parts_html([by_name["errors"], book])}"""
    return page(f"{file.source}: calibration", first, sections, generator=GENERATOR)


def _row(figures: list[Figure]) -> Markup:
    """Figures in rows of two, one below the other on a phone."""
    return Markup(f'<div class="first">\n{parts_html(figures)}\n</div>')


def _true(file: MixtureFile, place: int) -> Figure:
    """Left-out estimates over measured amounts of one substance, with intervals."""
    found, name = file.calibration, file.series.named[place]
    measured = file.series.amounts[:, place]
    combined, pls = "combined, 90% interval", "PLS"
    x = x_axis("measured", f"measured {name}").scale(nice=False, zero=False, padding=8)
    estimated, low, other, same = (
        y_axis(field, f"estimated {name}") for field in ("estimated", "low", "pls", "measured")
    )
    part = keyed({combined: MODEL, pls: SECOND})
    hollow = {"shape": "square", "filled": False, "size": 36, "opacity": 1}
    chart = alt.layer(
        marks("line", x, same, table="ends", color=MUTED, strokeDash=DASHES, strokeWidth=1),
        part(combined, "rule", x, low, alt.Y2("high"), strokeWidth=1.5, opacity=0.6),
        part(pls, "point", x, other, **hollow),
        part(combined, "point", x, estimated, tooltip=True, **DOTS | {"size": 36}),
    )
    ends = found.left_out_intervals[:, place]
    samples = {
        "sample": file.series.samples,
        "measured": measured,
        "estimated": found.left_out["combined"][:, place],
        "low": ends[:, 0],
        "high": ends[:, 1],
        "pls": found.left_out["pls"][:, place],
    }
    tables = {"samples": samples, "ends": {"measured": [measured.min(), measured.max()]}}
    what = f"{name}: left-out estimates over measured amounts, with 90% intervals"
    return Figure(f"true_{place}", what, chart, tables, 300)


def _pure(file: MixtureFile, place: int) -> Figure:
    """Spectrum of one substance: derivative of the signal by its amount, at the centre."""
    series, at = file.series, sample(len(file.series.axis), DRAWN)
    name, unit = series.substances[place], series.units[place]
    x = x_axis("wavelength", series.axis_label)
    signal = y_axis("slope", f"d {series.labels['signal']} / d {labelled(name, unit)}")
    chart = alt.layer(
        marks("line", x, signal, color=MODEL),
        marks("rule", alt.YDatum(0), table="ends", color=MUTED, strokeDash=DASHES),
    ).add_params(zoom())
    tables = {
        "pure": {"wavelength": series.axis[at], "slope": file.pure[at, place]},
        "ends": {"slope": [0.0]},
    }
    what = f"spectrum of {name}: change of the signal per amount at the mean composition"
    return Figure(f"pure_{place}", what, chart, tables, 300)


def _design(file: MixtureFile, one: int, other: int) -> Figure:
    """Amounts of two substances in the samples, and the estimates of unknowns."""
    amounts, names = file.series.amounts, file.series.named
    x, y = x_axis("x", names[one]).scale(nice=True, zero=False), y_axis("y", names[other])
    colours = {"samples": INK}
    tables: dict[str, Any] = {
        "samples": {"sample": file.series.samples, "x": amounts[:, one], "y": amounts[:, other]}
    }
    if found := [each for _, of_file in file.unknowns for each in of_file if each.fits]:
        x_of, y_of = ([each.numbers[at][0] for each in found] for at in (one, other))
        tables["unknowns"] = {"sample": [each.name for each in found], "x": x_of, "y": y_of}
        colours["unknowns"] = MODEL
    part = keyed(colours)
    chart = alt.layer(
        *(part(key, "point", x, y, table=key, tooltip=True, **DOTS) for key in colours)
    )
    what = f"amounts of {names[one]} and {names[other]} in the samples"
    return Figure(f"design_{one}_{other}", what, chart, tables, 260)
