"""Parts of the page as HTML; every text is escaped here and nowhere else."""

import base64
import hashlib
import html
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from geonode.report.figure import Figure, Selector


@dataclass(frozen=True)
class Table:
    """Table.

    Attributes:
        caption: caption of the table.
        header: headers of the columns; empty for a list of facts.
        rows: cells; the first of a row is its header.
        marked: indices of highlighted rows.
    """

    caption: str
    header: Sequence[str]
    rows: list[list[str]]
    marked: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Verdict:
    """Sentence with its evaluation: good, bad, or None; `word` is printed first."""

    text: str
    good: bool | None = None
    word: str = ""


Part = str | Figure | Table | list[Verdict]
"""A paragraph, a figure, a table, or a list of sentences."""


@dataclass(frozen=True)
class Section:
    """Section of the page: a title, and parts in order."""

    name: str
    title: str
    parts: list[Part]


def escaped(text: str) -> str:
    """Text escaped for elements and quoted attributes."""
    return html.escape(text, quote=True)


def policy(*scripts: str) -> str:
    """Content security policy: nothing is loaded from elsewhere, and only these scripts run."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
        for script in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:"
    )


def section_html(section: Section, heading: str = "h2") -> str:
    """Section as HTML, under a heading of some level."""
    title = f'<{heading} id="{section.name}-title">{escaped(section.title)}</{heading}>'
    parts = "\n".join(_part(part) for part in section.parts)
    opening = f'<section id="{section.name}" aria-labelledby="{section.name}-title">'
    return f"{opening}\n{title}\n{parts}\n</section>"


def contents_html(sections: Iterable[Section]) -> str:
    """Links to the sections."""
    links = (f'<a href="#{part.name}">{escaped(part.title)}</a>' for part in sections)
    return f'<nav aria-label="sections">{" ".join(links)}</nav>'


def _part(part: Part) -> str:
    if isinstance(part, str):
        return f"<p>{escaped(part)}</p>"
    if isinstance(part, Figure):
        return _figure(part)
    return _table(part) if isinstance(part, Table) else _verdicts(part)


def _verdicts(verdicts: list[Verdict]) -> str:
    kinds = {True: "good", False: "bad", None: "plain"}
    lines = []
    for found in verdicts:
        word = f"<strong>{escaped(found.word)}</strong> " if found.word else ""
        lines.append(f'<li class="{kinds[found.good]}">{word}{escaped(found.text)}</li>')
    return f'<ul class="verdict">{"".join(lines)}</ul>'


def _table(table: Table) -> str:
    header = "".join(f'<th scope="col">{escaped(name)}</th>' for name in table.header)
    head = f"<thead><tr>{header}</tr></thead>" if header else ""
    kind = "" if header else ' class="facts"'
    rows = []
    for place, (first, *others) in enumerate(table.rows):
        marked = ' class="marked"' if place in table.marked else ""
        cells = "".join(f"<td>{escaped(cell)}</td>" for cell in others)
        rows.append(f'<tr{marked}><th scope="row">{escaped(first)}</th>{cells}</tr>')
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escaped(table.caption)}">'
        f"<table{kind}><caption>{escaped(table.caption)}</caption>{head}"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _figure(figure: Figure) -> str:
    selectors = "".join(map(_selector, figure.selectors))
    controls = f'<div class="controls">{selectors}</div>' if selectors else ""
    caption = f"<figcaption>{escaped(figure.caption)}</figcaption>" if figure.caption else ""
    note = '<p class="note" aria-live="polite"></p>' if figure.choices else ""
    return (
        f'<figure data-figure="{figure.name}">{caption}{controls}'
        f'<div class="plot" id="plot-{figure.name}" role="img" '
        f'aria-label="{escaped(figure.description)}" style="height:{figure.height}px"></div>{note}'
        f'<script type="application/json">{figure.to_json()}</script></figure>'
    )


def _selector(selector: Selector) -> str:
    options = "".join(
        f'<option value="{escaped(value)}"{" selected" if value == selector.first else ""}>'
        f"{escaped(shown)}</option>"
        for value, shown in selector.options
    )
    step = '<button type="button" data-step="{}" aria-label="{}">{}</button>'
    return (
        f"<label>{escaped(selector.label)} "
        f"{step.format(-1, 'previous', '‹')}<select>{options}</select>"
        f"{step.format(1, 'next', '›')}</label>"
    )
