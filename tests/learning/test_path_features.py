import numpy as np
import pytest
import torch

from geonode.geometry.learned import LearnedMetrics
from geonode.geometry.metric import Metric
from geonode.learning.folds import Fold, leave_one_out
from geonode.learning.path_features import features_to, path_features
from geonode.spectra.chart import Chart
from geonode.spectra.series import Series
from tests.geometry.closed_forms import CPU, KNOWN, RECIPROCAL, columns, exponential, random_metric
from tests.geometry.small_series import LABELS, MEMBERS, small_metrics, small_series
from tests.learning.series import ordered_pairs

SINGLE = 2.0**-22  # four roundings of a float32


class Formula(Metric):
    """Metrics of position alone, one a wavelength, whatever the weights."""

    def __init__(self, known, models):
        super().__init__(random_metric(0, models=models).network)
        object.__setattr__(self, "known", known)

    def __getitem__(self, model):
        return Formula(self.known, 1)

    def __call__(self, positions, wavelengths):
        functions = [known.log_sqrt for known in self.known]
        return torch.exp(2 * torch.stack([columns(functions, x) for x in positions]))


class ByFormula(LearnedMetrics):
    known = KNOWN

    def metric(self, device):
        return Formula(self.known, self.network.models)


CONCENTRATIONS = np.array([0.0, 3.0, 4.5, 10.0, 30.0])
BY_FORMULA = (exponential(0.7), exponential(-1.9), RECIPROCAL)


def by_formula(kappa):
    """A series of three wavelengths, and metrics by formula on a chart."""
    chart, axis = Chart(kappa, 0.0, 30.0), np.array([400.0, 450.0, 700.0])
    series = Series(CONCENTRATIONS, axis, np.zeros((5, 3)), chart, LABELS)
    learned = ByFormula(random_metric(1).network.to(CPU, torch.float32), [chart])
    object.__setattr__(learned, "known", BY_FORMULA)
    return series, learned


def features(source, target, wavelengths):
    """Of a path between two positions by every formula; the extremes are where g is monotonic."""
    rows = []
    for metric, wavelength in zip(BY_FORMULA, wavelengths, strict=True):
        ends = torch.tensor([source, target])
        length = float(metric.arc_length(ends).diff().abs())
        moment = float(metric.moment(ends).diff() / metric.arc_length(ends).diff())
        speed = length / float(metric.log_sqrt(ends).exp().min())
        mean = moment if length else target
        rows.append([target, mean, length, speed, wavelength])
    return rows


@pytest.mark.parametrize("kappa", [np.inf, 4.0])
def test_features_of_metrics_by_formula(kappa):
    """Lengths and mean positions to the rounding of what is returned."""
    series, learned = by_formula(kappa)
    found = path_features(learned, series, np.arange(3))
    assert found.shape == (1, 1, 20, 3, 5)
    assert found.dtype == np.float32
    x = learned.charts[0].position(CONCENTRATIONS)
    expected = [features(x[s], x[t], series.wavelengths) for s, t in ordered_pairs(5)]
    np.testing.assert_allclose(found[0, 0], expected, rtol=SINGLE, atol=SINGLE)


def test_the_folds_of_metrics_may_be_any():
    """As inner folds are: one chart a fold, in the order (member, fold)."""
    series = small_series(4, 5)
    learned = small_metrics(series)
    charts = [series.chart, Chart.of("asinh", 2.0, series.concentrations)]
    several = LearnedMetrics(learned.network[:6], charts)
    found = path_features(several, series, np.array([1, 4]))
    assert found.shape == (3, 2, 12, 2, 5)
    for model in range(6):
        alone = LearnedMetrics(learned.network[[model]], [charts[model % 2]])
        expected = path_features(alone, series, np.array([1, 4]))[0, 0]
        np.testing.assert_array_equal(found[divmod(model, 2)], expected)


# to any concentration


def test_features_to_levels_are_those_between_them():
    """Of every fold, on charts and networks of its own."""
    series = small_series(5, 9)
    learned = small_metrics(series, gain=1.5)
    chosen = np.array([0, 3, 8])
    between = path_features(learned, series, chosen)
    for fold in leave_one_out(5):
        found = features_to(learned, fold, series, series.concentrations, chosen)
        assert found.shape == (MEMBERS, len(fold.training), 5, 3, 5)
        assert found.dtype == np.float32
        for target in range(5):
            others = [place for place, s in enumerate(fold.training) if s != target]
            without = fold.without(target)
            reached = without.paths_to_left_out(between)[:, :, [without.left_out.index(target)]]
            if target in fold.left_out:
                # All panels between two levels are there, but for the gap that is not split.
                np.testing.assert_allclose(found[:, others, target], reached[:, :, 0], rtol=2e-6)
            else:
                expected = reached[:, :, 0]
                np.testing.assert_allclose(
                    found[:, others, target][..., [0, 2, 4]], expected[..., [0, 2, 4]], rtol=1e-5
                )
                np.testing.assert_allclose(found[:, others, target], expected, rtol=5e-3)
                (place,) = set(range(len(fold.training))) - set(others)
                x = learned.charts[fold.index].position(series.concentrations)[target]
                stays = found[:, place, target]
                np.testing.assert_allclose(stays[..., :2], x, rtol=1e-6, atol=1e-7)
                assert not stays[..., 2:4].any()


def test_features_to_concentrations_between_and_beyond_the_levels_by_formula():
    series, learned = by_formula(4.0)
    targets = np.array([33.0, 1.0, 3.0, 4.5, 29.0, 12.0, 0.0, 3.0001])
    found = features_to(learned, Fold(0, 5, (2,)), series, targets, np.arange(3))
    assert found.shape == (1, 4, 8, 3, 5)
    position = learned.charts[0].position
    for s, source in enumerate(position(CONCENTRATIONS)[[0, 1, 3, 4]]):
        expected = [features(source, target, series.wavelengths) for target in position(targets)]
        np.testing.assert_allclose(found[0, s], expected, rtol=4 * SINGLE, atol=4 * SINGLE)


def test_what_else_is_asked_for_changes_rounding_alone():
    series = small_series(5, 9)
    learned = small_metrics(series, gain=1.5)
    fold, chosen = Fold(5, 5, ()), np.array([0, 8])
    span = series.concentrations[-1]
    targets = np.random.default_rng(0).uniform(0, span, 150)
    together = features_to(learned, fold, series, targets, chosen)
    for place in (0, 63, 64, 149):
        alone = features_to(learned, fold, series, targets[[place]], chosen)
        np.testing.assert_allclose(together[:, :, [place]], alone, rtol=SINGLE)
