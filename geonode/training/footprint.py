"""Memory of a step of training, counted from the arrays that are alive in it.

Every hidden unit of a network stores two numbers per row, its value and its error, in the format of
the products (`geonode.geometry.trainable`). The kernels store neither, but one gradient of the
parameters per `ROWS` rows. All other numbers of a row are in the format of the training. Weights,
gradients and the moments of Adam are left out: a few ten thousand numbers per model.
"""

import itertools
import math
from typing import NamedTuple

import torch

from geonode.config import DecodersParameters, MetricParameters
from geonode.devices.device import Device
from geonode.devices.kernels.available import ROWS, trains, usable
from geonode.errors import TrainingError
from geonode.geometry.metric import SIZES

HIDDEN_UNITS = sum(SIZES[1:-1])  # of a metric network, and of a decoder
# Of a metric network; a decoder has 192 more.
PARAMETERS = sum((given + 1) * wanted for given, wanted in itertools.pairwise(SIZES))

# Numbers per row of a metric network: the point (2) and its copy in the format of the products, the
# output, g, sqrt(g), ln g and its excess over the bounds; the last five have gradients.
OF_NODE = 14
# Numbers per row of a decoder. Of every pair: raw and standardised features (5 each), the target.
# Of the pairs of one part: standardised features, output, difference and square, and the gradients
# of the last three.
OF_EVERY_PAIR, OF_PAIR = 11, 11
# As OF_PAIR, where a metric is trained as well: features, standardised in two steps, and the
# gradients of all of these.
OF_PAIR_WITH_METRIC = 40
# Numbers per row and gap between neighbouring concentrations: the least sqrt(g) of the gap on the
# path (infinity elsewhere), its gradient, and its place.
OF_GAP = 3


class Footprint(NamedTuple):
    """Memory of a training step of one model.

    Attributes:
        model: bytes independent of the training pairs.
        kept: bytes per training pair.
        pair: bytes per training pair of the part in hand.
        parts: smallest number of parts of the training pairs.
    """

    model: int
    kept: int
    pair: int
    parts: int

    def bytes(self, pairs: int, parts: int) -> int:
        """Bytes of a model whose training pairs are taken in parts."""
        return self.model + self.kept * pairs + self.pair * math.ceil(pairs / parts)

    def parts_within(self, memory: int, pairs: int) -> int:
        """Smallest number of parts with which one model fits into the memory.

        Args:
            memory: bytes.
            pairs: training pairs of a model.

        Raises:
            TrainingError: not even one pair fits.
        """
        if self.bytes(pairs, self.parts) <= memory:
            return self.parts
        least = self.bytes(pairs, pairs)
        if least > memory:
            raise TrainingError(
                f"memory_mb: found {memory / 1e6:.3g} MB for every batch, expected at least the "
                f"{least / 1e6:.3g} MB that a model takes with its training pairs one at a time; "
                "raise memory_mb, or lower the number of wavelengths"
            )
        return math.ceil(pairs / ((memory - self.model - self.kept * pairs) // self.pair))


def of_path_decoders(width: int, parameters: DecodersParameters, device: Device) -> Footprint:
    """Memory of a training step of decoders alone.

    Args:
        width: rows per training pair.
        parameters: parameters of the training.
        device: device and number formats.
    """
    kept = width * OF_EVERY_PAIR * device.training.itemsize
    return Footprint(0, kept, width * _row(OF_PAIR, device), parameters.accumulation)


def of_end_to_end(
    levels: int, width: int, parameters: MetricParameters, device: Device
) -> Footprint:
    """Memory of a training step of metrics with decoders.

    Args:
        levels: number of levels of the series.
        width: number of training wavelengths.
        parameters: parameters of the training.
        device: device and number formats.
    """
    nodes = (levels - 1) * parameters.quadrature_nodes + levels
    pair = width * _row(OF_PAIR_WITH_METRIC + OF_GAP * (levels - 1), device)
    return Footprint(nodes * width * _row(OF_NODE, device), 0, pair, parameters.accumulation)


def _row(numbers: int, device: Device) -> int:
    """Bytes of a row of a network: its hidden units and further numbers."""
    single = device.training == torch.float32
    if usable(device.place) and single and trains(SIZES, device.products):
        hidden = math.ceil(PARAMETERS * device.training.itemsize / ROWS)
    else:
        hidden = 2 * HIDDEN_UNITS * device.products.itemsize
    return hidden + numbers * device.training.itemsize
