from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.integrate import quad
from scipy.optimize import minimize_scalar

from geonode.geodesics.expanded import expanded_stations
from geonode.geometry.chebyshev import differentiation
from geonode.geometry.sources import ChebyshevSource
from tests.geometry.closed_forms import CPU, random_metric

POSITIONS = torch.tensor([-1.0, -0.4, 0.1, 0.25, 1.0]).double()
WAVELENGTHS = torch.linspace(-1, 1, 3).double()


def made(gain=2.0, like=torch.float64, nodes=16):
    metric = random_metric(15, gain)
    source = ChebyshevSource.of(metric, WAVELENGTHS, tolerance=1e-13, largest_degree=512)
    parts = (POSITIONS.to(like), WAVELENGTHS.to(like), nodes)
    return metric, expanded_stations(source, 0, *parts)


@pytest.mark.parametrize("gain", [1.0, 4.0])
def test_stations_against_adaptive_quadrature_and_search(gain):
    """On the network itself, every wavelength and gap by itself."""
    metric, found = made(gain, nodes=24)
    turning = 0
    for column, w in enumerate(WAVELENGTHS):

        def log_sqrt(x, w=w):
            return float(metric.log_sqrt(torch.tensor([[x]]).double(), w[None]))

        s = m = 0.0
        for gap, (low, high) in enumerate(pairwise(POSITIONS)):
            a, b = float(low), float(high)
            s += quad(lambda x: np.exp(log_sqrt(x)), a, b, epsabs=1e-12, epsrel=1e-11)[0]
            m += quad(lambda x: x * np.exp(log_sqrt(x)), a, b, epsabs=1e-12, epsrel=1e-11)[0]
            starts = np.linspace(a, b, 40)
            at = starts[np.argmin([log_sqrt(x) for x in starts])]
            near = (max(a, at - (b - a) / 39), min(b, at + (b - a) / 39))
            best = minimize_scalar(log_sqrt, bounds=near, method="bounded", options={"xatol": 1e-9})
            turning += near[0] > a and near[1] < b
            least = min(best.fun, log_sqrt(a), log_sqrt(b))
            assert float(found.arc_length[gap + 1, column]) == pytest.approx(s, rel=1e-9)
            assert float(found.moment[gap + 1, column]) == pytest.approx(m, abs=1e-9)
            assert float(found.slowest[gap, column]) == pytest.approx(np.exp(least), rel=1e-8)
            assert float(found.root[gap, column]) == pytest.approx(np.exp(log_sqrt(a)), rel=1e-9)
    assert turning  # some minima lie inside a gap


def test_derivatives_of_series_are_those_of_numpy():
    coefficients = torch.randn(9, 3, generator=torch.Generator().manual_seed(0)).double()
    found = differentiation(9, coefficients.device, coefficients.dtype) @ coefficients
    expected = np.polynomial.chebyshev.chebder(coefficients.numpy())
    np.testing.assert_allclose(found[:-1], expected, rtol=1e-13, atol=1e-13)
    assert not found[-1].any()


def test_single_precision():
    single, double = (made(like=like)[1] for like in (torch.float32, torch.float64))
    assert single.positions.device == CPU
    for name in ("arc_length", "moment", "root", "slowest"):
        part = getattr(single, name)
        assert part.dtype == torch.float32
        torch.testing.assert_close(part.double(), getattr(double, name), rtol=1e-5, atol=1e-6)
