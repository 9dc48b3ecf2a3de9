from itertools import combinations

import matplotlib
import numpy as np
import pytest

from geonode.report.png_folds import folds_figure
from geonode.report.png_style import save_figure
from geonode.spectra.chart import Chart
from geonode.spectra.series import Series

AXIS = np.linspace(300.0, 700.0, 41)
LABELS = {
    "signal": "$A$_{520}/$A_{650$",  # no formula, and drawn all the same
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


@pytest.mark.parametrize("count", [4, pytest.param(20, marks=pytest.mark.slow)])
def test_every_level_has_a_panel_and_nothing_overlaps_or_is_cut_off(count):
    figure = folds_of(count)
    assert len(figure.axes) == count
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
    figure = folds_of(4, [0.953, -34.13, None, 1.0])
    for i, panel in enumerate(figure.axes):
        lines = {line.get_label(): line.get_ydata() for line in panel.get_lines()}
        np.testing.assert_array_equal(lines["measured"], series.signal[i])
        np.testing.assert_array_equal(lines["predicted"], predicted[i])
        (band,) = panel.collections
        heights = band.get_paths()[0].vertices[:, 1]
        assert heights.min() == pytest.approx(predicted[i].min() - 0.05)
        assert heights.max() == pytest.approx(predicted[i].max() + 0.05)
    assert [panel.get_title() for panel in figure.axes] == [
        "left out 0 ppb, R² = 0.953",
        "left out 20 ppb, R² = −34.130",
        "left out 40 ppb, R² undefined",
        "left out 60 ppb, R² = 1.000",
    ]
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["measured", "predicted", "90% interval"]


def test_same_numbers_give_the_same_bytes_whatever_the_settings(tmp_path):
    save_figure(folds_of(4), tmp_path / "one.png")
    with matplotlib.rc_context({"font.size": 30, "savefig.dpi": 33, "axes.grid": True}):
        save_figure(folds_of(4), tmp_path / "two.png")
    content = (tmp_path / "one.png").read_bytes()
    assert content.startswith(b"\x89PNG\r\n\x1a\n")
    assert content == (tmp_path / "two.png").read_bytes()
    assert b"Software" not in content
    assert len(content) < 300_000


def test_failed_write_leaves_the_old_file_alone(tmp_path, monkeypatch):
    path = tmp_path / "folds.png"
    path.write_bytes(b"old")
    figure = folds_of(4)
    monkeypatch.setattr(figure.canvas, "print_figure", lambda *given, **named: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save_figure(figure, path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
