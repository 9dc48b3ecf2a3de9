import json

import numpy as np
import pandas as pd
import pytest
from geonode.estimation.tables import estimated

from geonode.estimation.curve import Curve
from geonode.estimation.model import SpectralModel
from geonode.estimation.predicting import PredictedBlock
from geonode.posterior.prior import packaged_prior
from geonode.report.figures import folds_panels
from geonode.report.pictures import PredictedSpectra, estimates_figure
from geonode.spectra.table import Spectra
from tests.estimation.trained import AXIS, LEVELS, spectra_at


@pytest.fixture(scope="module")
def model(trained):
    return SpectralModel.read(trained / "data")


def estimates(model, values, names=None, **allowed):
    names = names or [f"sample {number}" for number in range(len(values))]
    spectra = Spectra(names, AXIS, "wavelength", "nm", values, np.empty(0))
    curve = Curve.of(model.series, model.fold, **allowed)
    rows = estimated(curve, model.series, spectra)
    figure = estimates_figure(model, curve, spectra, rows, scale=allowed.get("scale", False))
    return figure, rows, curve


def table(figure, name):
    return pd.DataFrame(json.loads(figure.to_json())["datasets"][name])


def test_every_left_out_level_has_a_panel(run, tmp_path):
    folds = dict(zip(["0", "10", "20", "40"], [0.953, -34.13, None, 1.0], strict=True))
    run.change("validate", folds={name: {"r2": r2} for name, r2 in folds.items()})
    figure = folds_panels(run.report())
    rows = table(figure, "folds")
    assert [name[4:].split("|") for name in rows["panel"].unique()] == [
        ["left out 0 ppb", "R² 0.953"],
        ["left out 10 ppb", "R² −34.1"],
        ["left out 20 ppb", "R² undefined"],
        ["left out 40 ppb", "R² 1"],
    ]
    assert np.allclose(rows["predicted"] - rows["measured"], 0.25, atol=1e-3)
    figure.save_png(tmp_path / "folds.png")
    assert 10_000 < (tmp_path / "folds.png").stat().st_size < 400_000


@pytest.mark.parametrize(("count", "at_once"), [(1, 5), (4, 2), (40, 7)])
def test_predicted_spectra_are_taken_from_their_blocks(model, count, at_once, tmp_path):
    levels = np.linspace(1, 59, count)
    found = PredictedSpectra(model.series, count)
    blocks = [
        PredictedBlock.of(model, levels[start : start + at_once], start)
        for start in range(0, count, at_once)
    ]
    for block in blocks:
        found(block)
    figure = found.figure()
    rows = table(figure, "predicted")
    shown = np.linspace(0, count - 1, min(count, 12)).round().astype(int)
    signal = np.concatenate([block.signal for block in blocks])
    low, high = np.concatenate([block.interval for block in blocks], axis=1)
    for name, expected in (("signal", signal), ("low", low), ("high", high)):
        np.testing.assert_allclose(rows[name], expected[shown].ravel(), rtol=1e-4)
    spec = json.loads(figure.to_json())
    kinds = [layer["mark"]["type"] for layer in spec["layer"]]
    assert kinds == ["line", "line", "area"][: 3 if count <= 4 else 2]
    measured = table(figure, "measured")["signal"]
    np.testing.assert_allclose(measured, model.series.signal.ravel(), rtol=1e-4)
    figure.save_png(tmp_path / "predicted.png")


def test_densities_and_credible_sets_have_their_probability(model, tmp_path):
    figure, rows, curve = estimates(model, spectra_at([12, 20]), names=["a|b", "b" * 30])
    points = table(figure, "posterior")
    widths = dict(zip(np.round(curve.concentrations, 9), np.diff(curve.edges), strict=True))
    bound = packaged_prior().mass_of_sets(len(LEVELS), np.array([True]))
    for panel, row in zip(points["panel"].unique(), rows, strict=True):
        of_panel = points[points["panel"] == panel]
        density = of_panel[of_panel["kind"] == "density"]["density"].to_numpy()
        assert np.sum(density * list(widths.values())) == pytest.approx(1, rel=1e-3)
        inside = of_panel[of_panel["kind"] == "set"]
        assert inside["part"].nunique() == len(row.sets) == 2
        taken = np.isin(density, inside["density"]) & (density > 0)
        held = np.sum(density[taken] * np.array(list(widths.values()))[taken])
        assert held == pytest.approx(float(bound[0]), abs=0.02)  # a cell
        modes = of_panel[of_panel["kind"] == "mode"]
        assert np.allclose(modes["concentration"], [at for at, _ in row.modes], rtol=1e-4)
        assert modes["label"].str.endswith(f"({row.modes[0][1]:.2f})").iloc[0]
    assert [panel[4:] for panel in points["panel"].unique()] == ["a/b", "b" * 19 + "…"]
    figure.save_png(tmp_path / "estimates.png")


def test_of_many_spectra_the_first_are_drawn(model):
    figure, _, _ = estimates(model, spectra_at(np.linspace(0, 60, 13)))
    assert table(figure, "posterior")["panel"].nunique() == 12
    assert json.loads(figure.to_json())["title"] == "first 12 of 13 spectra"


def least_squares(predicted, measured, offset=False, scale=False):
    """Factor and constant by the closed forms of a line, a ratio and a mean difference."""
    if offset and scale:
        return np.polyfit(predicted, measured, 1)
    if scale:
        return np.sum(predicted * measured) / np.sum(predicted**2), 0.0
    return 1.0, (measured.mean() - predicted.mean() if offset else 0.0)


@pytest.mark.parametrize(
    "allowed", [{}, {"offset": True}, {"scale": True}, {"scale": True, "offset": True}]
)
def test_one_spectrum_is_drawn_beside_the_predicted_one(model, allowed, tmp_path):
    measured = (1 + 0.25 * ("scale" in allowed)) * spectra_at([12]) + 0.3 * ("offset" in allowed)
    figure, (row,), _ = estimates(model, measured, **allowed)
    fit = table(figure, "fit")
    np.testing.assert_allclose(fit["measured"], measured[0], rtol=1e-4)
    block = PredictedBlock.of(model, np.array([row.mode]))
    factor, constant = least_squares(block.signal[0], measured[0], **allowed)
    for name, values in (
        ("predicted", block.signal[0]),
        ("low", block.interval[0, 0]),
        ("high", block.interval[1, 0]),
    ):
        np.testing.assert_allclose(fit[name], factor * values + constant, rtol=1e-4, atol=1e-6)
    text = figure.to_json()
    assert f"predicted at {row.mode:.4g} ppb" in text
    assert (f", times {factor:.3g}" in text) == ("scale" in allowed)
    assert (f", offset {constant:.2g}" in text) == ("offset" in allowed)
    figure.save_png(tmp_path / "estimate.png")
