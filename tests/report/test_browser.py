"""The page in a browser: what is drawn, at the width of a phone and of a screen."""

import json
import re
import shutil
import subprocess
from html import unescape

import pytest

from tests.report.run import Run

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
PHONE, SCREEN = 390, 1200

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on PATH"),
]

# A window cannot be as narrow as a phone, a frame can. It looks at the page as it is.
FRAME = """
<iframe src="page.html" style="border:0; width:{width}px; height:900px"></iframe>
<pre></pre>
<script>
const errors = [];
const frame = document.querySelector('iframe');
frame.contentWindow.addEventListener('error', event => errors.push(event.message));
const titles = plot => [...plot.querySelectorAll('.xtitle, .ytitle')];
function touch(one, other) {{
  const [a, b] = [one, other].map(text => text.getBoundingClientRect());
  return a.width && b.width && a.left < b.right - 1 && b.left < a.right - 1
    && a.top < b.bottom - 1 && b.top < a.bottom - 1;
}}
const count = (plot, what) => plot.querySelectorAll(what).length;
function look(page) {{
  const figures = {{}};
  for (const figure of page.querySelectorAll('figure')) {{
    const plot = figure.querySelector('.plot');
    const inside = plot.getBoundingClientRect();
    const drawn = plot.querySelector('.main-svg')?.getBoundingClientRect();
    const words = [...plot.querySelectorAll('.infolayer text, .xtick text, .ytick text')];
    figures[figure.dataset.figure] = {{
      lines: count(plot, '.scatterlayer path.js-line'),
      bars: count(plot, '.barlayer .point path'),
      maps: count(plot, '.heatmaplayer image'),
      fits: drawn && drawn.right <= inside.right + 1 && drawn.width > inside.width / 2,
      cut: words.filter(word => {{
        const box = word.getBoundingClientRect();
        return box.width && (box.left < inside.left - 1 || box.right > inside.right + 1
          || box.top < inside.top - 1 || box.bottom > inside.bottom + 1);
      }}).map(word => word.textContent),
      over: [...words, plot.querySelector('.nsewdrag')].flatMap(other => titles(plot)
        .filter(title => title !== other && touch(title, other)).map(title => title.textContent)),
      note: figure.querySelector('.note')?.textContent,
    }};
  }}
  return figures;
}}
const wait = milliseconds => new Promise(done => setTimeout(done, milliseconds));
async function report() {{
  const page = frame.contentDocument, view = frame.contentWindow;
  while (page.getElementById('undrawn')) await wait(50);
  const first = look(page);
  for (const select of page.querySelectorAll('select')) {{
    select.selectedIndex = (select.selectedIndex + 1) % select.options.length;
    select.dispatchEvent(new view.Event('change', {{bubbles: true}}));
  }}
  await wait(200);
  document.querySelector('pre').textContent = JSON.stringify({{
    errors, first, second: look(page), hacked: 'hacked' in view,
    loaded: view.performance.getEntriesByType('resource').map(entry => entry.name),
    wide: page.documentElement.scrollWidth, width: view.innerWidth,
    text: page.querySelector('main').innerText,
  }});
}}
frame.addEventListener('load', report);
</script>
"""


def browse(folder, page, frame=None, width=SCREEN, milliseconds=20_000):
    """What a frame saw of a page, and what the browser complained of."""
    (folder / "page.html").write_text(page, encoding="utf-8")
    frame = frame or FRAME.format(width=width)
    (folder / "frame.html").write_text(frame, encoding="utf-8")
    command = [
        *(CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu"),
        *("--allow-file-access-from-files", "--hide-scrollbars", "--enable-logging=stderr"),
        *(f"--user-data-dir={folder / 'profile'}", f"--virtual-time-budget={milliseconds}"),
        *("--window-size=1300,1000", "--dump-dom", (folder / "frame.html").as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    seen = unescape(re.search(r"<pre>(.*?)</pre>", done.stdout, re.S)[1])
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert seen, console
    return json.loads(seen), console


def assert_drawn(figures):
    """Every figure has as many marks as it has things to show."""
    marks = {
        name: (found["lines"], found["bars"], found["maps"]) for name, found in figures.items()
    }
    assert marks == {
        "spectra": (4, 0, 0),
        "folds": (4, 0, 0),
        "error": (0, 0, 1),
        "rmse": (0, 4, 0),
        "posterior-metric": (3, 0, 0),
        "metric": (0, 0, 1),
        "christoffel": (0, 0, 1),
        "geodesics": (6, 0, 0),
        "posterior": (4, 0, 0),  # a set of two parts
        "training-0": (5, 0, 0),
        "training-1": (5, 0, 0),
    }


LONG = "fluorescence intensity after subtraction of the blank"


@pytest.mark.parametrize("quantity", ["absorbance", LONG])
@pytest.mark.parametrize("width", [PHONE, SCREEN])
def test_every_figure_is_drawn_and_fits(width, quantity, tmp_path):
    run = Run(tmp_path / "run", quantity=quantity).write()
    seen, console = browse(tmp_path, run.page(), width=width)
    assert (console, seen["errors"], seen["loaded"]) == ([], [], [])
    assert (seen["width"], seen["wide"]) == (width, width)
    for name, figure in seen["first"].items():
        assert figure["fits"], name
        assert figure["cut"] == [], name
        assert figure["over"] == [], name
    assert_drawn(seen["first"])
    assert_drawn(seen["second"])
    first, second = seen["first"], seen["second"]
    assert first["folds"]["note"].startswith("0 ppb left out")
    assert second["folds"]["note"].startswith("10 ppb left out")
    assert first["geodesics"]["note"].startswith("From 0 to 40 ppb")
    assert second["geodesics"]["note"].startswith("From 10 to 0 ppb")


def test_hostile_names_are_shown_and_do_not_run(tmp_path):
    hostile = "<script>window.hacked=1</script><img src=x onerror=window.hacked=1>"
    run = Run(
        tmp_path / "run",
        unit=hostile,
        quantity=hostile,
        level_unit=hostile,
        axis_unit=hostile,
        source=hostile,
    ).write()
    seen, console = browse(tmp_path, run.page())
    assert not seen["hacked"]
    assert (console, seen["errors"], seen["loaded"]) == ([], [], [])
    assert f"source\t{hostile}" in seen["text"]


def test_a_script_that_slipped_in_would_not_run(tmp_path):
    page = Run(tmp_path / "run").write().page()
    slipped = page.replace("<main>", "<main><script>window.hacked=1</script>")
    seen, console = browse(tmp_path, slipped)
    assert not seen["hacked"]
    assert len(console) == 1
    assert "Content Security Policy" in console[0]
