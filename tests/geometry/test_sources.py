from pathlib import Path

import pytest
import torch

from geonode.errors import GeometryError
from geonode.geometry import sources
from geonode.geometry.chebyshev import expand
from geonode.geometry.metric import Metric
from geonode.geometry.perceptron import Perceptron
from geonode.geometry.sources import ROWS, ChebyshevSource, DirectSource
from geonode.parameters_file import read_parameters
from tests.geometry.closed_forms import CPU, nodes, random_metric, stretched
from tests.geometry.precision import NoWideningMove
from tests.geometry.small_series import small_metrics, small_series

PARAMETERS = read_parameters(Path(__file__).parents[2] / "params.yaml").christoffel
USUAL = {
    "tolerance": PARAMETERS.expansion_tolerance,
    "largest_degree": PARAMETERS.largest_degree,
}
WAVELENGTHS = 601


def source(kind, metric, wavelengths):
    if kind == "direct":
        return DirectSource(metric, wavelengths)
    return ChebyshevSource.of(metric, wavelengths, **USUAL)


KINDS = pytest.mark.parametrize("kind", ["chebyshev", "direct"])


@pytest.mark.parametrize("gain", [1.0, 2.0])
@pytest.mark.parametrize("seed", [21, 22])
def test_an_expansion_is_as_good_as_the_network_for_a_hundredth_of_the_calls(gain, seed):
    metric, w = random_metric(seed, gain, models=2), nodes(WAVELENGTHS)
    fast = ChebyshevSource.of(metric, w, **USUAL)
    at, some = torch.arange(0, 2000, 17), torch.arange(0, WAVELENGTHS, 60)
    for model in range(2):
        grid = fast.grid(model, nodes(2000)).at_wavelengths(some)
        log_sqrt, symbol = metric[model].with_symbol(nodes(2000)[None, at], w[some])
        assert (grid.log_sqrt[at] - log_sqrt[0]).abs().max() <= 1e-9
        assert (grid.symbol[at] - symbol[0]).abs().max() <= 1e-7
    assert 100 * fast.calls <= 2000 * WAVELENGTHS


@pytest.mark.parametrize("make", [nodes, stretched])
def test_chebyshev_and_direct_grids_agree(make):
    metric, w, positions = random_metric(21, 2.0, models=3), nodes(20), make(150)
    fast = ChebyshevSource.of(metric, w, tolerance=1e-12, largest_degree=192)
    slow = DirectSource(metric, w)
    assert fast.models == slow.models == 3
    for model in range(3):
        one, other = fast.grid(model, positions), slow.grid(model, positions)
        assert torch.equal(one.positions, positions)
        assert torch.equal(other.positions, positions)
        torch.testing.assert_close(one.log_sqrt, other.log_sqrt, rtol=0, atol=1e-11)
        torch.testing.assert_close(one.symbol, other.symbol, rtol=0, atol=1e-9)


def test_calls_are_counted_for_each_model():
    metric, w = random_metric(21, 2.0, models=3), nodes(20)
    slow = DirectSource(metric, w)
    assert slow.calls == 0
    for round_ in (1, 2):
        for model in range(3):
            slow.grid(model, nodes(150))
        assert slow.calls == round_ * 150 * 20


def test_calls_of_expansions_are_the_rows_that_the_networks_saw(monkeypatch):
    seen, call = [], Perceptron.__call__

    def spy(network, rows):
        seen.append(rows.shape[0] * rows.shape[1])
        return call(network, rows)

    monkeypatch.setattr(Perceptron, "__call__", spy)
    fast = ChebyshevSource.of(random_metric(21, 2.0, models=3), nodes(20), **USUAL)
    fast.grid(0, nodes(150))
    assert fast.calls == sum(seen) // 3


def test_every_model_has_the_degrees_that_it_needs():
    sharp, smooth = random_metric(21, 4.0), random_metric(21, 0.5)
    alone = [ChebyshevSource.of(metric, nodes(9), **USUAL) for metric in (sharp, smooth)]
    pair = zip(sharp.network.parameters, smooth.network.parameters, strict=True)
    joined = [torch.cat(parts) for parts in pair]
    both = Metric(Perceptron(tuple(joined[:3]), tuple(joined[3:])))
    together = ChebyshevSource.of(both, nodes(9), **USUAL)
    shapes = [part.coefficients[0].shape for part in alone]
    assert [part.shape for part in together.coefficients] == shapes
    assert shapes[0][0] > 2 * shapes[1][0]
    for model, one in enumerate(alone):
        grids = [source.grid(m, nodes(50)) for source, m in ((together, model), (one, 0))]
        torch.testing.assert_close(*(grid.symbol for grid in grids), rtol=0, atol=1e-12)


@KINDS
@pytest.mark.parametrize("resolution", [1, ROWS - 1, ROWS, ROWS + 1, 3 * ROWS])
def test_a_grid_holds_the_values_of_its_own_model_node_and_wavelength(kind, resolution):
    metric, w = random_metric(22, 1.0, models=2), stretched(7)
    positions = torch.linspace(-1, 0.9, resolution, dtype=torch.float64)
    grid = source(kind, metric, w).grid(1, positions)
    assert grid.log_sqrt.shape == grid.symbol.shape == (resolution, 7)
    for node, column in ((0, 5), (resolution - 1, 0), (resolution // 2, 6)):
        at = positions[None, [node]], w[None, [column]]
        log_sqrt, symbol = metric[1].at_points(*at)
        assert grid.log_sqrt[node, column] == pytest.approx(float(log_sqrt), abs=1e-9)
        assert grid.symbol[node, column] == pytest.approx(float(symbol), abs=1e-7)
        assert grid.log_sqrt[node, column] != pytest.approx(
            float(metric[0].at_points(*at)[0]), abs=1e-3
        )


@KINDS
@pytest.mark.parametrize("gain", [2.0, 4.0])
def test_float32_grids_lose_no_more_than_rounding(kind, gain):
    metric, w, x = random_metric(21, gain), nodes(20), nodes(150, torch.float32)
    grid = source(kind, metric, w).grid(0, x)
    log_sqrt, symbol = metric.with_symbol(x.double()[None], w)
    assert grid.log_sqrt.dtype == grid.symbol.dtype == torch.float32
    assert (grid.log_sqrt - log_sqrt[0]).abs().max() <= 1e-6 * max(1, log_sqrt.abs().max())
    assert (grid.symbol - symbol[0]).abs().max() <= 2e-6 * symbol.abs().max()


@KINDS
def test_wavelengths_and_nodes_are_moved_before_they_are_widened(kind, monkeypatch):
    metric, w = random_metric(0), nodes(30)
    expansion = expand(metric, **USUAL)  # starts from the CPU, where both at once is no harm
    monkeypatch.setattr(sources, "expand", lambda *_: expansion)
    with NoWideningMove():
        single = source(kind, metric, w.float()).grid(0, nodes(40, torch.float32))
        with pytest.raises(TypeError, match="at once"):
            w.float().to(w)
    double = source(kind, metric, w.float().double()).grid(0, nodes(40, torch.float32).double())
    assert (single.symbol - double.symbol).abs().max() <= 1e-6


@pytest.mark.parametrize(("axis", "name"), [(0, "concentration"), (1, "wavelength")])
def test_a_metric_that_is_too_sharp_is_refused_but_has_a_direct_grid(axis, name):
    network = random_metric(13, 1.0, models=3).network
    weights = network.weights[0].clone()
    weights[1, axis] *= 50
    metric = Metric(Perceptron((weights, *network.weights[1:]), network.biases))
    message = rf"model 1 is too sharp in {name}: at degree 48 .* christoffel\.method to direct"
    with pytest.raises(GeometryError, match=message):
        ChebyshevSource.of(metric, nodes(5), tolerance=1e-8, largest_degree=48)
    DirectSource(metric, nodes(5)).grid(1, nodes(9)).require_valid()


@pytest.mark.parametrize("source", [ChebyshevSource, DirectSource])
def test_the_last_digits_do_not_depend_on_the_number_of_threads(source):
    series = small_series()
    metric, wavelengths = small_metrics(series).metric(CPU), torch.linspace(-1, 1, 601).double()
    found, before = [], torch.get_num_threads()
    try:
        for threads in (1, 2, 3, 4):
            torch.set_num_threads(threads)
            options = {"tolerance": 1e-12, "largest_degree": 512}
            one = source.of(metric, wavelengths, **options) if hasattr(source, "of") else None
            grid = (one or source(metric, wavelengths)).grid(0, torch.linspace(-1, 1, 300).double())
            found.append((grid.log_sqrt, grid.symbol))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    for one in found[1:]:
        assert all(torch.equal(part, same) for part, same in zip(one, found[0], strict=True))
