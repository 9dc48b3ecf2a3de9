import importlib

import numpy as np
import pytest
import torch

pytest.importorskip("triton")
kernel = importlib.import_module("geonode.compute.kernels.closed_form")

NAMES = ("positions", "length", "moment", "slowest", "root", "wavelengths")


def tables(stations, wavelengths, dtype):
    """Arguments of the kernel, drawn at random with the signs and the order that they have."""
    draw = np.random.default_rng([stations, wavelengths])
    gaps = (stations - 1, wavelengths)
    drawn = (
        np.sort(draw.uniform(-1, 1, stations)),
        draw.uniform(0.1, 1, gaps),
        draw.normal(size=gaps),
        draw.uniform(0.3, 2, gaps),
        draw.uniform(0.5, 2, (stations, wavelengths)),
        draw.uniform(-1, 1, wavelengths),
    )
    return dict(zip(NAMES, (part.astype(dtype) for part in drawn), strict=True))


def solved(arguments, device, v0=None):
    tensors = [torch.from_numpy(arguments[name]).to(device) for name in NAMES]
    given = [] if v0 is None else [torch.from_numpy(v0).to(device)]
    v0, features = kernel.all_pairs(*tensors, *given)
    return v0.cpu().numpy(), features.cpu().numpy()


def pair_by_pair(arguments, given=None):
    """The same in a loop over pairs, every operation rounded once."""
    x, length, moment, slowest, root, w = (arguments[name] for name in NAMES)
    v0, features = [], []
    for a in range(len(x)):
        for b in range(len(x)):
            if a != b:
                way, turned = np.zeros_like(w), np.zeros_like(w)
                gaps = range(a, b) if a < b else reversed(range(b, a))
                for gap in gaps:  # from the source on
                    way, turned = way + length[gap], turned + moment[gap]
                least = slowest[min(a, b) : max(a, b)].min(0)
                v0.append((way if a < b else -way) / root[a])
                if given is not None:
                    v0[-1] = given[len(v0) - 1]
                    way = np.abs(v0[-1] * root[a])
                row = (np.full_like(w, x[b]), turned / way, way, way / least, w)
                features.append(np.stack(row, axis=-1))
    return np.stack(v0), np.stack(features)


@pytest.mark.parametrize(
    ("stations", "wavelengths", "dtype"),
    [(2, 1, np.float32), (2, 130, np.float64), (4, 301, np.float32), (6, 3, np.float64)],
)
def test_pairs_are_those_of_a_loop_to_the_last_bit(stations, wavelengths, dtype, device):
    arguments = tables(stations, wavelengths, dtype)
    v0, _ = pair_by_pair(arguments)
    longer = v0 * np.linspace(0.9, 1.1, wavelengths).astype(dtype)
    for given in (None, longer):  # features follow from velocities that are given
        expected = pair_by_pair(arguments, given)
        for found, exact in zip(solved(arguments, device, given), expected, strict=True):
            np.testing.assert_array_equal(found, exact, strict=True)


def test_a_number_that_is_none_reaches_every_path_through_its_gap(device):
    arguments = tables(4, 2, np.float64)
    arguments["slowest"][1, 0] = np.nan
    _, features = solved(arguments, device)
    crossing = [min(a, b) <= 1 < max(a, b) for a in range(4) for b in range(4) if a != b]
    np.testing.assert_array_equal(np.isnan(features[:, 0, 3]), crossing)
    assert np.isfinite(np.delete(features, 3, axis=-1)).all()
