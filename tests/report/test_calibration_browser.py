"""The page of a calibration in a browser: what it draws, saves, and estimates by itself."""

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest

from geonode.calibration.calibrated_file import read_unknown
from geonode.report.calibration_page import calibration_page
from geonode.report.calibration_tables import tables
from tests.calibration import beer
from tests.report.test_browser import (
    CHROMIUM,
    PHONE,
    SCREEN,
    assert_well_drawn,
    browse,
    marks,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on PATH"),
]

# The concentration, the wavelength and the file are given as by hand; every button is pressed.
SCRIPT = """
const unknown = UNKNOWN, other = OTHER, saved = [];
function give(page, view, text) {
  const files = new view.DataTransfer(), input = page.getElementById('file');
  files.items.add(new view.File([text], 'unknown.csv'));
  input.files = files.files;
  input.dispatchEvent(new view.Event('change', {bubbles: true}));
}
async function save(page, view) {
  view.URL.createObjectURL = blob => { saved.push(blob); return '#'; };
  const buttons = page.querySelectorAll('figure[data-figure=true] button, #save-dropped');
  for (const [place, button] of [...buttons].entries()) {
    button.click();
    while (saved.length <= place) await wait(50);
  }
  const [csv, svg] = await Promise.all(saved.slice(0, 2).map(blob => blob.text()));
  const root = new DOMParser().parseFromString(svg, 'image/svg+xml').documentElement;
  return {csv, svg: root.tagName, png: saved[2].type, size: saved[2].size,
    rows: await saved[3].text()};
}
function unreachable(page) {
  return [...page.querySelectorAll('button, input, select, a, .scroll')].filter(one => {
    const named = one.textContent.trim() || one.getAttribute('aria-label') || one.closest('label');
    return one.tabIndex < 0 || !named;
  }).map(one => one.outerHTML.slice(0, 80));
}
function change(page, view, name, value) {
  const input = page.getElementById(name);
  input.value = value;
  for (const kind of ['input', 'change']) {
    input.dispatchEvent(new view.Event(kind, {bubbles: true}));
  }
}
async function report(page, view) {
  await drawn(page);
  const seen = {first: look(page), bottom: box(page.querySelector('.first')).bottom,
    note: page.getElementById('curve-note').textContent};
  change(page, view, 'wavelength', 0);
  change(page, view, 'concentration-number', 1e9);
  seen.moved = [page.getElementById('curve-note').textContent,
    Number(page.getElementById('concentration-number').value)];
  const told = page.getElementById('drop-told'), before = told.textContent;
  give(page, view, other);
  while (told.textContent === before) await wait(50);
  seen.refused = told.textContent;
  seen.kept = page.getElementById('dropped').hidden;
  give(page, view, unknown);
  while (!page.querySelector('#plot-unknown svg')) await wait(50);
  await wait(300);
  return {...seen, second: look(page), saved: await save(page, view),
    unreachable: unreachable(page), ...of_page(page, view)};
}
</script>
"""

HOSTILE = "<img src=x onerror=window.hacked=1>"


def look(folder, text, width, unknown, other):
    """What the frame saw of a page, and what the browser complained of."""
    given = json.dumps(unknown).replace("<", "\\u003c")
    script = SCRIPT.replace("UNKNOWN", given).replace("OTHER", json.dumps(other))
    return browse(folder, text, script, width, milliseconds=20_000_000)


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
    text = calibration_page(calibration, tables(calibration))
    assert len(text.encode()) < 1_500_000
    given = unknown.read_text(encoding="utf-8")
    other = beer.table({"a": beer.UNIT_SPECTRUM}).replace("\n480,", "\n481,")
    seen, console = look(tmp_path, text, width, given, other)
    assert (console, seen["errors"], seen["loaded"], seen["hacked"]) == ([], [], [], False)
    assert (seen["width"], seen["wide"]) == (width, width)
    assert seen["unreachable"] == []
    if width == SCREEN:
        assert seen["bottom"] < 900  # verdict, figure, errors and limits without scrolling
    assert_well_drawn(seen["first"])
    assert_well_drawn(seen["second"])
    levels = len(beer.LEVELS)
    sets = levels + sum(len(parts) for parts in calibration.calibration.sets["geonode"])
    assert marks(seen["second"]) == {  # lines, areas, rectangles, rules, symbols
        "true": (1, 0, 0, sets, 2 * levels),
        "spectra": (levels, 0, 0, 0, 0),
        "curve": (2, 1, 0, 0, levels),
        "residuals": (0, 0, 0, levels, levels),
        "predicted": (1, 1, 0, 0, 0),
        "unknown": (2, 1, 0, 0, 0),
        "posterior_metric": (1, 1, 0, 0, 0),
    }
    assert seen["moved"] == [seen["moved"][0], beer.LEVELS[-1]] != [seen["note"], beer.LEVELS[-1]]
    assert "found nothing at 480" in seen["refused"]
    assert seen["kept"]
    assert calibration.calibration.law is not None  # of another method than geonode
    saved = seen["saved"]
    rows = list(csv.reader(io.StringIO(saved["rows"])))
    assert rows[0][:3] == ["spectrum", "method", "estimated (ppb)"]
    assert_estimates(rows[1:], found.unknowns[0][1], found.method)
    assert saved["csv"].startswith("method,level,estimated\ngeonode,0,")
    assert (saved["svg"], saved["png"]) == ("svg", "image/png")
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
    given = beer.table({"a": beer.spectra_at([3.0])[0]})
    text = calibration_page(hostile, tables(hostile))
    seen, console = look(tmp_path, text, SCREEN, given, "")
    assert (console, seen["errors"], seen["hacked"]) == ([], [], False)
