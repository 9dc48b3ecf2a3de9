"""The page of a calibration in a browser: what it draws, saves, and estimates by itself."""

import base64
import csv
import io
import json
import re
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
const unknown = UNKNOWN, others = OTHERS, saved = [];
function give(page, view, named) {
  const files = new view.DataTransfer(), input = page.getElementById('file');
  for (const [name, text] of Object.entries(named)) {
    const bytes = Uint8Array.from(atob(text), letter => letter.charCodeAt(0));
    files.items.add(new view.File([bytes], name));
  }
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
  give(page, view, others);
  while (told.textContent === before) await wait(50);
  seen.refused = told.textContent;
  give(page, view, unknown);
  while (!page.querySelector('#plot-unknown svg')) await wait(50);
  await wait(300);
  return {...seen, second: look(page), saved: await save(page, view),
    unreachable: unreachable(page), ...of_page(page, view)};
}
</script>
"""

HOSTILE = "<img src=x onerror=window.hacked=1>"


def look(folder, text, width, unknown, others):
    """What the frame saw of a page, and what the browser complained of.

    Args:
        folder: for the files of the browser.
        text: of the page.
        width: of the frame.
        unknown: bytes of files by name, which are dropped together.
        others: the same, dropped before.
    """
    script = SCRIPT
    for key, files in (("UNKNOWN", unknown), ("OTHERS", others)):
        coded = {name: base64.b64encode(given).decode() for name, given in files.items()}
        script = script.replace(key, json.dumps(coded))
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
    given = {unknown.name: unknown.read_bytes()}
    seen, console = look(tmp_path, text, width, given, {"other.csv": b"nothing"})
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
        "regression": (levels + 1, 0, 0, 1, 0),
        "influence": (0, 0, 0, 2, levels),
        "components": (2, 0, 0, 1, sum(map(len, calibration.diagnostics.rmsecv.values()))),
        "predicted": (1, 1, 0, 0, 0),
        "unknown": (2, 1, 0, 0, 0),
        "posterior_metric": (1, 1, 0, 0, 0),
    }
    assert seen["moved"] == [seen["moved"][0], beer.LEVELS[-1]] != [seen["note"], beer.LEVELS[-1]]
    assert seen["refused"].startswith("0 estimated. Not estimated: other.csv: found no table")
    assert calibration.calibration.law is not None  # of another method than geonode
    saved = seen["saved"]
    rows = list(csv.reader(io.StringIO(saved["rows"])))
    assert rows[0][:4] == ["file", "spectrum", "method", "estimated (ppb)"]
    assert_estimates(rows[1:], found.unknowns[0][1], found.method)
    assert saved["csv"].startswith("method,level,estimated\ngeonode,0,")
    assert (saved["svg"], saved["png"]) == ("svg", "image/png")
    assert saved["size"] > 5000


def assert_estimates(shown, expected, method):
    """What the page says of spectra is what Python says of them."""
    for (file, *found), one in zip(shown, expected, strict=True):
        row = one.of_geonode
        assert [file, *found[:2]] == ["unknown.csv", row.name, method]
        numbers = (*one[1:4], row.mode, row.low, row.high)
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


def test_a_page_too_small_for_the_curve_estimates_by_the_method(
    calibration, unknown, tmp_path, monkeypatch
):
    found = calibration.with_unknown(unknown, read_unknown(unknown, calibration.series))
    monkeypatch.setattr("geonode.report.calibration_data.LARGEST_CURVE", 3000)
    text = calibration_page(calibration, tables(calibration))
    given = {unknown.name: unknown.read_bytes(), "again.csv": PLAIN.encode()}
    seen, console = look(tmp_path, text, SCREEN, given, {"other.csv": b"nothing"})
    assert (console, seen["errors"]) == ([], [])
    assert marks(seen["second"])["unknown"] == (2, 1, 0, 0, 0)
    _, *rows = csv.reader(io.StringIO(seen["saved"]["rows"]))
    assert [row[0] for row in rows] == [unknown.name] * 8 + ["again.csv"] * 2
    for row, one in zip(rows, found.unknowns[0][1], strict=False):
        numbers = list(map(float, row[3:6]))
        np.testing.assert_allclose(numbers, one[1:4], rtol=1e-9)
        assert row[6:10] == [""] * 4
    assert [row[11].split("; ")[-1].split()[0] for row in rows[:8]] == (
        ["within"] * 4
        + ["beyond"] * 4  # what is beyond the range, noisy, shifted, of something else
    )


PLAIN = beer.table(dict(zip("ab", beer.spectra_at([3.3, 9.1]), strict=True)))
ONE = beer.table({"a": beer.spectra_at([3.3])[0]})
TABS = PLAIN.replace(",", "\t")
READ = {
    "utf16.txt": TABS.encode("utf-16"),
    "utf16be.txt": b"\xfe\xff" + TABS.encode("utf-16-be"),
    "units.txt": TABS.replace("\n", "\nnm\tAU\tAU\n", 1).encode(),
    "comments.csv": f"# by hand\n{PLAIN}# the end, 1\n".encode(),
    "decimal.txt": PLAIN.replace(",", ";").replace(".", ",").encode(),
    "blanks.txt": PLAIN.replace(",", "   ").replace("\n", "\r\n").encode(),
    "micro.csv": PLAIN.replace("a,b", "a \xb5,b").encode("cp1252"),
    "one.csv": ONE.encode(),
}
REFUSED = {
    "digits.csv": (b"1" * 200_000 + b"x", "found no table"),
    "cell.csv": (ONE.replace("\n480,", f"\n480,{'1' * 200_000}").encode(), "row 10: found"),
    "wide.csv": (ONE.replace("\n480,", "\n480,1,").encode(), "row 10: found"),
    "overflow.csv": (re.sub(r"\n480,\S+", "\n480,1e308", ONE).encode(), "found 1e+308"),
    "tiny.csv": (re.sub(r",0\S+", ",1e-40", ONE).encode(), "found no number above 1e-40"),
    "groups.txt": (re.sub(r",0\.\S+", "\t1,984", ONE).encode(), "found 1,984 and no number"),
    "marks.txt": (
        re.sub(r",0\.", ";0,", ONE, count=3).replace(",0.", ";0.").encode(),
        "found numbers with",
    ),
    "gap.csv": (re.sub(r"\n480,\S+", "\n480,", ONE).encode(), "row 10: found"),
    "axis.csv": (ONE.replace("\n480,", "\n481,").encode(), "found nothing at 480"),
    "twice.csv": (ONE.replace("\n490,", "\n480,").encode(), "found 480 twice"),
    "bare.csv": (PLAIN.split("\n", 1)[1].encode(), "found no header"),
    "names.txt": (TABS.replace("\n", "\nx\tc\td\n", 1).encode(), "found two rows of names"),
    "book.xlsx": (b"PK\x03\x04", "found a workbook"),
    "binary.csv": (b"a\0b", "found binary data"),
}


def test_files_are_read_as_the_command_reads_them_or_refused(calibration, tmp_path):
    text = calibration_page(calibration, tables(calibration))
    others = {name: given for name, (given, _) in REFUSED.items()}
    seen, console = look(tmp_path, text, SCREEN, READ, others)
    assert (console, seen["errors"]) == ([], [])
    assert seen["refused"].startswith("0 estimated.")
    assert seen["refused"].endswith("geonode estimate FILE --calibration calibration.safetensors.")
    for name, (_, message) in REFUSED.items():
        assert f"{name}: {message}" in seen["refused"]
    _, *rows = csv.reader(io.StringIO(seen["saved"]["rows"]))
    expected = []
    for name, given in READ.items():
        (tmp_path / name).write_bytes(given)
        spectra = read_unknown(tmp_path / name, calibration.series)
        ((_, found),) = calibration.with_unknown(tmp_path / name, spectra).unknowns
        expected += [(name, one.of_geonode.name, one.concentration) for one in found]
    for row, (name, spectrum, concentration) in zip(rows, expected, strict=True):
        assert row[:2] == [name, spectrum]
        assert float(row[3]) == pytest.approx(concentration, rel=1e-9)


def test_a_name_that_looks_like_html_is_text(calibration, tmp_path):
    labels = dict.fromkeys(calibration.series.labels, HOSTILE)
    series = replace(calibration.series, labels=labels)
    hostile = replace(calibration, source=HOSTILE, series=series)
    text = calibration_page(hostile, tables(hostile))
    seen, console = look(tmp_path, text, SCREEN, {HOSTILE[:8]: ONE.encode()}, {HOSTILE: b""})
    assert (console, seen["errors"], seen["hacked"]) == ([], [], False)
