"""A page: one file of HTML that needs nothing else, not even a network.

One template lays out its sections and escapes every text.
"""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined

from geonode.report.kit import Figure, compressed, library
from geonode.storage.table import SHOWN, Cell, Column, Table, cell_text
from geonode.wording import number

LONGEST_TABLE = 500
"""Largest number of rows of a table; workbook and CSV files have all."""


@dataclass(frozen=True)
class Statement:
    """A sentence with its evaluation."""

    text: str
    good: bool | None = None
    """None: it has none."""
    word: str = ""
    """Printed first."""


@dataclass(frozen=True)
class Note:
    """A remark in small print."""

    text: str
    link: str = ""
    """A file beside the page."""


@dataclass(frozen=True)
class SideBySide:
    """Figures beside each other, one below the other on a phone."""

    figures: Sequence[Figure]
    title: str = ""


Part = str | Table | Figure | SideBySide | Note | list[Statement]
"""Part of a section: paragraphs, tables, figures, and remarks."""


@dataclass(frozen=True)
class Section:
    """A section: a title, and parts in order."""

    name: str
    title: str
    parts: Sequence[Part]
    folded: bool = False
    """True where a reader opens it first; on paper it is open."""


@dataclass(frozen=True)
class Page:
    """A page of sections.

    The library that draws, most of the page, is compressed and unpacked by the script of the page.
    A browser runs these two scripts, by their hashes, and no other.
    """

    title: str
    """Of the window."""
    heading: str
    lead: Sequence[Part]
    """Parts above the sections."""
    sections: Sequence[Section]
    results: Sequence[Part] = ()
    """Parts before the answer."""
    answer: Statement | None = None
    """The result in large letters; the lead stands beside or below it."""
    figure: Figure | None = None
    """A figure beside the lead."""
    generator: str = ""
    """Command that made the page."""

    def html(self) -> str:
        """The page as text."""
        script, template = asset("page.js"), templates().get_template("page.html")
        return template.render(
            page=self,
            policy=_policy(library(), script),
            style=asset("page.css"),
            library=compressed(library()),
            script=script,
        )


@cache
def templates() -> Environment:
    """Environment of all templates, which escapes; `parts.html` shows parts of pages."""
    environment = Environment(
        autoescape=True,
        loader=FunctionLoader(asset),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {"kind": _kind, "rows": _texts}
    environment.filters["specification"] = lambda figure: compressed(figure.to_json())
    environment.globals["most_rows"] = LONGEST_TABLE
    return environment


def asset(name: str) -> str:
    """Text of a template, style or script of this package."""
    return files("geonode.report").joinpath(name).read_text(encoding="utf-8")


def _policy(*scripts: str) -> str:
    """Content security policy: nothing is loaded from elsewhere, and only these scripts run."""
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:"
    )


def _kind(part: Part) -> str:
    """Name of a part in the template."""
    first = part[0] if isinstance(part, list) else part
    return type(first).__name__.lower()


def _texts(table: Table) -> list[tuple[str, ...]]:
    """Texts of the cells of a table by row."""
    texts = ([_text_of(one, each) for one in each.cells[:LONGEST_TABLE]] for each in table.columns)
    return [*zip(*texts, strict=True)]


def _text_of(value: Cell, column: Column) -> str:
    """A cell as a reader sees it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    digits = min(column.digits or SHOWN, SHOWN)
    return number(value, digits) if isinstance(value, int | float) else cell_text(value, digits)
