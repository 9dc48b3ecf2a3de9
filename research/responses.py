"""Responses to concentration: the amount of a band at every level.

Every law is drawn with random parameters; the highest concentration is 1.

Sources: Langmuir, J. Am. Chem. Soc. 40 (1918) 1361; Hill, J. Physiol. 40 (1910) iv; Freundlich,
Z. Phys. Chem. 57 (1906) 385 (power law); Stern and Volmer, Phys. Z. 20 (1919) 183 (quenching);
quadratic binding: the exact mass balance of one site, e.g. Thordarson, Chem. Soc. Rev. 40 (2011)
1305; inner filter: J. R. Lakowicz, Principles of Fluorescence Spectroscopy, 3rd ed., section 2.7.
"""

from math import e, log

import torch
from jaxtyping import Float
from torch import Tensor

from research.draws import Draws

SHARES = {
    "Beer and Lambert": 0.24,
    "Langmuir": 0.12,
    "Hill": 0.12,
    "aggregation": 0.09,
    "inner filter": 0.08,
    "titration": 0.08,
    "power law": 0.07,
    "logarithm": 0.07,
    "exponential saturation": 0.05,
    "quenching": 0.05,
}
"""Share of the responses that follow every law."""

SHIFTING = {**dict.fromkeys(("Beer and Lambert", "Langmuir", "Hill"), 0.2), "aggregation": 0.1}
SHIFTING |= dict.fromkeys(("titration", "power law", "logarithm"), 0.1)
"""Share of the shifts of bands that follow every law."""


def responses(
    draws: Draws,
    concentrations: Float[Tensor, "series level"],
    count: int,
    shares: dict[str, float] = SHARES,
) -> Float[Tensor, "series response level"]:
    """Responses by laws drawn at random, each with its own parameters.

    Concentrations are at most 1; every law has its share.
    """
    of_laws = tuple(shares.get(name, 0.0) for name in SHARES)
    found = [draws.one_of(_all_laws(draws, concentrations), of_laws) for _ in range(count)]
    return torch.stack(found, dim=1)


def smooth_functions(
    draws: Draws, concentrations: Float[Tensor, "series level"], count: int
) -> Float[Tensor, "series response level"]:
    """Random functions, smooth on a random chart of each series, some with a trend.

    They follow no law, as real responses often do not. Functions of one series share chart, kernel
    and length, as the spectra of one chemistry do.
    """
    series, levels = concentrations.shape
    lowest = lowest_of(concentrations)
    share = draws.uniform(series, 1)
    scale = torch.exp(torch.log(lowest / 3) * (1 - share) + log(3.0) * share)
    linear, asinh = draws.chance(0.3, series, 1), draws.chance(0.7, series, 1)
    chart = torch.where(
        linear,
        concentrations,
        torch.where(
            asinh,
            torch.asinh(concentrations / scale),
            concentrations / (concentrations + scale),
        ),
    )
    chart = 2 * (chart - chart[:, :1]) / (chart[:, -1:] - chart[:, :1]) - 1
    length = draws.log_uniform(series, 1, 1, low=0.25, high=6.0)
    scaled = (chart[:, :, None] - chart[:, None]).abs() / length
    covariance = torch.where(
        draws.chance(0.6, series, 1, 1),
        torch.exp(-(scaled**2) / 2),
        (1 + 3**0.5 * scaled) * torch.exp(-(3**0.5) * scaled),
    )
    jitter = 1e-8 * torch.eye(levels, dtype=covariance.dtype, device=covariance.device)
    root = torch.linalg.cholesky(covariance + jitter)
    found = draws.normal(series, count, levels) @ root.transpose(1, 2)
    along = torch.where(draws.chance(0.5, series, 1, 1), chart[:, None], concentrations[:, None])
    slope = draws.normal(series, count, 1) * draws.log_uniform(series, 1, 1, low=0.1, high=10.0)
    found = found + along * slope * draws.chance(0.5, series, 1, 1)
    return found / found.abs().amax((1, 2), keepdim=True)


def lowest_of(concentrations: Tensor) -> Tensor:
    """Lowest positive level of every series."""
    return torch.where(concentrations > 0, concentrations, torch.inf).amin(1, keepdim=True)


def _all_laws(draws: Draws, c: Tensor) -> Float[Tensor, "series law level"]:
    """Every law once, in the order of `SHARES`."""
    series = len(c)
    lowest = lowest_of(c)

    def constant(wide: float, low: float, high: float) -> Tensor:
        """Constant of a law: in a share of the series above the lowest level, else near 1."""
        share = draws.uniform(series, 1)
        far = torch.exp(torch.log(0.3 * lowest) * (1 - share) + log(5.0) * share)
        near = draws.log_uniform(series, 1, low=low, high=high)
        return torch.where(draws.chance(wide, series, 1), far, near)

    def bound(half: Tensor, cooperativity: Tensor | float) -> Tensor:
        power = (c / half) ** cooperativity
        return power / (1 + power)

    covered = bound(constant(0.3, 0.1, 2.0), draws.uniform(series, 1, low=1.0, high=3.0))
    filtered = draws.log_uniform(series, 1, low=0.1, high=8.0)
    ligand = draws.log_uniform(series, 1, low=0.15, high=3.0)
    dissociation = ligand * draws.log_uniform(series, 1, low=1e-4, high=0.3)
    both = c + ligand + dissociation
    decay = draws.log_uniform(series, 1, low=0.1, high=5.0)
    turn = constant(0.5, 0.05, 5.0)
    laws = {
        "Beer and Lambert": c,
        "Langmuir": bound(constant(0.5, 0.05, 5.0), 1.0),
        "Hill": bound(constant(0.3, 0.1, 2.0), draws.uniform(series, 1, low=1.0, high=4.0)),
        "aggregation": 4 * covered * (1 - covered),
        "inner filter": e * filtered * c * torch.exp(-filtered * c),
        "titration": (both - torch.sqrt((both**2 - 4 * c * ligand).clamp(min=0)))
        / (2 * ligand.clamp(max=1)),
        "power law": c ** draws.uniform(series, 1, low=0.25, high=1.8),
        "logarithm": torch.log1p(c / turn) / torch.log1p(1 / turn),
        "exponential saturation": torch.expm1(-c / decay) / torch.expm1(-1 / decay),
        "quenching": 1 / (1 + c / constant(0.3, 0.05, 5.0)),
    }
    return torch.stack([laws[name] for name in SHARES], dim=1)
