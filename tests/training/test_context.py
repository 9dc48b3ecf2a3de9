from pathlib import Path

import pytest

from geonode.config import InnerParameters
from geonode.errors import TrainingError
from geonode.progress import silent
from geonode.training.context import NestedRuns, TrainingRun
from geonode.training.folds import leave_one_out, leave_two_out
from tests.training.series import cpu

CPU = cpu()


def runs(members=1, levels=None, scratch=None):
    return NestedRuns.of(6, 3, InnerParameters(members=members, levels=levels), CPU, scratch)


@pytest.mark.parametrize("levels", [None, 3])
def test_the_folds_and_those_inside_them(levels):
    found = runs(2, levels)
    assert found.outer == TrainingRun(leave_one_out(6), 3, CPU, None, silent)
    assert found.inner == TrainingRun(leave_two_out(6, levels), 2, CPU, None, silent)


@pytest.mark.parametrize("levels", [None, 50])
def test_without_members_there_are_no_inner_folds(levels):
    found = runs(0, levels)
    assert found == (TrainingRun(leave_one_out(6), 3, CPU), None)
    assert found.models == 3 * 7


def test_models_of_both_are_counted():
    assert runs(2).models == 3 * 7 + 2 * 15


def test_checkpoints_of_folds_and_inner_folds_lie_apart():
    found = runs(scratch=Path("scratch"))
    assert [run.scratch for run in found] == [Path("scratch/outer"), Path("scratch/inner")]
    assert [run.scratch for run in runs()] == [None, None]


def test_kinds_of_training_have_checkpoints_of_their_own():
    run = TrainingRun(leave_one_out(6), 3, CPU, Path("scratch"))
    assert run.of_kind("path") == TrainingRun(leave_one_out(6), 3, CPU, Path("scratch/path"))
    without = TrainingRun(leave_one_out(6), 3, CPU)
    assert without.of_kind("path") == without


def test_whoever_is_told_is_told_of_both_and_nothing_else_changes():
    done = []
    both = runs(2, scratch=Path("scratch")).with_progress(done.append)
    for run in both:
        run.report(3)
    assert done == [3, 3]
    assert both.with_progress(silent) == runs(2, scratch=Path("scratch"))
    alone = runs(0).with_progress(done.append)
    alone.outer.report(4)
    assert (done, alone.inner) == ([3, 3, 4], None)


def test_too_few_levels_for_the_inner_folds_are_refused():
    with pytest.raises(TrainingError, match=r"inner\.levels: found 6, expected at most 5"):
        runs(1, 6)
