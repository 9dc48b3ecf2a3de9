import torch
from torch.utils.flop_counter import FlopCounterMode

from geonode.geometry.perceptron import Perceptron
from geonode.geometry.trainable import TrainablePerceptron
from stages.performance.floors import Rates, Work, grid_work, paths_work, training_work
from stages.performance.timing import Quartiles


def test_operations_of_a_step_are_those_that_torch_counts():
    sizes, models, rows = (5, 16, 8, 3), 2, 40
    network = TrainablePerceptron.of(Perceptron.initial(sizes, [(0,), (1,)]))
    inputs = torch.randn(models, rows, 5)
    with FlopCounterMode(display=False) as counter:
        network(inputs).square().mean().backward()
    assert training_work(models, rows, sizes, 4).operations == counter.get_total_flops()


def test_operations_of_a_grid_are_those_that_torch_counts():
    series, values, slopes = torch.randn(16, 60), torch.randn(200, 16), torch.randn(200, 16)
    with FlopCounterMode(display=False) as counter:
        values @ series, slopes @ series
    work = grid_work(200, 60, 16, 4)
    assert work == (counter.get_total_flops(), 2 * 200 * 60 * 4)


def test_a_floor_is_the_longer_of_two_times():
    rates = Rates(operations=100.0, bytes=10.0)
    assert Work(200, 10).floor(rates) == 2.0
    assert Work(200, 50).floor(rates) == 5.0
    assert Work(200, 50).ratio(Quartiles(15.0, 1.0, 20.0), rates) == 3.0
    assert paths_work(10, 4) == (50, 240)
