from pathlib import Path

import pytest

from geonode.config import InnerParameters
from geonode.learning.context import NestedRuns, TrainingRun
from geonode.learning.folds import leave_one_out, leave_two_out
from tests.learning.series import cpu

CPU = cpu()


def runs(members=1, levels=None, scratch=None):
    return NestedRuns.of(6, 3, InnerParameters(members=members, levels=levels), CPU, scratch)


@pytest.mark.parametrize("levels", [None, 3])
def test_the_folds_and_those_inside_them(levels):
    outer, inner = found = runs(2, levels, Path("scratch"))
    assert outer == TrainingRun(leave_one_out(6), 3, CPU, Path("scratch/outer"))
    assert inner == TrainingRun(leave_two_out(6, levels), 2, CPU, Path("scratch/inner"))
    assert outer.of_kind("path").scratch == Path("scratch/outer/path")
    assert found.models == 3 * 7 + 2 * len(inner.folds)
    assert runs(0, levels) == (TrainingRun(leave_one_out(6), 3, CPU), None)
    assert runs(0, levels).models == 3 * 7
