import pytest
import torch

from benchmarks import programs
from benchmarks.performance.floors import training_work
from geonode.geometry.trainable import product

SIZES, ROWS = (3, 8, 8, 1), 50


def operations_of(call):
    """Sums and products of a product of matrices that a step makes."""
    if call.func not in (product, torch.baddbmm, torch.bmm, torch.mul):
        return 0
    left, right = call.args[-2:]
    return 2 * left.shape[-2] * left.shape[-1] * right.shape[-1]


def test_products_of_a_step_are_those_that_the_floor_counts():
    found = sum(operations_of(call) for call in programs.operations(SIZES, ROWS)["products"])
    assert found == training_work(1, ROWS, SIZES, 4).operations


@pytest.mark.parametrize("kind", ["products", "tanh and its derivative", "sums"])
def test_every_operation_of_a_step_can_be_run(kind):
    with torch.no_grad():
        results = [call() for call in programs.operations(SIZES, ROWS)[kind]]
    assert all(torch.isfinite(result).all() for result in results)
