"""A page: one file of HTML that needs nothing else, not even a network.

Every text is escaped here and nowhere else.
"""

import base64
import hashlib
import html
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from geonode.report.kit import Figure, library, packed
from geonode.report.table import Cell, Table
from geonode.wording import quantity

LONG = 30
"""Letters of a text that is aligned to the left in a table, and may be broken into lines."""


@dataclass(frozen=True)
class Verdict:
    """Sentence with its evaluation: good, bad, or None; `word` is printed first."""

    text: str
    good: bool | None = None
    word: str = ""


@dataclass(frozen=True)
class Markup:
    """HTML that stands as it is."""

    html: str


Part = str | Figure | Table | Markup | list[Verdict]
"""A paragraph, a figure, a table, HTML, or a list of sentences."""


@dataclass(frozen=True)
class Section:
    """Section of the page: a title, and parts in order."""

    name: str
    title: str
    parts: Sequence[Part]


def page(
    title: str,
    first: str,
    sections: Sequence[Section],
    *,
    scripts: Sequence[str] = (),
    data: str = "",
    generator: str = "",
) -> str:
    """HTML of a page.

    The library that draws, most of the page, is compressed and unpacked by the script of the page.
    A browser runs these two scripts, by their hashes, and no other.

    Args:
        title: title of the window.
        first: HTML above the sections.
        sections: all sections.
        scripts: names of scripts that follow that of every page.
        data: data for them, in JSON without `<`.
        generator: command that made the page.
    """
    script = "\n".join(map(_asset, ["page.js", *scripts]))
    links = " ".join(f'<a href="#{one.name}">{escaped(one.title)}</a>' for one in sections)
    made_by = f'\n<meta name="generator" content="{escaped(generator)}">' if generator else ""
    given = f'\n<script type="application/json" id="data">{data}</script>' if data else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">{made_by}
<meta http-equiv="Content-Security-Policy" content="{_policy(library(), script)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escaped(title)}</title>
<style>{_asset("page.css")}</style>
</head>
<body>
<main>
<p id="undrawn">The figures need JavaScript and a browser of 2023 or later; the tables do not.</p>
{first}
<nav aria-label="sections">{links}</nav>
{chr(10).join(map(_section, sections))}
</main>
<script type="text/plain" id="library">{packed(library())}</script>{given}
<script>{script}</script>
</body>
</html>
"""


def escaped(text: str) -> str:
    """Text escaped for elements and quoted attributes."""
    return html.escape(text, quote=True)


def parts_html(parts: Sequence[Part]) -> str:
    """Parts as HTML, one after the other."""
    return "\n".join(map(_part, parts))


def _asset(name: str) -> str:
    return files("geonode.report").joinpath(name).read_text(encoding="utf-8")


def _policy(*scripts: str) -> str:
    """Content security policy: nothing is loaded from elsewhere, and only these scripts run."""
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:"
    )


def _section(section: Section) -> str:
    title = f'<h2 id="{section.name}-title">{escaped(section.title)}</h2>'
    opening = f'<section id="{section.name}" aria-labelledby="{section.name}-title">'
    return f"{opening}\n{title}\n{parts_html(section.parts)}\n</section>"


def _part(part: Part) -> str:
    if isinstance(part, str):
        return f"<p>{escaped(part)}</p>"
    if isinstance(part, Markup):
        return part.html
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
    headers = "".join(f'<th scope="col">{escaped(name)}</th>' for name in table.columns)
    head = f"<thead><tr>{headers}</tr></thead>" if headers else ""
    kind = "" if headers else ' class="facts"'
    caption = f"<caption>{escaped(table.title)}</caption>" if table.title else ""
    rows = []
    for place, (first, *others) in enumerate(table.rows):
        marked = ' class="marked"' if place in table.marked else ""
        cells = "".join(map(_cell, others))
        rows.append(f'<tr{marked}><th scope="row">{escaped(_text(first))}</th>{cells}</tr>')
    return (
        f'<div class="scroll" tabindex="0" role="region" '
        f'aria-label="{escaped(table.title or table.name)}"><table id="table-{table.name}"{kind}>'
        f"{caption}{head}<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _cell(value: Cell) -> str:
    text = _text(value)
    kind = ' class="text"' if len(text) > LONG else ""
    return f"<td{kind}>{escaped(text)}</td>"


def _text(value: Cell) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else quantity(value, "1", 4)


def _figure(figure: Figure) -> str:
    description = escaped(figure.description)
    buttons = "".join(
        f'<button type="button" data-save="{kind}" aria-label="save as {kind.upper()}: '
        f'{description}">{kind.upper()}</button>'
        for kind in ("csv", "svg", "png")
    )
    return (
        f'<figure data-figure="{figure.name}"><div class="controls"></div>'
        f'<div class="plot" id="plot-{figure.name}" role="img" aria-label="{description}" '
        f'style="min-height:{figure.height}px"></div><div class="save">{buttons}</div>'
        f'<script type="text/plain">{packed(figure.to_json())}</script></figure>'
    )
