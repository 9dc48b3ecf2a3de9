import pytest

from benchmarks import scaling
from benchmarks.scaling import COLUMNS, PAIRS


def test_tiles_hold_every_wavelength_once(monkeypatch):
    seen, evaluate = [], scaling.Panels.evaluate

    def watched(panels, metric, wavelengths):
        seen.extend(wavelengths.tolist())
        return evaluate(panels, metric, wavelengths)

    monkeypatch.setattr(scaling.Panels, "evaluate", watched)
    monkeypatch.setattr(scaling, "COLUMNS", 3)
    seconds, memory = scaling.run(7)
    assert seen == pytest.approx([2 * place / 7 - 1 for place in range(7)])
    assert seconds > 0
    assert memory > 50


def test_predictions_are_those_of_a_single_tile(monkeypatch):
    monkeypatch.setattr(scaling, "run", lambda columns: (0.96, 80.0))
    monkeypatch.setattr(scaling, "alone", lambda columns: (0.02 * columns, 90.0))
    (least, most) = scaling.study(1e6)
    assert least["predicted"] == pytest.approx(0.96 / COLUMNS * 11)
    assert most["geodesics"] == 102 * PAIRS
    assert most["predicted / measured"] == pytest.approx(1)


@pytest.mark.slow
def test_a_process_of_its_own_is_timed_beside_the_prediction(monkeypatch):
    monkeypatch.setattr(scaling, "SINGLE_TILES", 1)
    (line,) = scaling.study(1e5)
    assert line["geodesics"] >= 1e5
    assert line["seconds"] > 0
    assert line["MB"] > 50
