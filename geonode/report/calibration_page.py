"""The page of a calibration: one file of HTML that needs nothing else, not even a network."""

from importlib.resources import files

from geonode.calibration.calibrated_file import CalibratedFile
from geonode.calibration.verdict import spans_decades
from geonode.estimation.tables import Cell
from geonode.report.calibration_data import drawn_places, estimates_in_page, page_json
from geonode.report.calibration_tables import ESTIMATED, Table, coverage, said_limit
from geonode.report.html_parts import escaped, policy
from geonode.spectra.series import labelled
from geonode.wording import number, quantity

GENERATOR = '<meta name="generator" content="geonode calibrate">'
SCRIPTS = ("chart.js", "estimate.js", "calibration.js")
SAVES = ("csv", "svg", "png")


def page(file: CalibratedFile, tables: list[Table], book: bytes) -> str:
    """The page.

    Args:
        file: what it shows.
        tables: of the calibration.
        book: its workbook.
    """
    script = "\n".join(_asset(name) for name in SCRIPTS)
    by_name = {table.name: table for table in tables}
    sections = "\n".join(_sections(file, by_name))
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
{GENERATOR}
<meta http-equiv="Content-Security-Policy" content="{policy(script)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escaped(file.source)}: calibration</title>
<style>{_asset("calibration.css")}</style>
</head>
<body>
<main>
{_first(file)}
{sections}
</main>
<script type="application/json" id="data">{page_json(file, book)}</script>
<script>{script}</script>
</body>
</html>
"""


def _asset(name: str) -> str:
    return files("geonode.report").joinpath(name).read_text(encoding="utf-8")


# the first screen


def _first(file: CalibratedFile) -> str:
    none = "" if file.is_sound else " none"
    return f"""<h1>Calibration of {escaped(file.source)}</h1>
<p class="verdict{none}">{escaped(file.sentence)}</p>
<p id="undrawn">The figures need JavaScript; the tables do not.</p>
<div class="first">
{_figure("true", "left-out levels: estimated over true concentration, with 90% intervals")}
<div>
{_scores(file)}
{_short_limits(file)}
<p class="note">{escaped(_remarks(file))}</p>
<p><a id="workbook" href="calibration.xlsx" download>All tables as an Excel workbook</a></p>
</div>
</div>
<nav aria-label="sections"><a href="#spectra">Spectra</a> <a href="#curve">Calibration curve</a>
<a href="#residuals">Residuals</a> <a href="#peaks">Peaks</a> <a href="#predicted">Predictions</a>
<a href="#unknown">Unknowns</a> <a href="#limits">Limits</a> <a href="#next">Next</a>
<a href="#geometry">Geometry</a>
</nav>"""


def _scores(file: CalibratedFile) -> str:
    """Errors of the methods, the one to use marked."""
    verdict, unit = file.calibration.verdict, file.unit
    rows = []
    for method in verdict.methods:
        found = method.scores
        median = (found.median_absolute_error, 100 * found.median_error_of_range)
        errors = (*median, found.rmsep, 100 * found.rmsep_of_range)
        cells = "".join(f"<td>{number(error, 2)}</td>" for error in errors)
        used = method.key == file.calibration.method
        mark, kind = ("▸ ", ' class="used"') if used else ("", "")
        rows.append(f'<tr{kind}><th scope="row">{mark}{escaped(method.name)}</th>{cells}</tr>')
    of = "" if unit == "1" else f", {unit}"
    columns = ["method", f"median{of}", "% of range", f"RMSEP{of}", "% of range"]
    said = "Errors of concentration, every level left out in turn (▸: estimates unknowns)"
    return _grid(said, columns, rows)


def _short_limits(file: CalibratedFile) -> str:
    rows = []
    for limit in file.limits:
        found = (limit.detection, limit.quantification)
        said = [escaped(said_limit(one, file.unit)) for one in found]
        why = "" if limit.detection else f'<br><span class="hint">{escaped(limit.said)}</span>'
        cells = "".join(f"<td>{one}</td>" for one in said)
        rows.append(f'<tr><th scope="row">{escaped(limit.method)}{why}</th>{cells}</tr>')
    return _grid("", ["limit by", "detection", "quantification"], rows)


def _remarks(file: CalibratedFile) -> str:
    """Remarks on the errors."""
    levels = file.series.concentrations
    held = coverage(file.calibration.held(file.calibration.method))
    said = f"The 90% intervals of {file.method} hold {held} of the left-out levels"
    if file.calibration.method != "geonode":
        said += f", the sets of geonode {coverage(file.calibration.held('geonode'))}"
    said += "."
    if ambiguous := sum(len(parts) > 1 for parts in file.calibration.sets["geonode"]):
        said += (
            f" Sets of several parts: {ambiguous}. Such a spectrum fits more than one "
            "concentration, and a diluted sample tells which."
        )
    if spans_decades(levels):
        said += (
            " The levels span more than two decades: these errors are those of the highest levels; "
            "for the low ones see their relative errors below."
        )
    return said


# the sections


def _sections(file: CalibratedFile, tables: dict[str, Table]) -> list[str]:
    """All sections below the first screen."""
    first = file.calibration.method
    methods = "".join(
        f'<option value="{method.key}"{" selected" if method.key == first else ""}>'
        f"{escaped(method.name)}</option>"
        for method in file.calibration.verdict.methods
    )
    choose = f'<label>method <select id="method">{methods}</select></label>'
    drawn = drawn_places(file)
    wavelength = (
        f'<label>wavelength <input type="range" id="wavelength" min="0" max="{len(drawn) - 1}" '
        f'value="{(drawn < file.place).sum()}"> <output id="wavelength-at"></output></label>'
    )
    return [
        _section("spectra", "Spectra", _figure("spectra", "measured spectra of all levels")),
        _section(
            "curve",
            "Calibration curve at one wavelength",
            _controls(wavelength),
            _figure("curve", "signal over concentration at the chosen wavelength"),
            '<p class="note" id="curve-note" aria-live="polite"></p>',
        ),
        _section(
            "residuals",
            "Residuals of left-out levels",
            _controls(choose),
            _figure("residuals", "estimated less true concentration of every left-out level"),
            _table(tables["calibration"]),
            _table(tables["validation"]),
        ),
        _section("peaks", "Peaks", _table(tables["peaks"])),
        _section(
            "predicted",
            "Predicted spectrum at any concentration",
            _controls(_concentration(file)),
            _figure("predicted", "predicted spectrum with its 90% interval"),
        ),
        _section("unknown", "Unknown spectra", *_unknown(file, tables)),
        _section("limits", "Limits of detection and quantification", _table(tables["limits"])),
        _section("next", "What to measure next", f"<p>{NEXT}</p>", _table(tables["next"])),
        _section(
            "geometry",
            "Geometry",
            f"<p>{GEOMETRY}</p>",
            _figure("metric", "posterior mean of the square root of the metric"),
        ),
    ]


def _concentration(file: CalibratedFile) -> str:
    """A slider and a number for one concentration."""
    low, high = file.places[[0, -1]].tolist()
    unit = "" if file.unit == "1" else escaped(file.unit)
    start = float(f"{file.places[len(file.places) // 2]:.4g}")
    return (
        '<label>concentration <input type="range" id="concentration" min="0" max="1000" '
        f'value="500"></label><label><input type="number" id="concentration-number" step="any" '
        f'min="{low:g}" max="{high:g}" value="{start:g}" aria-label="concentration"> {unit}</label>'
    )


NEXT = (
    "Where the predicted spectrum is least sure. The gain is the share of the expected error over "
    "the whole range that the measurement should take away."
)
GEOMETRY = (
    "The learned metric: where √g is large, a small step of concentration changes the spectrum "
    "much, and concentrations are told apart well."
)
DROP = (
    '<div id="drop"><label>Drop a table of unknown spectra here, or choose it: '
    '<input type="file" id="file" multiple accept=".csv,.txt,.tsv"></label>'
    '<p class="hint">One column per spectrum on the axis of the calibration. '
    "It is estimated in this page by the method above and by geonode; nothing is sent anywhere.</p>"
    '<p class="note" id="drop-told" aria-live="polite"></p></div>'
)
BY_COMMAND = (
    '<p class="note">This page cannot estimate unknown spectra: they need preprocessing, or the '
    "calibration is too large. Use <code>geonode calibrate FILE --unknown FILE</code>.</p>"
)


def _unknown(file: CalibratedFile, tables: dict[str, Table]) -> list[str]:
    """Estimates of the command, and the place to drop more."""
    found = [_table(tables["unknowns"])] if "unknowns" in tables else []
    columns = ["spectrum", "method", *(labelled(name, file.unit) for name in ESTIMATED)]
    columns += [labelled(f"geonode {name}", file.unit) for name in ESTIMATED]
    columns += ["geonode set90", "p", "remark"]
    select = '<label>shown <select id="unknown-shown"></select></label>'
    figure = _figure("unknown", "an unknown spectrum and the nearest prediction")
    return [
        *found,
        DROP if estimates_in_page(file) else BY_COMMAND,
        f'<div id="dropped" hidden>{_grid("", columns, [], "dropped")}{_controls(select)}{figure}'
        "</div>",
    ]


# pieces


def _section(name: str, title: str, *parts: str) -> str:
    body = "\n".join(parts)
    return (
        f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">'
        f"{escaped(title)}</h2>\n{body}</section>"
    )


def _controls(*controls: str) -> str:
    return f'<div class="controls">{"".join(controls)}</div>'


def _figure(name: str, description: str) -> str:
    buttons = "".join(
        f'<button type="button" data-save="{kind}" aria-label="save {escaped(description)} as '
        f'{kind.upper()}">{kind.upper()}</button>'
        for kind in SAVES
    )
    return (
        f'<figure data-figure="{name}"><div class="plot" id="plot-{name}" role="img" '
        f'aria-label="{escaped(description)}"></div><div class="save">{buttons}</div></figure>'
    )


def _table(table: Table) -> str:
    rows = [
        f"<tr>{''.join(_cell(cell, first=not place) for place, cell in enumerate(row))}</tr>"
        for row in table.rows
    ]
    return _grid(table.title, table.columns, rows, table.name)


def _grid(caption: str, columns: list[str], rows: list[str], name: str = "") -> str:
    """A table; one with a name can be saved."""
    head = "".join(f'<th scope="col">{escaped(column)}</th>' for column in columns)
    title = f"<caption>{escaped(caption)}</caption>" if caption else ""
    inside = f"{title}<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    if not name:
        return f'<div class="scroll"><table>{inside}'
    return (
        f'<div class="table"><div class="scroll" tabindex="0" role="region" '
        f'aria-label="{escaped(caption or name)}"><table id="table-{name}">{inside}'
        f'<div class="save"><button type="button" data-table="{name}" '
        f'aria-label="save the table {name} as CSV">CSV</button></div></div>'
    )


def _cell(value: Cell, *, first: bool) -> str:
    tag = "th" if first else "td"
    if value is None:
        return f"<{tag}></{tag}>"
    if isinstance(value, bool):
        return f"<{tag}>{'yes' if value else 'no'}</{tag}>"
    if isinstance(value, str):
        kind = ' class="text"' if len(value) > 30 else ""
        return f"<{tag}{kind}>{escaped(value)}</{tag}>"
    return f'<{tag} data-value="{value:.7g}">{quantity(value, "1", 4)}</{tag}>'
