"""What is compared with the sequential method, without solving anything by it."""

import json
from dataclasses import asdict
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from geonode.compute.device import resolve
from geonode.config import PrecisionParameters
from geonode.storage.document import write_json
from geonode.storage.record import Record
from research import parity, sequential
from stages.paths import METRICS, PIPELINE, RECORDS
from stages.performance.kernels import Kernels
from stages.performance.timing import Quartiles
from tests.stages.conftest import assert_refused
from tests.stages.performance.test_kernels import kernels, series_of
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
    monkeypatch.setattr(sequential, "published_work", lambda _: {"seconds": 100.0})


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
    assert found["published_work"]["speedup"] == pytest.approx(2e-4 * calls / 100)
    assert found["sequential"]["sample_geodesics"] == 75
    assert found["parity"]["prediction"] == 3e-4
    assert found["sequential"]["days_extrapolated"] == pytest.approx(2e-4 * calls / 86400)


@pytest.mark.usefixtures("unchecked", "timed")
@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"whole": False}, "a resumed run"),
        ({"conditions": {"machine": {}, "engine": {}}}, "another machine or engine"),
    ],
)
def test_records_that_cannot_be_compared_are_refused(values, found):
    path = RECORDS / "metric.json"
    write_json(path, asdict(Record.read(path)) | values)
    assert_refused(run(), f"metric.json: found the record of {found}", "--single-item metric")


def test_the_work_of_the_publication_is_geometry_and_epochs_of_all_folds(monkeypatch):
    asked = []

    def epoch(_, folds, wavelengths):
        asked.append((folds, wavelengths))
        return Quartiles(2.0, 1.0, 4.0), None, None

    monkeypatch.setattr(Kernels, "epoch", epoch)
    monkeypatch.setattr(sequential, "EPOCHS", 3)
    device = resolve("cpu", PrecisionParameters(training="float32", geometry="float64"))
    found = sequential.published_work(kernels(series_of(5), device, christoffel__resolution=2000))
    assert asked == [(5, 7)]
    assert found["training_seconds"] == 3 * 2.0
    assert found["seconds"] == found["geometry_seconds"] + 6.0
    assert found["geometry_seconds"] > 0
