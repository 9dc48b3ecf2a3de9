import threading

import numpy as np
import pytest

from geonode.compute import processes as opening
from geonode.compute.engine import LOCAL
from geonode.compute.processes import open_engine
from geonode.config import EngineParameters
from geonode.errors import EngineError


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

    def take(tile, found):
        taken.append((tile, found))
        log.append(found)

    LOCAL.work(lambda: followed(log), [2, 0, 1], take, reported.append, cores)
    assert taken == [(2, 20), (0, 0), (1, 10)]
    assert sorted(reported) == [0, 1, 2]
    assert log[0] == "followed"
    begun = [("worked", tile, cores is None) for tile in (2, 0, 1)]
    if cores is None:  # a tile is taken before the next is begun
        assert log[1:] == [begun[0], 20, begun[1], 0, begun[2], 10]
    assert {*begun} == {*log[1:]} - {20, 0, 10}
    with pytest.raises(ArithmeticError, match="3"):
        LOCAL.work(lambda: followed([]), [5, 3, 2], lambda *one: taken.append(one), cores=cores)
    assert taken[3:] == [(5, 50)]


def test_this_process_is_the_engine_unless_others_are_asked_for_and_there(tmp_path, monkeypatch):
    array = np.zeros(3)
    local = EngineParameters(kind="local", scheduler=None, workers=3)
    monkeypatch.setattr(opening, "usable_cores", lambda: 1)
    for processes in (False, True):
        with open_engine(local, tmp_path / "shared", processes=processes) as engine:
            assert engine is LOCAL
            assert engine.shared(array)() is array
    monkeypatch.setattr(opening, "find_spec", lambda name: None)
    dask = EngineParameters(kind="dask", scheduler=None, workers=1)
    with (
        pytest.raises(EngineError, match=r'pip install "geonode-spectra\[cluster\]"'),
        open_engine(dask, tmp_path / "shared"),
    ):
        pytest.fail("it was opened")
    assert not any(tmp_path.iterdir())
