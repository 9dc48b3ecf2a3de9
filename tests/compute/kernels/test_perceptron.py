import importlib
import itertools

import numpy as np
import pytest
import torch

from geonode.compute.kernels.available import trains
from geonode.compute.products import fast_products
from geonode.geometry import trainable
from geonode.geometry.perceptron import Perceptron

pytest.importorskip("triton")
kernel = importlib.import_module("geonode.compute.kernels.perceptron")

SIZES = [(5, 64, 128, 1), (2, 64, 128, 1), (4, 16, 128, 1), (16, 16, 32, 1)]
DECODER = SIZES[0]
FORMATS = [torch.float32]
if torch.cuda.is_available():  # the interpreter multiplies the bits of bfloat16 as integers
    FORMATS.append(torch.bfloat16)


def draw(sizes, rows, models=2):
    """Joined parameters, inputs and errors of the outputs, as large as they are in training."""
    random = np.random.default_rng([*sizes, models, rows])
    layers = list(itertools.pairwise(sizes))
    weights = [random.uniform(-1, 1, (models, a * b)) * (6 / (a + b)) ** 0.5 for a, b in layers]
    biases = [random.normal(0, 0.3, (models, b)) for _, b in layers]
    inputs, errors = (random.normal(size=(models, rows, size)) for size in (sizes[0], sizes[-1]))
    parts = (np.concatenate([*weights, *biases], axis=1), inputs, errors)
    return [torch.from_numpy(part.astype(np.float32)) for part in parts]


def computed(arguments, sizes, products, device):
    """Outputs, gradient of the parameters and gradient of the inputs, by the kernels."""
    joined, inputs, errors = (part.to(device) for part in arguments)
    values = kernel.outputs(joined, inputs, sizes, products)
    gradients = kernel.gradients(joined, inputs, errors, sizes, products, of_inputs=True)
    return [part.cpu() for part in (values, *gradients)]


def recorded(arguments, sizes, dtype, products, device):
    """The same as torch records it, layer by layer."""
    joined, inputs, errors = (part.to(device, dtype) for part in arguments)
    joined.requires_grad_()
    inputs.requires_grad_()
    shapes = [*itertools.pairwise(sizes), *((1, size) for size in sizes[1:])]
    parts = joined.split([a * b for a, b in shapes], dim=1)
    parts = [part.unflatten(1, s).to(products) for part, s in zip(parts, shapes, strict=True)]
    first, second, third, *biases = parts
    values = torch.baddbmm(biases[0], inputs.to(products), first).tanh()
    values = torch.baddbmm(biases[1], values, second).tanh()
    values = torch.baddbmm(biases[2], values, third).to(dtype)
    values.backward(errors)
    return [part.double().cpu() for part in (values.detach(), joined.grad, inputs.grad)]


def error(found, expected):
    return float((found.double() - expected).norm() / expected.norm())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "rows"), [*zip(SIZES, (257, 65, 63, 300), strict=True), (DECODER, 1)]
)
@pytest.mark.parametrize("products", FORMATS)
def test_errors_against_float64_are_at_most_twice_those_of_torch(sizes, rows, products, device):
    """So that no row is left out or taken twice; the errors of a few numbers would be chance."""
    arguments = draw(sizes, rows, models=max(2, 64 // rows))
    exact = recorded(arguments, sizes, torch.float64, torch.float64, device)
    by_torch = recorded(arguments, sizes, torch.float32, products, device)
    by_kernel = computed(arguments, sizes, products, device)
    for found, usual, expected in zip(by_kernel, by_torch, exact, strict=True):
        assert found.dtype == torch.float32
        assert error(found, expected) <= 2 * error(usual, expected)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the interpreter does not round")
@pytest.mark.parametrize("sizes", SIZES[:2])  # torch rounds no factors of the smaller ones
def test_errors_with_rounded_factors_are_at_most_twice_those_of_torch(sizes, device):
    arguments = draw(sizes, 300)
    exact = recorded(arguments, sizes, torch.float64, torch.float64, device)
    with fast_products(device, tf32=True):
        by_torch = recorded(arguments, sizes, torch.float32, torch.float32, device)
        by_kernel = computed(arguments, sizes, torch.float32, device)
    for found, usual, expected in zip(by_kernel, by_torch, exact, strict=True):
        assert error(usual, expected) > 1e-5
        assert error(found, expected) <= 2 * error(usual, expected)


@pytest.mark.slow
def test_a_model_depends_neither_on_its_neighbours_nor_on_strides(device):
    joined, inputs, errors = draw(DECODER, 90, models=3)
    together = computed((joined, inputs, errors), DECODER, torch.float32, device)
    alone = computed(
        [part[1:2] for part in (joined, inputs, errors)], DECODER, torch.float32, device
    )
    turned = inputs.mT.contiguous().mT
    whole = torch.cat([joined, joined], dim=1)[:, : joined.shape[1]]
    assert not turned.is_contiguous()
    views = computed((whole, turned, errors), DECODER, torch.float32, device)
    for one, other, view in zip(together, alone, views, strict=True):
        assert torch.equal(one[1:2], other)
        assert torch.equal(one, view)


def test_gradients_of_parameters_are_those_without_inputs_up_to_rounding(device):
    """Two programs are compiled, and a card may add in another order in one than in the other."""
    joined, inputs, errors = (part.to(device) for part in draw(DECODER, 40, models=1))
    both = [
        kernel.gradients(joined, inputs, errors, DECODER, torch.float32, of_inputs=wanted)
        for wanted in (True, False)
    ]
    torch.testing.assert_close(both[0][0], both[1][0], rtol=1e-5, atol=1e-6)
    assert both[1][1] is None


def test_small_sums_keep_their_digits(device):
    """As a difference from one, values of a thousandth would be off by 2e-4 of themselves."""
    joined, inputs, errors = draw(DECODER, 40)
    weights = sum(a * b for a, b in itertools.pairwise(DECODER))
    joined[:, weights:] = 0  # no biases
    arguments = (joined, 1e-3 * inputs, errors)
    exact, *_ = recorded(arguments, DECODER, torch.float64, torch.float64, device)
    found, *_ = computed(arguments, DECODER, torch.float32, device)
    assert error(found, exact) < 1e-6


def test_saturated_units_have_no_gradient_and_a_nan_is_passed_on(device):
    joined, inputs, errors = draw(DECODER, 64)
    joined[0], inputs[0] = 1e4 * joined[0], 1e4 * inputs[0]
    inputs[1, 5, 2] = torch.nan
    values, gradient, back = computed((joined, inputs, errors), DECODER, torch.float32, device)
    assert all(torch.isfinite(part[0]).all() for part in (values, gradient, back))
    assert float(back[0].abs().max()) == 0
    assert torch.isnan(values[1]).flatten().nonzero().tolist() == [[5]]
    assert torch.isnan(gradient[1]).any()


def test_networks_are_trained_by_them(device, monkeypatch):
    _, inputs, errors = draw(DECODER, 70)
    found = []
    for kernels in (False, True):
        monkeypatch.setattr(trainable, "usable", lambda _, kernels=kernels: kernels)
        plain = Perceptron.initial(DECODER, [(0,), (1,)]).to(device, torch.float32)
        network = trainable.TrainablePerceptron.of(plain)
        assert network.has_kernels == kernels
        given = inputs.to(device, copy=True).requires_grad_()
        values = network(given)
        values.backward(errors.to(device))
        found.append([values.detach(), network.joined.grad, given.grad])
    assert not torch.equal(found[0][1], found[1][1])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("sizes", "products", "kept"),
    [
        (DECODER, torch.float32, True),
        ((16, 16, 128, 1), torch.bfloat16, True),
        (DECODER, torch.float64, False),
        ((17, 64, 128, 1), torch.float32, False),
        ((5, 64, 128, 2), torch.float32, False),
        ((5, 96, 128, 1), torch.float32, False),
        ((5, 8, 128, 1), torch.float32, False),
        ((5, 64, 256, 1), torch.float32, False),
        ((5, 64, 128, 64, 1), torch.float32, False),
    ],
)
def test_which_networks_are_trained(sizes, products, kept):
    assert trains(sizes, products) == kept
