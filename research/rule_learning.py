"""Learning of the rule of weights on simulated series.

Every step simulates new series, leaves each level out in turn, and computes the weights of the
smoothers. The loss is the logarithm of the error of the left-out spectra relative to that of the
initial weights, both pooled over a series, as scores are, and by spectrum. Series on which the rule
is worse than the initial weights count more, as a rule that is often a little better and sometimes
far worse is of no use. The evidence is disturbed by noise, so that the networks do not rely on
details of simulated series.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import cos, pi
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from geonode.posterior.evidence import Evidence, FittedSmoothers
from geonode.posterior.rule import Inputs, WeightNetwork, WeightRule
from geonode.progress import Progress, silent
from research.draws import Draws
from research.simulated_series import simulate

LEVELS = {4: 10, 5: 15, 6: 15, 7: 10, 8: 10, 9: 8, 10: 8, 12: 5, 15: 3, 20: 1, 26: 1}
"""Numbers of levels of the simulated series, with their relative frequencies."""

EXACT = 2.5e-5
"""Squared error added to all, relative to the variance of the spectra: (0.5 %)^2."""

FOLDS = 448  # left-out spectra per step, for series of up to `SMALL` levels
SMALL = 10
RATE = 3e-3
DISTURBANCE = 0.25  # noise of the evidence, in its standard deviations
CAUTION = 1.0  # weight of the squared log error in excess of that of the initial weights
OF_EXPECTATION = 0.3  # weight of the loss of the expected error
MEMORY = 0.998  # decay of the moving average of the parameters of the networks
STANDARDISING = 6  # batches for the standardisation of the inputs


class LeftOut(NamedTuple):
    """Left-out spectra of simulated series of equally many levels."""

    levels: int  # number of levels of a series; rows are folds, those of a series are neighbours
    evidence: Evidence  # one row per left-out spectrum
    spectra: Float[Tensor, "row level wavelength"]
    """The training spectra and, last, the left-out one."""

    def squared_errors(self, weights: Float[Tensor, "row smoother"]) -> Float[Tensor, "row"]:
        """Squared errors of the averages with some weights, summed over wavelengths."""
        combined = self.evidence.weights @ weights.to(self.spectra.dtype)[..., None]
        predicted = combined.mT @ self.spectra[:, :-1]
        return (predicted - self.spectra[:, -1:]).square().sum((1, 2))


@dataclass(frozen=True)
class LearningParameters:
    """Size of the learning."""

    seed: int  # seed of the series and of the networks
    networks: int  # number of networks to average
    width: int  # width of their layers
    steps: int  # steps of Adam


def left_out(
    concentrations: Float[Tensor, "series level"],
    spectra: Float[Tensor, "series level wavelength"],
) -> LeftOut:
    """Leave every level of every series out in turn."""
    levels = concentrations.shape[1]
    every = torch.arange(levels, device=spectra.device)
    others = torch.stack([every[every != level] for level in every.tolist()])
    order = torch.cat([others, every[:, None]], dim=1)
    ordered = spectra[:, order].flatten(0, 1)
    training = concentrations[:, others].flatten(0, 1)
    fitted = FittedSmoothers.of(training, ordered[:, :-1])
    return LeftOut(levels, fitted.evidence(concentrations.reshape(-1, 1)), ordered)


def batches(draws: Draws) -> Iterator[LeftOut]:
    """Endless batches of left-out spectra of new simulated series."""
    sizes = list(LEVELS)
    while True:
        levels = sizes[int(draws.choice(tuple(map(float, LEVELS.values())), 1))]
        room = FOLDS * min(1.0, (SMALL / levels) ** 2)
        yield left_out(*simulate(draws, max(3, int(room / levels)), levels))


def learn_rule(
    parameters: LearningParameters, device: torch.device, report: Progress = silent
) -> tuple[WeightRule, list[float]]:
    """Learn a rule from scratch.

    Returns:
        The rule, and at every step the mean logarithm of the error of its first network relative
        to that of the initial weights.
    """
    torch.manual_seed(parameters.seed)
    rule = WeightRule(parameters.networks, parameters.width).to(device)
    series = batches(Draws.of(parameters.seed, device))
    with torch.no_grad():
        sample = [next(series).evidence for _ in range(STANDARDISING)]
        rule.standardise(sample)
    optimizer = torch.optim.AdamW(rule.parameters(), lr=RATE, weight_decay=1e-4)
    smoothed = {name: value.clone() for name, value in rule.state_dict().items()}
    history = []
    for step in range(parameters.steps):
        for group in optimizer.param_groups:
            warm = min(1.0, (step + 1) / 100)
            group["lr"] = RATE * warm * (0.51 + 0.49 * cos(pi * step / parameters.steps))
        with torch.no_grad():
            batch = next(series)
        inputs = [rule.inputs(batch.evidence, DISTURBANCE) for _ in rule.every]
        losses = [_loss(*pair, batch) for pair in zip(rule.every, inputs, strict=True)]
        optimizer.zero_grad()
        torch.stack([loss for loss, _ in losses]).sum().backward()
        norm = torch.nn.utils.clip_grad_norm_(rule.parameters(), 1.0)
        if torch.isfinite(norm):  # an extreme series may leave single precision
            optimizer.step()
        keep = min(MEMORY, (step + 1) / (step + 20))
        for name, value in rule.state_dict().items():
            smoothed[name].lerp_(value, 1 - keep)
        history.append(losses[0][1])
        report(1)
    rule.load_state_dict(smoothed)
    return rule.eval(), torch.stack(history).tolist()


def _loss(network: WeightNetwork, inputs: Inputs, batch: LeftOut) -> tuple[Tensor, Tensor]:
    """Loss of a network on a batch, and mean log error relative to the initial weights."""
    weights, expected = network(inputs)
    found, total = batch.evidence, batch.evidence.total
    errors = batch.squared_errors(weights) / total + EXACT
    at_first = batch.squared_errors(torch.softmax(found.initial, dim=-1)) / total + EXACT
    of_spectra = (errors / at_first).log() / 2
    of_series = (_pooled(errors * total, batch) / _pooled(at_first * total, batch)).log() / 2
    surprise = errors.detach().log() / 2 - found.expected.log() / 2 - expected
    loss = (
        (of_series.mean() + of_spectra.mean()) / 2
        + CAUTION * of_series.clamp(min=0).square().mean()
        + OF_EXPECTATION * torch.nn.functional.huber_loss(surprise, torch.zeros_like(surprise))
    )
    return loss, of_series.detach().mean()


def _pooled(errors: Tensor, batch: LeftOut) -> Tensor:
    """Sums over the left-out spectra of every series."""
    return errors.reshape(-1, batch.levels).sum(1)
