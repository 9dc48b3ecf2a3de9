"""Memory of a step of training, counted from the arrays that are alive in it.

Every hidden unit of a network has two numbers a row, its value and its error, in the format of the
products (`geonode.geometry.trainable`). Trained by kernels it has none, but every `ROWS` rows have
a gradient of the parameters. What belongs to a row beside that is in the format of the training.
Weights, gradients and the moments of Adam are left out: a few ten thousand numbers a model.
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

HIDDEN_UNITS = sum(SIZES[1:-1])  # of a metric, and of a decoder
# of a metric; a decoder has 192 more
PARAMETERS = sum((given + 1) * wanted for given, wanted in itertools.pairwise(SIZES))

# Numbers of a row of a metric network: its point (2) and their copy in the format of the products,
# the output, g, sqrt(g), ln g and what bounds it; the last five have gradients.
OF_NODE = 14
# Of a row of a decoder: features and standardised ones (5 each), the target, and of a part of the
# pairs the standardised features, output, difference and square, and gradients of the last three.
OF_EVERY_PAIR, OF_PAIR = 11, 11
# The same where a metric is trained too: features of a part, standardised in two steps, and the
# gradients of all of these.
OF_PAIR_WITH_METRIC = 40
# Of a row and a gap between neighbouring concentrations: the least sqrt(g) of the gap where the
# path takes it, infinity elsewhere, with its gradient, and where that is.
OF_GAP = 3


class Footprint(NamedTuple):
    """Bytes that a step takes for one model.

    Attributes:
        model: whatever its training pairs.
        kept: of every training pair.
        pair: of every training pair of a part.
        parts: of the training pairs at least.
    """

    model: int
    kept: int
    pair: int
    parts: int

    def bytes(self, pairs: int, parts: int) -> int:
        """Of a model whose training pairs are taken in parts."""
        return self.model + self.kept * pairs + self.pair * math.ceil(pairs / parts)

    def parts_within(self, memory: int, pairs: int) -> int:
        """Parts with which one model fits.

        Args:
            memory: bytes.
            pairs: training pairs of a model.

        Raises:
            TrainingError: not even one pair does.
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
    """Of decoders that are trained alone.

    Args:
        width: rows of a training pair.
        parameters: of the training.
        device: where, and in which formats.
    """
    kept = width * OF_EVERY_PAIR * device.training.itemsize
    return Footprint(0, kept, width * _row(OF_PAIR, device), parameters.accumulation)


def of_end_to_end(
    levels: int, width: int, parameters: MetricParameters, device: Device
) -> Footprint:
    """Of metrics that are trained together with a decoder.

    Args:
        levels: of the series.
        width: training wavelengths.
        parameters: of the training.
        device: where, and in which formats.
    """
    nodes = (levels - 1) * parameters.quadrature_nodes + levels
    pair = width * _row(OF_PAIR_WITH_METRIC + OF_GAP * (levels - 1), device)
    return Footprint(nodes * width * _row(OF_NODE, device), 0, pair, parameters.accumulation)


def _row(numbers: int, device: Device) -> int:
    """Bytes of a row of a network with so many numbers beside its hidden units."""
    single = device.training == torch.float32
    if usable(device.place) and single and trains(SIZES, device.products):
        hidden = math.ceil(PARAMETERS * device.training.itemsize / ROWS)
    else:
        hidden = 2 * HIDDEN_UNITS * device.products.itemsize
    return hidden + numbers * device.training.itemsize
