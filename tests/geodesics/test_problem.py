import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from geonode.errors import GeometryError
from geonode.geodesics.problem import BoundaryValueProblem, ordered_pairs

FORWARD = torch.tensor([0]), torch.tensor([1])


@pytest.mark.parametrize("count", [2, 3, 6, 50])
def test_ordered_pairs_are_the_permutations_of_two(count):
    source, target = ordered_pairs(count)
    pairs = list(zip(source.tolist(), target.tolist(), strict=True))
    assert pairs == list(itertools.permutations(range(count), 2))


@settings(deadline=None, max_examples=30)
@given(st.sets(st.floats(-1, 1), min_size=2, max_size=50))
def test_all_pairs_of_any_ascending_stations(positions):
    stations = torch.tensor(sorted(positions), dtype=torch.float64)
    problem = BoundaryValueProblem.all_pairs(stations)
    assert torch.equal(problem.stations, stations)
    assert len(problem.source) == len(problem.target) == len(stations) * (len(stations) - 1)


@pytest.mark.parametrize("bad", [-1.0000001, 1.5, np.nan, np.inf])
def test_stations_beyond_the_chart_are_refused(bad):
    stations = torch.tensor([-0.5, bad], dtype=torch.float64)
    with pytest.raises(GeometryError, match=r"stations: found .*chart positions from -1 to 1"):
        BoundaryValueProblem(stations, *FORWARD)


@pytest.mark.parametrize("stations", [[0.5, -0.5], [-1.0, 0.0, 0.0, 1.0]])
def test_stations_that_do_not_ascend_are_refused(stations):
    with pytest.raises(GeometryError, match=r"stations: found .*ascending") as caught:
        BoundaryValueProblem(torch.tensor(stations), *FORWARD)
    assert "\n" not in str(caught.value)


def test_stations_that_float32_cannot_tell_apart_are_refused():
    close = torch.tensor([0.5, 0.5 + 1e-9, 1.0], dtype=torch.float64)
    BoundaryValueProblem.all_pairs(close)
    with pytest.raises(GeometryError, match="ascending"):
        BoundaryValueProblem.all_pairs(close.float())


def test_a_path_from_a_station_to_itself_is_refused():
    with pytest.raises(GeometryError, match=r"source and target .* equal; expected two stations"):
        BoundaryValueProblem(torch.tensor([-1.0, 1.0]), torch.tensor([0, 1]), torch.tensor([1, 1]))
