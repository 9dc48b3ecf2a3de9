import pytest
import torch

import research.peers as benchmark
from geonode.geometry.field import Field
from geonode.geometry.problem import BoundaryValueProblem
from research import peer_solvers
from research.peer_solvers import Rows
from research.peers import Case
from tests.geometry.closed_forms import random_metric

WAVELENGTHS = torch.tensor([-0.8, 0.1, 0.6], dtype=torch.float64)
ERROR = 1e-4


def rate(w):
    return 1 + w


def exponential(positions, wavelengths):
    """g = exp(2 a x) with an a of its own at every wavelength."""
    a = rate(wavelengths)[:, None]
    return a * positions, a.expand_as(positions)


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

    rows = Rows(Field(exponential, w), lambda x, w: rate(w), w, start, end)
    known = (v0, torch.exp(a * (start - end)))
    return Case(lambda nodes: v0, lambda nodes: v0 + 0.1**nodes, rows, *known)


CASE = known_case()


def test_all_reach_the_error_they_claim_on_a_known_metric(monkeypatch):
    monkeypatch.setattr(benchmark, "SCIPY_SHARE", 5)
    with torch.no_grad():
        entries = benchmark.take_turns(CASE, benchmark.entries_of(CASE, ERROR), ERROR, 1)
    assert (entries[-1].solver, entries[-1].share) == ("scipy", 5)
    for one in entries:
        if one.note.startswith("failed: No module named"):
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
    expected = metric.at_rows(x.T, w[0])[1][:, 0]
    torch.testing.assert_close(torch.tensor(found.tolist()).double(), expected, rtol=0, atol=1e-6)
    assert str(found.dtype) == "float64"
