import numpy as np
import pytest
import torch

from geonode.learning.folds import Fold, leave_one_out
from geonode.learning.path_features import features_to, path_features
from tests.geometry.closed_forms import CPU
from tests.geometry.small_series import MEMBERS, small_metrics, small_series
from tests.learning.series import ordered_pairs

SINGLE = 2.0**-22  # four roundings of a float32
SERIES = small_series(5, 9)
LEARNED = small_metrics(SERIES, gain=1.5)
CHOSEN = np.array([0, 3, 8])


def by_quadrature(model, source, target):
    """Features of one path by Gauss-Legendre sums of the network; beyond [-1, 1] g is constant."""
    metric, wavelengths = LEARNED.metric(CPU)[model], torch.from_numpy(SERIES.wavelengths[CHOSEN])

    def root(positions):
        return metric(torch.from_numpy(positions)[None], wavelengths)[0].sqrt().numpy()

    ends = np.array(sorted((source, target)))
    low, high = inside = ends.clip(-1, 1)
    points, weights = np.polynomial.legendre.leggauss(64)
    nodes, weights = (low + high) / 2 + (high - low) / 2 * points, weights * (high - low) / 2
    outside = np.abs(ends - inside)[:, None] * root(inside)
    length = weights @ root(nodes) + outside.sum(0)
    moment = (weights * nodes) @ root(nodes) + ((ends + inside) / 2) @ outside
    slowest = root(np.linspace(low, high, 4_001)).min(0)
    mean = np.divide(moment, length, out=np.full_like(length, target), where=length > 0)
    rows = (target + 0 * length, mean, length, length / slowest, wavelengths.numpy())
    return np.stack(rows, axis=1)


def assert_close(found, expected):
    """Of the least sqrt(g) between sampled points the oracle is off by a little."""
    np.testing.assert_allclose(found, expected, rtol=4 * SINGLE, atol=4 * SINGLE)


def test_features_between_levels_are_those_by_quadrature_of_the_network():
    """Of every fold, on charts and networks of its own."""
    found = path_features(LEARNED, SERIES, CHOSEN)
    assert found.shape == (MEMBERS, 6, 20, 3, 5)
    assert found.dtype == np.float32
    positions = LEARNED.positions(SERIES.concentrations)
    for member, fold in ((0, 0), (1, 3), (1, 5)):
        x = positions[fold]
        expected = [by_quadrature(6 * member + fold, x[s], x[t]) for s, t in ordered_pairs(5)]
        assert_close(found[member, fold], np.stack(expected))


@pytest.mark.parametrize(
    "fold", [leave_one_out(5)[2], leave_one_out(5)[-1]], ids=["without", "all"]
)
def test_features_to_concentrations_on_between_and_beyond_the_levels(fold):
    targets = np.array([44.0, 1.0, 10.0, 20.0, 39.0, 12.0, 0.0, 10.0001])
    found = features_to(LEARNED, fold, SERIES, targets, CHOSEN)
    assert found.shape == (MEMBERS, len(fold.training), 8, 3, 5)
    assert found.dtype == np.float32
    chart = LEARNED.charts[fold.index]
    for s, source in enumerate(chart.position(SERIES.concentrations)[fold.training]):
        for t, target in enumerate(chart.position(targets)):
            assert_close(found[1, s, t], by_quadrature(6 + fold.index, source, target))


def test_what_else_is_asked_for_changes_rounding_alone():
    fold, span = Fold(5, 5, ()), SERIES.concentrations[-1]
    targets = np.random.default_rng(0).uniform(0, span, 150)
    together = features_to(LEARNED, fold, SERIES, targets, CHOSEN)
    for place in (0, 63, 64, 149):
        alone = features_to(LEARNED, fold, SERIES, targets[[place]], CHOSEN)
        np.testing.assert_allclose(together[:, :, [place]], alone, rtol=SINGLE)
