import base64
import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from geonode.report.data import MAP_COLUMNS, MAP_ROWS, Maps, Predictions, path_wavelengths, sample
from geonode.report.page import page
from tests.report.reading import Page
from tests.report.run import NOT_MEASURED, Run

SECTIONS = [
    *("summary", "data", "folds", "errors", "scores", "geometry"),
    *("geodesics", "posterior", "training", "machine", "unmeasured"),
]
FIGURES = [
    *("spectra", "folds", "error", "rmse", "posterior-metric", "metric", "christoffel"),
    *("geodesics", "posterior", "training-0", "training-1"),
]
HOSTILE = "</script><script>hacked=1</script><img src=x onerror=hacked=1>\"'&amp;"


def plotly_of(page):
    (packed,) = [text for kind, text in page.scripts if kind == "text/plain"]
    return gzip.decompress(base64.b64decode(packed)).decode()


@pytest.fixture(scope="module")
def full(written):
    return Page(written.page())


def test_every_section_and_figure_is_there_in_order(full):
    assert [attributes["id"] for attributes in full.all("section")] == SECTIONS
    figures = [attributes["data-figure"] for attributes in full.all("figure")]
    assert figures == FIGURES
    assert len(full.all("h1")) == 1
    links = [attributes["href"] for attributes in full.all("a")]
    assert links == [f"#{name}" for name in SECTIONS[1:]]


def test_the_page_loads_nothing(full):
    loading = {"src", "srcset", "data", "action", "poster", "background", "xlink:href", "ping"}
    for tag, attributes in full.elements:
        assert not loading & set(attributes), tag
        assert not [name for name in attributes if name.startswith("on")], tag
        assert attributes.get("href", "#").startswith("#")
        assert "url(" not in attributes.get("style", "")
    assert not {"link", "iframe", "object", "embed", "base"} & {tag for tag, _ in full.elements}
    for style in full.styles:
        assert "url(" not in style
        assert "@import" not in style


def test_no_script_runs_but_those_of_the_page(full):
    (policy,) = [
        attributes["content"]
        for attributes in full.all("meta")
        if attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    for program in [*full.programs, plotly_of(full)]:
        digest = base64.b64encode(hashlib.sha256(program.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]
    assert "http" not in policy


def test_figures_are_json_of_traces_and_choices(full):
    kinds = [json.loads(text) for kind, text in full.scripts if kind == "application/json"]
    assert len(kinds) == len(FIGURES)
    for content in kinds:
        assert content["traces"]
        for choice in content["choices"].values():
            assert len(choice["y"]) == len(content["traces"])


def test_names_from_files_are_text_everywhere(written, tmp_path):
    run = Run(
        tmp_path,
        unit=HOSTILE,
        quantity=HOSTILE,
        level_unit=HOSTILE,
        axis_name=HOSTILE,
        axis_unit=HOSTILE,
        source=HOSTILE,
        band=HOSTILE.replace('"', ""),
    ).write()
    scores = {"pooled_r2": 1.0, "rmse": 0.5}
    run.change("validate", baselines={HOSTILE: scores}, best_baseline=HOSTILE)
    run.change("validate", bands={HOSTILE: scores})
    environment = {"name": HOSTILE, "device": HOSTILE}
    run.metric_file("env").write_text(json.dumps(environment), encoding="utf-8")
    summary = {"seconds": {HOSTILE: 1.0}, "peak_mb": 1.0}
    run.metric_file("summary").write_text(json.dumps(summary), encoding="utf-8")
    plain, hostile = Page(written.page()), Page(run.page())
    assert hostile.programs == plain.programs
    assert not hostile.all("img")
    assert {tag for tag, _ in hostile.elements} == {tag for tag, _ in plain.elements}
    assert not any("hacked" in name for _, attributes in hostile.elements for name in attributes)
    assert "<script>hacked=1</script>" in hostile.words
    for kind, text in hostile.scripts:
        assert kind is None or "<" not in text


def test_another_process_writes_the_same_bytes_and_needs_no_tensors(written):
    text = written.page()
    code = (
        "import sys\nfrom geonode.report.page import page\n"
        "from geonode.report.reading import read_report\nfrom pathlib import Path\n"
        "paths = list(map(Path, sys.argv[2:]))\n"
        "sys.stdout.buffer.write(page(read_report(sys.argv[1], *paths)).encode())\n"
        "print(sorted({'torch', 'matplotlib', 'sklearn', 'scipy', 'pandas'} & set(sys.modules)), "
        "file=sys.stderr)"
    )
    arguments = [written.source, *written.artifacts, written.folder / "metrics"]
    other = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert other.stdout == text.encode()
    assert other.stderr == b"[]\n"
    assert plotly_of(Page(text)).count("plotly.js v") == 1
    assert len(text.encode()) < 2.5e6


def test_the_verdict_says_what_is_worse_and_what_is_better(full):
    assert "Worse. The best of 2 classical baselines, natural cubic" in full.words
    assert "the error of geonode is 2 times larger" in full.words
    assert "Better. Skill is 0.500: the error is 50 % smaller" in full.words
    assert "Less than promised. The 90 % intervals hold 80 %" in full.words
    assert [line["class"] for line in full.all("li")][:4] == ["plain", "bad", "good", "bad"]
    assert "1 of 2 baselines has a smaller error than geonode" in full.words


def test_a_better_model_is_said_to_be_better_and_a_worse_skill_worse(run):
    held = {"all": 0.9, "interior": 0.9, "ends": 0.9, "half_width": 0.5}
    run.change("validate", rmse=0.0625, skill=-0.25, coverage={"90": held})
    words = Page(run.page()).words
    assert "Better. The best of 2 classical baselines" in words
    assert "2 times smaller" in words
    assert "Worse. Skill is −0.250: the error is 25 % larger" in words
    assert "As promised. The 90 % intervals" in words
    assert "None of 2 baselines have a smaller error" in words


def test_methods_are_sorted_and_geonode_is_marked(run):
    text = run.page()
    rows = re.findall(r'<tr( class="marked")?><th scope="row">([^<]*)</th><td>([^<]*)', text)
    of_methods = [row for row in rows if row[1] in {"natural cubic", "geonode", "nearest"}]
    assert of_methods == [
        ("", "natural cubic", "0.125"),
        (' class="marked"', "geonode", "0.250"),
        ("", "nearest", "0.750"),
    ]


def test_what_only_some_runs_have_is_shown_where_it_is_there(full, run):
    published = {"rmse": 0.1875, "q2": 0.625, "pooled_r2": 0.5625, "interior_pooled_r2": 0.4375}
    found = {"pls": {"median_absolute_error": 1.5}, "pcr": {"median_absolute_error": 4.5}}
    bands = {"400-450": published | {"q2": 2.2e-16}}
    run.change("validate", calibrations=found, published_method=published, bands=bands)
    summary = {"seconds": {"metric": 21.728, "total": 51.55}, "peak_mb": 444.6}
    run.metric_file("summary").write_text(json.dumps(summary), encoding="utf-8")
    more = Page(run.page()).words
    for sentence in (
        "published method: perceptrons on paths 0.188 0.625 0.562 0.438 geonode 0.250 0.375 0.500",
        "Q² pooled R² interior R² 400-450 0.188 0 0.562 0.438",
        "Classical calibrations are off by (median) pls 1.50 ppb and pcr 4.50 ppb.",
        "metric 21.7 total 51.",
        "Largest memory of a stage: 445 MB",
    ):
        assert sentence in more
        assert sentence not in full.words
    assert "1 of 2 baselines has a smaller error than geonode" in more  # it is no baseline
    listed = more.split("What was not measured Limits of the numbers")[1]
    for part in ("Replicate", "Score", "Intervals", "Skill", "Concentrations", "Time"):
        assert part not in listed


def test_the_posterior_metric_is_drawn_with_its_deviation(full):
    drawn = [json.loads(text) for kind, text in full.scripts if kind == "application/json"]
    low, high, mean = drawn[FIGURES.index("posterior-metric")]["traces"]
    places = np.linspace(5, 40, 8)
    for trace, share in ((low, 0.5), (high, 1.5), (mean, 1.0)):
        np.testing.assert_allclose(trace["x"], places)
        np.testing.assert_allclose(trace["y"], share * 2 / np.sqrt(40 * places), rtol=1e-4)


def test_what_is_null_is_said_to_be_unknown(tmp_path):
    """No replicates, scores, intervals, skill, estimation, trajectories, training or machine."""
    run = Run(tmp_path, times=0, replicates=1, band="standard deviation").write()
    fold = dict.fromkeys(("rmse", "mae", "max_error"), 0.25) | dict.fromkeys(NOT_MEASURED)
    run.change(
        "validate",
        folds=dict.fromkeys(run.names, fold),
        pooled_r2=None,
        interior_pooled_r2=None,
        coverage=None,
        coverage90=None,
        skill=None,
        chosen_baseline_rmse=None,
        estimation=None,
        bands={},
    )
    run.change("geodesics", unconverged=3)
    run.metric_file("env").unlink()
    run.empty("training", "metric_training", "posterior", "metric_posterior")
    page = Page(run.page())
    for part in (
        *("Replicate noise: every level was scanned once", "Pooled R²: undefined"),
        *("Intervals: none were calibrated", "Skill: there are too few levels"),
        *("Score “fwhm error”: not given for any level", "Score “R²”: not given for any level"),
        *("estimating a concentration from its spectrum was not tested", "3 of 1 000 miss"),
        *("No trajectories are stored: set geodesics.time_points", "Time: not on record"),
        *("64 of 1 000 were integrated again", "Trajectories: none are stored"),
        *("Device: the machine was not described", "Nothing was trained in this run"),
        *("the shaded band is the standard deviation", "No intervals were calibrated"),
    ):
        assert part in page.words
    assert "The learned geometry of the predictor" not in page.words
    assert "None" not in page.words
    assert "nan" not in page.words.split()
    figures = [attributes["data-figure"] for attributes in page.all("figure")]
    assert figures == [name for name in FIGURES[:7] if name != "posterior-metric"]


@pytest.mark.parametrize(
    ("chart", "kappa", "learned", "words"),
    [
        ("log", None, 5.0, "chart given logarithmic chart learned asinh, kappa 5 ppb"),
        ("asinh", 5.0, None, "chart given asinh, kappa 5 ppb chart learned linear"),
    ],
)
def test_the_charts_are_named(chart, kappa, learned, words, tmp_path):
    levels = (1.0, 10.0, 20.0, 40.0)
    run = Run(tmp_path, levels, chart=chart, kappa=kappa, times=0).write()
    kappas = dict.fromkeys([*run.names, "all levels"], learned)
    run.change("metric", chart_kappa=kappas)
    assert words in Page(run.page()).words


def test_concentrations_are_in_their_table(full):
    assert "10 ppb 12.5 13.5 +2.50 1.50 to 8.50; 12.5 to 18 yes 0.25" in full.words
    assert "hold the true value of 75 % of the levels" in full.words


@pytest.mark.slow
def test_fifty_levels_stay_below_six_megabytes(tmp_path):
    """With numbers that fill all their digits, and as many as are ever drawn."""
    levels, wavelengths, times = 50, 1200, 11
    run = Run(tmp_path, tuple(float(level) for level in range(levels)), members=1).write()
    report = run.report()
    rng = np.random.default_rng(0)
    axis = np.linspace(200.0, 1000.0, wavelengths)
    chosen = path_wavelengths(wavelengths, levels * (levels - 1) * times)
    pairs = len(report.paths.source)
    report = replace(
        report,
        series=replace(report.series, axis=axis, signal=rng.random((levels, wavelengths))),
        predictions=Predictions(*rng.random((3, levels, wavelengths)), "90% interval"),
        maps=Maps(
            axis[sample(wavelengths, MAP_COLUMNS)],
            np.linspace(0, levels - 1, MAP_ROWS),
            *rng.random((2, MAP_ROWS, MAP_COLUMNS)) + 0.5,
        ),
        paths=replace(
            report.paths,
            times=np.linspace(0, 1, times),
            axis=axis[chosen],
            concentrations=rng.random((pairs, len(chosen), times)),
            flat=rng.random((pairs, times)),
        ),
    )
    text = page(report)
    assert len(text.encode()) < 6e6
    assert "800 of 1 200 points are drawn" in Page(text).words
