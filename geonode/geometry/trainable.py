"""Perceptrons while they are trained: forward and backward pass in memory that is used again.

Derivatives are written out instead of recorded: with h = tanh(a), a = h' W + b and an error e of
the outputs, dW = h'^T e, db = 1^T e, and the error one layer down is (e W^T)(1 - h'^2). Source:
C. M. Bishop, Pattern Recognition and Machine Learning, Springer 2006, section 5.3. So hidden values
and their errors have one place each, which every step writes anew: fresh memory for them would cost
a step about as much as its arithmetic. Where kernels can be used they have no place in memory at
all (`geonode.compute.kernels.perceptron`).
"""

import itertools
import math
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from geonode.compute.kernels.available import trains, usable
from geonode.geometry.perceptron import Perceptron, tanh_of_half_

THIN = 8  # columns


@dataclass(frozen=True)
class TrainablePerceptron(Perceptron):
    """Perceptrons whose parameters are trained.

    Values with gradients serve one backward pass, which has to come before they are computed anew;
    torch refuses it otherwise. Weights and biases are views of one tensor, which alone requires
    gradients, so that a step of an optimiser is a few operations whatever the number of layers.
    """

    joined: Float[Tensor, "model parameter"]  # all weights, and after them all biases
    products: torch.dtype
    """Format in which layers are multiplied; biases are added in it, but parameters, inputs,
    outputs and gradients keep that of `joined`."""
    _memory: dict[tuple[str, int], Tensor] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls, perceptron: Perceptron, products: torch.dtype | None = None
    ) -> "TrainablePerceptron":
        """A copy of perceptrons; products are in the format of the weights unless it is given."""
        parts = perceptron.parameters
        joined = torch.cat([part.detach().flatten(1) for part in parts], dim=1)
        layers = len(perceptron.weights)
        views = _views(joined, [part.shape for part in parts])
        trained = joined.detach().requires_grad_()
        return cls(views[:layers], views[layers:], trained, products or joined.dtype)

    @property
    def parameters(self) -> list[Float[Tensor, "model ..."]]:
        """Parameters for an optimiser."""
        return [self.joined]

    def __call__(
        self, inputs: Float[Tensor, "model row input"]
    ) -> Float[Tensor, "model row output"]:
        """Values at every row."""
        if not torch.is_grad_enabled():
            return super().__call__(inputs)
        program = _Kernels if self.has_kernels else _Program
        outputs: Tensor = program.apply(self, inputs, self.joined)
        return outputs

    @property
    def sizes(self) -> tuple[int, ...]:
        """Width of every layer, inputs first."""
        return (self.weights[0].shape[1], *(weight.shape[2] for weight in self.weights))

    @property
    def has_kernels(self) -> bool:
        """True if both passes are kernels of this package."""
        return (
            usable(self.joined.device)
            and self.joined.dtype == torch.float32
            and trains(self.sizes, self.products)
        )

    def workspace(self, name: str, layer: int, rows: int) -> Float[Tensor, "model row unit"]:
        """Memory of a name for the units of a hidden layer."""
        weight = self.weights[layer]
        shape = (len(weight), rows, weight.shape[2])
        memory = self._memory.get((name, layer))
        if memory is None or memory.shape != shape:
            memory = torch.empty(shape, device=weight.device, dtype=self.products)
            self._memory[name, layer] = memory
        return memory


def _views(joined: Tensor, shapes: list[torch.Size]) -> tuple[Tensor, ...]:
    """The parts of the joined parameters of every model."""
    ends = itertools.accumulate((math.prod(shape[1:]) for shape in shapes), initial=0)
    return tuple(
        joined[:, low:high].unflatten(1, shape[1:])
        for (low, high), shape in zip(itertools.pairwise(ends), shapes, strict=True)
    )


class _Program(torch.autograd.Function):
    """All layers at once: (perceptron, inputs, joined parameters) to outputs."""

    @staticmethod
    def forward(
        ctx: Any, perceptron: TrainablePerceptron, inputs: Tensor, joined: Tensor
    ) -> Tensor:
        weights, biases = (
            [tensor.to(perceptron.products) for tensor in part]
            for part in (perceptron.weights, perceptron.biases)
        )
        values = [inputs.to(perceptron.products)]
        for layer in range(len(weights) - 1):
            units = perceptron.workspace("value", layer, inputs.shape[1])
            torch.baddbmm(biases[layer], values[-1], weights[layer], out=units)
            values.append(_tanh_(units))
        outputs = layer_product(values[-1], weights[-1]) + biases[-1]
        # torch keeps count of what is written to these, and refuses to go back after that
        ctx.save_for_backward(joined, *values, *weights)
        ctx.perceptron = perceptron
        return outputs.to(inputs.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, outputs: Tensor) -> tuple[Tensor | None, ...]:
        perceptron, (joined, *saved) = ctx.perceptron, ctx.saved_tensors
        layers = len(saved) // 2
        values, weights = saved[:layers], saved[layers:]
        gradient = torch.empty_like(joined)
        shapes = [part.shape for part in (*perceptron.weights, *perceptron.biases)]
        parts = _views(gradient, shapes)
        of_weights, of_biases = parts[:layers], parts[layers:]
        error = outputs.to(perceptron.products)
        for layer in reversed(range(layers)):
            of_weights[layer].copy_(layer_product(values[layer].mT, error))
            torch.sum(error, 1, keepdim=True, dtype=joined.dtype, out=of_biases[layer])
            if layer:
                below = perceptron.workspace("error", layer - 1, error.shape[1])
                if error.shape[2] == 1:
                    torch.mul(error, weights[layer].mT, out=below)
                else:
                    torch.bmm(error, weights[layer].mT, out=below)
                torch.ops.aten.tanh_backward.grad_input(below, values[layer], grad_input=below)
                error = below
        of_inputs = None
        if ctx.needs_input_grad[1]:
            of_inputs = layer_product(error, weights[0].mT).to(outputs.dtype)
        return None, of_inputs, gradient


class _Kernels(torch.autograd.Function):
    """Perceptron on a GPU; only its inputs are kept for the backward pass."""

    @staticmethod
    def forward(
        ctx: Any, perceptron: TrainablePerceptron, inputs: Tensor, joined: Tensor
    ) -> Tensor:
        from geonode.compute.kernels import perceptron as kernels  # noqa: PLC0415 - needs Triton

        ctx.save_for_backward(joined, inputs)
        ctx.perceptron = perceptron
        return kernels.outputs(joined, inputs, perceptron.sizes, perceptron.products)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, errors: Tensor) -> tuple[Tensor | None, ...]:
        from geonode.compute.kernels import perceptron as kernels  # noqa: PLC0415 - needs Triton

        joined, inputs = ctx.saved_tensors
        gradient, of_inputs = kernels.gradients(
            joined,
            inputs,
            errors,
            ctx.perceptron.sizes,
            ctx.perceptron.products,
            of_inputs=ctx.needs_input_grad[1],
        )
        return None, of_inputs, gradient


def layer_product(
    left: Float[Tensor, "model row inner"], right: Float[Tensor, "model inner column"]
) -> Float[Tensor, "model row column"]:
    """The product of matrices, a thin one by its transpose: A B = (B^T A^T)^T.

    MKL and oneDNN compute many rows of a few columns several times slower than few rows of many
    columns, and oneDNN copies what it has to transpose. How a row of it is rounded depends on the
    number of rows, which a training does not change.
    """
    if right.shape[2] < THIN:
        return torch.bmm(right.mT, left.mT).mT
    return torch.bmm(left, right)


def _tanh_(values: Tensor) -> Tensor:
    """Hyperbolic tangent in place; `tanh_of_half_` explains why it is computed so."""
    if values.device.type != "cpu" or values.dtype not in (torch.float32, torch.float64):
        return values.tanh_()
    return tanh_of_half_(values.mul_(2))
