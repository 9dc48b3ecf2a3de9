import numpy as np
import pytest

from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.metric import SIZES
from geonode.geometry.perceptron import Perceptron
from geonode.learning.between import between
from geonode.spectra.chart import Chart
from geonode.spectra.series import Series
from tests.geometry.test_solved import LEARNED, SERIES, parameters, solve
from tests.geometry.test_solved import stored as grids_of

LEVELS = SERIES.concentrations
TIMES = np.linspace(0, 1, 11)
CONSTANT = np.log(2) + 0.1  # softplus(0) and the floor


def paths(table):
    return table.filter(like="t=").to_numpy()


def constant(chart):
    """Metrics that are constant on a chart: geodesics are straight there."""
    network = Perceptron.initial(SIZES, [(0,)] * (len(LEVELS) + 1))
    for parameter in network.parameters:
        parameter.zero_()
    return LearnedMetrics(network, [chart] * (len(LEVELS) + 1))


def test_in_a_constant_metric_of_ln_c_the_path_is_geometric(tmp_path):
    known = np.array([1.0, 10.0, 30.0, 100.0])
    chart = Chart.of("log", None, known)
    series = Series.of_levels(known, SERIES.axis, SERIES.signal, chart, SERIES.labels)
    found = between(series, constant(chart), (40.0, 2.5), SERIES.axis[:2], tmp_path / "none")
    v0 = 2 * np.log(2.5 / 40) / np.log(100)  # of the chart, which is 2 wide
    np.testing.assert_allclose(paths(found), [40 * (2.5 / 40) ** TIMES] * 2, rtol=1e-9)
    np.testing.assert_allclose(found["initial_velocity"], v0, rtol=1e-9)
    np.testing.assert_allclose(found["length"], abs(v0) * np.sqrt(CONSTANT), rtol=1e-9)
    assert {*found["method"], *found["status"]} == {"closed_form", "converged"}
    assert found["residual"].max() <= 1e-9


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Geodesics of two members, stored with 11 times."""
    folder = tmp_path_factory.mktemp("between")
    grids = grids_of(folder / "grids")
    solve(folder / "geodesics", grids, parameters(time_points=11), chosen=None)
    return folder / "geodesics"


def test_stored_geodesics_are_those_that_are_solved_where_none_are(stored, tmp_path):
    ends, at = (float(LEVELS[2]), float(LEVELS[0])), SERIES.axis[[1, 3]]
    read, solved = (between(SERIES, LEARNED, ends, at, p) for p in (stored, tmp_path / "none"))
    assert ({*read["method"]}, {*solved["method"]}) == ({"stored"}, {"closed_form"})
    for name in read.columns.drop(["method", "status"]):
        np.testing.assert_allclose(read[name], solved[name], rtol=1e-5, atol=1e-4)
    assert not np.allclose(paths(read), np.linspace(*ends, 11), atol=1e-2)  # they are bent
    for other in ((ends[0] + 1, ends[1]), at), (ends, at + 0.1):
        assert {*between(SERIES, LEARNED, *other, stored)["method"]} == {"closed_form"}
