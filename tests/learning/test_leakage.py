"""No bit of a left-out spectrum reaches anything that belongs to its fold, or to one inside it."""

import numpy as np
import pytest
import torch

from geonode.config import InnerParameters
from geonode.estimation.curve import Curve
from geonode.learning.blend import BLENDS, KINDS, fit_blend
from geonode.learning.context import NestedRuns
from geonode.learning.folds import Fold, leave_one_out, leave_two_out, training_wavelengths
from geonode.learning.inner_predictions import InnerPredictions
from geonode.learning.metric_learning import LEARNING, learn
from geonode.learning.path_features import features_to, path_features
from tests.learning.series import (
    TRAINING_WAVELENGTHS,
    cpu,
    decoder_parameters,
    flat_features,
    metric_parameters,
    predict,
    run,
    series,
    spectra,
)

LEVELS, WAVELENGTHS, MEMBERS = 5, 9, 2  # of four levels no kinds are weighed
OUTER, INNER = leave_one_out(LEVELS), leave_two_out(LEVELS, 2)
BOTH_RUNS = pytest.mark.parametrize("folds", [OUTER, INNER], ids=["folds", "inner folds"])
NOISE = {0: 1.0, 1: 1e9}  # its scale in place of the spectrum of an end and of one inside
SETTINGS = {"members": MEMBERS}


def measured(row=None, k=None):
    """The series, or with one of its spectra replaced."""
    signal = spectra(LEVELS, WAVELENGTHS)
    if k is not None:
        signal[k] = row
    return series(LEVELS, WAVELENGTHS, signal)


def noise(k):
    """The series with noise in place of spectrum k."""
    return measured(np.random.default_rng(k).normal(0, NOISE[k], WAVELENGTHS), k)


def by_fold(tensor, folds, members=MEMBERS):
    """The same with the fold first: models come in the order (member, fold)."""
    return tensor.unflatten(0, (members, folds)).transpose(0, 1)


def of_metrics(metrics):
    """All that belongs to learned metrics, each with the fold first."""
    folds, members = len(metrics.charts), metrics.members
    charts = [[chart.kappa, chart.low, chart.high] for chart in metrics.charts]
    parts = {"charts": torch.tensor(charts, dtype=torch.float64)}
    for place, part in enumerate(metrics.network.parameters):
        parts[f"parameter {place}"] = by_fold(part, folds, members)
    return parts


def metric(name, measured, folds):
    """All that one way to learn metrics produces, each with the fold first."""
    parameters = metric_parameters(learning=name, evidence_margin=0.0, **SETTINGS)
    metrics, history, _ = LEARNING[name](measured, parameters, run(folds, MEMBERS))
    parts = of_metrics(metrics)
    if len(history):
        parts["history"] = by_fold(history.movedim(2, 0), len(folds))
    return parts


def predictions(decoders, folds, measured, features):
    """What decoders say of every level that a fold leaves out, with the fold first."""
    said = [predict(decoders, fold, measured, features) for fold in folds if fold.left_out]
    return torch.from_numpy(np.array(said))


def of_decoders(decoders, folds, measured, features):
    """All that belongs to decoders of one kind, each with the fold first."""
    count, parts = len(folds), {"predictions": predictions(decoders, folds, measured, features)}
    for name, tensor in decoders.tensors().items():
        # Of every fold, or of every member and fold.
        leading = tensor.shape[:1] if len(tensor) == count else tensor.shape[:2]
        assert leading in ((count,), (MEMBERS, count)), name
        parts[name] = tensor if len(leading) == 1 else tensor.transpose(0, 1)
    return parts


def decode(name, measured, folds):
    """All that decoders of one kind produce, each with the fold first."""
    features = flat_features(LEVELS, WAVELENGTHS, MEMBERS, len(folds))
    parameters = decoder_parameters(**SETTINGS)
    decoders, history = KINDS[name].fit(measured, features, parameters, run(folds, MEMBERS))
    parts = of_decoders(decoders, folds, measured, features)
    if len(history):
        parts["history"] = by_fold(history.movedim(2, 0), len(folds))
    return parts


def assert_fold_is_untouched(before, after, fold):
    assert before.keys() == after.keys()
    for name, result in before.items():
        if fold.index < len(result):  # nothing is predicted where nothing is left out
            assert torch.isfinite(result[fold.index]).all() or name.endswith("charts")
            assert torch.equal(result[fold.index], after[name][fold.index]), (name, fold)


def changed(before, after, fold):
    """What differs of a fold."""
    return {
        name
        for name, result in before.items()
        if fold.index < len(result) and not torch.equal(result[fold.index], after[name][fold.index])
    }


TIGHT = [name for name in LEARNING if name != "shared"]
EVERY_FIT = [(metric, name) for name in TIGHT] + [(decode, name) for name in KINDS]
EVERY_WAY = pytest.mark.parametrize(
    ("fit", "name"), EVERY_FIT, ids=[f"{fit.__name__}-{name}" for fit, name in EVERY_FIT]
)


@EVERY_WAY
@BOTH_RUNS
def test_a_left_out_spectrum_changes_not_one_bit_of_its_folds(fit, name, folds):
    before = fit(name, measured(), folds)
    for k in NOISE:
        after = fit(name, noise(k), folds)
        for fold in folds:
            if k in fold.left_out:
                assert_fold_is_untouched(before, after, fold)
            elif fold.left_out or fit is metric:
                # Every other fold is trained on that spectrum, which flat metrics do not read.
                assert bool(changed(before, after, fold)) == (name != "flat")


@EVERY_WAY
def test_a_fold_is_fitted_though_what_it_leaves_out_is_not_known(fit, name):
    alone = [Fold(0, LEVELS, (1, 3))]
    clean, unknown = (fit(name, change, alone) for change in (measured(), measured(np.nan, [1, 3])))
    assert_fold_is_untouched(clean, unknown, alone[0])


@BOTH_RUNS
def test_what_is_said_to_leak_does(folds):
    before, after = (metric("shared", change, folds) for change in (measured(), noise(1)))
    assert all(changed(before, after, fold) for fold in folds)


# from spectra to intervals


def whole(measured, monkeypatch):
    """All that learning produces of a series, each with the fold or the inner fold first.

    The outer and the inner parts are apart: of the latter, metrics, geodesics and predictions.
    """
    metrics = metric_parameters(evidence_margin=0.0, **SETTINGS)
    inner = InnerParameters(members=1, levels=2)
    runs = NestedRuns.of(LEVELS, metrics.model_copy(update={"members": MEMBERS}), inner, cpu())
    learned = learn(measured, metrics, runs).metrics
    chosen = training_wavelengths(WAVELENGTHS, TRAINING_WAVELENGTHS)
    features = path_features(learned, measured, chosen)
    inner_features = path_features(learned.inner, measured, chosen)
    inside, enter = {}, InnerPredictions.enter

    def spy(entered, place, folds, decoders, features):
        enter(entered, place, folds, decoders, features)
        if folds == runs.inner.folds:
            at = tuple(np.array([fold.left_out for fold in folds]).T)
            said = [entered.predicted[place][at[::turn]] for turn in (1, -1)]
            inside[BLENDS["blend"][place]] = torch.from_numpy(np.stack(said, axis=1))

    with monkeypatch.context() as patch:
        patch.setattr(InnerPredictions, "enter", spy)
        parameters = decoder_parameters(kind="blend", **SETTINGS)
        blend, _ = fit_blend(measured, features, inner_features, parameters, runs)
    outer = {f"metric: {name}": part for name, part in of_metrics(learned).items()}
    for name, decoders in blend.decoders.items():
        parts = of_decoders(decoders, OUTER, measured, features)
        outer |= {f"{name}: {of}": part for of, part in parts.items()}
    predicted = blend.left_out(measured, features)
    outer |= {
        "features": torch.from_numpy(features).transpose(0, 1),
        "weights": torch.from_numpy(blend.weights),
        "anywhere": torch.from_numpy(anywhere(measured, learned, blend)),
        "spectra": torch.from_numpy(predicted.spectra),
        "deviation": torch.from_numpy(predicted.deviation),
        "half width": torch.from_numpy(predicted.half_width.swapaxes(0, 1)),
    }
    inside |= {f"metric: {name}": part for name, part in of_metrics(learned.inner).items()}
    inside["features"] = torch.from_numpy(inner_features).transpose(0, 1)
    return outer, inside, runs


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


BY_EVIDENCE = {"spectra", "deviation", "half width", "anywhere", "weights"}
"""What every other fold makes of a spectrum."""


def test_from_the_spectra_to_the_intervals_nothing_leaks(monkeypatch):
    outer, inside, runs = whole(measured(), monkeypatch)
    assert outer.keys() > BY_EVIDENCE
    assert inside.keys() & KINDS.keys() == {*BLENDS["blend"]}
    of_inner = {*BLENDS["blend"], "features"}
    for k in NOISE:
        after, after_inside, _ = whole(noise(k), monkeypatch)
        for before, other, folds, by_evidence in (
            (outer, after, runs.outer.folds, BY_EVIDENCE),
            (inside, after_inside, runs.inner.folds, of_inner),
        ):
            for fold in folds:
                if k in fold.left_out:
                    assert_fold_is_untouched(before, other, fold)
                else:
                    found = changed(before, other, fold)
                    wanted = by_evidence & before.keys()
                    # Nothing is left out of the last fold, and so nothing of it predicted.
                    wanted = {name for name in wanted if fold.index < len(before[name])}
                    assert found >= wanted, (k, fold, wanted - found)
                    assert "features" in found


@pytest.mark.parametrize("k", [0, 2, LEVELS])
def test_a_decoder_reads_the_geometry_of_its_own_fold(k):
    features = flat_features(LEVELS, WAVELENGTHS)
    changed = features + np.random.default_rng(0).normal(size=features.shape)
    changed[:, k] = features[:, k]
    networks = [
        KINDS["path"].fit(measured(), of_folds, decoder_parameters(), run(LEVELS))[0].network
        for of_folds in (features, changed)
    ]
    for before, after in zip(*(network.parameters for network in networks), strict=True):
        assert torch.equal(before[k], after[k])
        assert not torch.equal(before[k - 1], after[k - 1])
