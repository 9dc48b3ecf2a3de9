"""Floors: lower bounds of the time of a computation on a device, by the roofline model.

Rates are measured in the process that uses them, as those of a shared machine change. A floor is
the larger of two times: operations at the rate of large matrix products, and bytes at that of a
copy. Source: S. Williams, A. Waterman and D. Patterson, Roofline, Communications of the ACM 52
(2009) 65.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch

from geonode.compute.device import Device
from geonode.compute.products import fast_products
from stages.performance.timing import Quartiles, time_calls

EDGE = {"cpu": 1024, "cuda": 8192, "mps": 4096}  # of the matrices
COPIED_BYTES = {"cpu": 2**28, "cuda": 2**31, "mps": 2**29}  # more than any cache holds


class Rates(NamedTuple):
    """Peak rates of a device: operations (a product and a sum are two) and bytes per second."""

    operations: float
    bytes: float

    @classmethod
    def of(cls, device: Device, dtype: torch.dtype, repeats: int, cores: int) -> "Rates":
        """Measured rates, as medians.

        Args:
            device: device; factors are rounded by `Device.rounding`.
            dtype: format of the matrices.
            repeats: repetitions of either measurement.
            cores: of a CPU, as many as the computation uses.
        """
        before = torch.get_num_threads()
        torch.set_num_threads(cores)
        edge, place = EDGE[device.kind], device.place
        left, right, product = torch.ones(3, edge, edge, device=place, dtype=dtype)
        first, second = torch.ones(2, COPIED_BYTES[device.kind], device=place, dtype=torch.uint8)
        with fast_products(place, tf32=device.rounding == "tf32"):
            multiplying = time_calls(
                lambda: torch.mm(left, right, out=product), repeats, device.synchronise
            )
        copying = time_calls(lambda: first.copy_(second), repeats, device.synchronise)
        torch.set_num_threads(before)
        # a copy reads every byte and writes it
        return cls(2 * edge**3 / multiplying.median, 2 * len(first) / copying.median)


class Work(NamedTuple):
    """Operations of a computation, and bytes between processor and memory."""

    operations: float
    bytes: float

    def floor(self, rates: Rates) -> float:
        """Least time (s)."""
        return max(self.operations / rates.operations, self.bytes / rates.bytes)

    def ratio(self, seconds: Quartiles, rates: Rates) -> float:
        """Median of the measured times, relative to the floor."""
        return seconds.median / self.floor(rates)


def training_work(models: int, rows: int, sizes: Sequence[int], itemsize: int) -> Work:
    """Work of one training step of perceptrons with Adam.

    A layer multiplies three times: values, gradients of its weights and, except the first layer,
    errors of its inputs. Inputs and targets are read once; weights, gradients and two moments are
    read and written.
    """
    layers = list(pairwise(sizes))
    products = 3 * sum(a * b for a, b in layers) - layers[0][0] * layers[0][1]
    parameters = sum((a + 1) * b for a, b in layers)
    moved = rows * (sizes[0] + sizes[-1]) + 8 * parameters
    return Work(2 * models * rows * products, models * moved * itemsize)


def grid_work(nodes: int, wavelengths: int, degree: int, itemsize: int) -> Work:
    """Work of ln sqrt(g) and the symbol on a grid from a series of a degree; both are written."""
    values = nodes * wavelengths
    return Work(4 * values * degree, 2 * values * itemsize)


def paths_work(rows: int, itemsize: int) -> Work:
    """Work of first velocity and five features: two differences, three quotients; all written."""
    return Work(5 * rows, 6 * rows * itemsize)
