import pytest
import torch

from geonode.geometry.metric import Metric
from geonode.geometry.panels import Panels
from geonode.geometry.problem import ordered_pairs
from geonode.geometry.solvers.closed_form import ClosedForm
from tests.geometry.closed_forms import CPU, DirectSource, nodes, random_metric

POSITIONS = torch.tensor([[-1.0, -0.7, -0.1, 0.2, 1.0], [-1.0, 0.1, 0.5, 0.8, 1.0]]).double()
WAVELENGTHS = torch.tensor([-0.9, 0.0, 0.4]).double()


@pytest.mark.parametrize("quadrature", [2, 3, 5, 16])
def test_integration_and_differentiation_are_exact_for_polynomials(quadrature):
    panels = Panels.between(POSITIONS, quadrature)
    low, high = POSITIONS[:, :-1, None], POSITIONS[:, 1:, None]
    assert ((low < panels.nodes) & (panels.nodes < high)).all()
    for power in range(2 * quadrature):  # five nodes are exact to degree 9
        found = (panels.weights * panels.nodes**power).sum(-1)
        exact = (high ** (power + 1) - low ** (power + 1))[..., 0] / (power + 1)
        torch.testing.assert_close(found, exact, rtol=0, atol=2e-15)
    for power in range(quadrature):
        found = panels.differentiation @ (panels.nodes**power)[..., None]
        slopes = power * panels.nodes ** max(power - 1, 0)
        torch.testing.assert_close(found[..., 0], slopes, rtol=0, atol=1e-11)


def test_gaps_that_single_precision_does_not_resolve_keep_their_width():
    """Levels over nine decades on a linear chart."""
    metric, narrow = random_metric(52, 2.0), 1e-9
    levels = [-1.0, -1 + narrow, -1 + 3 * narrow, 0.5, 1.0]
    positions = torch.tensor([levels], dtype=torch.float64)
    exact = Panels.between(positions, 3)
    rounded = Panels.between(positions.float(), 3, positions.diff().float())
    assert rounded.positions.diff()[0, 0] == 0
    one = Metric(metric.network.to(CPU, torch.float32))
    found, expected = (
        panels.evaluate(by, WAVELENGTHS.to(panels.positions))
        .stations()
        .features(*(index[None] for index in ordered_pairs(5)))
        for panels, by in ((rounded, one), (exact, metric))
    )
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=0)


def test_metric_and_symbol_at_the_nodes():
    metric, errors = random_metric(52, 2.0, models=2), []
    for quadrature in (4, 8, 16, 32):
        panels = Panels.between(POSITIONS, quadrature)
        found = panels.evaluate(metric, WAVELENGTHS)
        log_sqrt, symbol = metric.with_symbol(panels.nodes.flatten(1), WAVELENGTHS)
        g = torch.exp(2 * log_sqrt)
        torch.testing.assert_close(found.metric.flatten(1, 2), g, rtol=1e-13, atol=0)
        errors.append(float((found.symbol().flatten(1, 2) - symbol).abs().max()))
    assert errors[0] > 1e2 * errors[1] > 1e4 * errors[2]  # faster than any power
    assert errors[-1] <= 1e-11


def test_stations_are_those_of_a_fine_grid():
    """But for the least sqrt(g), which is sought between nodes in a grid alone."""
    metric = random_metric(3, models=2)
    stations = Panels.between(POSITIONS, 24).evaluate(metric, WAVELENGTHS).stations()
    for model in range(2):
        grid = DirectSource(metric, WAVELENGTHS).grid(model, nodes(2000))
        found, expected = stations[model], ClosedForm(grid).stations(POSITIONS[model], WAVELENGTHS)
        for name in ("length", "moment", "root"):
            parts = getattr(found, name), getattr(expected, name)
            torch.testing.assert_close(*parts, rtol=1e-10, atol=1e-11)
        torch.testing.assert_close(found.slowest, expected.slowest, rtol=1e-3, atol=0)
        assert (found.slowest >= expected.slowest * (1 - 1e-9)).all()
