import numpy as np
import pytest
import torch

from geonode.config import PrecisionParameters
from geonode.devices.device import resolve
from geonode.evaluation import benchmark
from geonode.evaluation.benchmark import time_geodesics, time_sequential, time_training
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.metric import SIZES
from geonode.geometry.perceptron import Perceptron
from geonode.learning.decoders import KINDS
from geonode.reference.sequential import MetricModule, SequentialSolver
from geonode.spectra.chart import Chart
from geonode.spectra.series import Series
from tests.learning.series import decoder_parameters

LEVELS = np.array([0.0, 10.0, 20.0, 30.0, 60.0])
WAVELENGTHS = 7


@pytest.fixture
def device():
    return resolve("cpu", PrecisionParameters(training="float32", geometry="float64"))


@pytest.fixture
def series():
    signal = np.random.default_rng(0).normal(size=(len(LEVELS), WAVELENGTHS))
    axis = np.linspace(200, 800, WAVELENGTHS)
    return Series(LEVELS, axis, signal, Chart.of("linear", None, LEVELS), {})


@pytest.fixture
def learned(series):
    folds = len(LEVELS) + 1
    network = Perceptron.initial(SIZES, [(0, fold) for fold in range(folds)])
    return LearnedMetrics(network, [series.chart] * folds)


def in_order(quartiles):
    return 0 < quartiles.q25 <= quartiles.median <= quartiles.q75


def test_every_geodesic_of_one_model_is_solved(series, learned, device):
    rows, seconds = time_geodesics(learned, series, device, resolution=50, repeats=3)
    assert rows == 5 * 4 * WAVELENGTHS
    assert in_order(seconds)


def test_the_sequential_way_is_timed_per_metric_call(monkeypatch, series, learned, device):
    solved, done = [], []

    def solve(solver, source, target, w):
        solved.append((source, target, w))
        solver.calls = 4  # the first solve takes 4 s, the second 8 s: 1 s and 2 s a call

    clock = iter([0.0, 4.0, 10.0, 18.0])
    monkeypatch.setattr(SequentialSolver, "solve", solve)
    monkeypatch.setattr(benchmark.time, "perf_counter", lambda: next(clock))
    seconds = time_sequential(learned, series, device, sample=2, report=done.append)
    assert seconds == (1.5, 1.25, 1.75)
    assert sum(done) == 2
    for source, target, w in solved:
        # Levels and wavelengths of the series, on the chart.
        assert source != target
        assert {source, target} <= set(series.positions)
        assert w in series.wavelengths


def test_the_sequential_way_runs_in_the_training_format_on_one_thread(
    monkeypatch, series, learned, device
):
    monkeypatch.setattr("geonode.reference.sequential.STEPS", 2)
    formats, threads = [], []
    forward = MetricModule.forward

    def spy(module, points):
        formats.extend(parameter.dtype for parameter in module.parameters())
        threads.append(torch.get_num_threads())
        return forward(module, points)

    monkeypatch.setattr(MetricModule, "forward", spy)
    seconds = time_sequential(learned, series, device, sample=3)
    assert in_order(seconds)
    assert set(formats) == {torch.float32}
    assert set(threads) == {1}
    assert len(threads) == 3 * (10 * 2 * 6 + 1)


def test_an_epoch_is_the_difference_of_two_trainings(monkeypatch, series, device):
    epochs = []

    def fit(series, features, block, run):
        epochs.append(block.epochs)

    def timed(call, repeats, synchronise):
        call()
        # 3 s to begin with, and 0.25 s an epoch.
        return benchmark.Quartiles.of([3 + 0.25 * epochs[-1]] * repeats)

    monkeypatch.setitem(KINDS, "path", KINDS["path"]._replace(fit=fit))
    monkeypatch.setattr(benchmark, "time_calls", timed)
    features = np.zeros((1, 6, 20, WAVELENGTHS, 5))
    parameters = decoder_parameters(wavelengths=WAVELENGTHS, epochs=500)
    assert time_training(series, features, parameters, device, 2) == pytest.approx(0.25)
    assert epochs == [5, 25]
    assert parameters.epochs == 500


def test_all_decoders_are_trained_before_and_in_every_repetition(monkeypatch, series, device):
    random = np.random.default_rng(0)
    features = random.normal(size=(1, 6, 20, WAVELENGTHS, 5))
    trained = []
    train = KINDS["path"].fit

    def fit(*arguments):
        trained.append(train(*arguments)[0])

    monkeypatch.setitem(KINDS, "path", KINDS["path"]._replace(fit=fit))
    seconds = time_training(
        series, features, decoder_parameters(wavelengths=WAVELENGTHS), device, 2
    )
    assert np.isfinite(seconds)  # a difference of timings: on a busy machine it may be negative
    assert [decoders.network.models for decoders in trained] == [6] * (2 * 3)
