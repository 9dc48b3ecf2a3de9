import numpy as np
import pytest
import torch

from geonode.geodesics.panels import Panels
from geonode.geodesics.problem import BoundaryValueProblem, ordered_pairs
from geonode.geodesics.solvers.closed_form import ClosedForm
from geonode.geometry.metric import Metric
from geonode.geometry.perceptron import Perceptron
from geonode.geometry.sources import DirectSource
from geonode.geometry.trainable import TrainablePerceptron
from tests.geometry.closed_forms import CPU, nodes, order, random_metric, with_gradients
from tests.geometry.precision import NoFloat64

POSITIONS = torch.tensor([[-1.0, -0.7, -0.1, 0.2, 1.0], [-1.0, 0.1, 0.5, 0.8, 1.0]]).double()
WAVELENGTHS = torch.tensor([-0.9, 0.0, 0.4]).double()
SOURCE, TARGET = (index.expand(2, -1) for index in ordered_pairs(5))
FINAL, MEAN, LENGTH, FASTEST, WAVELENGTH = range(5)


def geometry(metric, quadrature, positions=POSITIONS, source=SOURCE, target=TARGET):
    at = Panels.between(positions, quadrature).evaluate(metric, WAVELENGTHS.to(positions))
    return at, at.stations().features(source, target)


def test_nodes_and_weights_are_those_of_every_gap():
    panels = Panels.between(POSITIONS, 5)
    low, high = POSITIONS[:, :-1, None], POSITIONS[:, 1:, None]
    assert ((low < panels.nodes) & (panels.nodes < high)).all()
    for power in range(10):  # five nodes are exact to degree 9
        found = (panels.weights * panels.nodes**power).sum(-1)
        exact = (high ** (power + 1) - low ** (power + 1))[..., 0] / (power + 1)
        torch.testing.assert_close(found, exact, rtol=0, atol=1e-15)


@pytest.mark.parametrize("quadrature", [2, 3, 8, 16])
def test_differentiation_is_exact_for_polynomials(quadrature):
    panels = Panels.between(POSITIONS, quadrature)
    polynomial = np.polynomial.Polynomial(np.random.default_rng(0).normal(size=quadrature))
    values, slopes = (
        torch.from_numpy(f(panels.nodes.numpy())) for f in (polynomial, polynomial.deriv())
    )
    found = torch.einsum("mpij,mpj->mpi", panels.differentiation, values)
    torch.testing.assert_close(found, slopes, rtol=0, atol=1e-11)


def test_features_against_the_closed_form_on_charts_of_their_own():
    metric = random_metric(52, 3.0, models=2)
    _, found = geometry(metric, 24)
    source = DirectSource(metric, WAVELENGTHS)
    for model in range(2):
        closed_form = ClosedForm(source.grid(model, nodes(2000)))
        problem = BoundaryValueProblem.all_pairs(POSITIONS[model])
        expected = closed_form.stations(POSITIONS[model], WAVELENGTHS).every_path()[1]
        smooth = [FINAL, MEAN, LENGTH, WAVELENGTH]
        error = (found[model] - expected).abs()
        assert error[..., smooth].max() <= 1e-11
        # The minimum is over nodes and concentrations of the path, and so never too small.
        at = torch.cat([POSITIONS, Panels.between(POSITIONS, 24).nodes.flatten(1)], 1)[model]
        log_sqrt = metric[model].log_sqrt(at[None], WAVELENGTHS)[0]
        a, b = (problem.stations[i][:, None] for i in (problem.source, problem.target))
        on_path = (torch.minimum(a, b) <= at) & (at <= torch.maximum(a, b))
        smallest = torch.where(on_path[..., None], log_sqrt, torch.inf).amin(1).exp()
        fastest = found[model][..., FASTEST]
        torch.testing.assert_close(fastest, expected[..., LENGTH] / smallest, rtol=1e-11, atol=0)
        assert (fastest <= expected[..., FASTEST] * (1 + 1e-8)).all()
        # It is missed by at most half a step times the largest symbol.
        missed = (expected[..., FASTEST] / fastest).log()
        assert (
            missed <= 0.5 * at.sort().values.diff().max() * closed_form.grid.symbol.abs().max()
        ).all()
        assert missed.max() > 1e-7


def test_metric_and_symbol_at_the_nodes():
    metric = random_metric(52, 2.0, models=2)
    errors = []
    for quadrature in (4, 8, 16, 32):
        found, _ = geometry(metric, quadrature)
        at = Panels.between(POSITIONS, quadrature).nodes.flatten(1)
        log_sqrt, symbol = metric.with_symbol(at, WAVELENGTHS)
        torch.testing.assert_close(
            found.metric.flatten(1, 2), torch.exp(2 * log_sqrt), rtol=1e-13, atol=0
        )
        errors.append(float((found.symbol().flatten(1, 2) - symbol).abs().max()))
    assert errors[0] > 1e2 * errors[1] > 1e4 * errors[2]  # faster than any power
    assert errors[-1] <= 1e-11


@pytest.mark.parametrize("quadrature", [1, 2, 3])
def test_order_of_the_quadrature(quadrature):
    metric = random_metric(53, 2.0, models=1)
    ends = torch.tensor([[0]]), torch.tensor([[-1]])
    counts = [6, 12, 24, 48]

    def length(panels, quadrature):
        target = torch.tensor([[panels]])
        return geometry(metric, quadrature, nodes(panels + 1)[None], ends[0], target)[1]

    truth = length(8, 30)[..., [MEAN, LENGTH]]
    errors = [
        (length(n, quadrature)[..., [MEAN, LENGTH]] - truth).abs().amax((0, 1, 2)) for n in counts
    ]
    for feature in range(2):
        slope = order([1 / n for n in counts], [float(e[feature]) for e in errors])
        assert slope == pytest.approx(2 * quadrature, abs=0.3)


def test_one_metric_on_many_charts_is_that_on_every_one():
    metric = random_metric(52, 2.0)
    at, _ = geometry(metric, 5)
    for model in range(2):
        alone, _ = geometry(metric, 5, POSITIONS[model : model + 1], SOURCE[:1], TARGET[:1])
        for name in ("metric", "inside", "ends"):
            found, expected = getattr(at, name)[model], getattr(alone, name)[0]
            torch.testing.assert_close(found, expected, rtol=1e-13, atol=0)


def test_a_model_is_the_same_alone():
    metric = random_metric(54, 1.0, models=2)
    together = geometry(metric, 6)
    for model in range(2):
        pick = slice(model, model + 1)
        alone = geometry(metric[model], 6, POSITIONS[pick], SOURCE[pick], TARGET[pick])
        torch.testing.assert_close(alone[1][0], together[1][model], rtol=1e-13, atol=1e-14)
        symbols = alone[0].symbol()[0], together[0].symbol()[model]
        torch.testing.assert_close(*symbols, rtol=1e-11, atol=1e-12)


def test_every_model_may_have_pairs_of_its_own():
    metric = random_metric(54, 1.0, models=2)
    _, every = geometry(metric, 6)
    rows = torch.tensor([[3, 0, 11], [19, 7, 8]])
    _, some = geometry(metric, 6, source=SOURCE.gather(1, rows), target=TARGET.gather(1, rows))
    for model in range(2):
        torch.testing.assert_close(some[model], every[model, rows[model]], rtol=1e-14, atol=0)


def test_gradients_of_the_smooth_features():
    sizes = (2, 3, 1)
    tiny = with_gradients(Perceptron.initial(sizes, [(0,), (1,)]).to(CPU, torch.float64))
    source, target = torch.tensor([[0, 4], [3, 1]]), torch.tensor([[2, 1], [0, 4]])

    def features(*tensors):
        metric = Metric(Perceptron(tensors[:2], tensors[2:]))
        at, paths = geometry(metric, 3, source=source, target=target)
        return paths[..., [FINAL, MEAN, LENGTH]], at.symbol()

    assert torch.autograd.gradcheck(features, tiny.parameters, fast_mode=True)
    assert torch.autograd.gradgradcheck(features, tiny.parameters, fast_mode=True)
    assert torch.autograd.gradcheck(lambda *t: features(*t)[0][..., 1:].sum(), tiny.parameters)


def test_gradient_of_the_maximum_speed_off_its_kinks():
    metric = random_metric(55, 1.0, models=2)
    network = TrainablePerceptron.of(metric.network)
    weight = network.weights[-1]
    direction = torch.randn(weight.shape, generator=torch.Generator().manual_seed(0)).to(weight)

    def fastest(network):
        return geometry(Metric(network), 4)[1][..., FASTEST].sum()

    fastest(network).backward()
    end = network.decayed[0].shape[1]  # the last weights are followed by the biases
    of_weight = network.joined.grad[:, end - weight[0].numel() : end].view_as(weight)
    h = 1e-6
    plus, minus = (
        Perceptron((*network.weights[:-1], weight.detach() + s * direction), network.biases)
        for s in (h, -h)
    )
    slope = (fastest(plus) - fastest(minus)).item() / (2 * h)
    assert float((of_weight * direction).sum()) == pytest.approx(slope, rel=1e-7)


def test_float32_needs_no_double_precision():
    network = random_metric(56, 2.0, models=2).network.to(CPU, torch.float32)
    metric = Metric(TrainablePerceptron.of(network))
    positions = POSITIONS.float()
    with NoFloat64():
        at, found = geometry(metric, 8, positions)
        (found.sum() + at.symbol().square().sum()).backward()
        metric.log_sqrt(positions, WAVELENGTHS.float())
        metric.with_symbol(positions, WAVELENGTHS.float())
    assert found.dtype == torch.float32
    _, double = geometry(Metric(metric.network.detached().to(CPU, torch.float64)), 8)
    error = (found - double).abs() / double.abs().clamp(min=1)
    assert error.max() <= 1e-6
