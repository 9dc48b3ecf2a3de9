import inspect

import pytest
import torch

from geonode.errors import GeometryError
from geonode.geodesics.solution import Status
from geonode.geodesics.solvers import scipy_bvp
from geonode.geodesics.solvers.scipy_bvp import solve_bvp_rows
from geonode.geometry.field import GridField
from tests.geodesics.fields import FormulaField
from tests.geometry.closed_forms import KNOWN, RECIPROCAL, exponential, grid_of, nodes

START = torch.tensor([-0.8, 0.7, -0.9, 0.3, 0.6], dtype=torch.float64)
END = torch.tensor([0.9, -0.6, 0.4, -0.9, -0.7], dtype=torch.float64)


def ends_in_closed_form(known, v0):
    rows = zip(known, START, END, v0, strict=True)
    return [m.inverse(m.arc_length(a) + v * m.log_sqrt(a).exp()) - b for m, a, b, v in rows]


@pytest.mark.parametrize("of", ["grid", "formula"])
@pytest.mark.parametrize("tolerance", [1e-4, 1e-7])
def test_velocities_are_those_of_the_closed_form(of, tolerance):
    field = (
        FormulaField(KNOWN)
        if of == "formula"
        else GridField(grid_of(KNOWN, nodes(2000)), torch.arange(5))
    )
    found = solve_bvp_rows(field, START, END, tolerance=tolerance)
    rows = zip(KNOWN, START[:, None], END[:, None], strict=True)
    exact = [(m.arc_length(b) - m.arc_length(a)) / m.log_sqrt(a).exp() for m, a, b in rows]
    assert found.converged.all()
    assert (found.v0 - torch.cat(exact)).abs().max() <= 2 * tolerance
    assert (found.iterations >= 1).all()
    assert (found.evaluations > 10).all()


def test_the_residual_is_where_the_velocity_leads():
    known = [exponential(0.7), RECIPROCAL, exponential(-1.5), RECIPROCAL, exponential(1.1)]
    found = solve_bvp_rows(FormulaField(known), START, END, tolerance=1e-3)
    expected = torch.stack(ends_in_closed_form(known, found.v0))
    torch.testing.assert_close(found.residual, expected, rtol=0, atol=1e-10)
    assert expected.abs().max() >= 1e-9


def test_rows_that_are_not_solved_say_so(monkeypatch):
    steep = FormulaField([exponential(30.0), exponential(0.7)])
    found = solve_bvp_rows(steep, START[:2], END[:2], tolerance=1e-6)
    assert found.status[0] != Status.CONVERGED
    assert found.status[1] == Status.CONVERGED
    # a velocity that happens to do, of a collocation that was given up
    monkeypatch.setattr(scipy_bvp, "LARGEST_MESH", 11)
    found = solve_bvp_rows(steep[torch.tensor([1])], START[:1], END[:1], tolerance=1e-4)
    assert found.residual.abs() <= 1e-4
    assert found.status.tolist() == [Status.RESIDUAL_ABOVE_TOLERANCE]


BAD = {
    "format": (
        {"start": START.float(), "end": END.float()},
        r"start: found torch.float32 on cpu, .*64",
    ),
    "tolerance": ({"tolerance": -1.0}, r"tolerance: found -1.0, expected a number above 0"),
    "equal": ({"end": START}, r"end: found -0.8 in row 0, where the path starts"),
    "field": ({"field": FormulaField(KNOWN[:2])}, r"field: found 2 rows, expected the 5 of start"),
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_arguments_are_refused(bad):
    arguments, message = BAD[bad]
    good = {"field": FormulaField(KNOWN), "start": START, "end": END, "tolerance": 1e-6}
    with pytest.raises(GeometryError, match=message):
        inspect.unwrap(solve_bvp_rows)(**(good | arguments))
