import itertools

import numpy as np
import pytest
import torch

from geonode.errors import GeometryError
from geonode.geometry.problem import BoundaryValueProblem, converged, ordered_pairs


@pytest.mark.parametrize("count", [2, 3, 50])
def test_all_pairs_are_the_permutations_of_two(count):
    source, target = ordered_pairs(count)
    pairs = list(zip(source.tolist(), target.tolist(), strict=True))
    assert pairs == list(itertools.permutations(range(count), 2))
    problem = BoundaryValueProblem.all_pairs(torch.linspace(-1, 1, count))
    assert torch.equal(torch.stack([problem.source, problem.target]), torch.stack([source, target]))


@pytest.mark.parametrize(
    "stations",
    [
        *([-0.5, bad] for bad in (1.0000001, 1.5, np.nan, np.inf)),
        *([0.5, -0.5], [-1.0, 0.0, 0.0, 1.0], [-1.0000001, 0.0]),
        torch.tensor([0.5, 0.5 + 1e-9, 1.0]),  # one number in float32
    ],
)
def test_stations_off_the_chart_or_out_of_order_are_refused(stations):
    with pytest.raises(GeometryError, match=r"stations: found \[.*ascending .* from -1 to 1"):
        BoundaryValueProblem.all_pairs(torch.as_tensor(stations))


def test_a_row_converges_within_the_tolerance_alone():
    nan, inf = torch.nan, torch.inf
    v0 = torch.tensor([1.0, 1.0, 1.0, nan, 1.0, inf])
    residual = torch.tensor([0.5, -0.5, -0.6, 0.0, nan, 0.0])
    assert converged(v0, residual, 0.5).tolist() == [True, True, False, False, False, False]
