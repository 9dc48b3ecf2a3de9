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
LOOK = """
<iframe src="page.html" style="border:0; width:WIDTHpx; height:HEIGHTpx"></iframe>
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

REPORT = """
async function report(page, view) {
  await drawn(page);
  const first = look(page);
  for (const select of page.querySelectorAll('select')) {
    select.selectedIndex = (select.selectedIndex + 1) % select.options.length;
    select.dispatchEvent(new view.Event('input', {bubbles: true}));
    select.dispatchEvent(new view.Event('change', {bubbles: true}));
  }
  await wait(300);
  return {...of_page(page, view), first, second: look(page)};
}
</script>
"""


def browse(folder, page, script=REPORT, width=SCREEN, height=900, milliseconds=30_000):
    """What a frame saw of a page, and what the browser complained of."""
    (folder / "page.html").write_text(page, encoding="utf-8")
    frame = LOOK.replace("WIDTH", str(width)).replace("HEIGHT", str(height)) + script
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
    seen = json.loads(seen)
    assert isinstance(seen, dict), seen  # the stack of what the frame failed at
    return seen, console


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
    seen, console = browse(tmp_path, run.page(), width=width)
    assert (console, seen["errors"], seen["loaded"]) == ([], [], [])
    assert (seen["width"], seen["wide"]) == (width, width)
    first, second = seen["first"], seen["second"]
    for figures in (first, second):
        assert_well_drawn(figures)
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
