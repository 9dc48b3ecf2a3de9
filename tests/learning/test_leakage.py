"""No bit of a left-out spectrum reaches anything that belongs to its fold, or to one inside it."""

import numpy as np
import pytest
import torch

from geonode.config import InnerParameters
from geonode.estimation.curve import Curve
from geonode.learning import blend as blending
from geonode.learning.blend import KINDS, InnerPredictions, fit_blend
from geonode.learning.context import NestedRuns
from geonode.learning.folds import leave_one_out, training_wavelengths
from geonode.learning.metric_learning import LEARNING, learn
from geonode.learning.path_features import features_to, path_features
from tests.learning.series import (
    TRAINING_WAVELENGTHS,
    cpu,
    decoder_parameters,
    metric_parameters,
    predict,
    series,
    spectra,
)

LEVELS, WAVELENGTHS, MEMBERS = 5, 9, 2  # of four levels no kinds are weighed
OUTER = leave_one_out(LEVELS)
NOISE = {0: 1.0, 1: 1e9}  # its scale in place of the spectrum of an end and of one inside


def noise(k):
    """The series with noise in place of spectrum k."""
    signal = spectra(LEVELS, WAVELENGTHS)
    signal[k] = np.random.default_rng(k).normal(0, NOISE[k], WAVELENGTHS)
    return series(LEVELS, WAVELENGTHS, signal)


def of_metrics(metrics):
    """All that belongs to learned metrics, each with the fold first."""
    charts = [[chart.kappa, chart.low, chart.high] for chart in metrics.charts]
    parts = {"metric: charts": torch.tensor(charts, dtype=torch.float64)}
    for place, part in enumerate(metrics.network.parameters):
        by_fold = part.unflatten(0, (metrics.members, len(charts))).transpose(0, 1)
        parts[f"metric: parameter {place}"] = by_fold
    return parts


def of_decoders(name, decoders, folds, measured, features):
    """All that belongs to decoders of one kind, each with the fold first."""
    said = [predict(decoders, fold, measured, features) for fold in folds if fold.left_out]
    count, parts = len(folds), {f"{name}: predictions": torch.from_numpy(np.array(said))}
    for part, tensor in decoders.tensors().items():
        # Of every fold, or of every member and fold.
        leading = tensor.shape[:1] if len(tensor) == count else tensor.shape[:2]
        assert leading in ((count,), (MEMBERS, count)), part
        parts[f"{name}: {part}"] = tensor if len(leading) == 1 else tensor.transpose(0, 1)
    return parts


def changed(before, after, fold):
    """What differs of a fold; nothing is predicted where nothing is left out."""
    assert before.keys() == after.keys()
    return {
        name
        for name, result in before.items()
        if fold.index < len(result) and not torch.equal(result[fold.index], after[name][fold.index])
    }


def whole(measured, learning, monkeypatch):
    """All that learning produces of a series, each with the fold or the inner fold first.

    The outer and the inner parts are apart: of the latter, metrics, geodesics and predictions.
    """
    metrics = metric_parameters(learning=learning, evidence_margin=0.0, members=MEMBERS)
    inner = InnerParameters(members=1, levels=2)
    runs = NestedRuns.of(LEVELS, metrics, inner, cpu())
    learned = learn(measured, metrics, runs).metrics
    chosen = training_wavelengths(WAVELENGTHS, TRAINING_WAVELENGTHS)
    features = path_features(learned, measured, chosen)
    inner_features = path_features(learned.inner, measured, chosen)
    inside, enter, kinds = of_metrics(learned.inner), InnerPredictions.enter, tuple(KINDS)

    def spy(entered, place, folds, decoders, features):
        enter(entered, place, folds, decoders, features)
        if folds == runs.inner.folds:
            at = tuple(np.array([fold.left_out for fold in folds]).T)
            said = [entered.predicted[place][at[::turn]] for turn in (1, -1)]
            inside[kinds[place]] = torch.from_numpy(np.stack(said, axis=1))

    with monkeypatch.context() as patch:
        patch.setattr(InnerPredictions, "enter", spy)
        patch.setitem(blending.BLENDS, "blend", kinds)
        patch.setattr(blending, "ODDS", dict.fromkeys(kinds, 1.0))
        parameters = decoder_parameters(kind="blend", members=MEMBERS)
        blend, history = fit_blend(measured, features, inner_features, parameters, runs)
    inside["features"] = torch.from_numpy(inner_features).transpose(0, 1)
    outer = of_metrics(learned)
    for name, decoders in blend.decoders.items():
        outer |= of_decoders(name, decoders, OUTER, measured, features)
    predicted = blend.left_out(measured, features)
    outer |= {
        "history": history.movedim(2, 0).unflatten(0, (MEMBERS, -1)).transpose(0, 1),
        "features": torch.from_numpy(features).transpose(0, 1),
        "weights": torch.from_numpy(blend.weights),
        "anywhere": torch.from_numpy(anywhere(measured, learned, blend)),
        "spectra": torch.from_numpy(predicted.spectra),
        "deviation": torch.from_numpy(predicted.deviation),
        "half width": torch.from_numpy(predicted.half_width.swapaxes(0, 1)),
    }
    return (outer, runs.outer.folds), (inside, runs.inner.folds)


def anywhere(measured, learned, blend):
    """What every fold predicts between its levels and beyond them, and how spectra are judged."""
    places = np.array([0.5, 1.3]) * measured.concentrations[[1, -1]]
    said = []
    for fold in OUTER[: len(NOISE)]:
        features = features_to(learned, fold, measured, places, blend.training)
        predicted = blend.predict(fold, measured, places, features)
        curve = Curve.of(measured, fold)
        numbers = (
            curve.scores @ curve.basis,
            curve.covariances.log_determinant,
            curve.novelty.square,
        )
        parts = (predicted.deviation, *map(np.asarray, numbers))
        said.append(np.concatenate([part.ravel() for part in parts]))
    return np.stack(said)


@pytest.mark.parametrize("learning", LEARNING)
def test_from_the_spectra_to_the_intervals_nothing_leaks_that_is_not_said_to(learning, monkeypatch):
    before = whole(series(LEVELS, WAVELENGTHS), learning, monkeypatch)
    every = {"spectra", "deviation", "half width", "anywhere", "weights", "history", *KINDS}
    geometry = {"features", "metric: parameter 0"}  # flat ones are the same of any spectra
    for k in [0] if learning == "shared" else NOISE:
        after = whole(noise(k), learning, monkeypatch)
        for (parts, folds), (others, _) in zip(before, after, strict=True):
            wanted = (every if learning == "flat" else every | geometry) & parts.keys()
            for fold in folds:
                found = changed(parts, others, fold)
                if learning == "shared":
                    assert found > geometry, (k, fold)
                elif k in fold.left_out:
                    assert not found, (k, fold)
                else:
                    # Nothing is left out of the last fold, and so nothing of it predicted.
                    known = {name for name in wanted if fold.index < len(parts[name])}
                    assert found >= known, (k, fold, known - found)
    for parts, _ in before:
        assert all(torch.isfinite(parts[name]).all() for name in parts if "charts" not in name)
