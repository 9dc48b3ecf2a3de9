"""Memory of a step of training, counted from the arrays that are alive in it.

Every hidden unit of a network stores two numbers per row, its value and its error, in the format of
the products (`geonode.geometry.trainable`); kernels on a GPU need about as much for gradients. All
other numbers of a row are in the format of the training. Left out are weights, gradients and the
moments of Adam, a few ten thousand numbers per model, and what libraries copy to transpose it: with
oneDNN one number for every unit of the first hidden layer.
"""

from typing import NamedTuple

from geonode.compute.device import Device
from geonode.geometry.metric import SIZES

HIDDEN_UNITS = sum(SIZES[1:-1])  # of a metric network, and of a decoder

# Numbers per row of a metric network: the point (2) and its copy in the format of the products, the
# output, g, sqrt(g), ln g and its excess over the bounds; the last five have gradients.
OF_NODE = 14
# Numbers per row of a decoder: raw and standardised features (5 each), the target; in a step the
# standardised features, output, difference and square, and the gradients of the last three.
OF_PAIR = 22
# The same where a metric is trained as well: features, standardised in two steps, and the gradients
# of all of these.
OF_PAIR_WITH_METRIC = 40
# Numbers per row and gap between neighbouring concentrations: the least sqrt(g) of the gap on the
# path (infinity elsewhere), its gradient, and its place.
OF_GAP = 3


class Footprint(NamedTuple):
    """Memory of a training step of one model.

    Attributes:
        rows: network rows that one training pair takes.
        model: bytes independent of the training pairs.
        pair: bytes per training pair.
    """

    rows: int
    model: int
    pair: int


def bytes_of_row(numbers: int, device: Device) -> int:
    """Memory of a row of a network: of its hidden units, and of further numbers."""
    return 2 * HIDDEN_UNITS * device.products.itemsize + numbers * device.training.itemsize
