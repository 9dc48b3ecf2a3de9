from pathlib import Path

import numpy as np
import pytest

from benchmarks.performance import benchmark, floors
from benchmarks.performance.benchmark import Kernels, time_training
from geonode.compute.device import resolve
from geonode.config import PrecisionParameters
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.metric import SIZES
from geonode.geometry.perceptron import Perceptron
from geonode.geometry.solvers.closed_form import ClosedForm
from geonode.learning.context import TrainingRun
from geonode.learning.folds import leave_one_out
from geonode.learning.kinds import KINDS
from geonode.parameters_file import read_parameters
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


def test_an_epoch_is_the_difference_of_two_trainings(monkeypatch, series, device):
    clock, epochs = [0.0], []

    def fit(series, features, block, run):
        epochs.append(block.epochs)
        clock[0] += 3 + 0.25 * block.epochs  # 3 s to begin with, and 0.25 s an epoch

    monkeypatch.setitem(KINDS, "path", KINDS["path"]._replace(fit=fit))
    monkeypatch.setattr(benchmark.time, "perf_counter", lambda: clock[0])
    features = np.zeros((1, 6, 20, WAVELENGTHS, 5))
    parameters = decoder_parameters(wavelengths=WAVELENGTHS, epochs=500)
    run = TrainingRun(leave_one_out(5)[:-1], 1, device)
    assert time_training(series, features, parameters, run, 2) == pytest.approx((0.25,) * 3)
    assert epochs == [5, 5, 25, 5, 25]


def test_every_timing_stands_beside_its_floor(monkeypatch, series, learned, device):
    monkeypatch.setattr(floors, "EDGE", {"cpu": 64})
    monkeypatch.setattr(floors, "COPIED_BYTES", {"cpu": 2**16})
    monkeypatch.setattr(benchmark, "STATIONS", {"cpu": 4})
    monkeypatch.setattr(benchmark, "PUBLISHED_EPOCHS", 3)
    learned_by, fit_metric = [], benchmark.fit_metric

    def learn(series, charts, block, run):
        learned_by.append((block.epochs, block.wavelengths, block.members, len(run.folds)))
        return fit_metric(series, charts, block, run)

    monkeypatch.setattr(benchmark, "fit_metric", learn)
    solved, solve = [], ClosedForm.solve

    def spy(form, problem, tolerance):
        solved.append((len(problem.source), form.grid.log_sqrt.shape))
        return solve(form, problem, tolerance)

    monkeypatch.setattr(ClosedForm, "solve", spy)
    changes = {"christoffel.resolution": 50, "benchmark.repeats": 2}
    parameters = read_parameters(Path("params.yaml"), changes)
    features = np.random.default_rng(0).normal(size=(1, 6, 20, WAVELENGTHS, 5))
    found = Kernels(learned, series, device, parameters).measure(features)
    assert learned_by == [(3, WAVELENGTHS, 1, 5)]
    assert solved == [(5 * 4, (50, WAVELENGTHS))] * len(LEVELS)
    assert found["geodesics"]["rows"] == found["training"]["rows"] == 4 * 3 * WAVELENGTHS
    assert found["training"]["models"] == len(LEVELS)
    assert found["christoffel"]["network_calls"] < 10_000
    for name, prefix in (("christoffel", "evaluation_"), ("geodesics", ""), ("training", "epoch_")):
        part = found[name]
        assert part["floor_ms"] > 0
        assert part["ratio_to_floor"] == pytest.approx(part[f"{prefix}ms"] / part["floor_ms"])
        assert part[f"{prefix}ms_q25"] <= part[f"{prefix}ms"] <= part[f"{prefix}ms_q75"]
    work, epoch = found["published_work"], found["training"]["epoch_ms"]
    assert work["training_seconds"] == pytest.approx(3 * epoch / 1e3)
    assert work["seconds"] == pytest.approx(work["geometry_seconds"] + 3 * epoch / 1e3)
