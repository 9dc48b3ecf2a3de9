"""Many small multilayer perceptrons evaluated as one batched program.

Metric networks and decoders are both of this kind. The leading dimension counts independent
models: no operation mixes them, so a model's values do not depend on its neighbours.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

CACHED_ROWS = 2048


@dataclass(frozen=True)
class Perceptron:
    """Independent perceptrons with tanh between linear layers."""

    weights: tuple[Tensor, ...]  # one tensor a layer, `(model, inputs, outputs)`
    biases: tuple[Tensor, ...]  # one tensor a layer, `(model, 1, outputs)`

    @classmethod
    def initial(cls, sizes: Sequence[int], seeds: Sequence[tuple[int, ...]]) -> "Perceptron":
        """Xavier-uniform weights and zero biases, in float32 on the CPU.

        `sizes` are the widths of all layers, inputs first. A model's weights depend on its own seed
        alone and are the same on every device.

        Source: X. Glorot and Y. Bengio, AISTATS 2010, equation 16.
        """
        layers = list(itertools.pairwise(sizes))
        weights: list[list[Tensor]] = [[] for _ in layers]
        for seed in seeds:
            state = np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]
            generator = torch.Generator().manual_seed(int(state >> np.uint64(1)))
            for layer, (inputs, outputs) in zip(weights, layers, strict=True):
                uniform = torch.rand(inputs, outputs, generator=generator)
                layer.append((2 * uniform - 1) * (6 / (inputs + outputs)) ** 0.5)
        return cls(
            tuple(torch.stack(layer) for layer in weights),
            tuple(torch.zeros(len(seeds), 1, outputs) for _, outputs in layers),
        )

    @classmethod
    def from_tensors(cls, prefix: str, tensors: dict[str, Shaped[Tensor, "..."]]) -> "Perceptron":
        """The perceptron that `tensors` wrote under this prefix, model dimensions flattened.

        Raises:
            KeyError: there is none.
        """
        layers = range(sum(name.startswith(f"{prefix}.weight") for name in tensors))
        if not layers:
            raise KeyError(prefix)
        return cls(
            tuple(tensors[f"{prefix}.weight{i}"].flatten(0, -3) for i in layers),
            tuple(tensors[f"{prefix}.bias{i}"].flatten(0, -3) for i in layers),
        )

    def tensors(self, prefix: str, *leading: int) -> dict[str, Shaped[Tensor, "..."]]:
        """Named tensors with the model dimension unflattened to `leading` (member, fold)."""
        named = {}
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            named[f"{prefix}.weight{i}"] = weight.unflatten(0, leading)
            named[f"{prefix}.bias{i}"] = bias.unflatten(0, leading)
        return named

    @property
    def models(self) -> int:
        """Number of independent models."""
        return len(self.weights[0])

    @property
    def parameters(self) -> list[Float[Tensor, "model ..."]]:
        """All tensors, each with the leading model dimension."""
        return [*self.weights, *self.biases]

    def to(self, device: torch.device, dtype: torch.dtype) -> "Perceptron":
        """A copy on another device or in another format."""
        return Perceptron(
            tuple(w.to(device, dtype) for w in self.weights),
            tuple(b.to(device, dtype) for b in self.biases),
        )

    def __getitem__(self, models: slice | Sequence[int]) -> "Perceptron":
        """Some of the models."""
        return Perceptron(
            tuple(w[models] for w in self.weights), tuple(b[models] for b in self.biases)
        )

    def __call__(
        self, inputs: Float[Tensor, "model row input"]
    ) -> Float[Tensor, "model row output"]:
        """Values at every row."""
        return self._evaluate(inputs, None)[0]

    def with_derivative(
        self,
        inputs: Float[Tensor, "model row input"],
        direction: Float[Tensor, "input"],
    ) -> tuple[Float[Tensor, "model row output"], Float[Tensor, "model row output"]]:
        """Values and derivatives along one direction of the inputs, in the same pass.

        Forward-mode differentiation by hand: with h = tanh(a), dh = (1 - h^2) da.
        Source: A. Griewank and A. Walther, Evaluating Derivatives, 2nd ed., chapter 3.
        """
        value, change = self._evaluate(inputs, direction)
        return value, change

    def _evaluate(self, inputs: Tensor, direction: Tensor | None) -> tuple[Tensor, ...]:
        """Values at every row, and derivatives along a direction if there is one."""
        *layers, (last, bias) = zip(self.weights, self.biases, strict=True)
        doubled = [(2 * weight, 2 * bias) for weight, bias in layers]  # for `tanh_of_half_`
        # The hidden values of a tile stay in the cache of a processor.
        tile = CACHED_ROWS // self.models if inputs.device.type == "cpu" else inputs.shape[1]
        values, changes = [], []
        for rows in inputs.split(max(1, tile), dim=1):
            hidden = rows
            # all rows share it: multiplied once
            change = None if direction is None else direction.expand(self.models, 1, -1)
            for weight, offset in doubled:
                hidden = tanh_of_half_(torch.baddbmm(offset, hidden, weight))
                if change is not None:
                    # (1 - h^2) / 2: the layers are doubled, and so is what they make of a change
                    slope = torch.addcmul(hidden.new_tensor(0.5), hidden, hidden, value=-0.5)
                    change = slope.mul_(torch.bmm(change, weight))
            values.append(torch.baddbmm(bias, hidden, last))
            if change is not None:
                changes.append(torch.bmm(change, last))
        return tuple(torch.cat(parts, dim=1) for parts in (values, changes) if parts)


def tanh_of_half_(values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The hyperbolic tangent of half of every value, in place unless torch records it.

    It is 2 s(a) - 1 with s the logistic function. That takes about as long on all processors, while
    torch's hyperbolic tangent takes several times as long on some. The error is at most three units
    in the last place of 1, about that of the products before it.
    """
    if values.requires_grad:
        return torch.tanh(values / 2)
    return values.sigmoid_().mul_(2).sub_(1)
