import time

from benchmarks.performance.timing import time_calls


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
