"""Pages in a browser: what they draw on a phone and on a screen, and what they save."""

import json
import time
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
from tests.browser import CHROMIUM
from tests.calibration import beer
from tests.mixtures import beer as mixtures
from tests.report.run import HOSTILE, Run

PHONE, SCREEN = 390, 1200

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on PATH"),
]

# What is drawn of every figure, and which of its words are cut or cover each other.
LOOK = """
const box = one => one.getBoundingClientRect();
const touch = (a, b) => a.width && b.width && a.left < b.right - 1 && b.left < a.right - 1
  && a.top < b.bottom - 1 && b.top < a.bottom - 1;
const figures = {};
for (const figure of document.querySelectorAll('figure')) {
  const svg = figure.querySelector('.plot svg'), marks = {};
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
const unreachable = [...document.querySelectorAll('input, select, a, .scroll')].filter(one => {
  const name = one.textContent.trim() || one.getAttribute('aria-label') || one.labels?.length;
  return one.tabIndex < 0 || !name;
}).map(one => one.outerHTML.slice(0, 80));
const first = document.querySelector('.first');
return {figures, unreachable, bottom: first && box(first).bottom, hacked: 'hacked' in window,
  loaded: performance.getEntriesByType('resource').map(entry => entry.name),
  wide: document.documentElement.scrollWidth};
"""

# Every list is turned, and every slider moved to its end.
TURN = """
for (const input of document.querySelectorAll('select, input')) {
  const next = input.options?.[(input.selectedIndex + 1) % input.options.length];
  input.value = next?.value ?? input.max;
  for (const kind of ['input', 'change']) input.dispatchEvent(new Event(kind, {bubbles: true}));
}
return true;
"""


def look(browser, page, width=SCREEN):
    """Open a page; what is seen of it before and after its controls were used."""
    file = Path(browser.profile) / "page.html"
    file.write_text(page, encoding="utf-8")
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.call("Emulation.setDeviceMetricsOverride", **size)
    browser.go(file.as_uri())
    seen = []
    for script in (LOOK, TURN, LOOK):
        browser.wait("!document.getElementById('undrawn')")
        time.sleep(1)
        seen.append(browser.value(f"(() => {{{script}}})()"))
    return seen[0], seen[2]


def drawn(browser, page, width):
    """Figures of a page that is as wide as the window, complains of nothing, and is whole."""
    both = look(browser, page, width)
    assert browser.complaints == []
    for seen in both:
        assert (seen["loaded"], seen["unreachable"], seen["wide"]) == ([], [], width)
        assert_well_drawn(seen["figures"])
    return [seen["figures"] for seen in both], both[0]["bottom"]


def assert_well_drawn(figures):
    for name, figure in figures.items():
        assert (figure["fits"], figure["cut"], figure["broken"]) == (True, [], False), name
        assert figure["over"] == [], name


def marks(figures):
    """Lines, areas, rectangles, rules and symbols of every figure."""
    return {name: tuple(found["marks"].values()) for name, found in figures.items()}


LONG = "fluorescence intensity after subtraction of the blank"


@pytest.mark.parametrize(("width", "quantity"), [(PHONE, LONG), (SCREEN, "absorbance")])
def test_every_figure_is_drawn_and_fits(width, quantity, browser, tmp_path):
    run = Run(tmp_path / "run", quantity=quantity).write()
    (first, second), _ = drawn(browser, run.page(), width)
    for figures in (first, second):
        assert marks(figures) == {
            "spectra": (4, 0, 0, 0, 0),
            "folds": (2, 1, 0, 0, 0),
            "posterior_metric": (1, 1, 0, 0, 0),
            "metric": (0, 0, 363, 0, 0),
            "christoffel": (0, 0, 363, 0, 0),
            "geodesics": (6, 0, 0, 0, 0),
            "posterior": (1, 1, 0, 3, 0),  # a set of two parts
        }
    assert first["folds"]["title"].startswith("0 ppb left out")
    assert second["folds"]["title"].startswith("10 ppb left out")


def test_a_script_that_slipped_in_would_not_run(browser, tmp_path):
    page = Run(tmp_path / "run").write().page()
    seen, _ = look(browser, page.replace("<main>", "<main><script>window.hacked=1</script>"))
    assert not seen["hacked"]
    assert len(browser.complaints) == 1
    assert "Content Security Policy" in browser.complaints[0]


SAVED = Path("beer_calibration/calibration.safetensors")


@pytest.mark.parametrize("width", [PHONE, SCREEN])
def test_the_page_of_a_calibration_follows_its_controls_and_saves(calibration, width, browser):
    text = calibration_page(calibration, tables(calibration), SAVED).html()
    assert len(text.encode()) < 1_000_000
    (first, second), bottom = drawn(browser, text, width)
    if width == SCREEN:
        assert bottom < 900  # verdict, figure, errors and limits without scrolling
    levels, model = len(beer.LEVELS), calibration.model
    sets = levels + sum(len(parts) for parts in model.calibration.sets["geonode"])
    found = marks(second)  # lines, areas, rectangles, rules, symbols
    assert found.pop("telling")[2] > len(calibration.series.axis)
    assert found == {
        "true": (1, 0, 0, sets, 2 * levels),
        "spectra": (levels, 0, 0, 0, 0),
        "curve": (2, 1, 0, 0, levels),
        "residuals": (0, 0, 0, levels, levels),
        "regression": (1, 0, 0, 1, 0),
        "influence": (0, 0, 0, 2, levels),
        "components": (2, 0, 0, 1, sum(map(len, model.diagnostics.rmsecv.values()))),
        "predicted": (1, 1, 0, 0, 0),
        "precision": (2, 0, 0, 0, 0),
    }
    assert [figures["curve"]["title"].split(":")[0] for figures in (first, second)] == [
        f"{beer.AXIS[beer.PLACE]:g} nm",
        f"{beer.AXIS[-1]:g} nm",
    ]
    assert second["predicted"]["title"] == f"{beer.LEVELS[-1]:g} ppb"
    for place, kind in enumerate(("blob:", "data:image/png")):
        link = f"document.querySelectorAll('figure[data-figure=true] .vega-actions a')[{place}]"
        browser.value(f"{link}.dispatchEvent(new MouseEvent('mousedown'))")
        assert browser.wait(f"{link}.href.startsWith('{kind}')")
        assert browser.value(f"{link}.download").startswith("beer_true.")


def test_the_curve_and_the_spectrum_are_those_of_the_model(calibration, browser):
    model = calibration.model
    look(browser, calibration_page(calibration, tables(calibration), SAVED).html())
    curve, spectrum = (rows(browser, name, "high") for name in ("curve", "predicted"))
    line = np.polyfit(beer.LEVELS, model.series.signal[:, -1], 1)
    half = model.predictions.band()[1]
    for table, at in ((curve, np.s_[:, -1]), (spectrum, np.s_[-1, :])):
        middle = model.predictions.spectra[at]
        for name, expected in (("predicted", middle), ("low", middle - half[at])):
            np.testing.assert_allclose(table[name], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(curve["fitted"], np.polyval(line, model.places), rtol=1e-4)
    np.testing.assert_allclose(spectrum["wavelength"], beer.AXIS)


def test_a_name_that_looks_like_html_is_text(calibration, browser):
    labels = dict.fromkeys(calibration.series.labels, HOSTILE)
    model = replace(calibration.model, series=replace(calibration.series, labels=labels))
    hostile = replace(calibration, source=HOSTILE, model=model)
    seen = look(browser, calibration_page(hostile, tables(hostile), Path(HOSTILE)).html())
    assert browser.complaints == []
    assert not any(one["hacked"] for one in seen)


def rows(browser, figure, column):
    """The table with a column that a figure draws, after its transforms."""
    state = f"""(() => {{
      const view = views.get(document.querySelector('figure[data-figure={figure}]'));
      const tables = Object.keys(view._runtime.data).map(name => view.data(name));
      return JSON.stringify(tables.find(rows => rows[0] && '{column}' in rows[0]));
    }})()"""
    return pd.DataFrame(json.loads(browser.value(state)))


@pytest.mark.parametrize("width", [PHONE, SCREEN])
def test_the_page_of_mixtures_draws_the_surface_at_a_wavelength(width, browser):
    known, axis = mixtures.amounts(14, 3), np.arange(400.0, 700, 5)
    labels = {"signal": "absorbance", "signal_unit": "1", "axis": "wavelength", "axis_unit": "nm"}
    labels["concentration_unit"] = "ppm"
    signal = mixtures.spectra(known, noise=5e-3, bend=1.0)
    samples = tuple(f"m{place}" for place in range(14))
    names = ("<lead>", "zinc", "iron")
    series = Series(known, axis, signal, labels, names, ("ppm",) * 3, samples)
    file = CalibrationFile.of("known.csv", series)
    page = calibration_page(file, tables(file), Path("calibration.safetensors")).html()
    (_, second), _ = drawn(browser, page, width)
    found, design = marks(second), file.model.calibration.design
    for one in range(3):
        assert found[f"true_{one}"] == (1, 0, 0, 14, 28)
        assert found[f"pure_{one}"] == (1, 1, 0, 1, 0)
    for pair in ("0_1", "0_2", "1_2"):
        assert found[f"surface_{pair}"] == (0, 0, 12 * 12, 0, 14)
        assert second[f"surface_{pair}"]["title"] == "695 nm"
        lines, _, _, sides, points = found[f"design_{pair}"]
        assert (lines, points) == (0, 14)
        assert sides >= 3
    cells = rows(browser, "surface_0_2", "x2")
    assert cells[["x", "y"]].min().tolist() == pytest.approx(design.low[[0, 2]])
    middle = (cells[["x", "y"]].to_numpy() + cells[["x2", "y2"]].to_numpy()) / 2
    mean = np.full(len(cells), known[:, 1].mean())
    amounts = np.column_stack([middle[:, 0], mean, middle[:, 1]])
    forward = file.model.calibration.forward
    scores = forward.surface.at(torch.from_numpy(amounts))[0].numpy()
    expected = forward.mean[-1] + scores @ forward.directions[-1]
    np.testing.assert_allclose(cells["signal"], expected, atol=1e-5)
