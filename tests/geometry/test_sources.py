import pytest
import torch

from geonode.errors import GeometryError
from geonode.geometry import sources
from geonode.geometry.chebyshev import expand
from geonode.geometry.metric import Metric
from geonode.geometry.perceptron import Perceptron
from geonode.geometry.sources import ChebyshevSource
from tests.geometry.closed_forms import DirectSource, nodes, random_metric
from tests.geometry.precision import NoWideningMove, Threads

USUAL = {"tolerance": 1e-10, "largest_degree": 512}


def source(metric, wavelengths):
    return ChebyshevSource.of(metric, wavelengths, **USUAL)


def test_an_expansion_is_as_good_as_the_network_for_a_hundredth_of_the_calls(monkeypatch):
    seen, call = [], Perceptron.__call__

    def spy(network, rows):
        seen.append(rows.shape[0] * rows.shape[1])
        return call(network, rows)

    monkeypatch.setattr(Perceptron, "__call__", spy)
    metric, w = random_metric(21, 2.0, models=3), nodes(601)
    fast, slow = source(metric, w), DirectSource(metric, w[::60])
    at = torch.arange(0, 2000, 17)
    for model in range(3):
        grid = fast.grid(model, nodes(2000)).at_wavelengths(slice(None, None, 60))
        exact = slow.grid(model, nodes(2000)[at])
        assert (grid.log_sqrt[at] - exact.log_sqrt).abs().max() <= 1e-8
        assert (grid.symbol[at] - exact.symbol).abs().max() <= 1e-6
        assert torch.equal(grid.positions, nodes(2000))
    assert fast.models == 3
    assert fast.calls == sum(seen) // 3 < 2000 * 601 / 100


def test_wavelengths_and_nodes_are_moved_before_they_are_widened(monkeypatch):
    metric, w = random_metric(0), nodes(30)
    expansion = expand(metric, **USUAL, model=0)  # starts from the CPU, where both is no harm
    monkeypatch.setattr(sources, "expand", lambda *_: expansion)
    with NoWideningMove():
        single = source(metric, w.float()).grid(0, nodes(40, torch.float32))
    double = source(metric, w.float().double()).grid(0, nodes(40, torch.float32).double())
    assert (single.symbol - double.symbol).abs().max() <= 1e-6


@pytest.mark.parametrize(("axis", "name"), [(0, "concentration"), (1, "wavelength")])
def test_a_metric_that_is_too_sharp_is_refused(axis, name):
    network = random_metric(13, models=3).network
    weights = network.weights[0].clone()
    weights[1, axis] *= 50
    metric = Metric(Perceptron((weights, *network.weights[1:]), network.biases))
    message = rf"model 1 is too sharp in {name}: at degree 48 .* raise christoffel\.largest_degree"
    with pytest.raises(GeometryError, match=message):
        ChebyshevSource.of(metric, nodes(5), tolerance=1e-8, largest_degree=48)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_not_finite_are_refused(value):
    metric = random_metric(15, models=3)
    metric.network.biases[-1][2] = value
    with pytest.raises(GeometryError, match="metric of model 2 is not finite; train it again"):
        source(metric, nodes(5))


def test_the_last_digits_do_not_depend_on_the_number_of_threads():
    metric, found, before = random_metric(0), [], torch.get_num_threads()
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            grid = source(metric, nodes(301)).grid(0, nodes(200))
            found.append((grid.log_sqrt, grid.symbol))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(part, same) for part, same in zip(*found, strict=True))
    with Threads() as expanding:
        made = source(metric, nodes(5))
    with Threads() as summing:
        made.grid(0, nodes(9))
    assert expanding.seen == summing.seen == {1}
