"""The page of a calibration in a browser: what it draws, saves, and estimates by itself."""

import json
from dataclasses import replace

import numpy as np
import pytest

from geonode.calibration.calibrated_file import read_unknown
from geonode.report.calibration_files import workbook
from geonode.report.calibration_page import page
from geonode.report.calibration_tables import tables
from tests.calibration import beer
from tests.report.test_browser import CHROMIUM, PHONE, SCREEN, browse

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on PATH"),
]

FRAME = """
<iframe src="page.html" style="border:0; width:{width}px; height:800px"></iframe>
<pre></pre>
<script>
const errors = [], saved = [], unknown = {unknown}, other = {other};
const frame = document.querySelector('iframe');
frame.contentWindow.addEventListener('error', event => errors.push(event.message));
const wait = milliseconds => new Promise(done => setTimeout(done, milliseconds));
function look(page) {{
  const figures = {{}};
  for (const figure of page.querySelectorAll('figure')) {{
    const holder = figure.querySelector('.plot'), svg = holder.querySelector('svg');
    if (!svg) continue;
    const inside = holder.getBoundingClientRect(), drawn = svg.getBoundingClientRect();
    const words = [...svg.querySelectorAll('text')];
    const marks = {{}};
    for (const kind of ['line', 'band', 'bars', 'points']) {{
      marks[kind] = svg.querySelectorAll(`g.${{kind}} > *`).length;
    }}
    figures[figure.dataset.figure] = {{marks, fits: drawn.right <= inside.right + 1,
      broken: svg.outerHTML.includes('NaN'),
      cut: words.filter(word => {{
        const box = word.getBoundingClientRect();
        return box.left < drawn.left - 1 || box.right > drawn.right + 1;
      }}).map(word => word.textContent)}};
  }}
  return figures;
}}
function give(page, view, text) {{
  const files = new view.DataTransfer(), input = page.getElementById('file');
  files.items.add(new view.File([text], 'unknown.csv'));
  input.files = files.files;
  input.dispatchEvent(new view.Event('change', {{bubbles: true}}));
}}
async function save(page, view) {{
  view.URL.createObjectURL = blob => {{ saved.push(blob); return '#'; }};
  const buttons = [...page.querySelectorAll('figure[data-figure=true] button')];
  for (const [place, button] of [...buttons, page.getElementById('workbook')].entries()) {{
    button.click();
    while (saved.length <= place) await wait(50);
  }}
  const [csv, svg] = await Promise.all(saved.slice(0, 2).map(blob => blob.text()));
  const drawn = new DOMParser().parseFromString(svg, 'image/svg+xml');
  const book = new Uint8Array(await saved[3].arrayBuffer());
  return {{csv, svg: drawn.documentElement.tagName, png: saved[2].type, size: saved[2].size,
    book: String.fromCharCode(...book.slice(0, 2))}};
}}
function unreachable(page) {{
  return [...page.querySelectorAll('button, input, select, a, .scroll')].filter(one => {{
    const named = one.textContent.trim() || one.getAttribute('aria-label') || one.closest('label');
    return one.tabIndex < 0 && !one.matches('.first .scroll') || !named;
  }}).map(one => one.outerHTML.slice(0, 80));
}}
async function report() {{
  const page = frame.contentDocument, view = frame.contentWindow;
  while (page.getElementById('undrawn')) await wait(50);
  const first = page.querySelector('.first').getBoundingClientRect();
  const seen = {{first: look(page), bottom: first.bottom,
    note: page.getElementById('curve-note').textContent}};
  const slider = page.getElementById('wavelength');
  slider.value = 0;
  slider.dispatchEvent(new view.Event('input', {{bubbles: true}}));
  const box = page.getElementById('concentration-number');
  box.value = 1e9;
  box.dispatchEvent(new view.Event('change', {{bubbles: true}}));
  seen.moved = [page.getElementById('curve-note').textContent, Number(box.value)];
  const told = page.getElementById('drop-told'), before = told.textContent;
  give(page, view, other);
  while (told.textContent === before) await wait(50);
  seen.refused = told.textContent;
  seen.kept = page.getElementById('dropped').hidden;
  give(page, view, unknown);
  while (page.getElementById('dropped').hidden) await wait(50);
  seen.rows = [...page.querySelectorAll('#table-dropped tbody tr')].map(row =>
    [...row.cells].map(cell => cell.dataset.value ?? cell.textContent));
  seen.second = look(page);
  seen.saved = await save(page, view);
  document.querySelector('pre').textContent = JSON.stringify({{
    ...seen, errors, unreachable: unreachable(page), hacked: 'hacked' in view,
    loaded: view.performance.getEntriesByType('resource').map(entry => entry.name),
    wide: page.documentElement.scrollWidth, width: view.innerWidth,
  }});
}}
frame.addEventListener('load', () => report().catch(error => {{
  document.querySelector('pre').textContent = JSON.stringify(error.stack);
}}));
</script>
"""

HOSTILE = "<img src=x onerror=window.hacked=1>"


def look(folder, text, width, unknown, other):
    """What the frame saw of a page, and what the browser complained of."""
    given = {"unknown": json.dumps(unknown).replace("<", "\\u003c"), "other": json.dumps(other)}
    frame = FRAME.format(width=width, **given)
    seen, console = browse(folder, text, frame, milliseconds=20_000_000)
    assert isinstance(seen, dict), seen  # the stack of what the frame failed at
    return seen, console


@pytest.fixture(scope="module")
def unknown(tmp_path_factory):
    """Unknown spectra of every sort: good, between, beyond, noisy, shifted, of something else."""
    random = np.random.default_rng(5)
    exact = beer.spectra_at([0.0, 0.7, 3.3, 9.1, 14.0])
    columns = {f"c{place}": one for place, one in enumerate(exact)}
    columns["noisy"] = exact[2] + 0.02 * random.normal(size=len(beer.AXIS))
    columns["shifted"] = np.interp(beer.AXIS + 8, beer.AXIS, exact[3])
    columns[HOSTILE] = 2 - exact[1]
    path = tmp_path_factory.mktemp("unknown") / "unknown.csv"
    path.write_text(beer.table(columns), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [PHONE, SCREEN])
def test_the_page_draws_saves_and_estimates_as_python_does(calibration, unknown, width, tmp_path):
    found = calibration.with_unknown(unknown, read_unknown(unknown, calibration.series))
    all_tables = tables(calibration)
    text = page(calibration, all_tables, workbook(all_tables))
    assert len(text.encode()) < 3_000_000
    given = unknown.read_text(encoding="utf-8")
    other = beer.table({"a": beer.UNIT_SPECTRUM}).replace("\n480,", "\n481,")
    seen, console = look(tmp_path, text, width, given, other)
    assert (console, seen["errors"], seen["loaded"], seen["hacked"]) == ([], [], [], False)
    assert (seen["width"], seen["wide"]) == (width, width)
    assert seen["unreachable"] == []
    if width == SCREEN:
        assert seen["bottom"] < 800  # verdict, figure, errors and limits without scrolling
    for name, figure in (seen["first"] | seen["second"]).items():
        assert (figure["fits"], figure["cut"], figure["broken"]) == (True, [], False), name
    marks = {name: tuple(figure["marks"].values()) for name, figure in seen["second"].items()}
    levels = len(beer.LEVELS)
    sets = levels + sum(len(parts) for parts in calibration.calibration.sets["geonode"])
    assert marks == {  # lines, bands, bars, points
        "true": (1, 0, sets, 2 * levels),
        "spectra": (levels, 0, 0, 0),
        "curve": (2, 1, 0, levels),
        "residuals": (1, 0, levels, levels),
        "predicted": (1, 1, 0, 0),
        "unknown": (1, 1, 0, 0),
        "metric": (1, 1, 0, 0),
    }
    assert seen["moved"] == [seen["moved"][0], beer.LEVELS[-1]] != [seen["note"], beer.LEVELS[-1]]
    assert "found nothing at 480" in seen["refused"]
    assert seen["kept"]
    assert calibration.calibration.law is not None  # of another method than geonode
    assert_estimates(seen["rows"], found.unknowns[0][1], found.method)
    saved = seen["saved"]
    assert saved["csv"].startswith('true concentration (ppb),"geonode, 90% set, low"')
    assert (saved["svg"], saved["png"], saved["book"]) == ("svg", "image/png", "PK")
    assert saved["size"] > 5000


def assert_estimates(shown, expected, method):
    """What the page says of spectra is what Python says of them."""
    for found, one in zip(shown, expected, strict=True):
        row = one.of_geonode
        assert found[:2] == [row.name, method]
        numbers = (*one[1:], row.mode, row.low, row.high)
        np.testing.assert_allclose(list(map(float, found[2:8])), numbers, rtol=1e-9)
        assert len(found[8].split(";")) == len(row.sets)
        assert float(found[9]) == pytest.approx(row.p_value, rel=1e-6)
        assert ("above the range" in found[10]) == (one.concentration > beer.LEVELS[-1])
        assert ("fits nowhere" in found[10]) == (not row.fits and not row.shift)
        shift = f"off by {row.shift:.3g}".replace("-", "−")
        assert (shift in found[10]) == bool(row.shift)
    rows = [one.of_geonode for one in expected]
    assert any(row.shift for row in rows)
    assert any(not row.fits and not row.shift for row in rows)
    assert any(one.concentration > beer.LEVELS[-1] for one in expected)


def test_a_name_that_looks_like_html_is_text(calibration, tmp_path):
    labels = dict.fromkeys(calibration.series.labels, HOSTILE)
    series = replace(calibration.series, labels=labels)
    hostile = replace(calibration, source=HOSTILE, series=series)
    found = tables(hostile)
    given = beer.table({"a": beer.spectra_at([3.0])[0]})
    seen, console = look(tmp_path, page(hostile, found, workbook(found)), SCREEN, given, "")
    assert (console, seen["errors"], seen["hacked"]) == ([], [], False)
