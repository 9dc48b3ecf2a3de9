from dataclasses import replace

import numpy as np
import pytest
import torch

from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.metric import SIZES
from geonode.geometry.perceptron import Perceptron
from geonode.geometry.solved import Geodesics
from geonode.geometry.stored import StoredGrids, write_grids
from geonode.learning.between import Between
from geonode.spectra.chart import Chart
from tests.geometry.closed_forms import CPU, DirectSource, nodes
from tests.geometry.small_series import small_metrics, small_series
from tests.geometry.test_solved import DOUBLE, parameters

SERIES = small_series()
LEARNED = small_metrics(SERIES)
LEVELS = SERIES.concentrations
CONSTANT = np.log(2) + 0.1  # softplus(0) and the floor


def constant(chart):
    """Metrics that are constant on a chart: geodesics are straight there."""
    network = Perceptron.initial(SIZES, [(0,)] * (len(LEVELS) + 1))
    for parameter in network.parameters:
        parameter.zero_()
    return LearnedMetrics(network, [chart] * (len(LEVELS) + 1))


def test_in_a_constant_metric_of_ln_c_the_path_is_geometric(tmp_path):
    known = np.array([1.0, 10.0, 30.0, 100.0])
    series, chart = replace(SERIES, concentrations=known), Chart.of("log", None, known)
    found = Between.of(series, constant(chart), (40.0, 2.5), SERIES.axis[:2], tmp_path / "none")
    v0 = 2 * np.log(2.5 / 40) / np.log(100)  # of the chart, which is 2 wide
    np.testing.assert_allclose(found.path, [40 * (2.5 / 40) ** found.times] * 2, rtol=1e-9)
    np.testing.assert_allclose(found.velocity, v0, rtol=1e-9)
    np.testing.assert_allclose(found.length, abs(v0) * np.sqrt(CONSTANT), rtol=1e-9)
    assert found.method == "closed_form"
    assert found.converged.all()
    assert found.residual.max() <= 1e-9


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Geodesics of two members, stored with 11 times."""
    folder = tmp_path_factory.mktemp("between")
    source = DirectSource(LEARNED.metric(CPU), torch.from_numpy(SERIES.wavelengths))
    options = {"chosen": None, "check": lambda *one: None}
    write_grids(folder / "grids", source.grid, nodes(200), LEARNED, SERIES, **options)
    grids, block = StoredGrids(folder / "grids", LEARNED, SERIES, None), parameters(time_points=11)
    Geodesics(grids, LEARNED, SERIES, None, block, DOUBLE).solve(folder / "geodesics")
    return folder / "geodesics"


def test_stored_geodesics_are_those_that_are_solved_where_none_are(stored, tmp_path):
    ends, at = (float(LEVELS[2]), float(LEVELS[0])), SERIES.axis[[1, 3]]
    read, solved = (Between.of(SERIES, LEARNED, ends, at, p) for p in (stored, tmp_path / "none"))
    assert (read.method, solved.method) == ("stored", "closed_form")
    for name in ("times", "path", "velocity", "length", "residual"):
        expected = getattr(solved, name)
        np.testing.assert_allclose(getattr(read, name), expected, rtol=1e-5, atol=1e-5)
    assert not np.allclose(read.path, np.linspace(*ends, 11), atol=1e-2)  # they are bent
    np.testing.assert_allclose(read.path[:, [0, -1]], [ends] * 2, atol=1e-4)


@pytest.mark.parametrize(
    ("ends", "at"),
    [((LEVELS[0] + 1, LEVELS[2]), SERIES.axis[:1]), (LEVELS[:2], [SERIES.axis[0] + 0.1])],
)
def test_between_levels_and_wavelengths_geodesics_are_solved(stored, ends, at):
    found = Between.of(SERIES, LEARNED, tuple(map(float, ends)), np.array(at), stored)
    assert found.method == "closed_form"
    np.testing.assert_allclose(found.path[:, [0, -1]], [ends], rtol=1e-6, atol=1e-9)
