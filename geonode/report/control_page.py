"""The page of a history of controls: the chart of every control, and the rules that it violates."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import altair as alt
import numpy as np

from geonode.calibration.checks import FAILS, WARNS, Control
from geonode.calibration.control_chart import (
    ControlPoint,
    Violation,
    append,
    in_units_of,
    violations,
)
from geonode.report.kit import INK, MODEL, MUTED, SECOND, Figure, marks, x_axis, y_axis
from geonode.report.page import Page, Part, Section, Statement
from geonode.storage.atomic import write_bytes
from geonode.storage.table import Column, Table

MOST_CONTROLS = 100
"""Of a chart, the last ones."""


def charted(history: Path, controls: Sequence[Control], units: Sequence[str]) -> list[Violation]:
    """Add controls that fit to a history, and write its page beside it.

    Args:
        history: a table, which begins if there is none.
        controls: to be added.
        units: of the substances.

    Returns:
        The rules that one of them violates with those before.

    Raises:
        SpectraError: the file is no history, or has another unit, or a control has no standard
            error.
        ArtifactError: the page cannot be written.
    """
    date = datetime.now(UTC).isoformat(timespec="seconds")  # dates sort as text
    new = [ControlPoint.of(date, one, units[one.place]) for one in controls if one.estimate.fits]

    def write(points: list[ControlPoint]) -> None:
        page = history_page(history.name, points).html()
        write_bytes(history.with_suffix(".html"), page.encode("utf-8", errors="replace"))

    every = append(history, new, write)
    own = {one.measurement for one in in_units_of(every, new)}
    return [one for one in violations(every) if one.points[-1].measurement in own]


def history_page(name: str, points: Sequence[ControlPoint]) -> Page:
    """Page of a history, of which the file has a name."""
    points = sorted(points, key=lambda one: one.date)
    found = [one for one in violations(points) if one.rejects]
    last = max((one.date for one in points), default="")
    parts = [Statement(one.sentence, False) for one in found if one.points[-1].date == last]
    parts = parts or [Statement("The last controls violate none of Westgard's rules.", True)]
    sections = [
        Section(f"chart-{at}", control, [_chart(at, control, points)])
        for at, control in enumerate(dict.fromkeys(one.control for one in points))
    ]
    columns = [
        Column("date", [one.points[-1].date for one in found]),
        Column("rule", [one.sentence for one in found]),
    ]
    rules: list[Part] = [Table("rules", "Rules that controls violated", columns)]
    sections += [Section("rules", "Rules", rules)] * bool(found)
    limits = f"Beyond {WARNS:g} (dashed) a control warns, beyond {FAILS:g} (solid) it fails."
    lead: list[Part] = [parts, limits]
    return Page(name, f"Controls of {name}", lead, sections, generator="geonode estimate")


def _chart(at: int, control: str, points: Sequence[ControlPoint]) -> Figure:
    """Chart of one control, with the limits of a warning and of a failure."""
    own = [one for one in points if one.control == control]
    last = own[-MOST_CONTROLS:]
    x = x_axis("number", "number of the measurement").scale(nice=False, padding=20)
    y = y_axis("z", "error over standard error, z")
    measured = {
        "number": np.arange(len(own) - len(last), len(own)) + 1.0,
        "z": [one.z for one in last],
        "date": [one.date for one in last],
    }
    dots = {"filled": True, "size": 60, "opacity": 1, "tooltip": True}
    chart = alt.layer(
        marks("rule", y, table={"z": [0.0]}, color=MUTED),
        marks("rule", y, table={"z": [-WARNS, WARNS]}, color=SECOND, strokeDash=[6, 4]),
        marks("rule", y, table={"z": [-FAILS, FAILS]}, color=INK),
        marks("line", x, y, table=measured, color=MODEL),
        marks("point", x, y, table=measured, color=MODEL, **dots),
    )
    what = f"error of control {control} over its standard error, by measurement"
    return Figure(f"chart_{at}", what, chart, 260)
