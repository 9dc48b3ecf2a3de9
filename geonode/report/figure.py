"""Figure of the page: traces for Plotly, and selectors for the reader."""

import html
import json
import textwrap
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

DIGITS = 5
"""Significant digits of every number of a figure."""

TITLE_LETTERS = 38

INK, MUTED = "@ink", "@muted"
"""Placeholders of colours, replaced by those of the light or dark theme of the page."""


@dataclass(frozen=True)
class Selector:
    """Drop-down list.

    Attributes:
        label: label of the list.
        options: value and text of every entry.
        first: initially selected value.
    """

    label: str
    options: list[tuple[str, str]]
    first: str


@dataclass(frozen=True)
class Figure:
    """Figure of the page.

    Attributes:
        name: name of its elements in the page.
        description: description for screen readers.
        traces: traces of Plotly.
        layout: layout of Plotly, in addition to that of all figures.
        height: height (CSS pixels).
        selectors: selectors of the figure.
        choices: data by the values of the selectors joined by `|`: lists of `x`, `y` or `name` over
            all traces; `note` is a line of text below the figure.
        caption: line above the figure about its colours.
    """

    name: str
    description: str
    traces: list[dict[str, Any]]
    layout: dict[str, Any]
    height: int = 400
    selectors: list[Selector] = field(default_factory=list)
    choices: dict[str, dict[str, Any]] = field(default_factory=dict)
    caption: str = ""

    def to_json(self) -> str:
        """JSON that is safe inside a script element."""
        content = {"traces": self.traces, "layout": self.layout, "choices": self.choices}
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.replace("<", "\\u003c")


def curve(colour: str, width: float, **more: Any) -> dict[str, Any]:
    """Trace of a line."""
    line = {"color": colour, "width": width, **more.pop("line", {})}
    return {"type": "scatter", "mode": "lines", "line": line, **more}


def text(plain: str) -> str:
    """Text with HTML escaped, which Plotly would interpret."""
    return html.escape(plain, quote=False)


def numbers(values: Float[np.ndarray, "..."], digits: int = DIGITS) -> list[Any]:
    """Nested lists of numbers with some significant digits; None if not finite."""
    if values.ndim > 1:
        return [numbers(row, digits) for row in values]
    found = [float(f"{value:.{digits}g}") for value in values]
    return [
        (int(value) if value.is_integer() else value) if np.isfinite(value) else None
        for value in found
    ]


def title(plain: str) -> str:
    """Escaped text in lines short enough for a phone."""
    return "<br>".join(map(text, textwrap.wrap(plain, TITLE_LETTERS)))


def titled(label: str, **more: Any) -> dict[str, Any]:
    """Layout of an axis with its title."""
    return {"title": {"text": title(label), "standoff": 10}, **more}
