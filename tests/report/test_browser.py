"""Pages in a browser: what they draw on a phone and on a screen, and what they save."""

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from geonode.calibration.calibration_file import CalibrationFile
from geonode.report.calibration_page import calibration_page
from geonode.report.calibration_tables import tables
from geonode.spectra.series import Series
from tests.browser import CHROMIUM, Browser
from tests.calibration import beer
from tests.mixtures import beer as mixtures
from tests.report.run import HOSTILE, Run

PHONE, SCREEN = 390, 1200

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on PATH"),
]

# A window cannot be as narrow as a phone, a frame can. It looks at the page as it is.
LOOK = """
<iframe src="page.html" style="border:0; width:WIDTHpx; height:900px"></iframe>
<pre></pre>
<script>
const errors = [];
const frame = document.querySelector('iframe');
frame.contentWindow.addEventListener('error', event => errors.push(event.message));
const wait = milliseconds => new Promise(done => setTimeout(done, milliseconds));
const box = one => one.getBoundingClientRect();
const touch = (a, b) => a.width && b.width && a.left < b.right - 1 && b.left < a.right - 1
  && a.top < b.bottom - 1 && b.top < a.bottom - 1;
function look(page) {
  const figures = {};
  for (const figure of page.querySelectorAll('figure')) {
    const svg = figure.querySelector('.plot svg'), marks = {};
    if (!svg) continue;
    for (const kind of ['line', 'area', 'rect', 'rule', 'symbol']) {
      marks[kind] = svg.querySelectorAll(`.mark-${kind}.role-mark > *`).length;
    }
    const [drawn, inside] = [box(svg), box(figure.querySelector('.plot'))];
    const words = [...svg.querySelectorAll('text')].filter(word => word.textContent
      && box(word).width && word.getAttribute('opacity') !== '0');
    const titles = [...svg.querySelectorAll('.role-axis-title text')];
    figures[figure.dataset.figure] = {marks,
      title: svg.querySelector('.role-title-text')?.textContent,
      fits: drawn.right <= inside.right + 1 && drawn.width > inside.width / 2,
      broken: svg.outerHTML.includes('NaN'),
      cut: words.filter(word => box(word).left < drawn.left - 1 || box(word).right > drawn.right + 1
        || box(word).top < drawn.top - 1 || box(word).bottom > drawn.bottom + 1
      ).map(word => word.textContent),
      over: titles.flatMap(title => words.filter(word => word !== title && !title.contains(word)
        && !word.contains(title) && touch(box(title), box(word)))).map(word => word.textContent),
    };
  }
  return figures;
}
async function drawn(page) {
  while (page.getElementById('undrawn')) await wait(50);
  await wait(200);
}
const of_page = (page, view) => ({errors, hacked: 'hacked' in view, width: view.innerWidth,
  loaded: view.performance.getEntriesByType('resource').map(entry => entry.name),
  wide: page.documentElement.scrollWidth, text: page.querySelector('main').innerText});
const tell = seen => { document.querySelector('pre').textContent = JSON.stringify(seen); };
frame.addEventListener('load', () => report(frame.contentDocument, frame.contentWindow).then(tell)
  .catch(error => tell(error.stack)));
"""

# Every list is turned, sliders are moved as by hand, and every button of a figure is pressed.
REPORT = """
const saved = [];
async function save(page, view, name) {
  view.URL.createObjectURL = blob => { saved.push(blob); return '#'; };
  const buttons = page.querySelectorAll(`figure[data-figure=${name}] button`);
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
function change(page, view, input, value) {
  input.value = value;
  for (const kind of ['input', 'change']) {
    input.dispatchEvent(new view.Event(kind, {bubbles: true}));
  }
}
async function report(page, view) {
  await drawn(page);
  const note = () => page.getElementById('curve-note')?.textContent;
  const top = page.querySelector('.first'), notes = [note()];
  const seen = {first: look(page), bottom: top && box(top).bottom, unreachable: unreachable(page)};
  for (const list of page.querySelectorAll('select')) {
    change(page, view, list, list.options[(list.selectedIndex + 1) % list.options.length].value);
  }
  for (const [name, value] of Object.entries(MOVED)) {
    change(page, view, page.getElementById(name), value);
  }
  await wait(1000);
  const field = page.getElementById('concentration-number');
  return {...seen, notes: [...notes, note()], number: Number(field?.value), second: look(page),
    saved: SAVED && await save(page, view, SAVED), ...of_page(page, view)};
}
</script>
"""


def browse(folder, page, width=SCREEN, moved=None, saved=None):
    """What a frame saw of a page, with sliders `moved` and a figure saved, and all complaints."""
    (folder / "page.html").write_text(page, encoding="utf-8")
    frame = LOOK.replace("WIDTH", str(width))
    frame += REPORT.replace("MOVED", json.dumps(moved or {})).replace("SAVED", json.dumps(saved))
    (folder / "frame.html").write_text(frame, encoding="utf-8")
    browser = Browser(folder / "profile")
    browser.go((folder / "frame.html").as_uri())
    report = json.loads(browser.wait("document.querySelector('pre')?.textContent"))
    browser.end()
    assert isinstance(report, dict), report  # the stack of what the frame failed at
    return report, browser.complaints


def drawn(folder, page, width, **actions):
    """What a frame saw of a page that fits it, complains of nothing, and is whole."""
    seen, console = browse(folder, page, width, **actions)
    assert (console, seen["errors"], seen["loaded"], seen["unreachable"]) == ([], [], [], [])
    assert (seen["width"], seen["wide"]) == (width, width)
    assert_well_drawn(seen["first"])
    assert_well_drawn(seen["second"])
    return seen


def assert_well_drawn(figures):
    for name, figure in figures.items():
        assert (figure["fits"], figure["cut"], figure["broken"]) == (True, [], False), name
        assert figure["over"] == [], name


def marks(figures):
    """Lines, areas, rectangles, rules and symbols of every figure."""
    return {name: tuple(found["marks"].values()) for name, found in figures.items()}


LONG = "fluorescence intensity after subtraction of the blank"


@pytest.mark.parametrize(("width", "quantity"), [(PHONE, LONG), (SCREEN, "absorbance")])
def test_every_figure_is_drawn_and_fits(width, quantity, tmp_path):
    run = Run(tmp_path / "run", quantity=quantity).write()
    seen = drawn(tmp_path, run.page(), width)
    first, second = seen["first"], seen["second"]
    for figures in (first, second):
        assert marks(figures) == {
            "spectra": (4, 0, 0, 0, 0),
            "folds": (2, 1, 0, 0, 0),
            "error": (0, 0, 44, 0, 0),
            "posterior_metric": (1, 1, 0, 0, 0),
            "metric": (0, 0, 363, 0, 0),
            "christoffel": (0, 0, 363, 0, 0),
            "geodesics": (6, 0, 0, 0, 0),
            "posterior": (1, 1, 0, 3, 0),  # a set of two parts
        }
    assert first["folds"]["title"].startswith("0 ppb left out")
    assert second["folds"]["title"].startswith("10 ppb left out")


def test_a_script_that_slipped_in_would_not_run(tmp_path):
    page = Run(tmp_path / "run").write().page()
    slipped = page.replace("<main>", "<main><script>window.hacked=1</script>")
    seen, console = browse(tmp_path, slipped)
    assert not seen["hacked"]
    assert len(console) == 1
    assert "Content Security Policy" in console[0]


SAVED = Path("beer_calibration/calibration.safetensors")


@pytest.mark.parametrize("width", [PHONE, SCREEN])
def test_the_page_of_a_calibration_follows_its_controls_and_saves(calibration, width, tmp_path):
    text = calibration_page(calibration, tables(calibration), SAVED).html()
    assert len(text.encode()) < 1_000_000
    moved = {"wavelength": 0, "concentration-number": 1e9}
    seen = drawn(tmp_path, text, width, moved=moved, saved="true")
    if width == SCREEN:
        assert seen["bottom"] < 900  # verdict, figure, errors and limits without scrolling
    levels, model = len(beer.LEVELS), calibration.model
    sets = levels + sum(len(parts) for parts in model.calibration.sets["geonode"])
    found = marks(seen["second"])  # lines, areas, rectangles, rules, symbols
    assert found.pop("telling")[2] > len(calibration.series.axis)
    assert found == {
        "true": (1, 0, 0, sets, 2 * levels),
        "spectra": (levels, 0, 0, 0, 0),
        "curve": (2, 1, 0, 0, levels),
        "residuals": (0, 0, 0, levels, levels),
        "regression": (levels + 1, 0, 0, 1, 0),
        "influence": (0, 0, 0, 2, levels),
        "components": (2, 0, 0, 1, sum(map(len, model.diagnostics.rmsecv.values()))),
        "predicted": (1, 1, 0, 0, 0),
        "precision": (2, 0, 0, 0, 0),
    }
    before, after = seen["notes"]
    assert before != after
    assert seen["number"] == beer.LEVELS[-1]
    saved = seen["saved"]
    assert "true,estimated\n0,0" in saved["csv"]
    assert (saved["svg"], saved["png"]) == ("svg", "image/png")
    assert saved["size"] > 5000


def test_a_name_that_looks_like_html_is_text(calibration, tmp_path):
    labels = dict.fromkeys(calibration.series.labels, HOSTILE)
    model = replace(calibration.model, series=replace(calibration.series, labels=labels))
    hostile = replace(calibration, source=HOSTILE, model=model)
    text = calibration_page(hostile, tables(hostile), Path(HOSTILE)).html()
    seen, console = browse(tmp_path, text)
    assert (console, seen["errors"], seen["hacked"]) == ([], [], False)


@pytest.mark.parametrize("width", [PHONE, SCREEN])
def test_the_page_of_mixtures_draws_the_surface_at_a_wavelength(width, tmp_path):
    known, axis = mixtures.amounts(14, 3), np.arange(400.0, 700, 5)
    labels = {"signal": "absorbance", "signal_unit": "1", "axis": "wavelength", "axis_unit": "nm"}
    labels["concentration_unit"] = "ppm"
    signal = mixtures.spectra(known, noise=5e-3, bend=1.0)
    samples = tuple(f"m{place}" for place in range(14))
    names = ("<lead>", "zinc", "iron")
    series = Series(known, axis, signal, labels, names, ("ppm",) * 3, samples)
    file = CalibrationFile.of("known.csv", series)
    page = calibration_page(file, tables(file), Path("calibration.safetensors")).html()
    seen = drawn(tmp_path, page, width, moved={"wavelength": 7}, saved="surface_0_2")
    found, design = marks(seen["second"]), file.model.calibration.design
    for one in range(3):
        assert found[f"true_{one}"] == (1, 0, 0, 14, 28)
        assert found[f"methods_{one}"] == (0, 0, len(file.model.calibration.rmsep), 0, 0)
        assert found[f"pure_{one}"] == (1, 1, 0, 1, 0)
    for pair in ("0_1", "0_2", "1_2"):
        assert found[f"surface_{pair}"] == (0, 0, 12 * 12, 0, 14)
        lines, _, _, sides, points = found[f"design_{pair}"]
        assert (lines, points) == (0, 14)
        assert sides >= 3
    cells = pd.read_csv(io.StringIO(seen["saved"]["csv"].split("\n\n")[0]))
    assert cells[["x", "y"]].min().tolist() == pytest.approx(design.low[[0, 2]])
    middle = (cells[["x", "y"]].to_numpy() + cells[["x2", "y2"]].to_numpy()) / 2
    mean = np.full(len(cells), known[:, 1].mean())
    amounts = np.column_stack([middle[:, 0], mean, middle[:, 1]])
    forward = file.model.calibration.forward
    scores = forward.surface.at(torch.from_numpy(amounts))[0].numpy()
    expected = forward.mean[7] + scores @ forward.directions[7]  # of 435 nm
    np.testing.assert_allclose(cells["signal"], expected, atol=1e-5)
