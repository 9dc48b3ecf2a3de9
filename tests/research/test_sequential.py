"""What is compared with the sequential method, without solving anything by it."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from geonode.compute.device import resolve
from geonode.config import PrecisionParameters
from geonode.geometry.problem import ordered_pairs
from geonode.parameters_file import default_parameters
from geonode.spectra.chart import Chart
from geonode.spectra.series import Series
from research import sequential
from research.published_method import SequentialSolver
from research.sequential import MiddleFold
from stages.paths import METRICS, PIPELINE
from stages.performance.timing import Quartiles
from tests.geometry.small_series import small_metrics
from tests.stages.test_benchmark import leave_run

LEVELS = np.array([0.0, 10.0, 20.0, 30.0, 60.0])
WAVELENGTHS = 7


def fold(epochs=30, wavelengths=2):
    """Fold of a series whose features are those of quadrature on untrained metrics."""
    axis = np.linspace(200, 800, WAVELENGTHS)
    signal = np.log1p(LEVELS / 10)[:, None] * np.cos(axis / 300) + 0.1 * np.sin(LEVELS)[:, None]
    series = Series.of_levels(LEVELS, axis, signal, Chart.of("linear", None, LEVELS), {})
    device = resolve("cpu", PrecisionParameters(training="float64", geometry="float64"))
    block = default_parameters({"decoders.epochs": epochs}).decoders
    block = block.model_copy(update={"wavelengths": wavelengths})
    return MiddleFold(small_metrics(series), series, device, block)


def test_the_sequential_way_is_timed_per_metric_call(monkeypatch):
    here, solved, done, clock = fold(), [], [], [0.0]

    def solve(solver, source, target, w):
        solved.append((source, target, w))
        solver.calls = 4
        clock[0] += 4.0 if len(solved) <= 16 else 8.0  # 1 s a call, and 2 s in the second half
        return SimpleNamespace(features=torch.tensor([target, 0.0, 0.0, 0.0, w]))

    monkeypatch.setattr(SequentialSolver, "solve", solve)
    monkeypatch.setattr(sequential.time, "perf_counter", lambda: clock[0])
    walked, call = here.walk(done.append)
    assert call == (1.5, 1.0, 2.0)
    assert sum(done) == len(here.rows) == len(solved) == 4 * 4 * 2
    x, w = here.series.positions, here.series.wavelengths
    source, target = ordered_pairs(len(LEVELS))
    pairs = [(a, b) for a, b in zip(x[source], x[target], strict=True) if a != x[2]]
    assert solved == [(*ends, wave) for ends in pairs for wave in w[[0, -1]]]
    kept = walked[0, 0][(source == 2).numpy()]
    np.testing.assert_array_equal(kept, here.features[0, 2][(source == 2).numpy()][:, [0, -1]])
    assert (walked[0, 0][(source != 2).numpy()][..., 1:4] == 0).all()


def test_both_methods_walk_on_the_metric_of_the_fold(monkeypatch):
    monkeypatch.setattr("research.published_method.STEPS", 6)
    here = fold()
    walked, _ = here.walk()
    known, length = (here.features[0, k][:, [0, -1]] for k in (here.middle, 0)), 2
    own, other = (np.abs(walked[0, 0] - features)[..., length].max() for features in known)
    assert own < 1e-4  # six steps of order five
    assert other > 1e-2


@pytest.mark.parametrize("wavelengths", [1, 2])  # one is a feature that is constant
def test_both_methods_learn_and_predict_the_same_from_the_same_paths(wavelengths):
    here = fold(wavelengths=wavelengths)
    found = here.parity(here.stored)
    assert found.feature == 0
    assert found.loss < 1e-6  # as torch adds as much to the norm of a gradient that it clips
    assert found.prediction < 1e-6
    assert found.r2 == pytest.approx(found.r2_sequential, abs=1e-6)
    assert 0.3 < found.r2 < 1
    assert fold(epochs=2, wavelengths=wavelengths).parity(here.stored).loss < 1e-12


def test_other_paths_are_told():
    here = fold()
    walked = here.stored.copy()
    walked[..., 2] += 0.01 * np.arange(2)  # length, at the second wavelength
    found = here.parity(walked)
    assert found.feature == pytest.approx(0.01, rel=1e-4)
    assert found.loss > 1e-4
    assert found.prediction > 1e-4


def run():
    return CliRunner().invoke(sequential.app)


@pytest.fixture
def timed(project, monkeypatch, trained):
    """A project after a run, and timings of a device that is not there."""
    leave_run(trained)
    call, agreement = Quartiles(2e-4, 1e-4, 4e-4), sequential.Parity(1e-6, 2e-5, 3e-4, 0.9, 0.8)
    fold = SimpleNamespace(
        rows=[(0, 0)] * 75,
        walk=lambda report: ("walked", call),
        parity=lambda walked: {"walked": agreement}[walked],
    )
    monkeypatch.setattr(sequential, "MiddleFold", lambda *_: fold)


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
