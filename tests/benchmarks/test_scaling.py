import pytest

from benchmarks import scaling
from benchmarks.scaling import COLUMNS, PAIRS
from geonode.engine.local import LOCAL


def test_tiles_hold_every_wavelength_once(monkeypatch):
    seen, evaluate = [], scaling.Panels.evaluate

    def watched(panels, metric, wavelengths):
        seen.extend(wavelengths.tolist())
        return evaluate(panels, metric, wavelengths)

    monkeypatch.setattr(scaling.Panels, "evaluate", watched)
    monkeypatch.setattr(scaling, "COLUMNS", 3)
    seconds, memory = scaling.run(LOCAL, 7)
    assert seen == pytest.approx([2 * place / 7 - 1 for place in range(7)])
    assert seconds > 0
    assert memory > 50


def test_predictions_are_those_of_a_single_tile(monkeypatch):
    monkeypatch.setattr(scaling, "run", lambda engine, columns: (0.96, 80.0))
    monkeypatch.setattr(scaling, "one_process", lambda columns: (0.02 * columns, 90.0))
    (least, most) = scaling.study(1e6, 1e5, [])
    assert least["predicted"] == pytest.approx(0.96 / COLUMNS * 11)
    assert most["geodesics"] == 102 * PAIRS
    assert most["predicted / measured"] == pytest.approx(1)


@pytest.mark.slow
def test_processes_of_their_own_and_workers_are_timed_beside_the_prediction(monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr(scaling, "SINGLE_TILES", 1)
    table = scaling.study(1e5, 2e5, [1])
    assert [line["processes"] for line in table] == ["1", "1 workers"]
    for line in table:
        assert line["geodesics"] >= 1e5
        assert line["seconds"] > 0
        assert line["MB a process"] > 50
