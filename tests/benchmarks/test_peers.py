import json
import os
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

import benchmarks.peers as benchmark
from benchmarks import peer_solvers
from benchmarks.peer_solvers import PEERS, Peer, Rows
from benchmarks.peers import BOUNDARY, INITIAL, Case, Entry, Ready
from geonode.geodesics.panels import Panels
from geonode.geodesics.problem import BoundaryValueProblem
from geonode.geometry.metric import Metric
from tests.geometry.closed_forms import exponential, grid_of, nodes, random_metric

WAVELENGTHS = torch.tensor([-0.8, 0.1, 0.6], dtype=torch.float64)
ERROR = 1e-6


def slow(peer):
    # it is compiled
    return peer.compiled or "jax" in peer.packages


CHECKED = [
    pytest.param(peer, id=peer.name, marks=[pytest.mark.slow] if slow(peer) else [])
    for peer in PEERS
]


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

    @property
    def rows(self):
        return len(self.wavelengths)


class ExponentialMetric(Metric):
    """The same at all wavelengths, whatever the weights."""

    def __init__(self):
        super().__init__(random_metric(0).network)

    def __call__(self, positions, wavelengths):
        return torch.exp(2 * rate(wavelengths) * positions[..., None])


def known_case():
    """Ends, velocities and sensitivities by formula: exp(a x(t)) = exp(a x_s) (1 + a v0 t)."""
    problem = BoundaryValueProblem.all_pairs(torch.linspace(-1, 1, 4, dtype=torch.float64))
    start, end = (
        problem.stations[part].repeat_interleave(len(WAVELENGTHS))
        for part in (problem.source, problem.target)
    )
    w = WAVELENGTHS.repeat(len(problem.source))
    a = rate(w)

    def make_grid(count):
        return grid_of([exponential(float(rate(w))) for w in WAVELENGTHS], nodes(count))

    def make_stations(count):
        panels = Panels.between(problem.stations[None], count)
        return panels.evaluate(ExponentialMetric(), WAVELENGTHS).stations()[0]

    return Case(
        problem,
        lambda x, w: rate(w),
        make_grid(2000),
        make_grid,
        make_stations,
        Rows(Exponential(w), w, start, end),
        torch.expm1(a * (end - start)) / a,
        torch.exp(a * (start - end)),
    )


CASE = known_case()


def exact(rows, velocity, tolerance):
    a = rate(rows.wavelengths)
    return rows.start + torch.log1p(a * velocity) / a


def entry(solve, ladder=(1e-1, 1e-2, 1e-3, 1e-4)):
    return Entry(INITIAL, "s", "network", "", "tolerance", ladder, solve, benchmark.largest)


def assert_reaches_what_it_claims(entries, case=CASE):
    for one in entries:
        ready = benchmark.choose(one, ERROR)
        assert ready.value is not None, ready.entry.note
        assert ready.reached <= ERROR
        answer = one.solve(ready.value)
        a, start = rate(case.rows.wavelengths), case.rows.start
        end = answer if one.problem == INITIAL else start + torch.log1p(a * answer) / a
        error = (end - case.rows.end).abs().max()
        assert error <= 1.01 * ERROR
        assert ready.reached == pytest.approx(float(error), rel=0.01, abs=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("problem", [INITIAL, BOUNDARY])
@pytest.mark.parametrize("peer", CHECKED)
def test_a_peer_reaches_the_error_it_claims_on_a_known_metric(peer, problem):
    for package in peer.packages:
        pytest.importorskip(package)
    if peer.missing() is not None:
        pytest.skip(peer.missing())
    entries = list(benchmark.peer_entries(CASE, peer, problem, ERROR))
    if peer.compiled and problem == BOUNDARY:
        pytest.skip(entries[0].note)
    assert [one.geometry for one in entries] == ["network", "grid in memory"][: 1 + peer.on_grid]
    assert_reaches_what_it_claims(entries)


@pytest.mark.parametrize("problem", [INITIAL, BOUNDARY])
def test_geonode_reaches_the_error_it_claims_on_a_known_metric(problem):
    entries = list(benchmark.geonode_entries(CASE, problem, ERROR))
    assert len(entries) == (4 if problem == BOUNDARY else 3)
    assert_reaches_what_it_claims(entries)


def test_the_truth_is_that_of_the_formula():
    velocity, sensitivity = benchmark.truth(CASE.rows, 5)
    torch.testing.assert_close(velocity, CASE.velocity, rtol=1e-12, atol=0)
    torch.testing.assert_close(sensitivity, CASE.sensitivity, rtol=1e-12, atol=0)


def test_a_case_reads_the_grid_as_the_network():
    case = Case.of(random_metric(3), 3, benchmark.read_parameters(benchmark.PARAMETERS))
    assert case.rows.start.shape == (90,)
    x = case.rows.start[:, None]
    for of_network, of_grid in zip(case.rows.field(x), case.on_grid().field(x), strict=True):
        torch.testing.assert_close(of_grid, of_network, rtol=0, atol=1e-6)


def test_the_symbol_in_jax_is_that_in_torch():
    jax = pytest.importorskip("jax")
    metric = random_metric(5, gain=2.0)
    x, w = 2 * torch.rand(2, 1, 20, generator=torch.Generator().manual_seed(0)).double() - 1
    jax.config.update("jax_enable_x64", True)
    found = jax.vmap(peer_solvers.in_jax(metric))(x[0].numpy(), w[0].numpy())
    expected = metric.at_points(x, w)[1][0]
    torch.testing.assert_close(torch.tensor(found.tolist()).double(), expected, rtol=0, atol=1e-6)
    assert str(found.dtype) == "float64"


def test_shooting_stops_each_row_when_it_has_arrived():
    shots = []

    def integrate(rows, velocity, tolerance):
        shots.append(len(velocity))
        return exact(rows, velocity, tolerance)

    velocity = peer_solvers.shoot(integrate, CASE.rows, 1e-9, 1e-8)
    miss = (velocity - CASE.velocity) * CASE.sensitivity
    assert miss.abs().max() < 1e-8
    assert shots[0] == len(velocity)
    assert shots == sorted(shots, reverse=True)
    assert shots[-1] < shots[0]
    assert len(shots) <= 4  # quadratic


def test_batches_change_no_row(monkeypatch):
    sizes = []

    def integrate(rows, velocity, tolerance):
        sizes.append(len(velocity))
        return exact(rows, velocity, tolerance)

    monkeypatch.setattr(peer_solvers, "BATCH", 10)
    ends = peer_solvers.in_batches(integrate)(CASE.rows, CASE.velocity, 1e-9)
    torch.testing.assert_close(ends, CASE.rows.end, rtol=0, atol=1e-14)
    assert sizes == [9, 9, 9, 9]


def test_the_ladder_takes_the_loosest_setting_that_suffices():
    ready = benchmark.choose(entry(lambda value: torch.tensor([value, -2 * value])), 2.5e-3)
    assert (ready.value, ready.reached) == (1e-3, pytest.approx(2e-3))
    assert ready.warm_up > 0


def test_a_compiled_solver_takes_over_at_the_setting_chosen_and_is_judged_again():
    calls = []

    def compiled(value):
        calls.append(value)
        return torch.tensor([2 * value])

    one = replace(entry(lambda value: torch.tensor([value])), compiled=compiled)
    ready = benchmark.choose(one, 2.5e-2)
    assert (calls, ready.value, ready.reached) == ([1e-2], 1e-2, pytest.approx(2e-2))
    assert ready.entry.solve is compiled
    assert benchmark.choose(one, 1.5e-2).value is None


@pytest.mark.parametrize(
    ("answer", "note"),
    [(1.0, "no setting suffices: best error 1.0e+00"), (torch.nan, "no setting suffices")],
)
def test_a_solver_that_never_suffices_says_so(answer, note):
    ready = benchmark.choose(entry(lambda value: torch.tensor([answer])), 1e-6)
    assert ready.value is None
    assert ready.entry.note.startswith(note)


def test_a_solver_that_fails_says_why():
    def solve(value):
        raise MemoryError("no room for 7 GB\nand more")

    ready = benchmark.choose(entry(solve), 1e-6)
    assert ready.value is None
    assert ready.entry.note == "failed: no room for 7 GB"


def test_an_absent_peer_is_reported():
    def make(symbol):
        raise AssertionError("made")

    peer = Peer("nobody's solver", ("torch", "no_such_package"), make, False, "used well")
    ready = benchmark.take_turns(benchmark.entries_of(CASE, (peer,), ERROR), ERROR, 1)
    lines = [line for line in benchmark.results(ready, 36) if line["solver"] == peer.name]
    assert [line["problem"] for line in lines] == [INITIAL, BOUNDARY]
    for line in lines:
        assert line["note"] == "not installed: no_such_package"
        assert line["seconds"] is line["ratio"] is line["tolerance"] is None
        assert benchmark.shown(line)["s (quartiles)"] == ""


def test_a_compiled_peer_asks_for_a_compiler(monkeypatch):
    peer = Peer("compiled", ("torch",), lambda symbol: exact, False, "", lambda symbol: exact)
    monkeypatch.setattr(peer_solvers.shutil, "which", lambda name: None)
    assert peer.missing() == "not run: no C++ compiler"
    assert replace(peer, compiled=None).missing() is None


def test_turns_alternate_and_the_choice_is_not_counted():
    calls = []

    def solver(name):
        def solve(value):
            calls.append(name)
            return torch.tensor([value])

        return solve

    ready = benchmark.take_turns([entry(solver("a"), (0.1,)), entry(solver("b"), (0.1,))], 1.0, 2)
    assert "".join(calls) == "ababab"
    assert [len(one.seconds) for one in ready] == [2, 2]


def test_the_ratio_is_taken_turn_by_turn():
    reference = (1.0, 5.0, 2.0, 9.0, 3.0)
    twice = tuple(2 * seconds for seconds in reference)
    assert benchmark.ratio(twice, reference) == (2.0, (2.0, 2.0))
    middle, (low, high) = benchmark.ratio((4.0, 6.0, 5.0, 7.0, 3.0), (1.0, 1.0, 1.0, 1.0, 1.0))
    assert (low, middle, high) == (3.0, 5.0, 7.0)


def test_ratios_are_to_the_first_solver_of_the_problem_on_the_same_geometry():
    one = entry(torch.tensor)
    ready = [
        Ready(replace(one, geometry=geometry), 0.1, 0.01, 0.5, (seconds, seconds))
        for geometry, seconds in (("network", 2.0), ("grid", 4.0), ("network", 6.0), ("grid", 2.0))
    ]
    table = benchmark.results(ready, 12)
    assert [line["ratio"] for line in table] == [1.0, 1.0, 3.0, 0.5]
    assert [line["rows_per_second"] for line in table] == [6.0, 3.0, 2.0, 6.0]


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity here")
def test_one_core_is_given_back():
    before = os.sched_getaffinity(0)
    with benchmark.one_core() as pinned:
        assert pinned
        assert len(os.sched_getaffinity(0)) == 1
    assert os.sched_getaffinity(0) == before


def test_the_command_writes_all_it_measured(tmp_path, monkeypatch):
    monkeypatch.setattr(benchmark, "PEERS", PEERS[:1])
    monkeypatch.setattr(benchmark, "METRIC", tmp_path / "none")
    application = benchmark.typer.Typer()
    application.command()(benchmark.main)
    out = tmp_path / "peers.json"
    options = ["--wavelengths", "2", "--error", "1e-3", "--repeats", "2", "--out", str(out)]
    result = CliRunner().invoke(application, options, catch_exceptions=False)
    assert result.exit_code == 0
    assert "untrained, seed 0, gain 2" in result.output
    assert result.output.count("\n| initial value |") == 5
    document = json.loads(out.read_text())
    assert set(document) == {
        *("machine", "versions", "metric", "sizes", "error", "solvers", "checksum")
    }
    assert document["sizes"] == {"levels": 6, "wavelengths": 2, "rows": 60, "repeats": 2}
    assert document["machine"]["threads"] == 1
    assert set(document["versions"]) == {"torch", "torchdiffeq"}
    assert len(document["solvers"]) == 11
    for line in document["solvers"]:
        assert line["error"] <= 1e-3
        assert len(line["calls"]) == 2
        assert line["seconds"]["q25"] <= line["seconds"]["median"] <= line["seconds"]["q75"]
        low, high = line["ratio_interval"]
        assert 0 < low <= high
