from itertools import combinations

import numpy as np
import pytest

from geonode.estimation.curve import Curve
from geonode.estimation.model import SpectralModel
from geonode.estimation.predicting import PredictedBlock
from geonode.estimation.tables import estimated
from geonode.posterior.prior import packaged_prior
from geonode.report.png_estimation import estimates_figure, predicted_figure
from geonode.spectra.reading import Spectra
from tests.estimation.trained import AXIS, LEVELS, spectra_at


@pytest.fixture(scope="module")
def model(trained):
    return SpectralModel.read(trained / "data")


def estimates(model, values, names=None, **allowed):
    names = names or [f"sample {number}" for number in range(len(values))]
    spectra = Spectra(names, AXIS, "wavelength", "nm", values, np.empty(0))
    curve = Curve.of(model.series, model.fold, **allowed)
    rows = estimated(curve, model.series, spectra)
    return estimates_figure(model, curve, spectra, rows, scale=allowed.get("scale", False)), rows


def lines(panel):
    return {line.get_label(): line.get_ydata() for line in panel.lines}


@pytest.mark.parametrize("count", [1, 12])
def test_predicted_spectra_are_drawn_over_the_measured_ones(model, count):
    block = PredictedBlock.of(model, np.linspace(1, 59, count))
    figure = predicted_figure(model.series, block)
    drawn = np.stack([line.get_ydata() for line in figure.axes[0].lines])
    np.testing.assert_array_equal(drawn, np.concatenate([model.series.signal, block.signal]))
    assert len(figure.axes[0].collections) == (count if count <= 4 else 0)
    assert len(figure.axes) == (1 if count <= 4 else 2)
    assert len(drawn) == len(LEVELS) + count


@pytest.mark.parametrize("count", [1, 3, pytest.param(13, marks=pytest.mark.slow)])
def test_nothing_overlaps_and_nothing_is_cut_off(model, count):
    figure, _ = estimates(model, spectra_at(np.linspace(0, 60, count)))
    assert len(figure.axes) == (2 if count == 1 else min(count, 12))
    figure.draw_without_rendering()
    boxes = [panel.get_tightbbox() for panel in figure.axes]
    for one, other in combinations(boxes, 2):
        assert not one.overlaps(other)
    for box in boxes:
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1


def test_densities_and_credible_sets_have_their_probability(model):
    figure, rows = estimates(model, spectra_at([12, 20]), names=["$a$", "b" * 30])
    for panel, row in zip(figure.axes, rows, strict=True):
        density, *shaded = [patch.get_data() for patch in panel.patches]
        assert np.sum(density.values * np.diff(density.edges)) == pytest.approx(1)
        assert len(shaded) == len(row.sets) == 2
        held = sum(np.sum(part.values * np.diff(part.edges)) for part in shaded)
        bound = packaged_prior().mass_of_sets(len(LEVELS), np.array([True]))
        assert held == pytest.approx(float(bound[0]), abs=0.02)  # a cell
        marks = [(line.get_xdata()[0], text.get_text()) for line, text in
                 zip(panel.lines, panel.texts, strict=True)]  # fmt: skip
        assert marks == [(at, f"{at:.4g} ({weight:.2f})") for at, weight in row.modes]
    assert [panel.get_title() for panel in figure.axes] == ["$a$", "b" * 19 + "…"]


def least_squares(predicted, measured, offset=False, scale=False):
    """Factor and constant by the closed forms of a line, a ratio and a mean difference."""
    if offset and scale:
        return np.polyfit(predicted, measured, 1)
    if scale:
        return np.sum(predicted * measured) / np.sum(predicted**2), 0.0
    return 1.0, (measured.mean() - predicted.mean() if offset else 0.0)


@pytest.mark.parametrize(
    "allowed", [{"offset": True}, {"scale": True}, {"scale": True, "offset": True}]
)
def test_one_spectrum_is_drawn_beside_the_predicted_one(model, allowed):
    factor, constant = 1 + 0.25 * ("scale" in allowed), 0.3 * ("offset" in allowed)
    measured = factor * spectra_at([12]) + constant
    figure, (row,) = estimates(model, measured, **allowed)
    drawn = lines(figure.axes[1])
    np.testing.assert_array_equal(drawn.pop("measured"), measured[0])
    block = PredictedBlock.of(model, np.array([row.mode]))
    factor, constant = least_squares(block.signal[0], measured[0], **allowed)
    ((label, predicted),) = drawn.items()
    assert label == (
        f"predicted at {row.mode:.4g} ppb"
        + (f", times {factor:.3g}" if "scale" in allowed else "")
        + (f", offset {constant:.2g}" if "offset" in allowed else "")
    )
    np.testing.assert_allclose(predicted, factor * block.signal[0] + constant, rtol=1e-9)
    (band,) = figure.axes[1].collections
    low, high = band.get_datalim(figure.axes[1].transData).intervaly
    ends = factor * block.interval[:, 0] + constant
    np.testing.assert_allclose([low, high], [ends.min(), ends.max()], rtol=1e-6)
