"""Execution context of a training run."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from geonode.config import InnerParameters
from geonode.devices.device import Device
from geonode.engine.local import LOCAL, Engine
from geonode.geometry.perceptron import Perceptron
from geonode.geometry.trainable import TrainablePerceptron
from geonode.progress import Progress, silent
from geonode.training.folds import Fold, leave_one_out, leave_two_out


@dataclass(frozen=True)
class TrainingRun:
    """Which models to train, where, and who follows the progress.

    Attributes:
        folds: what to leave out; those that leave equally many levels out are neighbours.
        members: models of every fold.
        device: where to train, and in which format.
        scratch: folder of the training's checkpoints, removed when it is done; None for none.
        report: called after every step of every model.
        engine: trains.
    """

    folds: list[Fold]
    members: int
    device: Device
    scratch: Path | None = None
    report: Progress = silent
    engine: Engine = LOCAL

    def trainable(self, network: Perceptron) -> TrainablePerceptron:
        """A copy of networks, to be trained on the device in its formats."""
        moved = network.to(self.device.place, self.device.training)
        return TrainablePerceptron.of(moved, self.device.products)

    @property
    def detached(self) -> "TrainingRun":
        """The run without engine and progress, to be sent to another process."""
        return replace(self, report=silent, engine=LOCAL)

    def of_kind(self, kind: str) -> "TrainingRun":
        """The run with checkpoints of its own, for one of several trainings."""
        return replace(self, scratch=self.scratch and self.scratch / kind)


class NestedRuns(NamedTuple):
    """The folds of leave-one-out, and those of leave-one-out inside every fold.

    Attributes:
        outer: a model for every level left out and one for all.
        inner: models for every two levels left out; None for none.
    """

    outer: TrainingRun
    inner: TrainingRun | None

    @classmethod
    def of(
        cls,
        levels: int,
        members: int,
        inner: InnerParameters,
        device: Device,
        scratch: Path | None = None,
    ) -> "NestedRuns":
        """Runs over all folds of a series.

        Args:
            levels: number of levels of the series.
            members: models of every fold.
            inner: the block `inner` of the parameters.
            device: where to train, and in which format.
            scratch: folder of the checkpoints of both; None for none.

        Raises:
            TrainingError: there are too few levels for the inner folds.
        """
        outer = TrainingRun(leave_one_out(levels), members, device, scratch and scratch / "outer")
        if inner.members == 0:
            return cls(outer, None)
        folds = leave_two_out(levels, inner.levels)
        return cls(outer, TrainingRun(folds, inner.members, device, scratch and scratch / "inner"))

    @property
    def models(self) -> int:
        """Number of models of both."""
        return sum(len(run.folds) * run.members for run in self if run is not None)

    def with_progress(self, report: Progress, engine: Engine = LOCAL) -> "NestedRuns":
        """Both runs with a progress callback and an engine."""
        inner = self.inner and replace(self.inner, report=report, engine=engine)
        return NestedRuns(replace(self.outer, report=report, engine=engine), inner)
