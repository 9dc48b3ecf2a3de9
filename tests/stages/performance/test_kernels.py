import numpy as np
import pytest

from geonode.compute.device import resolve
from geonode.config import PrecisionParameters
from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.metric import SIZES
from geonode.geometry.perceptron import Perceptron
from geonode.parameters_file import default_parameters
from stages.performance import kernels as timings
from stages.performance.kernels import Kernels
from tests.factory import series_of

WAVELENGTHS = 7


def test_times_and_rates_are_those_of_what_is_counted(monkeypatch):
    """Of metrics that have not been trained."""
    monkeypatch.setattr(timings, "STATIONS", {"cpu": 4})
    signal = np.random.default_rng(0).normal(size=(5, WAVELENGTHS))
    series = series_of(np.linspace(0.0, 60.0, 5), signal)
    network = Perceptron.initial(SIZES, [(0, fold) for fold in range(6)])
    learned = LearnedMetrics(network, [series.chart] * 6)
    device = resolve("cpu", PrecisionParameters(training="float32", geometry="float64"))
    parameters = default_parameters({"christoffel.resolution": 50})
    found = Kernels(learned, series, device, parameters, 2).measure()
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
