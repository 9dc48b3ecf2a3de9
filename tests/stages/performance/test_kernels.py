from pathlib import Path

import numpy as np
import pytest

from geonode.compute.device import resolve
from geonode.config import PrecisionParameters
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.metric import SIZES
from geonode.geometry.perceptron import Perceptron
from geonode.learning.folds import leave_one_out
from geonode.parameters_file import read_parameters
from geonode.spectra.chart import Chart
from geonode.spectra.series import Series
from stages.performance import kernels as timings
from stages.performance.kernels import Kernels

WAVELENGTHS = 7


@pytest.fixture
def device():
    return resolve("cpu", PrecisionParameters(training="float32", geometry="float64"))


def series_of(count):
    levels = np.linspace(0.0, 60.0, count)
    signal = np.random.default_rng(0).normal(size=(count, WAVELENGTHS))
    axis = np.linspace(200, 800, WAVELENGTHS)
    return Series.of_levels(levels, axis, signal, Chart.of("linear", None, levels), {})


def kernels(series, device, **changes):
    """Of metrics that have not been trained; dots in keys are double underscores."""
    folds = len(series.concentrations) + 1
    network = Perceptron.initial(SIZES, [(0, fold) for fold in range(folds)])
    learned = LearnedMetrics(network, [series.chart] * folds)
    given = {"christoffel.resolution": 50}
    changes = given | {key.replace("__", "."): value for key, value in changes.items()}
    return Kernels(learned, series, device, read_parameters(Path("params.yaml"), changes), 2)


@pytest.fixture
def small(monkeypatch):
    """Little work for the device."""
    monkeypatch.setattr(timings, "STATIONS", {"cpu": 4})


@pytest.mark.usefixtures("small")
def test_times_and_rates_are_those_of_what_is_counted(device):
    found = kernels(series_of(5), device).measure()
    assert found["geodesics"]["rows"] == found["training"]["rows"] == 4 * 3 * WAVELENGTHS
    assert found["training"]["models"] == 5
    assert found["christoffel"]["network_calls"] < 10_000
    for name, prefix in (("christoffel", "evaluation_"), ("geodesics", ""), ("training", "epoch_")):
        part = found[name]
        assert part[f"{prefix}ms_q25"] <= part[f"{prefix}ms"] <= part[f"{prefix}ms_q75"]
    training = found["training"]
    samples = 5 * 4 * 3 * WAVELENGTHS
    assert training["trained_per_second"] == pytest.approx(1e3 * samples / training["epoch_ms"])
    predicted = 5 * 4 * WAVELENGTHS / training["predicted_per_second"]
    assert 1e3 * predicted == pytest.approx(training["prediction_ms"])


@pytest.mark.usefixtures("small")
def test_a_long_series_takes_no_longer(device, monkeypatch):
    monkeypatch.setattr(timings, "MOST_ROWS", 1000)
    found = kernels(series_of(20), device).measure()["training"]
    pairs = len(leave_one_out(20)[0].training_pairs)
    assert found["models"] == 6
    assert found["rows"] == pairs * max(1, 1000 // (6 * pairs))
