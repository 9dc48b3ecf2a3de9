import threading

import numpy as np
import pytest

from geonode.engine.local import LOCAL, Engine


def followed(log):
    log.append("followed")

    def work(tile, report):
        log.append(("worked", tile, threading.current_thread() is threading.main_thread()))
        if tile == 3:
            raise ArithmeticError(tile)
        report(tile)
        return 10 * tile

    return work


@pytest.mark.parametrize("cores", [None, 1, 4])
def test_results_are_taken_in_the_order_of_the_tiles(cores):
    log, taken, reported = [], [], []
    LOCAL.work(
        lambda: followed(log), [2, 0, 1], lambda *one: taken.append(one), reported.append, cores
    )
    assert taken == [(2, 20), (0, 0), (1, 10)]
    assert sorted(reported) == [0, 1, 2]
    assert log[0] == "followed"
    assert sorted(log[1:]) == [("worked", tile, cores is None) for tile in (0, 1, 2)]


def test_without_cores_a_tile_is_taken_before_the_next_is_begun():
    log = []
    LOCAL.work(lambda: followed(log), [0, 1], lambda tile, found: log.append(found))
    assert log[2] == 0
    assert log[4] == 10


@pytest.mark.parametrize("cores", [None, 2])
def test_an_error_is_that_of_the_tile(cores):
    taken = []
    with pytest.raises(ArithmeticError, match="3"):
        LOCAL.work(lambda: followed([]), [1, 3, 2], lambda *one: taken.append(one), cores=cores)
    assert taken == [(1, 10)]


def test_an_array_is_shared_as_it_is():
    array = np.zeros(3)
    assert isinstance(LOCAL, Engine)
    assert LOCAL.shared(array)() is array
