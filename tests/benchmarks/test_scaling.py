import pytest
import torch

from benchmarks import scaling
from benchmarks.scaling import COLUMNS, PAIRS, Costs, Tile, joined, tiles_of
from geonode.engine.local import LOCAL


@pytest.mark.parametrize("columns", [1, COLUMNS - 1, COLUMNS, 3 * COLUMNS + 2])
def test_tiles_hold_every_wavelength_once(columns):
    held = [place for first, count in tiles_of(columns) for place in range(first, first + count)]
    assert held == list(range(columns))
    assert max(tile.columns for tile in tiles_of(columns)) <= COLUMNS


def test_what_is_joined_does_not_depend_on_the_tiles(monkeypatch):
    monkeypatch.setattr(scaling, "COLUMNS", 3)
    _, rows, _ = scaling.run(LOCAL, tiles_of(7), 7)
    assert rows == 7 * PAIRS
    join = joined(7)
    parts = sum(join(tile, lambda _: None).sum_of_v0 for tile in tiles_of(7))
    assert join(Tile(0, 7), lambda _: None).sum_of_v0 == pytest.approx(parts, rel=1e-6)
    assert join(Tile(0, 0), lambda _: None)[:2] == (0, 0.0)


def test_the_model_adds_what_it_says():
    costs = Costs(tile=0.5, row=1e-6, task=0.01)
    columns = 2 * COLUMNS + 1
    assert costs.predict(columns) == pytest.approx(3 * 0.51 + columns * PAIRS * 1e-6)
    assert costs.predict(columns, 2) == pytest.approx(0.03 + (1.5 + columns * PAIRS * 1e-6) / 2)


def test_constants_are_those_of_single_tiles(monkeypatch):
    clock = [0.0]

    def takes(columns):
        def join(tile, report):
            clock[0] += 0.2 + PAIRS * tile.columns * 1e-5

        return join

    monkeypatch.setattr(scaling, "joined", takes)
    monkeypatch.setattr(scaling.time, "perf_counter", lambda: clock[0])
    # A new process takes 3 s more, and three times as long for every row.
    new = {columns: 3.2 + PAIRS * columns * 3e-5 for columns in (1, COLUMNS)}
    monkeypatch.setattr(scaling, "one_process", lambda columns: (new[columns], 0, 0.0))
    costs = Costs.measured()
    assert costs == pytest.approx((0.2, 1e-5, 0.0, 3.0, 2e-5))
    for columns, seconds in new.items():
        assert costs.predict(columns) == pytest.approx(seconds)


@pytest.mark.slow
def test_processes_of_their_own_and_workers_are_timed_beside_the_model(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(scaling, "STARTS", 1)
    costs, table = scaling.study(1e5, 2e5, [1], 1)
    assert [line["processes"] for line in table] == ["1", "1 workers"]
    for line in table:
        assert line["geodesics"] >= 1e5
        assert line["seconds"] > 0
        assert line["MB a process"] > 50
    assert costs.row > 0
    assert torch.get_num_threads() >= 1
