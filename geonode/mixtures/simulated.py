"""Simulated mixtures: spectra of several substances that interact, with errors of instruments.

Half of the mixtures are harder: responses bend more, and substances interact more often. They compete
for sites, form a complex, shift each other's bands, absorb each other's light (inner filter), quench
a fluorophore. Designs are random, stratified, on few levels, or natural: amounts vary together, as
those of seeds or ores, among more matter that nobody knows the amounts of. The shares were written
down before methods were compared on them, and no measured spectrum took part.

Sources: P. Job's exact mass balance of a complex, as of `posterior.responses`; O. Stern and
M. Volmer, Phys. Z. 20 (1919) 183 (quenching); J. R. Lakowicz, Principles of Fluorescence
Spectroscopy, 3rd ed., section 2.7 (inner filter).
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from geonode.posterior.draws import Draws
from geonode.posterior.responses import responses
from geonode.posterior.simulated_series import bands

DESIGNS = (0.4, 0.2, 0.2, 0.2)
"""Shares of random, stratified, levelled and natural designs."""

BENDING = {"Langmuir": 0.7, "exponential saturation": 0.2, "power law": 0.1}
"""Shares of the laws of responses that are not linear."""

WAVELENGTHS = 120


class Mixtures(NamedTuple):
    """Samples of known amounts, and unknowns of one simulated calibration."""

    amounts: Float[Tensor, "sample substance"]
    spectra: Float[Tensor, "sample wavelength"]
    true: Float[Tensor, "unknown substance"]
    unknowns: Float[Tensor, "unknown wavelength"]


def simulate_mixtures(
    draws: Draws, substances: int, samples: int, unknowns: int, wavelengths: int = WAVELENGTHS
) -> Mixtures:
    """Simulate one calibration and unknowns inside of its range.

    Args:
        draws: random numbers.
        substances: number of substances.
        samples: number of samples.
        unknowns: number of unknowns.
        wavelengths: number of wavelengths of every spectrum.
    """
    kind = int(draws.choice(DESIGNS, 1))
    nominal = _designed(draws, kind, substances, samples, unknowns)
    preparation = _perhaps(draws, 0.7, 5e-4, 0.02)
    true = nominal * torch.exp(preparation * draws.normal(*nominal.shape))
    signal = _signal(draws, true, harder=_is(draws, 0.5), wavelengths=wavelengths)
    signal = _recorded(draws, signal / signal[:samples].abs().max(), natural=kind == 3)
    amounts = nominal * draws.log_uniform(substances, low=1e-2, high=1e2)
    return Mixtures(amounts[:samples], signal[:samples], amounts[samples:], signal[samples:])


def _designed(
    draws: Draws, kind: int, substances: int, samples: int, unknowns: int
) -> Float[Tensor, "mixture substance"]:
    """Amounts of samples and then of unknowns; the highest are near 1."""
    found = draws.uniform(samples, substances)
    if kind == 1:
        strata = torch.stack([found[:, place].argsort() for place in range(substances)], 1)
        found = (strata + draws.uniform(samples, substances)) / samples
    low, high = found.amin(0), found.amax(0)
    if kind == 2:
        levels = 3 + int(draws.uniform(1) * 4)
        low, high, found = 0.0, 1.0, torch.round(found * levels) / levels
    new = low + (high - low) * draws.uniform(unknowns, substances)
    every = torch.cat([found, new])
    if kind == 3:
        common = draws.normal(len(every), 1) * draws.uniform(substances, low=-1, high=1)
        varied = common + 0.7 * draws.normal(len(every), substances)
        size = draws.log_uniform(substances, low=0.03, high=0.3)
        every = (torch.exp(size * varied)) / torch.exp(3 * size)
        # Unknowns beyond the samples are another matter.
        low, high = every[:samples].amin(0), every[:samples].amax(0)
        return torch.cat([every[:samples], every[samples:].clamp(low, high)])
    lowest = draws.uniform(1, low=0.0, high=0.3) * draws.chance(0.4, 1)
    return lowest + (1 - lowest) * every


def _signal(
    draws: Draws, true: Tensor, *, harder: bool, wavelengths: int
) -> Float[Tensor, "mixture wavelength"]:
    """Signal of mixtures without errors of instruments."""
    substances = true.shape[1]
    active = true.clone()
    bent = draws.chance(0.6 if harder else 0.2, substances)
    active[:, bent] = responses(draws, true.T, 1, BENDING)[:, 0].T[:, bent]
    if _is(draws, 0.5 if harder else 0.15):  # competition for sites
        strength = draws.log_uniform(substances, low=0.3, high=6.0 if harder else 1.5)
        active = active * (1 + strength) / (1 + active @ strength)[:, None]
    pure = bands(draws, 1, substances + 1, wavelengths)[0]
    pure = pure / pure.amax(1, keepdim=True)
    if _is(draws, 0.4):  # strong overlap
        mixed = draws.uniform(1, low=0.2, high=0.7)
        pure = (1 - mixed) * pure + mixed * pure[0]
    sizes = torch.exp(0.5 * draws.normal(substances + 1))
    bound = torch.zeros(len(true), dtype=true.dtype)
    if substances > 1 and _is(draws, 0.5 if harder else 0.15):  # complex of the first two
        first, second = active[:, 0], active[:, 1]
        total = first + second + draws.log_uniform(1, low=0.05 if harder else 0.5, high=5.0)
        bound = (total - torch.sqrt((total**2 - 4 * first * second).clamp(min=0))) / 2
        active = torch.cat([active[:, :2] - bound[:, None], active[:, 2:]], dim=1)
    parts = torch.cat([active, bound[:, None]], dim=1) * sizes
    shift = torch.zeros(len(true), dtype=true.dtype)
    if _is(draws, 0.4 if harder else 0.1):
        shift = torch.tanh(true @ draws.normal(substances)) * (0.05 if harder else 0.015)
    signal = (parts[:, :, None] * _shifted(pure, shift)).sum(1)
    law = int(draws.choice((0.5, 0.25, 0.25), 1))
    absorbing = bands(draws, 1, substances, wavelengths)[0]
    absorbed = true @ (absorbing * torch.exp(0.6 * draws.normal(substances, 1) - 1.5))
    if law == 1:  # fluorescence: less exciting light, and reabsorption
        along = true @ torch.exp(0.6 * draws.normal(substances) - (0.7 if harder else 2))
        signal = signal * (-torch.expm1(-along) / along.clamp(min=1e-9))[:, None]
        signal = signal * torch.exp(-absorbed)
    elif law == 2:  # one fluorophore, quenched
        quenched = 1 + true @ torch.exp(0.7 * draws.normal(substances) - (0 if harder else 0.3))
        fluorophore = bands(draws, 1, 1, wavelengths)[0]
        signal = 0.1 * signal + fluorophore * torch.exp(-absorbed) / quenched[:, None]
    elif _is(draws, 0.3 if harder else 0.1):
        stray, largest = (
            draws.log_uniform(1, low=3e-4, high=0.03),
            draws.uniform(1, low=1, high=2.5),
        )
        relative = signal * largest / signal.abs().max()
        signal = -torch.log10((10**-relative + stray) / (1 + stray))
    return signal


def _shifted(pure: Tensor, shift: Tensor) -> Float[Tensor, "mixture component wavelength"]:
    """Spectra moved along the axis by shares of its length."""
    place = torch.arange(pure.shape[1], dtype=pure.dtype) - shift[:, None] * pure.shape[1]
    place = place.clamp(0, pure.shape[1] - 1.001)
    below = place.floor().long()
    part = (place - below)[:, None]
    return (1 - part) * pure[:, below].transpose(0, 1) + part * pure[:, below + 1].transpose(0, 1)


def _recorded(draws: Draws, signal: Tensor, *, natural: bool) -> Tensor:
    """Signal with other matter, gain, offset, slope and noise."""
    mixtures, wavelengths = signal.shape
    spread = signal.std(0).mean()
    if natural or _is(draws, 0.35):
        kinds = 2 + int(draws.uniform(1) * (7 if natural else 3))
        sizes = draws.log_uniform(kinds, 1, low=0.01, high=3.0 if natural else 0.5)
        matter = draws.normal(mixtures, kinds)
        signal = signal + spread * matter @ (sizes * bands(draws, 1, kinds, wavelengths)[0])
    axis = torch.linspace(-1, 1, wavelengths, dtype=signal.dtype)
    signal = signal * torch.exp(_perhaps(draws, 0.4, 1e-3, 0.03) * draws.normal(mixtures, 1))
    signal = signal + _perhaps(draws, 0.4, 5e-4, 0.03) * draws.normal(mixtures, 1)
    signal = signal + _perhaps(draws, 0.3, 5e-4, 0.02) * draws.normal(mixtures, 1) * axis
    noise = spread * draws.log_uniform(1, low=1e-4 if natural else 1e-3, high=0.05)
    by_wavelength = torch.exp(draws.normal(wavelengths)) if _is(draws, 0.3) else 1.0
    return signal + noise * by_wavelength * draws.normal(mixtures, wavelengths)


def _is(draws: Draws, share: float) -> bool:
    return bool(draws.chance(share, 1))


def _perhaps(draws: Draws, share: float, low: float, high: float) -> Tensor:
    """A log-uniform number in a share of the cases, else zero."""
    return draws.log_uniform(1, low=low, high=high) * draws.chance(share, 1)
