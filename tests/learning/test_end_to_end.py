import math

import torch

from geonode.geometry.metric import SIZES
from geonode.geometry.perceptron import Perceptron
from geonode.learning import objective
from geonode.learning.end_to_end import METRIC_STREAM, TERMS, EndToEnd, penalties
from tests.learning.series import metric_parameters, positions, run, series

LEVELS, WAVELENGTHS = 4, 9
SERIES = series(LEVELS, WAVELENGTHS)


def fit(dtype=torch.float32, **changes):
    objective_of_all = EndToEnd(SERIES, positions(LEVELS), metric_parameters(**changes))
    return objective.fit(objective_of_all, run(LEVELS, 1, dtype))


def test_penalties_by_hand():
    e = math.e
    # Two models, one panel, two nodes, two wavelengths; bounds of ln g are -1 and 1.
    metric = torch.tensor([[[[1.0, e**3], [e**-2, 1.0]]], [[[e, 1 / e], [1.0, 1.0]]]])
    symbol = torch.tensor([[[[1.0, -2.0], [0.0, 3.0]]], [[[0.0, 0.0], [0.0, 0.5]]]])
    features = torch.full((2, 1, 2, 5), 7.0)  # other features do not count
    features[..., 2] = torch.tensor([[[1.0, 3.0]], [[0.0, 2.0]]])
    parameters = metric_parameters(
        smoothness_weight=10.0, bounds=(1 / e, e), bounds_weight=100.0, length_weight=1000.0
    )
    smoothness, bounds, length = penalties(metric, symbol, features, parameters)
    torch.testing.assert_close(smoothness, torch.tensor([10 * 14 / 4, 10 * 0.25 / 4]))
    # Excess 2 above and 1 below in four values; the second model just touches both bounds.
    torch.testing.assert_close(bounds, torch.tensor([100 * 5 / 4, 0.0]), atol=1e-4, rtol=1e-5)
    torch.testing.assert_close(length, torch.tensor([1000 * 10 / 2, 1000 * 4 / 2]))


def test_history_holds_weighted_terms():
    # Only the first epoch: before any step, so that a weight scales its term and nothing else.
    # Bounds that no metric keeps give the bounds something to say.
    narrow = {"epochs": 1, "bounds": (1.0, 1.0001), "dtype": torch.float64}
    weights = {f"{term}_weight": 1.0 for term in TERMS[1:]}
    _, one = fit(**narrow, **weights)
    _, other = fit(**narrow, **{name: k * weights[name] for k, name in enumerate(weights, 2)})
    assert torch.all(one > 0)
    torch.testing.assert_close(other, one * torch.tensor([1.0, 2.0, 3.0, 4.0])[:, None])


def test_the_reconstruction_alone_moves_every_layer_of_every_metric():
    # Without penalties gradients reach the metric through the features and nothing else. The first
    # step of Adam is the learning rate wherever there is a gradient, and none where it is zero.
    network, _ = fit(epochs=1, smoothness_weight=0.0, bounds_weight=0.0, length_weight=0.0)
    first = Perceptron.initial(SIZES, [(0, METRIC_STREAM, 0, fold) for fold in range(LEVELS + 1)])
    for part, before in zip(network.parameters, first.parameters, strict=True):
        moved = (part - before).abs().flatten(1).amax(1)
        assert torch.all(moved > 0.9 * 0.005)
