"""Learned rule of weights of the smoothers of the dictionary at a target.

The weight of a smoother is a function of the evidence for it, of its description, and of averages
of the evidence for all smoothers (deep sets). The logit starts at that of the leave-one-out error
to the power of -4. A second output is the expected error. The networks were fitted to simulated
series, never to a measured one (`research.rule_learning`).

Source: M. Zaheer et al., Deep Sets, NeurIPS 2017 (functions of sets).
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from geonode.posterior.evidence import CANDIDATE_FEATURES, CONTEXT, INITIAL_POWER, Evidence
from geonode.posterior.smoothers import dictionary

WIDEST_SMOOTHER = 6.0
"""Largest evidence, in standard deviations from the mean of the simulated series."""


class _Layers(nn.Sequential):
    """Two layers on the concatenation of parts, whose last dimension is the smoothers or 1."""

    # A part has columns of its own and is then broadcast: what all rows share is multiplied once.

    def __init__(self, inputs: int, width: int, outputs: int, *last: nn.Module) -> None:
        super().__init__(nn.Linear(inputs, width), nn.SiLU(), nn.Linear(width, outputs), *last)

    def forward(self, *parts: Tensor) -> Tensor:
        """Values of the concatenated parts, the largest first; written over each other.

        Fresh memory for every sum would cost more than the arithmetic.
        """
        first, *others = self
        columns = first.get_parameter("weight").split([part.shape[-2] for part in parts], dim=1)
        joined, *rest = (_times(*pair) for pair in zip(columns, parts, strict=True))
        rest[0] = rest[0] + first.get_parameter("bias")[:, None]
        for part in rest:
            joined += part
        for layer in others:
            if isinstance(layer, nn.SiLU):  # its gradient needs what it was given
                joined = nn.functional.silu(joined, inplace=not torch.is_grad_enabled())
            else:
                joined = _times(layer.get_parameter("weight"), joined)
                joined += layer.get_parameter("bias")[:, None]
        return joined


def _times(matrix: Tensor, values: Tensor) -> Tensor:
    """Products of one matrix with one or several, without the copies that `@` makes of several."""
    return matrix @ values if values.ndim == 2 else matrix.expand(len(values), -1, -1).bmm(values)


class Inputs(NamedTuple):
    """Inputs of the networks, one row per fold and target."""

    features: Float[Tensor, "row feature smoother"]
    context: Float[Tensor, "row number 1"]
    """Standardised evidence."""
    initial: Float[Tensor, "row smoother"]
    """Logarithms of the initial weights; -inf where not valid."""
    shares: Float[Tensor, "row 2 smoother"]
    """Initial weights that add up to one, and even ones of all that are valid."""


class WeightNetwork(nn.Module):
    """One network of the rule.

    Its layers have one width.
    """

    description: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        description = dictionary().numbers().T.contiguous()
        inputs = CANDIDATE_FEATURES + len(description) + CONTEXT
        self.encode = _Layers(inputs, width, width, nn.SiLU())
        self.gather = _Layers(2 * width + CONTEXT, width, width, nn.SiLU())
        self.decide = _Layers(2 * width, width, 1)
        self.expect = _Layers(3 * width, width, 1)
        for parameter in self.decide[2].parameters():
            nn.init.zeros_(parameter)
        self.register_buffer("description", description, persistent=False)

    def forward(self, inputs: Inputs) -> tuple[Float[Tensor, "row smoother"], Float[Tensor, "row"]]:
        """Weights of the smoothers, and ln of the error over the initial leave-one-out error."""
        features, context, initial, shares = inputs
        encoded = self.encode(features, self.description, context)
        first, even = (encoded @ shares.mT).split(1, dim=-1)
        gathered = self.gather(first, even, context)
        logits = self.decide(encoded, gathered)[:, 0]
        weights = torch.softmax(initial + INITIAL_POWER * logits, dim=-1)
        average = (weights[:, None] @ encoded.mT).mT  # the fast way round
        return weights, self.expect(average, first, gathered)[:, 0, 0]


class WeightRule(nn.Module):
    """Average of several networks on evidence that is standardised by simulated series."""

    feature_mean: Tensor
    feature_deviation: Tensor
    context_mean: Tensor
    context_deviation: Tensor

    def __init__(self, networks: int, width: int) -> None:
        super().__init__()
        self.networks = nn.ModuleList([WeightNetwork(width) for _ in range(networks)])
        for name, size in (("feature", CANDIDATE_FEATURES), ("context", CONTEXT)):
            self.register_buffer(f"{name}_mean", torch.zeros(size))
            self.register_buffer(f"{name}_deviation", torch.ones(size))

    @property
    def place(self) -> torch.device:
        """Device on which evidence is expected."""
        return self.feature_mean.device

    @property
    def every(self) -> list[WeightNetwork]:
        """The networks."""
        return [network for network in self.networks if isinstance(network, WeightNetwork)]

    def standardise(self, evidence: list[Evidence]) -> None:
        """Set means and deviations of all inputs from simulated series."""
        features = torch.cat([part.features.mT[part.valid] for part in evidence])
        context = torch.cat([part.context for part in evidence])
        self.feature_mean.copy_(features.mean(0))
        self.feature_deviation.copy_(features.std(0) + 1e-6)
        self.context_mean.copy_(context.mean(0))
        self.context_deviation.copy_(context.std(0) + 1e-3)

    def inputs(self, evidence: Evidence, disturbance: float = 0.0) -> Inputs:
        """Inputs of the networks.

        `disturbance` is the standard deviation of noise that is added to standardised evidence.
        """
        dtype = self.feature_mean.dtype
        found = evidence.features, evidence.context, evidence.initial
        features, context, initial = (part.to(dtype) for part in found)
        of_features = self.feature_mean[:, None], self.feature_deviation[:, None]
        features = (features - of_features[0]).div_(of_features[1])
        context = (context - self.context_mean).div_(self.context_deviation)
        for part in (features, context):
            if disturbance:
                part.add_(torch.randn_like(part), alpha=disturbance)
            part.clamp_(-WIDEST_SMOOTHER, WIDEST_SMOOTHER)
        valid = torch.isfinite(initial).to(dtype)
        shares = torch.softmax(initial, dim=-1), valid / valid.sum(-1, keepdim=True)
        return Inputs(features, context[..., None], initial, torch.stack(shares, dim=1))

    def forward(
        self, evidence: Evidence
    ) -> tuple[Float[Tensor, "row smoother"], Float[Tensor, "row"]]:
        """Weights of the smoothers, and the expected squared error (signal squared, summed)."""
        inputs = self.inputs(evidence)
        found = [network(inputs) for network in self.every]
        weights = torch.stack([weights for weights, _ in found]).double().mean(0)
        # While learning, single precision leaves a sum of 1 + 1e-7, which a pedestal multiplies.
        weights = weights / weights.sum(-1, keepdim=True)
        logarithm = torch.stack([logarithm for _, logarithm in found]).mean(0).double()
        return weights, evidence.total * evidence.expected * torch.exp(2 * logarithm)
