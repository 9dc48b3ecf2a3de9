import numpy as np
import pytest
import torch

from geonode.geometry.problem import ordered_pairs
from geonode.geometry.stations import Stations


def stations(count, columns, dtype=torch.float64):
    """Any positive lengths will do: what is joined is not looked at."""
    generator = torch.Generator().manual_seed(count)
    tables = torch.rand(4, count, columns, generator=generator, dtype=torch.float64) + 0.1
    positions = torch.linspace(-0.9, 1, count, dtype=torch.float64)
    wavelengths = torch.linspace(-1, 1, columns, dtype=torch.float64)
    parts = (positions, *tables[:3, 1:], tables[3], wavelengths)
    return Stations(*(part.to(dtype) for part in parts))


def by_loops(at, given=None):
    """Every pair by itself, in double precision."""
    parts = ("positions", "length", "moment", "slowest", "root", "wavelengths")
    x, s, m, slowest, root, w = (getattr(at, name).double().numpy() for name in parts)
    v0, features = [], []
    for a, b in zip(*(index.tolist() for index in ordered_pairs(len(x))), strict=True):
        path = slice(min(a, b), max(a, b))
        length, least = s[path].sum(axis=0), slowest[path].min(axis=0)
        v0.append(np.sign(b - a) * length / root[a])
        if given is not None:
            v0[-1] = given[len(v0) - 1].double().numpy()
            length = abs(v0[-1]) * root[a]
        rows = [x[b] + 0 * w, m[path].sum(axis=0) / length, length, length / least, w]
        features.append(np.stack(rows, axis=-1))
    return np.stack(v0), np.stack(features)


@pytest.mark.parametrize(("count", "columns"), [(2, 1), (3, 5), (7, 4)])
@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-14), (torch.float32, 2e-6)])
def test_every_path_and_features_against_loops(count, columns, dtype, error):
    at = stations(count, columns, dtype)
    v0, features = by_loops(at)
    found = (*at.every_path(), at.features(*ordered_pairs(count)))
    for part, truth in zip(found, (v0, features, features), strict=True):
        assert part.dtype == dtype
        np.testing.assert_allclose(part, truth, rtol=error)
    given = found[0] * torch.linspace(0.9, 1.2, columns, dtype=dtype)
    same, features = at.every_path(given)
    assert torch.equal(same, given)
    np.testing.assert_allclose(features, by_loops(at, given)[1], rtol=error)
