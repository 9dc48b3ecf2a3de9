import math

import numpy as np
import pytest
import torch

from geonode.geometry.grid import Grid
from geonode.geometry.statistics import MetricStatistics, metric_statistics, over_models
from tests.geometry.closed_forms import KNOWN, constant, exponential, grid_of, nodes, stretched


@pytest.mark.parametrize("make", [nodes, stretched])
@pytest.mark.parametrize("a", [0.7, -1.2])
def test_statistics_of_an_exponential_against_closed_forms(make, a):
    found = metric_statistics(grid_of([exponential(a)], make(2001)))
    mean = math.sinh(2 * a) / (2 * a)
    assert found.lowest == pytest.approx(math.exp(-2 * abs(a)), rel=1e-14)
    assert found.highest == pytest.approx(math.exp(2 * abs(a)), rel=1e-14)
    variance = math.sinh(4 * a) / (4 * a) - mean**2
    assert found.variance == pytest.approx(variance, rel=1e-5)
    assert found.roughness == pytest.approx(a**2, rel=1e-13)


@pytest.mark.parametrize("make", [nodes, stretched])
def test_statistics_against_numpy(make):
    grid = grid_of(KNOWN, make(30))
    found = metric_statistics(grid)
    x, g = grid.positions.numpy(), np.exp(2 * grid.log_sqrt.numpy())
    weights = np.concatenate([[0], np.diff(x)]) + np.concatenate([np.diff(x), [0]])
    weights = np.broadcast_to(weights[:, None] / 4, g.shape)  # half of both cells; the chart is 2
    mean = np.average(g, weights=weights)
    expected = (g.min(), g.max(), np.average((g - mean) ** 2, weights=weights))
    assert found[:3] == pytest.approx(expected, rel=1e-13)
    roughness = np.average(grid.symbol.numpy() ** 2, weights=weights)
    assert found.roughness == pytest.approx(roughness, rel=1e-13)


def test_nodes_crowded_somewhere_do_not_count_more():
    # g = 3 - x is a straight line: variance 1 / 3 + rule, mean of G^2 by partial fractions
    metric = KNOWN[0]._replace(
        log_sqrt=lambda x: 0.5 * torch.log(3 - x), symbol=lambda x: -0.5 / (3 - x)
    )
    crowd = torch.linspace(0.9, 1, 5000, dtype=torch.float64)
    positions = torch.cat([torch.linspace(-1, 0.9, 2000, dtype=torch.float64)[:-1], crowd])
    found = metric_statistics(grid_of([metric], positions))
    assert found.variance == pytest.approx(1 / 3, rel=1e-6)
    assert found.roughness == pytest.approx((1 / 2 - 1 / 4) / 8, rel=1e-6)


def test_scale_changes_the_variance_and_not_the_roughness():
    grid = grid_of(KNOWN, nodes(100))
    one, three = (
        metric_statistics(Grid(grid.positions, grid.log_sqrt + 0.5 * math.log(c), grid.symbol))
        for c in (1, 3)
    )
    assert three.variance == pytest.approx(9 * one.variance, rel=1e-12)
    assert three.roughness == one.roughness
    flat = metric_statistics(grid_of([constant(2.5)], stretched(10)))
    assert flat == pytest.approx((2.5, 2.5, 0, 0), rel=1e-14, abs=1e-25)


def test_several_models_share_one_range_and_mean():
    models = [MetricStatistics(0.5, 2.0, 0.1, 1.0), MetricStatistics(0.7, 3.0, 0.2, 3.0)]
    assert over_models(iter(models)) == pytest.approx((0.5, 3.0, 0.15, 2.0), rel=1e-15)
    assert over_models(models[:1]) == models[0]
