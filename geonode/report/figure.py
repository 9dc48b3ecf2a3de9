"""One figure of the page: what Plotly draws, and what a reader may choose."""

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

INK, MUTED, LINE = "@ink", "@muted", "@line"
"""Colours that the page replaces by those of its light or dark theme."""

Numbers = list[Any]


@dataclass(frozen=True)
class Selector:
    """A list to choose from.

    Attributes:
        label: what is chosen.
        options: value and text of every entry.
        first: the value chosen at first.
    """

    label: str
    options: list[tuple[str, str]]
    first: str


@dataclass(frozen=True)
class Figure:
    """A figure.

    Attributes:
        name: of its elements in the page.
        description: for those who do not see it.
        traces: as Plotly takes them.
        layout: the same, besides what all figures share.
        height: CSS pixels.
        selectors: what may be chosen.
        choices: what the traces show, one list of `x`, `y` or `name` over all of them, by the
            values of the selectors joined by `|`; `note` is a line of text below the figure.
        caption: a line above the figure: what its colours are.
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
        """JSON that may stand inside a script element."""
        content = {"traces": self.traces, "layout": self.layout, "choices": self.choices}
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.replace("<", "\\u003c")


def text(plain: str) -> str:
    """Text as Plotly is to show it: it takes tags and entities for what they mean in HTML."""
    return html.escape(plain, quote=False)


def numbers(values: Float[np.ndarray, "..."], digits: int = DIGITS) -> Numbers:
    """Nested lists of numbers with some significant digits, None for what is not finite."""
    if values.ndim > 1:
        return [numbers(row, digits) for row in values]
    found = [float(f"{value:.{digits}g}") for value in values]
    return [
        (int(value) if value.is_integer() else value) if np.isfinite(value) else None
        for value in found
    ]


def title(plain: str) -> str:
    """Text as Plotly is to show it, in lines that fit beside a figure on a phone."""
    return "<br>".join(map(text, textwrap.wrap(plain, TITLE_LETTERS)))


def titled(label: str, **more: Any) -> dict[str, Any]:
    """An axis of the layout with its title."""
    return {"title": {"text": title(label), "standoff": 10}, **more}
