import json

import numpy as np
import pandas as pd
import pytest

from geonode.estimation.model import SpectralModel
from geonode.estimation.predicting import PredictedBlock
from geonode.report.figures import folds_panels
from geonode.report.pictures import PredictedSpectra


@pytest.fixture(scope="module")
def model(trained):
    return SpectralModel.read(trained / "data")


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
