import pytest
import torch

from geonode.evaluation.grid_report import ERRORS, GridCheck, GridReport
from geonode.geometry.grid import Grid
from tests.geometry.closed_forms import CPU, DirectSource, nodes
from tests.geometry.small_series import LEVELS, MEMBERS, small_metrics, small_series

SERIES = small_series()
LEARNED = small_metrics(SERIES, gain=2.0)
METRIC = LEARNED.metric(CPU)
W = torch.from_numpy(SERIES.wavelengths)
NODES = nodes(300)
GRIDS = [DirectSource(METRIC, W).grid(model, NODES) for model in range(METRIC.network.models)]
FOLDS = LEVELS + 1


def report(grids=GRIDS):
    check = GridCheck(METRIC, W, 50)
    return GridReport(LEARNED, [check(model, grid) for model, grid in enumerate(grids)])


def test_errors_of_exact_grids_are_those_of_interpolation():
    errors = report().errors()
    assert tuple(errors) == ERRORS
    assert 0 < errors["ln_sqrt_g_error"]["max"] < 1e-8
    assert 0 < errors["christoffel_error"]["max"] < 1e-4
    assert 0 < errors["v0_error"]["max"] < 1e-7
    assert 0 < errors["endpoint_error"]["max"] < 1e-7


def test_one_bad_grid_among_many_is_seen():
    bad = GRIDS[3]
    tilted = Grid(NODES, bad.log_sqrt + 1e-3 * NODES[:, None], bad.symbol + 1e-3)
    errors = report([*GRIDS[:3], tilted, *GRIDS[4:]]).errors()
    assert errors["christoffel_error"]["max"] == pytest.approx(1e-3, rel=0.01)
    assert 5e-4 < errors["ln_sqrt_g_error"]["max"] <= 1e-3
    assert errors["v0_error"]["max"] > 1e-4
    assert errors["endpoint_error"]["max"] > 1e-4
    assert errors["v0_error"]["median"] < 1e-7


def test_statistics_are_by_the_level_left_out():
    statistics = report().statistics(SERIES.concentrations)
    names = ["without 0", "without 10", "without 20", "without 30", "all levels"]
    assert list(statistics) == names
    for fold, name in enumerate(names):
        of_fold = [torch.exp(2 * GRIDS[m * FOLDS + fold].log_sqrt) for m in range(MEMBERS)]
        assert statistics[name]["lowest"] == float(min(g.min() for g in of_fold))
        assert statistics[name]["highest"] == float(max(g.max() for g in of_fold))
