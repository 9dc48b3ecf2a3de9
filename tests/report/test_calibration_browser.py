"""The page of a calibration in a browser: what it draws, what follows its controls, and saves."""

from dataclasses import replace
from pathlib import Path

import pytest

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

# The concentration and the wavelength are given as by hand; every button of a figure is pressed.
SCRIPT = """
const saved = [];
async function save(page, view) {
  view.URL.createObjectURL = blob => { saved.push(blob); return '#'; };
  const buttons = page.querySelectorAll('figure[data-figure=true] button');
  for (const [place, button] of [...buttons].entries()) {
    button.click();
    while (saved.length <= place) await wait(50);
  }
  const [csv, svg] = await Promise.all(saved.slice(0, 2).map(blob => blob.text()));
  const root = new DOMParser().parseFromString(svg, 'image/svg+xml').documentElement;
  return {csv, svg: root.tagName, png: saved[2].type, size: saved[2].size};
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
  await wait(300);
  return {...seen, second: look(page), saved: await save(page, view),
    unreachable: unreachable(page), ...of_page(page, view)};
}
</script>
"""

HOSTILE = "<img src=x onerror=window.hacked=1>"
SAVED = Path("beer_calibration/calibration.safetensors")


@pytest.mark.parametrize("width", [PHONE, SCREEN])
def test_the_page_draws_follows_its_controls_and_saves(calibration, width, tmp_path):
    text = calibration_page(calibration, tables(calibration), SAVED)
    assert len(text.encode()) < 1_000_000
    seen, console = browse(tmp_path, text, SCRIPT, width)
    assert (console, seen["errors"], seen["loaded"]) == ([], [], [])
    assert (seen["width"], seen["wide"]) == (width, width)
    assert seen["unreachable"] == []
    if width == SCREEN:
        assert seen["bottom"] < 900  # verdict, figure, errors and limits without scrolling
    assert_well_drawn(seen["first"])
    assert_well_drawn(seen["second"])
    levels = len(beer.LEVELS)
    sets = levels + sum(len(parts) for parts in calibration.model.calibration.sets["geonode"])
    assert marks(seen["second"]) == {  # lines, areas, rectangles, rules, symbols
        "true": (1, 0, 0, sets, 2 * levels),
        "spectra": (levels, 0, 0, 0, 0),
        "curve": (2, 1, 0, 0, levels),
        "residuals": (0, 0, 0, levels, levels),
        "regression": (levels + 1, 0, 0, 1, 0),
        "influence": (0, 0, 0, 2, levels),
        "components": (2, 0, 0, 1, sum(map(len, calibration.diagnostics.rmsecv.values()))),
        "predicted": (1, 1, 0, 0, 0),
        "posterior_metric": (1, 1, 0, 0, 0),
    }
    assert seen["moved"] == [seen["moved"][0], beer.LEVELS[-1]] != [seen["note"], beer.LEVELS[-1]]
    saved = seen["saved"]
    assert saved["csv"].startswith("method,level,estimated\ngeonode,0,")
    assert (saved["svg"], saved["png"]) == ("svg", "image/png")
    assert saved["size"] > 5000


def test_a_name_that_looks_like_html_is_text(calibration, tmp_path):
    labels = dict.fromkeys(calibration.series.labels, HOSTILE)
    series = replace(calibration.series, labels=labels)
    hostile = replace(calibration, source=HOSTILE, series=series)
    text = calibration_page(hostile, tables(hostile), Path(HOSTILE))
    seen, console = browse(tmp_path, text, SCRIPT)
    assert (console, seen["errors"], seen["hacked"]) == ([], [], False)
