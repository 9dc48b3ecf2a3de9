import pytest
import torch

from geonode.geometry.perceptron import Perceptron
from geonode.geometry.trainable import TrainablePerceptron
from tests.geometry.closed_forms import CPU

SIZES, MODELS, ROWS = (3, 8, 5, 2), 3, 40


def network(sizes=SIZES, dtype=torch.float64):
    return Perceptron.initial(sizes, [(7, model) for model in range(MODELS)]).to(CPU, dtype)


def rows(inputs=SIZES[0], dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(MODELS, ROWS, inputs, generator=generator, dtype=torch.float64).to(dtype)


def gradients(perceptron, inputs):
    inputs = inputs.clone().requires_grad_()
    outputs = perceptron(inputs)
    weights = torch.arange(1.0, outputs.shape[1] + 1, dtype=outputs.dtype)[:, None]
    loss = (weights * outputs.square()).mean() + outputs.sin().sum()
    return torch.autograd.grad(loss, [inputs, *perceptron.parameters])


def by_recording(perceptron, inputs):
    recorded = perceptron.to(CPU, torch.float64)
    for part in recorded.parameters:  # recorded by torch operation by operation
        part.requires_grad_()
    of_inputs, *parts = gradients(recorded, inputs.double())
    return of_inputs, torch.cat([part.flatten(1) for part in parts], dim=1)


@pytest.mark.parametrize("sizes", [SIZES, (5, 64, 128, 1), (1, 4, 1), (2, 3)])
def test_gradients_equal_those_that_torch_records(sizes):
    plain, inputs = network(sizes), rows(sizes[0])
    trainable = TrainablePerceptron.of(plain)
    expected = by_recording(network(sizes), inputs)
    for one, other in zip(gradients(trainable, inputs), expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-13)
    torch.testing.assert_close(trainable(inputs), plain(inputs), rtol=1e-13, atol=1e-14)
    with torch.no_grad():
        assert torch.equal(trainable(inputs), plain(inputs))
        trainable.joined.zero_()
        assert not trainable(inputs).any()
        assert plain(inputs).any()  # a copy is trained
    assert not any(part.requires_grad for part in trainable.to(CPU, torch.float32).parameters)


@pytest.mark.parametrize(("products", "error"), [(torch.float32, 2e-6), (torch.bfloat16, 4e-2)])
def test_gradients_have_the_accuracy_of_the_products(products, error):
    """Rounding is 2^-24 and 2^-9 of a number; errors of some ten roundings add up."""
    sizes = (5, 64, 128, 1)
    plain, inputs = network(sizes, torch.float32), rows(5, torch.float32)
    trainable = TrainablePerceptron.of(plain, products)
    expected = by_recording(plain, inputs)
    for one, other in zip(gradients(trainable, inputs), expected, strict=True):
        assert one.dtype == torch.float32
        found = float((one - other).abs().max() / other.abs().max())
        assert error / 1000 < found < error
    assert trainable(inputs).dtype == torch.float32


def test_single_precision_of_large_and_of_small_sums():
    """To three units of 2^-24 everywhere, and bounded by 1."""
    sums = torch.cat([-torch.logspace(-8, 4, 500), torch.zeros(1), torch.logspace(-8, 4, 500)])
    one = Perceptron((torch.ones(1, 1, 1), torch.ones(1, 1, 1)), (torch.zeros(1, 1, 1),) * 2)
    for perceptron in (one, TrainablePerceptron.of(one)):
        found = perceptron(sums[None, :, None]).detach().flatten().double()
        assert float((found - torch.tanh(sums.double())).abs().max()) <= 3 * 2**-24
        assert float(found.abs().max()) == 1.0


def test_memory_is_used_again_and_a_second_value_before_the_backward_pass_is_refused():
    trainable = TrainablePerceptron.of(network())
    first = trainable(rows())
    held = trainable.workspace("value", 0, ROWS).data_ptr()
    trainable(rows()).sum().backward()
    assert trainable.workspace("value", 0, ROWS).data_ptr() == held
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        first.sum().backward()
