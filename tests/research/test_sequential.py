"""What is compared with the sequential method, without solving anything by it."""

import json
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from research import parity, sequential
from stages.paths import METRICS, PIPELINE
from stages.performance.timing import Quartiles
from tests.stages.test_benchmark import leave_run


def run():
    return CliRunner().invoke(sequential.app)


@pytest.fixture
def timed(project, monkeypatch):
    """A project after a run, and timings of a device that is not there."""
    leave_run(project, monkeypatch, sequential, sequential)
    call, agreement = Quartiles(2e-4, 1e-4, 4e-4), parity.Parity(1e-6, 2e-5, 3e-4, 0.9, 0.8)
    fold = SimpleNamespace(
        rows=[(0, 0)] * 75,
        walk=lambda report: ("walked", call),
        parity=lambda walked: {"walked": agreement}[walked],
    )
    monkeypatch.setattr(parity.MiddleFold, "of", lambda *_: fold)


@pytest.mark.usefixtures("unchecked", "timed")
def test_the_speed_up_is_over_the_calls_of_the_publication():
    result = run()
    assert result.exit_code == 0, result.output
    found = json.loads((METRICS / "sequential.json").read_text(encoding="utf-8"))
    calls, total = 162_270_000_000, sum(10.0 + place for place in range(len(PIPELINE)))
    assert found["pipeline"] == pytest.approx(
        {
            "seconds": total,
            "speedup": 2e-4 * calls / total,
            "speedup_q25": 1e-4 * calls / total,
            "speedup_q75": 4e-4 * calls / total,
        }
    )
    assert found["sequential"]["sample_geodesics"] == 75
    assert found["parity"]["prediction"] == 3e-4
    assert found["sequential"]["days_extrapolated"] == pytest.approx(2e-4 * calls / 86400)
