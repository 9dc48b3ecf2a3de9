import json
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

import benchmarks.peers as benchmark
from benchmarks import peer_solvers
from benchmarks.peer_solvers import PEERS, Rows
from benchmarks.peers import Case, Entry
from geonode.geometry.problem import BoundaryValueProblem
from tests.geometry.closed_forms import random_metric
from tests.geometry.small_series import small_metrics, small_series

WAVELENGTHS = torch.tensor([-0.8, 0.1, 0.6], dtype=torch.float64)
ERROR = 1e-4


def rate(w):
    return 1 + w


@dataclass(frozen=True)
class Exponential:
    """g = exp(2 a x) with an a of its own at every wavelength."""

    wavelengths: Tensor

    def __call__(self, positions):
        a = rate(self.wavelengths)[:, None]
        return a * positions, a.expand_as(positions)

    def __getitem__(self, rows):
        return Exponential(self.wavelengths[rows])


def known_case():
    """Ends, velocities and sensitivities by formula: exp(a x(t)) = exp(a x_s) (1 + a v0 t)."""
    problem = BoundaryValueProblem.all_pairs(torch.linspace(-1, 1, 4, dtype=torch.float64))
    start, end = (
        problem.stations[part].repeat_interleave(len(WAVELENGTHS))
        for part in (problem.source, problem.target)
    )
    w = WAVELENGTHS.repeat(len(problem.source))
    a = rate(w)
    v0 = torch.expm1(a * (end - start)) / a

    rows = Rows(Exponential(w), w, start, end)
    known = (v0, torch.exp(a * (start - end)))
    return Case(lambda x, w: rate(w), lambda nodes: v0, lambda nodes: v0 + 0.1**nodes, rows, *known)


CASE = known_case()


def exact(rows, velocity, tolerance):
    a = rate(rows.wavelengths)
    return rows.start + torch.log1p(a * velocity) / a


def entry(solve, ladder=(1e-1, 1e-2, 1e-3, 1e-4)):
    """A solver that misses by what `solve` makes of its setting."""
    return Entry("s", "", ladder, lambda value: CASE.velocity + solve(value))


def test_all_reach_the_error_they_claim_on_a_known_metric(monkeypatch):
    monkeypatch.setattr(benchmark, "SCIPY_SHARE", 5)
    with torch.no_grad():
        entries = benchmark.take_turns(CASE, benchmark.entries_of(CASE, ERROR), ERROR, 1)
    assert (entries[-1].solver, entries[-1].share) == ("scipy", 5)
    for one in entries:
        if one.note.startswith("not installed"):
            assert one.setting is None
            continue
        rows = CASE.rows[torch.arange(0, len(CASE.velocity), one.share)]
        a = rate(rows.wavelengths)
        end = rows.start + torch.log1p(a * one.solve(one.setting)) / a
        error = float((end - rows.end).abs().max())
        assert error <= 1.01 * ERROR
        assert one.error == pytest.approx(error, rel=0.01, abs=1e-13)


def test_the_truth_is_that_of_the_formula_and_a_case_is_made_of_the_network(monkeypatch):
    monkeypatch.setattr(peer_solvers, "BATCH", 5)
    velocity, sensitivity = benchmark.truth(CASE.rows)
    torch.testing.assert_close(velocity, CASE.velocity, rtol=1e-12, atol=0)
    torch.testing.assert_close(sensitivity, CASE.sensitivity, rtol=1e-12, atol=0)
    parameters = benchmark.read_parameters(benchmark.PARAMETERS)
    case = Case.of(random_metric(3), 3, parameters)
    share = 1e-3 * float((case.velocity * case.sensitivity).abs().max())
    assert case.error(1.001 * case.velocity) == pytest.approx(share)
    assert case.error(case.by_quadrature(12)) < 1e-10
    assert case.error(case.by_grid(2000)) < 1e-8


def test_the_symbol_in_jax_is_that_in_torch():
    jax = pytest.importorskip("jax")
    metric = random_metric(5, gain=2.0)
    x, w = 2 * torch.rand(2, 1, 20, generator=torch.Generator().manual_seed(0)).double() - 1
    jax.config.update("jax_enable_x64", True)
    found = jax.vmap(peer_solvers.in_jax(metric))(x[0].numpy(), w[0].numpy())
    expected = metric.at_points(x, w)[1][0]
    torch.testing.assert_close(torch.tensor(found.tolist()).double(), expected, rtol=0, atol=1e-6)
    assert str(found.dtype) == "float64"


def test_shooting_stops_each_row_when_it_has_arrived_in_batches_that_change_nothing(monkeypatch):
    shots = []

    def integrate(rows, velocity, tolerance):
        shots.append(len(velocity))
        return exact(rows, velocity, tolerance)

    whole = peer_solvers.shoot(integrate, CASE.rows, 1e-9, 1e-8)
    assert CASE.error(whole) < 1e-8
    assert shots[0] == len(whole) > shots[-1]
    assert shots == sorted(shots, reverse=True)
    assert len(shots) <= 4  # quadratic
    shots.clear()
    monkeypatch.setattr(peer_solvers, "BATCH", 10)
    parts = peer_solvers.shoot(integrate, CASE.rows, 1e-9, 1e-8)
    torch.testing.assert_close(parts, whole, rtol=0, atol=1e-14)
    assert shots[:4] == [9, 9, 9, 9]


def test_the_ladder_takes_the_loosest_setting_that_suffices():
    ready = entry(lambda value: value / CASE.sensitivity).chosen(CASE, 2.5e-3)
    assert (ready.setting, ready.error) == (1e-3, pytest.approx(1e-3))


def failing(value):
    raise MemoryError("no room for 7 GB\nand more")


@pytest.mark.parametrize(
    ("solve", "note"),
    [
        (lambda value: 1.0 / CASE.sensitivity, "no setting suffices: best error 1.0e+00"),
        (lambda value: torch.nan, "no setting suffices"),
        (failing, "failed: no room for 7 GB"),
    ],
)
def test_a_solver_that_never_suffices_says_why(solve, note):
    ready = entry(solve).chosen(CASE, 1e-6)
    assert ready.setting is None
    assert ready.note.startswith(note)
    assert ready.timed() is ready


def test_an_absent_peer_is_reported(monkeypatch):
    absent = {"nobody's solver": (("torch", "no_such_package"), failing)}
    monkeypatch.setattr(benchmark, "PEERS", absent)
    ready = benchmark.take_turns(CASE, benchmark.entries_of(CASE, ERROR), ERROR, 1)
    line = benchmark.results(ready).set_index("solver").loc["nobody's solver"]
    assert line[["setting", "error", "ratio"]].isna().all()
    assert line["note"] == "not installed: no_such_package"


def test_the_ratio_is_of_medians_to_the_first_solver():
    ready = [replace(entry(float), setting=0.1, seconds=(1.0, s, 100.0)) for s in (2.0, 6.0)]
    assert benchmark.results(ready)["ratio"].tolist() == [1, 3]


def test_the_command_writes_all_it_measured(tmp_path, monkeypatch):
    one = {"torchdiffeq": PEERS["torchdiffeq"]}
    monkeypatch.setattr(benchmark, "PEERS", one)
    monkeypatch.setattr(
        benchmark.LearnedMetrics, "read", lambda path: small_metrics(small_series())
    )
    application = benchmark.typer.Typer()
    application.command()(benchmark.main)
    out = tmp_path / "peers.json"
    options = ["--wavelengths", "2", "--error", "1e-3", "--repeats", "2", "--out", str(out)]
    result = CliRunner().invoke(application, options, catch_exceptions=False)
    assert result.exit_code == 0
    assert "60 rows, largest error 0.001, 2 turns" in result.output
    document = json.loads(out.read_text())
    assert document["machine"]["threads"] == 1
    assert set(document["versions"]) == {"torch", "torchdiffeq"}
    assert len(document["solvers"]) == 4
    for line in document["solvers"]:
        assert line["error"] <= 1e-3
        assert len(line["seconds"]) == 2
