"""Simulated mixtures: spectra of substances that interact, with errors of instruments.

Half of the mixtures are harder: responses bend more, and substances interact more often. They
compete for sites, form a complex, shift each other's bands, absorb each other's light (inner
filter), or quench a fluorophore. Designs are random, stratified, on few levels, or natural: amounts
vary together, as in seeds or ores, among much matter that nobody knows the amounts of. No measured
spectrum took part in the choice of the shares.

Sources: as of `posterior.responses` (laws, the mass balance of a complex, quenching, inner filter).
"""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from research.draws import Draws
from research.responses import responses
from research.simulated_series import random_bands

DESIGNS = (0.4, 0.2, 0.2, 0.2)
"""Shares of random, stratified, levelled and natural designs."""

BENDING = {"Langmuir": 0.7, "exponential saturation": 0.2, "power law": 0.1}
"""Shares of the laws of responses that are not linear."""

LAWS = (0.5, 0.25, 0.25)
"""Shares of absorption, emission, and quenched emission of another fluorophore."""

WAVELENGTHS = 120


class Mixtures(NamedTuple):
    """Samples of known amounts, and unknowns within their range, of one calibration."""

    amounts: Float[np.ndarray, "sample substance"]
    spectra: Float[np.ndarray, "sample wavelength"]
    true: Float[np.ndarray, "unknown substance"]
    unknowns: Float[np.ndarray, "unknown wavelength"]


def simulate_mixtures(draws: Draws, substances: int, samples: int, unknowns: int) -> Mixtures:
    """Simulate a calibration of one or more substances, and unknowns."""
    kind = int(draws.choice(DESIGNS, 1))
    nominal = _designed(draws, kind, substances, samples, unknowns)
    preparation = draws.perhaps(0.7, 1, low=5e-4, high=0.02)
    true = nominal * torch.exp(preparation * draws.normal(*nominal.shape))
    signal = _signal(draws, true, harder=bool(draws.chance(0.5, 1)))
    signal = _recorded(draws, signal / signal[:samples].abs().max(), natural=kind == 3)
    amounts = nominal * draws.log_uniform(substances, low=1e-2, high=1e2)
    both = amounts.numpy(), signal.numpy()
    return Mixtures(*(one[:samples] for one in both), *(one[samples:] for one in both))


def _designed(
    draws: Draws, kind: int, substances: int, samples: int, unknowns: int
) -> Float[Tensor, "mixture substance"]:
    """Amounts of samples and then of unknowns; the highest are near 1."""
    if kind == 3:
        count = samples + unknowns
        common = draws.normal(count, 1) * draws.uniform(substances, low=-1)
        size = draws.log_uniform(substances, low=0.03, high=0.3)
        found = torch.exp(size * (common + 0.7 * draws.normal(count, substances) - 3))
        known = found[:samples]
        return torch.cat([known, found[samples:].clamp(known.amin(0), known.amax(0))])
    found = draws.uniform(samples, substances)
    if kind == 1:
        found = (found.argsort(0) + draws.uniform(samples, substances)) / samples
    if kind == 2:
        levels = 3 + int(draws.uniform(1) * 4)
        found = torch.round(found * levels) / levels
    low, high = found.amin(0), found.amax(0)
    every = torch.cat([found, low + (high - low) * draws.uniform(unknowns, substances)])
    lowest = draws.uniform(1, high=0.3) * draws.chance(0.4, 1)
    return lowest + (1 - lowest) * every


def _signal(draws: Draws, true: Tensor, *, harder: bool) -> Float[Tensor, "mixture wavelength"]:
    """Signal of mixtures without errors of instruments."""
    substances, active = true.shape[1], true.clone()
    bent = draws.chance(0.6 if harder else 0.2, substances)
    active[:, bent] = responses(draws, true.T, 1, BENDING)[:, 0].T[:, bent]
    if draws.chance(0.5 if harder else 0.15, 1):  # competition for sites
        strength = draws.log_uniform(substances, low=0.3, high=6.0 if harder else 1.5)
        active = active * (1 + strength) / (1 + active @ strength)[:, None]
    pure = random_bands(draws, 1, substances + 1, WAVELENGTHS)[0]
    pure = pure / pure.amax(1, keepdim=True)
    if draws.chance(0.4, 1):  # strong overlap
        pure = pure + draws.uniform(1, low=0.25, high=2.0) * pure[0]
    bound = torch.zeros_like(true[:, :1])
    if substances > 1 and draws.chance(0.5 if harder else 0.15, 1):  # complex of the first two
        both = active[:, :2]
        total = both.sum(1) + draws.log_uniform(1, low=0.05 if harder else 0.5, high=5.0)
        bound = (total - torch.sqrt((total**2 - 4 * both.prod(1)).clamp(min=0)))[:, None] / 2
        active = torch.cat([both - bound, active[:, 2:]], dim=1)
    parts = torch.cat([active, bound], dim=1) * torch.exp(0.5 * draws.normal(substances + 1))
    shift = torch.zeros_like(true[:, 0])
    if draws.chance(0.4 if harder else 0.1, 1):
        shift = torch.tanh(true @ draws.normal(substances)) * (0.05 if harder else 0.015)
    place = torch.arange(WAVELENGTHS) - shift[:, None] * WAVELENGTHS
    below = place.floor().clamp(0, WAVELENGTHS - 2).long()
    moved = torch.lerp(pure[:, below], pure[:, below + 1], (place - below).clamp(0, 1))
    signal = (parts.T[..., None] * moved).sum(0)
    filtering = random_bands(draws, 1, substances, WAVELENGTHS)[0]
    absorbed = true @ (filtering * torch.exp(0.6 * draws.normal(substances, 1) - 1.5))
    law = int(draws.choice(LAWS, 1))
    if law == 1:  # less exciting light, and reabsorption
        along = true @ torch.exp(0.6 * draws.normal(substances) - (0.7 if harder else 2))
        signal = signal * (-torch.expm1(-along) / along.clamp(min=1e-9))[:, None]
        signal = signal * torch.exp(-absorbed)
    if law == 2:
        quenched = 1 + true @ torch.exp(0.7 * draws.normal(substances) - (0 if harder else 0.3))
        fluorophore = random_bands(draws, 1, 1, WAVELENGTHS)[0]
        signal = 0.1 * signal + fluorophore * torch.exp(-absorbed) / quenched[:, None]
    return signal


def _recorded(draws: Draws, signal: Tensor, *, natural: bool) -> Tensor:
    """Signal with other matter, gain, offset, slope and noise."""
    mixtures, spread = len(signal), signal.std(0).mean()
    if natural or draws.chance(0.35, 1):
        kinds = 2 + int(draws.uniform(1) * (7 if natural else 3))
        sizes = draws.log_uniform(kinds, 1, low=0.01, high=3.0 if natural else 0.5)
        matter = draws.normal(mixtures, kinds) @ (
            sizes * random_bands(draws, 1, kinds, WAVELENGTHS)[0]
        )
        signal = signal + spread * matter
    axis = torch.linspace(-1, 1, WAVELENGTHS, dtype=signal.dtype)
    gain = draws.perhaps(0.4, 1, low=1e-3, high=0.03) * draws.normal(mixtures, 1)
    signal = signal * torch.exp(gain)
    signal = signal + draws.perhaps(0.4, 1, low=5e-4, high=0.03) * draws.normal(mixtures, 1)
    slope = draws.perhaps(0.3, 1, low=5e-4, high=0.02) * draws.normal(mixtures, 1)
    signal = signal + slope * axis
    noise = spread * draws.log_uniform(1, low=1e-4 if natural else 1e-3, high=0.05)
    noise = noise * torch.exp(draws.normal(WAVELENGTHS) * draws.chance(0.3, 1))
    return signal + noise * draws.normal(mixtures, WAVELENGTHS)
