import base64
import gzip
import hashlib
import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from geonode.report.data import FLAT, MAP_COLUMNS, MAP_ROWS, MOST_NUMBERS
from geonode.report.page import Page as ReportPage
from geonode.report.page import Section
from geonode.report.sections import report_page
from geonode.storage.table import Column, Table
from tests.report.reading import Page
from tests.report.run import HOSTILE, NOT_MEASURED, Run

SECTIONS = ["data", "folds", "scores", "geometry", "geodesics", "posterior", "device"]


@pytest.fixture(scope="module")
def full(written):
    return Page(written.page())


def figures(page):
    return [attributes["data-figure"] for attributes in page.all("figure")]


def test_every_section_and_figure_is_there_in_order(full, written):
    assert [attributes["id"] for attributes in full.all("section")] == SECTIONS
    drawn = ["spectra", "folds", "posterior_metric", "metric", "christoffel"]
    assert figures(full) == [*drawn, "geodesics", "posterior"]
    assert len(full.all("h1")) == 1
    assert [attributes["href"] for attributes in full.all("a")] == [f"#{one}" for one in SECTIONS]
    assert "10 ppb 12.5 13.5 +2.50 1.5 to 8.5; 12.5 to 18 yes 0.25" in full.words
    assert "contain the true value of 75 % of the levels" in full.words
    rows = re.findall(
        r'<tr( class="marked")?><th scope="row">([^<]*)</th><td>([^<]*)', written.page()
    )
    assert [row for row in rows if row[1] in {"natural cubic", "geonode", "nearest"}] == [
        ("", "natural cubic", "0.125"),
        (' class="marked"', "geonode", "0.250"),
        ("", "nearest", "0.750"),
    ]


def test_the_page_loads_nothing_and_runs_no_script_but_its_own(full):
    loading = {"src", "srcset", "data", "action", "poster", "background", "xlink:href", "ping"}
    for tag, attributes in full.elements:
        assert not loading & set(attributes), tag
        assert not [name for name in attributes if name.startswith("on")], tag
        assert attributes.get("href", "#").startswith("#")
    assert not {"link", "iframe", "object", "embed", "base"} & {tag for tag, _ in full.elements}
    assert not any("url(" in style or "@import" in style for style in full.styles)
    policies = [one["content"] for one in full.all("meta") if "http-equiv" in one]
    library = next(text for kind, text in full.scripts if kind == "text/plain" and len(text) > 2e5)
    for program in [*full.programs, gzip.decompress(base64.b64decode(library)).decode()]:
        digest = base64.b64encode(hashlib.sha256(program.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policies[0]
    assert "default-src 'none'" in policies[0]
    assert "unsafe" not in policies[0].split("script-src")[1].split(";")[0]


def test_cells_are_aligned_and_told_in_words():
    row = ["<a>", None, True, 1234.5678, "long " * 10, -0.5, [(0.123456, 2.0)]]
    columns = [Column(name, [cell], "nm") for name, cell in zip("abcdefg", row, strict=True)]
    table = Table("t", "Title", columns, frozenset({0}))
    html = ReportPage("t", "h", [], [Section("s", "S", [table])]).html()
    assert '<tr class="marked"><th scope="row">&lt;a&gt;</th><td></td><td>yes</td>' in html
    assert "<td>1\u202f235</td>" in html
    assert '<td class="text">long long' in html
    assert "<td>−0.5000</td><td>0.1235 to 2</td></tr>" in html
    assert "<caption>Title</caption>" in html
    assert '<th scope="col">b (nm)</th>' in html


def test_names_from_files_are_text_everywhere(written, tmp_path):
    named = ("unit", "quantity", "level_unit", "axis_name", "axis_unit", "source")
    run = Run(tmp_path, band=HOSTILE.replace('"', ""), **dict.fromkeys(named, HOSTILE)).write()
    scores = {"pooled_r2": 1.0, "rmse": 0.5}
    run.change("validate", baselines={HOSTILE: scores}, best_baseline=HOSTILE)
    environment = {"name": HOSTILE, "device": HOSTILE}
    run.metric_file("device").write_text(json.dumps(environment), encoding="utf-8")
    plain, hostile = Page(written.page()), Page(run.page())
    assert hostile.programs == plain.programs
    assert not hostile.all("img")
    assert {tag for tag, _ in hostile.elements} == {tag for tag, _ in plain.elements}
    assert not any("hacked" in name for _, attributes in hostile.elements for name in attributes)
    assert "<script>hacked=1</script>" in hostile.words
    assert all("<" not in text for kind, text in hostile.scripts if kind is not None)


def test_the_verdict_says_what_is_worse_and_what_is_better(full, run):
    for sentence in (
        "Worse. The best of 2 simple methods, chosen with hindsight, is natural cubic",
        "The error of geonode is larger by a factor of 2",
        "Better. Skill is 0.500: the error is 50 % smaller",
        "Less than promised. The 90% intervals contain 80 %",
        "1 of 2 simple methods has a smaller error than geonode",
    ):
        assert sentence in full.words
    assert [line["class"] for line in full.all("li")][:4] == ["plain", "bad", "good", "bad"]
    held = {"all": 0.9, "interior": 0.9, "ends": 0.9, "half_width": 0.5}
    run.change("validate", rmse=0.0625, skill=-0.25, coverage={"90": held})
    words = Page(run.page()).words
    for sentence in (
        "Better. The best of 2 simple methods",
        "smaller by a factor of 2",
        "Worse. Skill is −0.250: the error is 25 % larger",
        "As promised. The 90% intervals",
        "None of 2 simple methods have a smaller error",
    ):
        assert sentence in words
    run.change("validate", rmse=0.125)
    assert "Equal. The best of 2" in Page(run.page()).words


def test_what_only_some_runs_have_is_shown_where_it_is_there(full, run):
    published = {"rmse": 0.1875, "q2": 0.625, "pooled_r2": 0.5625, "interior_pooled_r2": 0.4375}
    found = {"pls": {"median_absolute_error": 1.5}, "pcr": {"median_absolute_error": 4.5}}
    run.change("validate", calibrations=found, published_method=published)
    run.change("metric", learning="flat")
    run.change("geodesics", unconverged=3)
    more = Page(run.page()).words
    for sentence in (
        "published method: perceptrons on paths 0.188 0.625 0.562 0.438 geonode 0.250 0.375 0.500",
        "Classical calibrations are off by (median) pls 1.50 ppb and pcr 4.50 ppb.",
        "its geodesics are straight on the chart of concentration. The metric of the",
        "3 of 1 000 geodesics miss their target",
    ):
        assert sentence in more
        assert sentence not in full.words
    assert "1 of 2 simple methods has a smaller error than geonode" in more  # it is no baseline


def test_what_is_null_is_said_to_be_unknown(tmp_path):
    """No replicates, scores, intervals, skill, estimation, trajectories or training."""
    run = Run(tmp_path, times=0, replicates=1, band="standard deviation").write()
    fold = dict.fromkeys(("rmse", "mae", "max_error"), 0.25) | dict.fromkeys(NOT_MEASURED)
    nothing = ("pooled_r2", "interior_pooled_r2", "coverage", "skill", "chosen_baseline_rmse")
    absent = dict.fromkeys([*nothing, "coverage90", "estimation"])
    run.change("validate", folds=dict.fromkeys(run.names, fold), **absent)
    for name in ("posterior", "metric_posterior"):  # tables without rows
        header = run.plot_file(name).read_text(encoding="utf-8").splitlines()[0]
        run.plot_file(name).write_text(f"{header}\n", encoding="utf-8")
    page = Page(run.page())
    for part in (
        "noise of one scan undefined",
        "Concentrations were not estimated from spectra in this run",
        "No trajectories are stored: set geodesics.time_points",
        *("the shaded band is the standard deviation", "No intervals were calibrated"),
    ):
        assert part in page.words
    assert "The geometry of the predictor" not in page.words
    assert "None" not in page.words
    assert "nan" not in page.words.split()
    assert figures(page) == ["spectra", "folds", "metric", "christoffel"]


@pytest.mark.parametrize(
    ("chart", "kappa", "learned", "words"),
    [
        ("log", None, 5.0, "logarithmic chart of the learned metric asinh, kappa 5 ppb"),
        ("asinh", 5.0, None, "asinh, kappa 5 ppb chart of the learned metric linear"),
    ],
)
def test_the_charts_are_named(chart, kappa, learned, words, tmp_path):
    levels = (1.0, 10.0, 20.0, 40.0)
    run = Run(tmp_path, levels, chart=chart, kappa=kappa, times=0).write()
    run.change("metric", chart_kappa=dict.fromkeys([*run.names, "all levels"], learned))
    assert f"chart of concentration {words}" in Page(run.page()).words


@pytest.mark.slow
def test_fifty_levels_stay_below_three_megabytes(tmp_path):
    """With numbers that fill all their digits, and as many as are ever drawn."""
    levels, wavelengths = 50, 1200
    run = Run(tmp_path, tuple(float(level) for level in range(levels)), members=1).write()
    report, rng = run.report(), np.random.default_rng(0)
    signal, predicted, half_width = rng.random((3, levels, wavelengths))
    columns = ["left", "right", "low", "high", "metric", "christoffel"]
    cells = 0.5 + rng.random((MAP_ROWS * MAP_COLUMNS, len(columns)))
    lines = [FLAT, "500 nm"]
    pairs = [(a, b, line) for a in report.names for b in report.names for line in lines]
    paths = pd.DataFrame(pairs, columns=["source", "target", "line"])
    paths = paths.loc[paths.index.repeat(MOST_NUMBERS // len(pairs))]
    axis = np.linspace(200.0, 1000.0, wavelengths)
    report = replace(
        report,
        series=replace(report.series, axis=axis, signal=signal),
        predicted=predicted,
        half_width=half_width,
        maps=pd.DataFrame(cells, columns=columns),
        paths=paths.assign(t=rng.random(len(paths)), concentration=rng.random(len(paths))),
    )
    assert len(report_page(report).html().encode()) < 3e6
