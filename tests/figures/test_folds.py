from itertools import combinations

import matplotlib
import numpy as np
import pytest
from geonode.scores.figures import (
    drawn,
    error_figure,
    folds_figure,
    metric_figure,
    save_figure,
)
from matplotlib.figure import Figure

from geonode.errors import ArtifactError
from geonode.spectra.chart import Chart
from geonode.spectra.series import Series

AXIS = np.linspace(300.0, 700.0, 41)
LABELS = {
    "signal": "absorbance",
    "signal_unit": "1",
    "axis": "wavelength",
    "axis_unit": "nm",
    "concentration_unit": "ppb",
}


def measured_and_predicted(count):
    """A series and predicted spectra; row i is predicted 0.01 (i + 1) too high."""
    levels = np.linspace(0.0, 60.0, count)
    measured = np.exp(-(((AXIS - 500.0 - levels[:, None]) / 60.0) ** 2))
    series = Series(levels, AXIS, measured, Chart.of("linear", None, levels), LABELS)
    return series, measured + 0.01 * np.arange(1, count + 1)[:, None]


def folds_of(count, scores_r2=None):
    series, predicted = measured_and_predicted(count)
    band = ("90% interval", np.full_like(predicted, 0.05))
    return folds_figure(series, predicted, band, scores_r2 or [0.953] * count)


def errors_of(count):
    series, predicted = measured_and_predicted(count)
    return error_figure(series, predicted, "natural_cubic", series.signal + 0.5)


def metric_of(count, flat=False):
    levels = np.linspace(0.0, 60.0, count)
    nodes = np.linspace(0.0, 60.0, 1001)
    symbol = 0 * (nodes[:, None] + AXIS) if flat else np.sin(nodes[:, None] / 9 + AXIS / 50)
    return metric_figure(AXIS, "wavelength (nm)", "ppb", nodes, np.exp(2 * symbol), symbol, levels)


@pytest.mark.parametrize("count", [4, 6, pytest.param(50, marks=pytest.mark.slow)])
def test_a_panel_for_every_level(count):
    assert len(folds_of(count).axes) == count


@pytest.mark.parametrize("count", [4, 15])
@pytest.mark.parametrize("figure_of", [folds_of, errors_of, metric_of])
def test_nothing_overlaps_and_nothing_is_cut_off(figure_of, count):
    figure = figure_of(count)
    figure.draw_without_rendering()
    boxes = [panel.get_tightbbox() for panel in figure.axes]
    boxes += [legend.get_tightbbox() for legend in figure.legends]
    for one, other in combinations(boxes, 2):
        assert not one.overlaps(other)
    for box in boxes:
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1


def test_panels_show_measured_predicted_and_the_band():
    series, predicted = measured_and_predicted(4)
    measured, figure = series.signal, folds_of(4)
    for i, panel in enumerate(figure.axes):
        lines = {line.get_label(): line.get_ydata() for line in panel.get_lines()}
        np.testing.assert_array_equal(lines["measured"], measured[i])
        np.testing.assert_array_equal(lines["predicted"], predicted[i])
        (band,) = panel.collections
        assert band.get_label() == "90% interval"
        heights = band.get_paths()[0].vertices[:, 1]
        assert heights.min() == pytest.approx(predicted[i].min() - 0.05)
        assert heights.max() == pytest.approx(predicted[i].max() + 0.05)


def test_the_legend_names_the_band():
    (legend,) = folds_of(4).legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["measured", "predicted", "90% interval"]


def test_titles_name_the_level_and_its_score():
    titles = [panel.get_title() for panel in folds_of(4, [0.953, -34.13, None, 1.0]).axes]
    assert titles == [
        "left out 0 ppb, R² = 0.953",
        "left out 20 ppb, R² = −34.130",
        "left out 40 ppb, R² undefined",
        "left out 60 ppb, R² = 1.000",
    ]


def test_error_map_is_centred_at_zero():
    series, predicted = measured_and_predicted(4)
    (mesh,) = errors_of(4).axes[0].collections
    np.testing.assert_array_equal(mesh.get_array(), predicted - series.signal)
    assert mesh.norm.vmin == -mesh.norm.vmax
    assert mesh.norm(0.0) == pytest.approx(0.5)


def test_rmse_by_wavelength():
    lines = {line.get_label(): line for line in errors_of(4).axes[1].get_lines()}
    np.testing.assert_allclose(lines["natural cubic"].get_ydata(), 0.5)
    # Errors of 0.01, 0.02, 0.03 and 0.04 at every wavelength.
    np.testing.assert_allclose(lines["geonode"].get_ydata(), 0.01 * np.sqrt(30 / 4))


@pytest.mark.filterwarnings("error")
def test_perfect_prediction_can_be_drawn(tmp_path):
    series, _ = measured_and_predicted(4)
    figure = error_figure(series, series.signal.copy(), "mean", series.signal.copy())
    save_figure(figure, tmp_path / "errors.png")
    (mesh,) = figure.axes[0].collections
    assert mesh.norm(0.0) == 0.5


@pytest.mark.parametrize("figure_of", [folds_of, errors_of])
def test_same_numbers_give_the_same_bytes(figure_of, tmp_path):
    save_figure(figure_of(6), tmp_path / "one.png")
    with matplotlib.rc_context({"font.size": 30, "savefig.dpi": 33, "axes.grid": True}):
        save_figure(figure_of(6), tmp_path / "two.png")
    content = (tmp_path / "one.png").read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert content == (tmp_path / "two.png").read_bytes()
    assert b"Software" not in content
    assert len(content) < 300_000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.png", "two.png"]


def test_failed_write_leaves_the_old_file_alone(tmp_path):
    path = tmp_path / "folds.png"
    path.write_bytes(b"old")
    figure = folds_of(4)
    figure.text(0.5, 0.5, r"$\frac$")  # no valid formula: drawing fails
    with pytest.raises(ValueError, match="frac"):
        save_figure(figure, path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_folder_in_the_way(tmp_path):
    (tmp_path / "folds.png").mkdir()
    with pytest.raises(ArtifactError, match=r"folds\.png"):
        save_figure(folds_of(4), tmp_path / "folds.png")


def test_heat_maps_of_the_metric_span_its_range():
    figure = metric_of(6)
    metric, symbol = (panel.collections[0] for panel in figure.axes[:2])
    assert metric.norm.vmin == pytest.approx(np.exp(-2), rel=1e-3)
    assert metric.norm.vmax == pytest.approx(np.exp(2), rel=1e-3)
    assert -symbol.norm.vmin == symbol.norm.vmax == pytest.approx(1, rel=1e-3)
    shown = metric.get_array()
    assert shown.shape == (400, len(AXIS))  # not all 1001 nodes
    assert np.exp(2 * np.sin(AXIS[0] / 50)) == pytest.approx(shown[0, 0], rel=1e-12)
    assert np.exp(2 * np.sin(60 / 9 + AXIS[-1] / 50)) == pytest.approx(shown[-1, -1], rel=1e-12)
    marks = figure.axes[0].get_lines()[0].get_ydata()
    np.testing.assert_array_equal(marks, np.linspace(0.0, 60.0, 6))


def test_a_flat_metric_has_a_figure(tmp_path):
    save_figure(metric_of(4, flat=True), tmp_path / "flat.png")
    assert (tmp_path / "flat.png").stat().st_size > 5_000


@pytest.mark.parametrize("label", ["$A$_{520}/$A_{650$", "$", "cost ($)", "$\\frac$", "$A_{520}$"])
def test_any_label_can_be_drawn(tmp_path, label):
    @drawn
    def figure():
        made = Figure()
        panel = made.add_subplot(title=label, xlabel=label)
        panel.set_yscale("log")
        panel.set_ylim(1, 1e4)
        return made

    save_figure(figure(), tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
