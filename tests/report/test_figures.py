import json

import altair as alt
import numpy as np
import pandas as pd
import pytest

from geonode.errors import ArtifactError
from geonode.prediction.model import SpectralModel
from geonode.report.figures import (
    folds_figure,
    folds_panels,
    map_figures,
    metric_figure,
    paths_figure,
    posterior_figure,
)
from geonode.report.kit import Figure, concentration, marks, spectra_figure, x_axis
from geonode.report.pictures import predicted_spectra
from tests.report.run import Run


@pytest.fixture(scope="module")
def report(written):
    return written.report()


def table(figure, columns=None):
    """The table of a figure with these columns, or the only one, as a page gets it."""
    tables = map(pd.DataFrame, json.loads(figure.to_json())["datasets"].values())
    (found,) = (one for one in tables if columns is None or [*one] == columns.split())
    return found


def test_numbers_are_rounded_and_gaps_stay_gaps():
    cells = {"x": [1 / 3, np.nan], "n": [123456, 2], "name": ["<", ""]}
    spec = json.loads(Figure("f", "", marks("line", x_axis("x", "x"), table=cells)).to_json())
    assert [*spec["datasets"].values()] == [
        [{"x": 0.33333, "n": 123456, "name": "<"}, {"x": None, "n": 2, "name": ""}]
    ]
    assert spec["width"] == "container"


@pytest.mark.parametrize(
    ("levels", "ticks"),
    [([0, 10, 60], None), ([0, 0.5, 5, 70], [0, 1, 10]), ([1, 10, 1000], [0, 1, 10, 100, 1000])],
)
def test_concentrations_of_more_than_two_decades_are_drawn_by_decades(levels, ticks):
    scale = concentration(alt.X, "c", "c", np.array(levels, float)).to_dict()
    assert scale["scale"].get("type") == ("symlog" if ticks else None)
    assert scale.get("axis", {}).get("values") == ticks


def test_the_same_chart_gives_the_same_png_written_whole_or_not_at_all(report, tmp_path):
    figure, path = folds_panels(report), tmp_path / "one.png"
    figure.save_png(path)
    first = path.read_bytes()
    assert first.startswith(b"\x89PNG\r\n\x1a\n")
    figure.save_png(path)
    assert path.read_bytes() == first
    with pytest.raises(ArtifactError):
        figure.save_png(path / "below.png")
    assert path.read_bytes() == first
    assert list(tmp_path.iterdir()) == [path]


def test_spectra_are_those_measured(report, written):
    rows = table(spectra_figure(report.series, report.drawn))
    assert rows["level"].unique().tolist() == ["0 ppb", "10 ppb", "20 ppb", "40 ppb"]
    assert np.allclose(rows["signal"], written.signal.ravel(), rtol=1e-4)
    assert np.allclose(rows["wavelength"], np.tile(written.axis, 4), rtol=1e-4)


def test_of_many_levels_some_are_named(tmp_path):
    report = Run(tmp_path, tuple(float(level) for level in range(20)), times=0).write().report()
    spec = json.loads(spectra_figure(report.series, report.drawn).to_json())
    colour = spec["encoding"]["color"]
    named = colour["legend"]["values"]
    assert (len(named), named[0], named[-1]) == (12, "0 ppb", "19 ppb")
    assert len(colour["scale"]["domain"]) == 20


def test_every_fold_can_be_chosen_and_has_its_band(report, written):
    figure = folds_figure(report)
    rows = table(figure)
    assert np.allclose(rows["measured"], written.signal.ravel(), rtol=1e-4)
    assert np.allclose(rows["predicted"], written.signal.ravel() + 0.25, rtol=1e-4)
    assert np.allclose(rows["high"] - rows["low"], 1.0, atol=1e-3)
    spec = json.loads(figure.to_json())
    (chosen,) = [param for param in spec["params"] if param["name"] == "left_out"]
    assert chosen["bind"]["options"] == rows["level"].unique().tolist() == report.names
    note = spec["title"]["text"]["expr"]
    assert note.endswith("[left_out]")
    notes = json.loads(note.removeprefix("(").removesuffix(")[left_out]"))
    assert [lines[0].endswith("extrapolated") for lines in notes.values()] == [1, 0, 0, 1]
    assert notes["10"][1] == "R² 0.250, RMSE 0.250, largest error 0.250"


def test_the_metric_the_symbol_and_the_posterior_metric_are_drawn(report):
    """On a logarithmic scale, around zero, and with its deviation."""
    metric, symbol = map_figures(report)
    assert np.allclose(table(metric)["value"], report.maps["metric"], rtol=1e-3)
    assert json.loads(metric.to_json())["encoding"]["fill"]["scale"]["type"] == "log"
    assert np.allclose(table(symbol)["value"], 0.8)
    low, high = json.loads(symbol.to_json())["encoding"]["fill"]["scale"]["domain"]
    assert -low == high == pytest.approx(0.8)
    rows, mean = table(metric_figure(report)), 2 / np.sqrt(40 * np.linspace(5, 40, 8))
    assert np.allclose(rows["concentration"], np.linspace(5, 40, 8))
    for name, share in (("low", 0.5), ("predicted", 1.0), ("high", 1.5)):
        assert np.allclose(rows[name], share * mean, rtol=1e-4)


def test_posterior_has_its_set_and_the_true_level(report):
    figure = posterior_figure(report)
    columns = ("level concentration density", "level low high", "level concentration")
    curve, sets, true = (table(figure, one) for one in columns)
    assert np.allclose(curve["density"], 0.025)
    assert curve["level"].value_counts().to_dict() == dict.fromkeys(report.names, 9)
    inside = sets[sets["level"] == "20"]
    assert inside[["low", "high"]].to_numpy().tolist() == [[1.5, 8.5], [12.5, 18]]
    assert true["concentration"].tolist() == [0, 10, 20, 40]


def test_a_level_without_a_posterior_cannot_be_chosen_and_what_is_negligible_is_not_drawn(run):
    density = [*(f"10,{place},1" for place in range(4)), "20,0,1e-5", "20,1,1", "20,2,0.01"]
    text = "\n".join(["level,concentration,density", *density, ""])
    run.plot_file("posterior").write_text(text, encoding="utf-8")
    figure = posterior_figure(run.report())
    (chosen,) = json.loads(figure.to_json())["params"]
    assert (chosen["bind"]["options"], chosen["value"]) == (["10", "20"], "10")
    assert chosen["bind"]["labels"] == ["10 ppb", "20 ppb"]
    rows = table(figure, "level concentration density")
    assert rows[rows["level"] == "20"]["concentration"].tolist() == [1, 2]


def test_every_left_out_level_has_a_panel(run):
    folds = dict(zip(["0", "10", "20", "40"], [0.953, -34.13, None, 1.0], strict=True))
    run.change("validate", folds={name: {"r2": r2} for name, r2 in folds.items()})
    figure = folds_panels(run.report())
    rows = table(figure)
    spec = json.loads(figure.to_json())
    assert spec["facet"]["sort"] == rows["level"].unique().tolist() == run.names
    titles = spec["facet"]["header"]["labelExpr"].removesuffix("[datum.label]")
    assert json.loads(titles.removeprefix("(").removesuffix(")")) == {
        "0": ["left out 0 ppb", "R² 0.953"],
        "10": ["left out 10 ppb", "R² −34.1"],
        "20": ["left out 20 ppb", "R² undefined"],
        "40": ["left out 40 ppb", "R² 1"],
    }
    assert np.allclose(rows["predicted"] - rows["measured"], 0.25, atol=1e-3)


@pytest.mark.parametrize("count", [1, 4, 40])
def test_predicted_spectra_are_those_of_the_model(trained, count):
    model = SpectralModel.read(trained / "data")
    levels = np.linspace(1, 59, count)
    figure = predicted_spectra(model, levels, 0.9)
    rows = table(figure, "level wavelength signal low high")
    shown = np.linspace(0, count - 1, min(count, 12)).round().astype(int)
    found = model.predict(levels[shown])
    _, half = found.band(0.9)
    low, high = found.spectra - half, found.spectra + half
    for name, expected in (("signal", found.spectra), ("low", low), ("high", high)):
        np.testing.assert_allclose(rows[name], expected.ravel(), rtol=1e-4)
    spec = json.loads(figure.to_json())
    kinds = [layer["mark"]["type"] for layer in spec["layer"]]
    assert kinds == ["line", "line", "area"][: 3 if count <= 4 else 2]
    measured = table(figure, "level wavelength signal")["signal"]
    np.testing.assert_allclose(measured, model.series.signal.ravel(), rtol=1e-4)


def test_geodesics_are_first_shown_from_the_lowest_level_to_the_highest(report):
    spec = json.loads(paths_figure(report, report.paths).to_json())
    chosen = {one["name"]: one.get("value") for one in spec["params"]}
    assert (chosen["first"], chosen["last"]) == (report.names[0], report.names[-1])
