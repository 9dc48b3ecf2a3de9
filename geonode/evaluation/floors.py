"""The least time that work can take on a device: what it has to multiply, and what it has to move.

Rates are measured in the process that uses them, as those of a shared machine change. A floor is
the larger of two times: operations at the rate of large matrix products, and bytes at that of a
copy. Source of the model: S. Williams, A. Waterman and D. Patterson, Roofline, Communications of
the ACM 52 (2009) 65.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch

from geonode.devices.device import Device
from geonode.devices.products import fast_products
from geonode.evaluation.timing import Quartiles, time_calls

EDGE = {"cpu": 1024, "cuda": 8192, "mps": 4096}  # of the matrices
COPIED_BYTES = {"cpu": 2**28, "cuda": 2**31, "mps": 2**29}  # more than any cache holds


class Rates(NamedTuple):
    """What a device does at most: operations (a product and a sum are two) and bytes a second."""

    operations: float
    bytes: float

    @classmethod
    def of(cls, device: Device, dtype: torch.dtype, repeats: int) -> "Rates":
        """Measure them, as medians.

        Args:
            device: which, with all its cores. Factors are rounded as `Device.rounding` says.
            dtype: format of the matrices.
            repeats: of either measurement.
        """
        edge, place = EDGE[device.kind], device.place
        left, right, product = torch.ones(3, edge, edge, device=place, dtype=dtype)
        first, second = torch.ones(2, COPIED_BYTES[device.kind], device=place, dtype=torch.uint8)
        with fast_products(place, tf32=device.rounding == "tf32"):
            multiplying = time_calls(
                lambda: torch.mm(left, right, out=product), repeats, device.synchronise
            )
        copying = time_calls(lambda: first.copy_(second), repeats, device.synchronise)
        # a copy reads every byte and writes it
        return cls(2 * edge**3 / multiplying.median, 2 * len(first) / copying.median)


class Work(NamedTuple):
    """Operations, and bytes that have to pass between processor and memory."""

    operations: float
    bytes: float

    def floor(self, rates: Rates) -> float:
        """Seconds that this takes at least."""
        return max(self.operations / rates.operations, self.bytes / rates.bytes)

    def ratio(self, seconds: Quartiles, rates: Rates) -> float:
        """Median of what was measured, relative to the floor."""
        return seconds.median / self.floor(rates)


def training_work(models: int, rows: int, sizes: Sequence[int], itemsize: int) -> Work:
    """One step of perceptrons, by gradient, with Adam.

    A layer multiplies three times: values, gradients of its weights and, but for the first, errors
    of its inputs. Inputs and targets are read once; weights, gradients and two moments are read and
    written.
    """
    layers = list(pairwise(sizes))
    products = 3 * sum(a * b for a, b in layers) - layers[0][0] * layers[0][1]
    parameters = sum((a + 1) * b for a, b in layers)
    moved = rows * (sizes[0] + sizes[-1]) + 8 * parameters
    return Work(2 * models * rows * products, models * moved * itemsize)


def grid_work(nodes: int, wavelengths: int, degree: int, itemsize: int) -> Work:
    """Ln sqrt(g) and the symbol on a grid from series of a certain degree; both are written."""
    values = nodes * wavelengths
    return Work(4 * values * degree, 2 * values * itemsize)


def paths_work(rows: int, itemsize: int) -> Work:
    """First velocity and five features: two differences, three quotients; all are written."""
    return Work(5 * rows, 6 * rows * itemsize)
