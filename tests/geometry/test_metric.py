from functools import partial

import pytest
import torch
from torch.nn.functional import softplus

from geonode.geometry.metric import FLOOR, Metric
from tests.geometry.closed_forms import CPU, random_metric
from tests.geometry.precision import NoFloat64

MODELS = 4
BOTH = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])


def points(dtype=torch.float64):
    """Scattered positions of every model, and wavelengths."""
    generator = torch.Generator().manual_seed(3)
    x, w = (
        2 * torch.rand(size, 40, generator=generator, dtype=torch.float64) - 1
        for size in (MODELS, 1)
    )
    return x.to(dtype), w[0].to(dtype)


@BOTH
@pytest.mark.parametrize("gain", [1.0, 100.0])
def test_metric_is_finite_and_at_least_the_floor(gain, dtype):
    g = Metric(random_metric(1, gain, MODELS).network.to(CPU, dtype))(*points(dtype))
    assert torch.isfinite(g).all()
    assert (g >= 0.1).all()
    assert gain < 100 or (g.amin() < 0.101 and g.amax() > 100)  # it was put to the test


def log_sqrt_at(metric, positions, wavelengths):
    """Ln sqrt(g) without a derivative."""
    value = metric.network(torch.stack([positions, wavelengths], dim=-1)).squeeze(-1)
    return 0.5 * torch.log(softplus(value) + FLOOR)


@BOTH
@pytest.mark.parametrize("gain", [1.0, 3.0])  # as drawn, and sharpened
def test_symbol_against_automatic_differentiation(gain, dtype):
    metric, (x, w) = Metric(random_metric(2, gain, MODELS).network.to(CPU, dtype)), points(dtype)
    at = w.expand(MODELS, -1)
    with NoFloat64() if dtype == torch.float32 else torch.no_grad():
        log_sqrt, symbol = (part.diagonal(0, 1, 2) for part in metric.with_symbol(x, w))
    assert log_sqrt.dtype == symbol.dtype == dtype
    exact = Metric(metric.network.to(CPU, torch.float64))
    bound = 1e-12 if dtype == torch.float64 else 2e-6
    along, x = partial(log_sqrt_at, exact, wavelengths=at.double()), x.double()
    truths = torch.func.jvp(along, (x,), (torch.ones_like(x),))
    for found, truth in zip((log_sqrt, symbol), truths, strict=True):
        assert (found - truth).abs().max() <= bound * truth.abs().max()
