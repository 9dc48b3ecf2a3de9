"""Designs of concentration series: the levels that laboratories prepare."""

import torch
from jaxtyping import Float
from torch import Tensor

from geonode.posterior.draws import Draws

SHARES = {
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


def designs(draws: Draws, series: int, levels: int) -> Float[Tensor, "series level"]:
    """Concentrations of simulated series, ascending; the highest is 1.

    Args:
        draws: random numbers.
        series: number of series.
        levels: number of levels of every series.
    """
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
    every = torch.stack([kinds[name].expand(series, -1) for name in SHARES], dim=1)
    chosen = every[
        torch.arange(series, device=draws.device), draws.choice(tuple(SHARES.values()), series)
    ]
    return _narrowed(chosen)


def _narrowed(levels: Tensor) -> Tensor:
    """Levels scaled to a highest one of 1, over at most `WIDEST` on a logarithmic scale."""
    highest = levels.amax(1, keepdim=True)
    lowest = torch.where(levels > 0, levels, torch.inf).amin(1, keepdim=True)
    span = torch.log(highest / lowest)
    power = (torch.log(torch.tensor(WIDEST, dtype=levels.dtype)) / span).clamp(max=1)
    return torch.where(levels > 0, (levels / highest) ** power, 0.0)
