"""Simulated concentration series: spectra of several components with errors of instruments.

The ranges below are wide on purpose, to include anything from a dye in a cuvette to a signal buried
in noise. Two versions were tried. Weights learned on nearly perfect series trusted extrapolation
too much; this version has more noise, and responses that follow no law. The choice between them was
made by the error on 19 measured series.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from geonode.posterior.prior import PRIOR_WAVELENGTHS
from research.draws import Draws
from research.responses import SHIFTING, lowest_of, responses, smooth_functions

COMPONENTS = 3
LAWLESS = 0.35  # share of the series whose responses are random smooth functions

DESIGNS = {
    "even": 0.30,
    "even with gaps": 0.12,
    "doubling": 0.22,
    "decades": 0.10,
    "another ratio": 0.14,
    "irregular": 0.12,
}
"""Share of the designs of every kind."""

BLANK = 0.45  # share of the designs with a level of zero
WIDEST = 1e9  # ratio of the highest to the lowest positive level


class SimulatedSeries(NamedTuple):
    """Series with equally many levels, and unknowns behind them."""

    concentrations: Float[Tensor, "series sample"]
    """Nominal levels, ascending, the highest is 1; then the true concentrations of unknowns."""
    spectra: Float[Tensor, "series sample wavelength"]  # simulated spectra with all errors


def simulate(
    draws: Draws,
    series: int,
    levels: int,
    wavelengths: int = PRIOR_WAVELENGTHS,
    errors: float = 1.0,
    unknowns: int = 0,
) -> SimulatedSeries:
    """Simulate concentration series.

    `errors` is a factor of the largest errors of preparation, of the matrix and of drift. Each of
    the unknowns lies anywhere between two neighbouring levels, all pairs with equal chances.
    """
    known = designs(draws, series, levels)
    below = (draws.uniform(series, unknowns) * (levels - 1)).long()
    low, high = known.gather(1, below), known.gather(1, below + 1)
    given = torch.cat([known, low + (high - low) * draws.uniform(series, unknowns)], dim=1)
    nominal, order = given.sort(dim=1)
    place = order.argsort(dim=1)  # of the levels, then the unknowns
    error = draws.perhaps(0.7, series, 1, low=2e-3, high=0.08 * errors)
    error = error * (order < levels)  # unknowns are not prepared
    true = nominal * torch.exp(error * draws.normal(series, levels + unknowns))
    signal = _with_filter(draws, _mixture(draws, true, wavelengths), true)
    signal = signal / signal.abs().amax((1, 2), keepdim=True).clamp(min=1e-9)
    background = draws.log_uniform(series, 1, 1, low=0.01, high=10.0)
    background = background * random_bands(draws, series, 1, wavelengths)
    signal = signal + background * draws.chance(0.5, series, 1, 1)
    spectra = _recorded(draws, _saturated(draws, signal), errors, place[:, :levels])
    return SimulatedSeries(given, spectra.take_along_dim(place[..., None], dim=1))


def designs(draws: Draws, series: int, levels: int) -> Float[Tensor, "series level"]:
    """Concentrations of simulated series, ascending; the highest is 1."""
    place = torch.arange(levels, dtype=torch.float64, device=draws.device)[None]
    blank = draws.chance(BLANK, series, 1)
    step = place - blank.double()  # -1 is the blank

    def ratio(factor: Tensor | float) -> Tensor:
        return torch.where(step < 0, 0.0, factor**step)

    gaps = draws.uniform(series, 2 * levels).argsort(1)[:, :levels].sort(1).values.double()
    gaps = gaps - gaps[:, :1]
    start = 1 + torch.floor(draws.uniform(series, 1, high=3.0))
    irregular = draws.log_uniform(series, levels, low=0.3, high=3.0).cumsum(1)
    kinds = {
        "even": torch.where(blank, place, place + 1),
        "even with gaps": torch.where(blank, gaps, gaps + start),
        "doubling": ratio(2.0) * (1 + 0.02 * draws.uniform(series, levels, low=-1.0)),
        "decades": ratio(10.0 ** torch.where(draws.chance(0.5, series, 1), 1.0, 0.5)),
        "another ratio": ratio(draws.log_uniform(series, 1, low=1.2, high=6.0)),
        "irregular": torch.where(blank, irregular - irregular[:, :1], irregular),
    }
    every = torch.stack([kinds[name].expand(series, -1) for name in DESIGNS], dim=1)
    found = draws.one_of(every, tuple(DESIGNS.values()))
    highest = found.amax(1, keepdim=True)
    # Scaled to a highest level of 1, over at most `WIDEST` on a logarithmic scale.
    span = torch.log(highest / lowest_of(found))
    power = (torch.log(torch.tensor(WIDEST, dtype=found.dtype)) / span).clamp(max=1)
    return torch.where(found > 0, (found / highest) ** power, 0.0)


def _mixture(draws: Draws, true: Tensor, wavelengths: int) -> Tensor:
    """Mixture of components with different bands; that of the first may shift."""
    series, levels = true.shape
    lawless = draws.chance(LAWLESS, series, 1, 1)
    amounts = torch.where(
        lawless,
        smooth_functions(draws, true, COMPONENTS),
        responses(draws, true, COMPONENTS),
    )
    strength = draws.perhaps(0.55, series, COMPONENTS, 1, low=0.03, high=1.0)
    strength[:, 0] = 1
    sign = torch.where(draws.chance(0.25, series, COMPONENTS, 1), -1.0, 1.0)
    amounts = amounts * strength * sign
    bands = random_bands(draws, series, COMPONENTS, wavelengths)[:, :, None].expand(
        -1, -1, levels, -1
    )
    moving = draws.chance(0.3, series, 1, 1)
    first = torch.where(moving, _moving_band(draws, true, wavelengths), bands[:, 0])
    return amounts[:, 0, :, None] * first + torch.einsum(
        "scl,sclw->slw", amounts[:, 1:], bands[:, 1:]
    )


def random_bands(
    draws: Draws, series: int, count: int, wavelengths: int
) -> Float[Tensor, "series count wavelength"]:
    """Sums of three Gaussian bands each, over an axis from 0 to 1."""
    axis = _axis(draws, wavelengths)
    size = (series, count, 3, 1)
    place = draws.uniform(*size, low=-0.1, high=1.1)
    width = draws.log_uniform(*size, low=0.02, high=0.5)
    height = draws.uniform(*size) ** 2
    return (height * torch.exp(-(((axis - place) / width) ** 2) / 2)).sum(2)


def _moving_band(draws: Draws, true: Tensor, wavelengths: int) -> Tensor:
    """Three Gaussian bands that shift with concentration: (series, level, wavelength)."""
    axis, series = _axis(draws, wavelengths), len(true)
    size = (series, 3, 1, 1)
    place = draws.uniform(*size)
    width = draws.log_uniform(*size, low=0.03, high=0.4)
    height = draws.uniform(*size) ** 2
    shift = draws.log_uniform(series, 1, 1, 1, low=0.005, high=0.2)
    shift = shift * torch.where(draws.chance(0.5, series, 1, 1, 1), 1.0, -1.0)
    moved = place + shift * responses(draws, true, 1, SHIFTING)[..., None]
    return (height * torch.exp(-(((axis - moved) / width) ** 2) / 2)).sum(1)


def _with_filter(draws: Draws, signal: Tensor, true: Tensor) -> Tensor:
    """Signal reduced by absorption that depends on wavelength (inner filter), in some series."""
    series, _, wavelengths = signal.shape
    strength = draws.log_uniform(series, 1, 1, low=0.1, high=6.0)
    absorbed = strength * random_bands(draws, series, 1, wavelengths) * true[:, :, None]
    filtered = signal * torch.exp(-absorbed)
    return torch.where(draws.chance(0.15, series, 1, 1), filtered, signal)


def _saturated(draws: Draws, signal: Tensor) -> Tensor:
    """Absorbance flattened by stray light in some series, clipped in a few."""
    series = len(signal)
    largest = draws.log_uniform(series, 1, 1, low=0.5, high=8.0)
    stray = 10 ** -draws.uniform(series, 1, 1, low=0.8, high=3.5)
    transmitted = 10 ** -(signal.clamp(min=0) * largest)
    flattened = -torch.log10((transmitted + stray) / (1 + stray)) / largest
    signal = torch.where(draws.chance(0.2, series, 1, 1), flattened, signal)
    ceiling = draws.uniform(series, 1, 1, low=0.3, high=0.9) * signal.amax((1, 2), keepdim=True)
    return torch.where(draws.chance(0.05, series, 1, 1), signal.minimum(ceiling), signal)


def _recorded(draws: Draws, signal: Tensor, errors: float, levels: Tensor) -> Tensor:
    """Signal with errors: gain, offset, slope, noise, matrix, drift, one outlier of the levels.

    All except the gain are relative to the deviation of the spectra of the series.
    """
    series, samples, wavelengths = signal.shape
    deviation = signal - signal.mean(1, keepdim=True)
    span = deviation.pow(2).mean((1, 2), keepdim=True).sqrt().clamp(min=1e-9)
    axis = 2 * _axis(draws, wavelengths) - 1

    def size(low: float, high: float, share: float) -> Tensor:
        return draws.perhaps(share, series, 1, 1, low=low, high=errors * high)

    def of_levels() -> Tensor:
        return draws.normal(series, samples, 1)

    gain = torch.exp(size(2e-3, 0.1, 0.8) * of_levels())
    noise = torch.where(
        draws.chance(0.06, series, 1, 1),
        draws.log_uniform(series, 1, 1, low=0.15, high=2.4),
        draws.log_uniform(series, 1, 1, low=1e-3, high=0.3),
    )
    order = torch.linspace(-1, 1, samples, dtype=signal.dtype, device=signal.device)[:, None]
    among = levels.shape[1]
    mishap = torch.randint(among, (series, 1), generator=draws.generator, device=draws.device)
    at_mishap = levels.gather(1, mishap) == torch.arange(samples, device=draws.device)
    disturbed = (
        size(3e-3, 0.4, 0.7) * of_levels()
        + size(1e-3, 0.2, 0.4) * of_levels() * axis
        + noise * draws.normal(series, samples, wavelengths)
        + size(3e-3, 0.7, 0.7) * of_levels() * random_bands(draws, series, 1, wavelengths)
        + size(3e-3, 0.5, 0.25) * order * random_bands(draws, series, 1, wavelengths)
        + size(0.1, 1.0, 0.08)
        * at_mishap[..., None]
        * draws.normal(series, 1, 1)
        * random_bands(draws, series, 1, wavelengths)
    )
    return signal * gain + span * disturbed


def _axis(draws: Draws, wavelengths: int) -> Tensor:
    return torch.linspace(0, 1, wavelengths, dtype=torch.float64, device=draws.device)
