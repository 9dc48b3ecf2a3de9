import time

import numpy as np
import pytest

from benchmarks.performance.timing import Quartiles, time_calls


@pytest.mark.parametrize("values", [[4.0], [1.0, 3.0], [5.0, 1.0, 4.0, 2.0, 3.0]])
def test_quartiles_are_those_of_numpy(values):
    expected = np.percentile(values, [50, 25, 75])
    assert Quartiles.of(values) == pytest.approx(tuple(expected))


def test_calls_are_timed_after_a_first_one_and_with_the_device_done(monkeypatch):
    events = []
    clock = iter([0.0, 1.0, 10.0, 12.0, 20.0, 23.0])

    def now():
        events.append("look")
        return next(clock)

    monkeypatch.setattr(time, "perf_counter", now)
    quartiles = time_calls(lambda: events.append("call"), 3, lambda: events.append("wait"))
    assert events == ["call", "wait"] + ["look", "call", "wait", "look"] * 3
    assert quartiles == (2.0, 1.5, 2.5)
