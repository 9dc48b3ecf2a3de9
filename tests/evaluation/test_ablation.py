from dataclasses import astuple, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from geonode.config import read_parameters
from geonode.evaluation.ablation import (
    GEOMETRIES,
    PREDICTORS,
    Geometry,
    ablate,
    baselines,
    steps,
)
from geonode.evaluation.baselines import BASELINES
from geonode.evaluation.comparison import Comparison
from geonode.learning.blend import BLENDS, fit_blend
from geonode.learning.folds import training_wavelengths
from geonode.learning.metric_learning import LEARNING, learn
from geonode.learning.path_decoder import PathDecoders
from geonode.learning.path_features import path_features
from geonode.learning.run import Runs
from geonode.spectra.chart import Chart
from tests.learning.series import cpu, series

FILE = Path(__file__).parents[2] / "params.yaml"
LEVELS, WAVELENGTHS, EPOCHS, SEED = 5, 9, 2, 7
DEVICE = cpu(torch.float64)
LEARNED = Geometry("end_to_end", "evidence")
AUGMENTED = Geometry("end_to_end", "evidence", "all kinds")
TRAINED = {"path", "scores", "blend", "blend_scores", "blend without mean", "blend of all"}
PROCESSES = {"process_constant", "process_linear", "evidence_process"}
SCORES = ("pooled_r2", "interior_pooled_r2", "mean_r2", "worst_r2", "rmse")
NUMBERS = (*SCORES, "interior90", "ends90")
RNG = np.random.default_rng(0)
MEASURED = series(LEVELS, WAVELENGTHS)
MEASURED = replace(MEASURED, signal=MEASURED.signal + RNG.normal(0, 0.02, MEASURED.signal.shape))


def parameters(**changes):
    """Those of the repository with a short training, and with seeds and sizes not to be used."""
    values = {
        "inner.members": 1,
        "metric.seed": SEED,
        "decoders.seed": SEED + 1,
        "metric.members": 3,
        "decoders.members": 3,
        "metric.evidence_margin": 0.0,
        "decoders.evidence_margin": 0.0,
    }
    for block in ("metric", "decoders"):
        values |= {f"{block}.epochs": EPOCHS, f"{block}.wavelengths": 5}
    return read_parameters(FILE, values | {k.replace("__", "."): v for k, v in changes.items()})


def rows_of(geometry, members=(1, 2), measured=MEASURED, **changes):
    """Rows by predictor and size."""
    rows = ablate("one", measured, geometry, parameters(**changes), [*members], DEVICE)
    assert len({(row.predictor, row.members) for row in rows}) == len(rows)
    return {(row.predictor, row.members): row for row in rows}


@pytest.fixture(scope="module")
def plain():
    return rows_of(LEARNED)


@pytest.fixture(scope="module")
def augmented():
    return rows_of(AUGMENTED)


def numbers(row, names=NUMBERS):
    return [getattr(row, name) for name in names]


def by_hand(predicted, half_width=None, measured=MEASURED.signal):
    """The numbers of a row from what was predicted, written out."""
    squares = (predicted - measured) ** 2
    about = (measured - measured.mean(axis=1, keepdims=True)) ** 2
    each = 1 - squares.sum(axis=1) / about.sum(axis=1)
    found = [
        1 - squares.sum() / about.sum(),
        1 - squares[1:-1].sum() / about[1:-1].sum(),
        each.mean(),
        each.min(),
        squares.mean() ** 0.5,
    ]
    if half_width is not None:
        held = squares <= half_width**2
        found += [held[1:-1].mean(), held[[0, -1]].mean()]
    return found


def learned(augmentation=None):
    """Features of two members without the ablation, and what else their decoders need."""
    own = parameters()
    changes = {"members": 2, "seed": SEED}
    if augmentation is not None:
        changes["augmentation"] = own.metric.augmentation.model_copy(update=augmentation)
    runs = Runs.of(LEVELS, 2, own.inner, DEVICE)
    metrics = learn(MEASURED, own.metric.model_copy(update=changes), runs).metrics
    chosen = training_wavelengths(WAVELENGTHS, 5)
    features = [path_features(part, MEASURED, chosen) for part in (metrics, metrics.inner)]
    return features, own.decoders.model_copy(update=changes | {"kind": "blend"}), runs


@pytest.fixture(scope="module")
def plainly_learned():
    return learned()


def fitted(kinds, monkeypatch, features, decoders, runs):
    """What two members of these kinds predict, and the first of them."""
    monkeypatch.setitem(BLENDS, "blend", kinds)
    blend, _ = fit_blend(MEASURED, *features, decoders, runs)
    parts = dict(blend.decoders)
    for kind in {"path", "scores"} & parts.keys():
        whole = parts[kind].tensors()
        # The members are the leading axis of all but what is common to them.
        first = {k: v if k in {"matrix", "offset"} else v[:1] for k, v in whole.items()}
        parts[kind] = PathDecoders.from_tensors(first)
    alone = replace(blend, decoders=parts)
    return {size: b.left_out(MEASURED, features[0]) for size, b in ((1, alone), (2, blend))}


def test_there_is_a_row_for_every_predictor_and_size_of_ensemble(plain):
    expected = {(name, size) for name in TRAINED for size in (1, 2)}
    expected |= {(name, 1) for name in {*PROCESSES, "mean"}}
    assert plain.keys() == expected
    assert set(PREDICTORS) == {*TRAINED, *PROCESSES, "mean"}
    for row in plain.values():
        said = (row.series, row.seed, row.learning, row.chart, row.augmentation)
        assert said == ("one", SEED, "end_to_end", "evidence", "none")
    assert len({row.seconds for row in plain.values()}) == 1
    assert plain["path", 1].seconds > 0


@pytest.mark.parametrize("predictor", [*PREDICTORS])
def test_rows_are_those_of_what_is_fitted_by_hand(plain, plainly_learned, monkeypatch, predictor):
    found = fitted(PREDICTORS[predictor], monkeypatch, *plainly_learned)
    for size in (1, 2) if predictor in TRAINED else (1,):
        expected = by_hand(found[size].spectra, found[size].half_width[2])
        assert numbers(plain[predictor, size]) == pytest.approx(expected, rel=1e-9)


def test_rows_of_different_ensembles_and_predictors_differ(plain):
    # So that the comparisons with what is fitted by hand can fail.
    errors = [row.rmse for row in plain.values()]
    differ = {round(error, 9) for error in errors}
    assert len(differ) >= len(errors) - 3  # the mean may have no weight
    for predictor in ("path", "scores"):
        assert plain[predictor, 1].rmse != pytest.approx(plain[predictor, 2].rmse, rel=1e-4)


def test_a_smaller_ensemble_is_the_first_part_of_a_larger_one(plain):
    alone = rows_of(LEARNED, members=(1,))
    # What lifts signals to all wavelengths belongs to the whole ensemble; scores have no such.
    assert numbers(alone["scores", 1]) == pytest.approx(numbers(plain["scores", 1]), rel=1e-6)
    # A process sees the metrics of all members.
    assert alone["process_linear", 1].rmse != plain["process_linear", 1].rmse


def test_the_mean_needs_no_geometry(plain):
    others = [np.delete(MEASURED.signal, level, axis=0) for level in range(LEVELS)]
    expected = by_hand(np.array([spectra.mean(axis=0) for spectra in others]))
    rows = rows_of(Geometry("flat", "given"))
    assert rows.keys() == plain.keys()
    for found in (plain, rows):
        assert numbers(found["mean", 1], SCORES) == pytest.approx(expected, rel=1e-9)
    assert numbers(plain["mean", 1]) == numbers(rows["mean", 1])
    for other in TRAINED:
        assert numbers(plain[other, 2]) != numbers(rows[other, 2])


@pytest.fixture
def logarithmic():
    """A series that is smooth in the logarithm of its levels, on a linear chart."""
    levels = np.array([1.0, 3.0, 10.0, 30.0, 100.0])
    x, w = np.log10(levels)[:, None] - 1, np.linspace(-1, 1, WAVELENGTHS)
    signal = 0.3 + 0.1 * np.cos(2 * x + 0.5 * w)
    chart = Chart.of("linear", None, levels)
    return replace(MEASURED, concentrations=levels, signal=signal, chart=chart)


def test_a_chart_that_is_given_ignores_evidence(logarithmic):
    by_evidence, given = Geometry("evidence", "evidence"), Geometry("evidence", "given")
    without = {"measured": logarithmic, "decoders__evidence_margin": None}
    chosen = rows_of(by_evidence, **without)
    kept = rows_of(given, **without)
    none = rows_of(by_evidence, **without, metric__evidence_margin=None)
    for key, row in kept.items():
        assert numbers(row) == numbers(none[key])
        if key[0] != "mean":
            assert numbers(row) != numbers(chosen[key])
    assert kept["process_linear", 1].chart == "given"
    assert chosen["process_linear", 1].rmse < kept["process_linear", 1].rmse


def test_augmentation_is_as_large_as_the_series(plain, augmented, monkeypatch):
    deviation = np.std(MEASURED.signal)
    levels = {
        "shift": 0.001 * 300,  # nm, of 400 to 700
        "scatter": 0.01,
        "offset": 0.01 * deviation,
        "slope": 0.01 * deviation,
        "detector": 0.005 * deviation,
    }
    found = fitted(("path",), monkeypatch, *learned(levels))[2]
    expected = by_hand(found.spectra, found.half_width[2])
    row = augmented["path", 2]
    assert row.augmentation == "all kinds"
    assert numbers(row) == pytest.approx(expected, rel=1e-9)
    assert row.rmse != pytest.approx(plain["path", 2].rmse, rel=1e-6)


def test_units_of_signal_and_axis_do_not_matter_to_augmentation(augmented):
    large = replace(MEASURED, signal=1000 * MEASURED.signal, axis=1e7 + 50 * MEASURED.axis)
    rows = rows_of(AUGMENTED, measured=large)
    for key, row in augmented.items():
        pooled, rmse = numbers(rows[key], ("pooled_r2", "rmse"))
        assert (pooled, rmse / 1000) == pytest.approx((row.pooled_r2, row.rmse), rel=1e-5)


def test_baselines_are_those_of_the_comparison():
    told, first = [], np.random.default_rng(1).normal(size=(4, 9))
    four = series(4, WAVELENGTHS, first)  # too few to choose among baselines, which takes long
    rows = baselines("one", four, told.append)
    assert [row.predictor for row in rows] == [*BASELINES]
    expected = Comparison.of(four).predictions
    for row in rows:
        by_this = by_hand(expected[row.predictor], measured=four.signal)
        assert numbers(row, SCORES) == pytest.approx(by_this, rel=1e-9)
        assert astuple(row)[:5] == ("one", 0, "baseline", "given", "none")
        assert (row.members, row.interior90, row.ends90) == (1, None, None)
    assert sum(told) == len(BASELINES)


def test_all_steps_of_training_are_told():
    told, own = [], parameters(decoders__evidence_margin=None)
    ablate("one", MEASURED, LEARNED, own, [1, 2], DEVICE, told.append)
    # Metric, path and scores, of two members in six folds and of one in ten inner ones.
    assert sum(told) == 3 * EPOCHS * (2 * 6 + 10)
    assert steps(MEASURED, 2, own, DEVICE) == sum(told)


def test_geometries_are_all_learnings_and_the_given_chart():
    assert len(set(GEOMETRIES)) == len(GEOMETRIES)
    assert {geometry.learning for geometry in GEOMETRIES} == set(LEARNING)
    assert {LEARNED, AUGMENTED, Geometry("end_to_end", "given"), Geometry("flat", "given")} <= {
        *GEOMETRIES
    }


def test_faint_spectra_leave_no_worst_r2():
    constant = np.tile(np.arange(1.0, 1 + LEVELS)[:, None], WAVELENGTHS)
    rows = rows_of(Geometry("flat", "given"), (1,), replace(MEASURED, signal=constant))
    row = rows["mean", 1]
    assert numbers(row, SCORES[:4]) == [None] * 4
    # Level k from the mean of the others: 5 (k - 3) / 4 off, whose mean square is 2.
    assert row.rmse == pytest.approx(5 / 4 * 2**0.5)
