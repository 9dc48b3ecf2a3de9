"""One kit of charts for pages and for PNG files: Vega-Lite, written through Altair.

Colours are those of Okabe and Ito, Color Universal Design (2008), and viridis: colour-blind
readers can distinguish them.
"""

import base64
import gzip
import json
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import vl_convert
from jaxtyping import Float, Int

from geonode.spectra.chart import spans_decades
from geonode.spectra.series import Series, level_names
from geonode.storage.atomic import write_bytes

INK, MUTED, LINE = "#1b1f23", "#5a6570", "#dfe3e8"
MODEL, SECOND = "#d55e00", "#0072b2"
SHADE = 0.25
"""Opacity of the band about a line."""

SCALE = 1.6
"""Pixels of a PNG file per pixel of its chart."""

DIGITS = 5
"""Significant digits of the numbers of a chart."""

GZIP_LEVEL = 6
"""9 takes four times as long for a hundredth of the bytes."""

MOST_IN_LEGEND = 12
"""Largest number of levels in a legend; of more, some are named."""

MOST_LEVELS_DRAWN = 50
"""Largest number of spectra of levels in a figure, evenly spaced among more."""

TITLE_LETTERS = 38
"""Longest line of the title of an axis: those of signals may be long, and a phone is narrow."""

CONFIG: dict[str, Any] = {
    "font": "Liberation Sans, Arial, Helvetica, sans-serif",
    "background": "#ffffff",
    "padding": 6,
    "view": {"stroke": None},
    "axis": {
        **{"domainColor": MUTED, "tickColor": MUTED, "gridColor": LINE, "labelColor": INK},
        **{"titleColor": INK, "titleFontWeight": "normal", "titleFontSize": 12},
        **{"labelFontSize": 11.5, "titleLimit": 0, "titlePadding": 8},
    },
    "legend": {
        **{"orient": "top", "direction": "horizontal", "titleFontWeight": "normal"},
        **{"labelColor": INK, "titleColor": INK, "labelFontSize": 12, "titleFontSize": 12},
        **{"labelLimit": 0, "titleLimit": 0, "symbolStrokeWidth": 3, "symbolSize": 90},
    },
    "axisX": {"labelFlush": True, "tickCount": {"expr": "max(3, floor(width / 85))"}},
    "axisY": {"tickCount": {"expr": "max(3, floor(height / 45))"}},
    "header": {"labelColor": INK, "labelFontSize": 12, "titleColor": INK},
    "title": {
        **{"anchor": "start", "frame": "group", "fontWeight": "normal", "fontSize": 12.5},
        **{"color": INK, "limit": 0, "offset": 10},
    },
    "line": {"strokeWidth": 1.6, "clip": True},
    "area": {"clip": True},
}


@dataclass(frozen=True)
class Figure:
    """A chart for a page or a file."""

    name: str
    """Of its elements in a page, and of the files that it is saved as."""
    description: str
    """For screen readers."""
    chart: Any
    """Of Altair, with its data."""
    height: int = 360
    """Of the plot in a page (CSS pixels), which gives it its width."""

    def to_json(self) -> str:
        """Specification in Vega-Lite for a page."""
        size = {"width": "container", "height": self.height, "description": self.description}
        return json.dumps(self._specification() | size, allow_nan=False, separators=(",", ":"))

    def save_png(self, path: Path) -> None:
        """Write the chart as PNG, whole or not at all; the same chart gives the same bytes.

        Raises:
            ArtifactError: the operating system refuses.
        """
        content = self._specification()
        picture = vl_convert.vegalite_to_png(content, vl_version=_vega_version(), scale=SCALE)
        write_bytes(path, picture)

    def _specification(self) -> dict[str, Any]:
        return self.chart.to_dict() | {"config": CONFIG}


class Rows(alt.InlineData):
    """Data of a chart that Altair does not validate, as this takes seconds."""

    _class_is_valid_at_instantiation = False


def rows(table: Any) -> Rows:
    """Data of a chart: numbers of `DIGITS` digits, and None for those that are not finite.

    The table may be columns by name. Plain words are names, because Vega reads others as paths.
    """
    columns = {name: map(_drawn, np.asarray(column).tolist()) for name, column in table.items()}
    each = zip(*columns.values(), strict=True)
    # Of a list Altair would make deep copies.
    return Rows(values=tuple(dict(zip(columns, row, strict=True)) for row in each))


def _drawn(value: Any) -> Any:
    if isinstance(value, list):
        return [*map(_drawn, value)]
    if not isinstance(value, float):
        return value
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None


@cache
def library() -> str:
    """JavaScript that draws charts in a browser, without a network."""
    return vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=_vega_version())


def compressed(text: str) -> str:
    """Text compressed, in base64, as the script of a page unpacks it."""
    small = gzip.compress(text.encode(), GZIP_LEVEL, mtime=0)
    return base64.b64encode(small).decode()


def _vega_version() -> str:
    """Version of Vega-Lite that Altair writes, without its patch."""
    return ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])


def sample(count: int, most: int) -> Int[np.ndarray, "chosen"]:
    """Evenly spaced indices, ends included; all if there are at most `most`."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(int)


def x_axis(field: str, title: str) -> alt.X:
    """Axis of a spectral coordinate or of another quantity, without room beside the data."""
    return alt.X(field, type="quantitative").title(wrapped(title)).scale(nice=False, zero=False)


def y_axis(field: str, title: str, *, zero: bool = False) -> alt.Y:
    """Axis of a quantity."""
    return alt.Y(field, type="quantitative").title(wrapped(title)).scale(zero=zero)


def concentration(
    channel: type[alt.X] | type[alt.Y],
    field: str,
    title: str,
    levels: Float[np.ndarray, "level"],
) -> Any:
    """Axis of concentrations; measured levels of more than two decades are drawn by decades.

    Args:
        channel: which axis it is.
        field: column of the table.
        title: title of the axis.
        levels: measured concentrations.
    """
    axis = channel(field, type="quantitative").title(wrapped(title))
    if not spans_decades(levels):
        return axis.scale(nice=False, zero=False, padding=8)
    least, most = float(levels[levels > 0].min()), float(levels.max())
    first, last = math.ceil(math.log10(least)), math.floor(math.log10(most))
    powers = [float(f"1e{power}") for power in range(first, last + 1)]
    ticks = [0.0, *powers[:: math.ceil(len(powers) / 8)]]
    scaled = axis.scale(type="symlog", constant=least, nice=False, padding=8)
    return scaled.axis(values=ticks, format="~g")


def wrapped(title: str) -> list[str]:
    """A title in lines short enough for a phone."""
    return textwrap.wrap(title, TITLE_LETTERS) or [""]


def legend(names: Sequence[str], title: str | None = None, **more: Any) -> alt.Legend:
    """Legend above the plot, in as many columns as there is room for unless `columns` says."""
    letters = max(map(len, names), default=1)
    room = {"columns": alt.ExprRef(f"max(1, floor(width / {7 * letters + 34}))")}
    return alt.Legend(title=title, symbolOpacity=1, **room | more)


def marks(
    kind: Any, *channels: Any, table: Any = None, where: Any = None, **style: Any
) -> alt.Chart:
    """One layer of a chart.

    Args:
        kind: kind of mark, as "line".
        channels: what stands where.
        table: as of `rows`; None for that of the whole chart.
        where: condition of the rows that are drawn.
        style: properties of the mark.
    """
    data = alt.Undefined if table is None else rows(table)
    chart = alt.Chart(data, mark=alt.MarkDef(type=kind, **style)).encode(*channels)
    return chart if where is None else chart.transform_filter(where)


def keyed(colours: dict[str, str], **more: Any) -> Callable[..., alt.Chart]:
    """Gives layers the colours of their names: `part(name, ...)` is `marks(...)` in this colour.

    Args:
        colours: colours by name, in the order of the legend.
        more: properties of the legend.
    """
    scale = alt.Scale(domain=list(colours), range=list(colours.values()))
    shown = legend(list(colours), symbolType="circle", symbolStrokeWidth=0, **more)
    colour = alt.Color("layer", type="nominal").scale(scale).legend(shown)

    def part(name: str, *given: Any, **style: Any) -> alt.Chart:
        return marks(*given, colour, **style).transform_calculate(layer=json.dumps(name))

    return part


def level_colours(field: str, names: Sequence[str], title: str | None = None) -> alt.Color:
    """Colours of ordered levels, from dark to light, with a legend of some of them."""
    some = [names[place] for place in sample(len(names), MOST_IN_LEGEND)]
    scheme = alt.SchemeParams(name="viridis", extent=[0, 0.9])
    shown = legend(some, title, values=some, symbolType="stroke")
    return (
        alt.Color(field, type="ordinal").sort(None).scale(domain=list(names), scheme=scheme)
    ).legend(shown)


def band_layers(
    part: Callable[..., alt.Chart], name: str, x: alt.X, label: str, *, zero: bool = False
) -> list[alt.Chart]:
    """A line and the band about it, from columns predicted, low and high.

    Args:
        part: layers by name, from `keyed`.
        name: name of line and band in the legend.
        x: horizontal axis.
        label: title of the vertical axis.
        zero: whether that begins at zero.
    """
    low, line = (y_axis(field, label, zero=zero) for field in ("low", "predicted"))
    return [
        part(name, "area", x, low, alt.Y2("high"), opacity=SHADE),
        part(name, "line", x, line),
    ]


def choice(name: str, label: str, options: dict[str, str], start: str) -> alt.Parameter:
    """Parameter of a chart that a reader chooses from a list.

    Args:
        name: name of the parameter in expressions.
        label: label of the list.
        options: texts of the list by value.
        start: value at the beginning.
    """
    texts = list(options.values())
    listed = alt.binding_select(options=list(options), labels=texts, name=f"{label} ")
    return alt.param(name=name, value=start, bind=listed)


def heading(lines: Mapping[str, list[str]] | list[list[str]], chosen: str) -> alt.TitleParams:
    """Title of a chart, in lines, by the value of a parameter."""
    texts = json.dumps(lines, ensure_ascii=False)
    return alt.TitleParams(text=alt.ExprRef(f"({texts})[{chosen}]"))


def sliding(chart: Any, name: str, label: str, notes: list[list[str]], start: int) -> Any:
    """A chart with a slider over places from 0 on, and the note of the place as its title."""
    track = alt.binding_range(min=0, max=len(notes) - 1, step=1, name=f"{label} ")
    place = alt.param(name=name, value=start, bind=track)
    return chart.properties(title=heading(notes, name)).add_params(place)


def unfolded(
    chart: Any, place: str, along: str, values: Float[np.ndarray, "value"], *columns: str
) -> Any:
    """A chart of the row at a place of a slider, whose columns have lists: one row a value.

    Args:
        chart: what is drawn of these rows.
        place: name of the slider; rows have theirs in the column `at`.
        along: a column of the values that the lists belong to.
        values: these values.
        columns: names of the lists.
    """
    texts = json.dumps([*map(_drawn, values.tolist())])
    chart = chart.transform_filter(f"datum.at == {place}")
    return chart.transform_calculate(**{along: texts}).transform_flatten([along, *columns])


def zoom() -> alt.Parameter:
    """Zoom with Alt and the wheel, move by dragging, return by a double click."""
    return alt.selection_interval(bind="scales", zoom="wheel![event.altKey]")


def by_level(
    names: list[str],
    along: dict[str, Float[np.ndarray, "wavelength"]],
    values: dict[str, Float[np.ndarray, "..."]],
) -> dict[str, Any]:
    """Columns of the spectra of levels, one row per level and wavelength.

    Args:
        names: of the levels, in the column `level`.
        along: columns that are the same for every level, by name.
        values: other columns.
    """
    (count,) = {len(column) for column in along.values()}
    columns = {name: np.tile(column, len(names)) for name, column in along.items()}
    columns |= {name: column.ravel() for name, column in values.items()}
    return {"level": np.repeat(names, count), **columns}


def spectra_figure(series: Series, drawn: Int[np.ndarray, "chosen"]) -> Figure:
    """Measured spectra of all levels, at some of the wavelengths."""
    unit = series.labels["concentration_unit"]
    levels = sample(len(series.signal), MOST_LEVELS_DRAWN)
    every = level_names(series.concentrations)
    names = [f"{every[at]} {unit}".removesuffix(" 1") for at in levels]
    along = {"wavelength": series.axis[drawn]}
    spectra = by_level(names, along, {"signal": series.signal[np.ix_(levels, drawn)]})
    x, y = x_axis("wavelength", series.axis_label), y_axis("signal", series.signal_label)
    chart = marks("line", x, y, level_colours("level", names), table=spectra).add_params(zoom())
    return Figure("spectra", "measured spectra of all levels", chart, 380)
