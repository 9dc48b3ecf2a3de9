"""The page: one self-contained HTML file."""

import base64
import gzip
from functools import cache
from importlib.resources import files

from plotly.offline import get_plotlyjs

from geonode.report.data import Report
from geonode.report.html_parts import contents_html, escaped, policy, section_html
from geonode.report.sections import header, sections


def page(report: Report) -> str:
    """HTML page of a report.

    Plotly, most of the page, is compressed and unpacked by the script of the page. A browser runs
    these two scripts, by their hashes, and no other.

    Args:
        report: content of the page.
    """
    plotly, packed = _plotly()
    style, script = (
        (files("geonode.report") / name).read_text("utf-8") for name in ("page.css", "page.js")
    )
    first, others = header(report), sections(report)
    body = "\n".join([section_html(first, "h1"), contents_html(others), *map(section_html, others)])
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy(plotly, script)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escaped(report.source)}: leave-one-out report</title>
<style>{style}</style>
</head>
<body>
<main>
<p id="undrawn">The figures are not drawn: they need JavaScript and a browser of 2023 or later. The
tables need neither.</p>
{body}
</main>
<script type="text/plain" id="plotly">{packed}</script>
<script>{script}</script>
</body>
</html>
"""


@cache
def _plotly() -> tuple[str, str]:
    """Source of Plotly, and its compressed form in base64."""
    plotly = get_plotlyjs()
    return plotly, base64.b64encode(gzip.compress(plotly.encode(), mtime=0)).decode()
