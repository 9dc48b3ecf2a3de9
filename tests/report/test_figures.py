import json
from copy import deepcopy

import numpy as np
import pytest

from geonode.report.figure import Figure, numbers, text, title
from geonode.report.figures import (
    error_figure,
    folds_figure,
    map_figures,
    paths_figure,
    posterior_figure,
    rmse_figure,
    spectra_figure,
    training_figure,
)
from tests.report.run import Run


@pytest.fixture(scope="module")
def report(written):
    return written.report()


def test_numbers_are_rounded_and_gaps_stay_gaps():
    values = np.array([[1 / 3, 2.0], [np.nan, 123456.0]])
    assert numbers(values) == [[0.33333, 2], [None, 123460]]


def test_json_ends_no_script_and_keeps_its_text():
    figure = Figure("f", "", [{"name": "</script><script>"}], {})
    assert "<" not in figure.to_json()
    assert json.loads(figure.to_json())["traces"][0]["name"] == "</script><script>"
    assert text("a<b & c") == "a&lt;b &amp; c"


def test_long_titles_are_broken_into_lines_and_stay_text():
    found = title("fluorescence <intensity> after blank subtraction (counts per second)")
    lines = found.split("<br>")
    assert lines[0] == "fluorescence &lt;intensity&gt; after blank"
    assert max(len(line) for line in lines[1:]) <= 38


def test_spectra_are_those_measured(report, written):
    figure = spectra_figure(report)
    assert [trace["name"] for trace in figure.traces] == ["0 ppb", "10 ppb", "20 ppb", "40 ppb"]
    assert np.allclose([trace["y"] for trace in figure.traces], written.signal, rtol=1e-4)
    assert np.allclose(figure.traces[0]["x"], written.axis, rtol=1e-4)


def test_every_fold_can_be_chosen_and_has_its_band(report, written):
    figure = folds_figure(report)
    assert [value for value, _ in figure.selectors[0].options] == list(figure.choices)
    for level, spectrum in enumerate(written.signal):
        low, high, measured, predicted = figure.choices[str(level)]["y"]
        assert np.allclose(measured, spectrum, rtol=1e-4)
        assert np.allclose(predicted, spectrum + 0.25, rtol=1e-4)
        assert np.allclose(np.subtract(high, low), 1.0, atol=1e-3)
    assert "extrapolated" in figure.choices["0"]["note"]
    assert "extrapolated" not in figure.choices["1"]["note"]


def test_error_is_predicted_minus_measured(report):
    (trace,) = error_figure(report).traces
    assert np.allclose(trace["z"], 0.25, atol=1e-3)
    assert trace["y"] == ["0", "10", "20", "40"]
    assert trace["zmax"] == -trace["zmin"] == pytest.approx(0.25, rel=1e-2)


def test_an_undefined_error_leaves_a_gap(report):
    changed = deepcopy(report)
    changed.scores["folds"]["10"]["rmse"] = None
    (trace,) = rmse_figure(changed).traces
    assert trace["y"] == [0.25, None, 0.25, 0.25]


def test_colours_of_the_metric_are_those_of_its_logarithm(report):
    metric, symbol = map_figures(report)
    (trace,) = metric.traces
    assert np.allclose(10 ** np.array(trace["z"]), report.maps.metric, rtol=1e-2)
    assert np.allclose(trace["y"], np.linspace(0, 40, 33), atol=1e-3)
    assert np.allclose(symbol.traces[0]["z"], 0.8)


def test_every_pair_of_levels_can_be_chosen(report):
    figure = paths_figure(report, report.paths)
    first, last = figure.selectors
    asked = {f"{a}|{b}" for a, _ in first.options for b, _ in last.options}
    assert asked == set(figure.choices)
    assert f"{first.first}|{last.first}" == "0|3"
    *curves, flat = figure.choices["3|0"]["y"]
    assert np.allclose(flat, np.linspace(40, 0, 5))
    assert all((curve[0], curve[-1]) == (40, 0) for curve in curves)
    assert all(curve[2] > 20 for curve in curves)  # exp(a x) is half-way, not x
    assert figure.choices["2|2"]["y"] == [[]] * len(figure.traces)


def test_posterior_has_its_set_and_the_true_level(report):
    figure = posterior_figure(report, report.posteriors)
    density, inside, true = (
        (figure.choices["2"]["x"][place], figure.choices["2"]["y"][place]) for place in range(3)
    )
    assert density[1] == [0.025] * 9
    assert inside[0] == [1.5, 8.5, None, 12.5, 18, None]
    assert true == ([20, 20], [0, 0.025])
    assert "error: −7.50 ppb" in figure.choices["2"]["note"]


def test_levels_without_a_posterior_cannot_be_chosen(report):
    some = {name: found for name, found in report.posteriors.items() if name != "0"}
    figure = posterior_figure(report, some)
    assert [shown for _, shown in figure.selectors[0].options] == ["10 ppb", "20 ppb", "40 ppb"]
    assert figure.selectors[0].first in figure.choices


def test_losses_fall_on_a_logarithmic_axis_and_a_constant_on_a_linear_one(report):
    figure = training_figure(report, 0, report.training["the metric"])
    assert figure.choices["0"]["yaxis"]["type"] == "log"
    assert figure.choices["1"]["yaxis"]["type"] == "linear"
    assert [trace["name"] for trace in figure.traces][-1] == "all levels"
    assert len(figure.traces) == len(figure.choices["0"]["y"]) == 5


def test_concentrations_are_drawn_on_the_chart_of_the_series(report, tmp_path):
    assert map_figures(report)[0].layout["yaxis"]["type"] == "linear"
    decades = Run(tmp_path, (0.1, 1.0, 10.0, 1000.0), chart="log").write().report()
    assert map_figures(decades)[0].layout["yaxis"]["type"] == "log"


def test_an_asinh_chart_is_drawn_by_position_with_levels_as_ticks(tmp_path):
    levels = (0.0, 1.0, 100.0, 10000.0)
    report = Run(tmp_path, levels, chart="asinh", kappa=1.0).write().report()
    figure = map_figures(report)[0]
    axis = figure.layout["yaxis"]
    assert axis["ticktext"] == ["0", "1", "100", "10000"]
    assert np.allclose(axis["tickvals"], report.series.positions, atol=1e-4)
    assert np.allclose(figure.traces[0]["y"], np.linspace(-1, 1, 33), atol=1e-4)


def test_of_many_levels_some_are_named(tmp_path):
    levels = tuple(float(level) for level in range(20))
    lines = spectra_figure(Run(tmp_path, levels, times=0).write().report()).traces
    assert len(lines) == len({line["line"]["color"] for line in lines}) == 20
    named = [line["name"] for line in lines if line["showlegend"]]
    assert (len(named), named[0], named[-1]) == (12, "0 ppb", "19 ppb")
