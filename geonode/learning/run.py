"""What every training is told beside its data and its parameters."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from geonode.config import InnerParameters
from geonode.devices.device import Device
from geonode.engine.local import LOCAL, Engine
from geonode.geometry.perceptron import Perceptron
from geonode.geometry.trainable import TrainablePerceptron
from geonode.learning.folds import Fold, leave_one_out, leave_two_out
from geonode.progress import Report, silent


@dataclass(frozen=True)
class Run:
    """Which models to train, and where.

    Attributes:
        folds: what to leave out; those that leave equally many levels out are neighbours.
        members: models of every fold.
        device: where to train, and in which format.
        scratch: folder of the training's checkpoints, removed when it is done; None for none.
        report: told of every step of every model.
        engine: trains.
    """

    folds: list[Fold]
    members: int
    device: Device
    scratch: Path | None = None
    report: Report = silent
    engine: Engine = LOCAL

    def trainable(self, network: Perceptron) -> TrainablePerceptron:
        """A copy of networks, to be trained on the device in its formats."""
        moved = network.to(self.device.place, self.device.training)
        return TrainablePerceptron.of(moved, self.device.products)

    @property
    def alone(self) -> "Run":
        """The same for another process, which has no engine and nobody to tell."""
        return replace(self, report=silent, engine=LOCAL)

    def of_kind(self, kind: str) -> "Run":
        """The same with checkpoints of its own, for one of several trainings."""
        return replace(self, scratch=self.scratch and self.scratch / kind)


class Runs(NamedTuple):
    """The folds of leave-one-out, and those of leave-one-out inside every fold.

    Attributes:
        outer: a model for every level left out and one for all.
        inner: models for every two levels left out; None for none.
    """

    outer: Run
    inner: Run | None

    @classmethod
    def of(
        cls,
        levels: int,
        members: int,
        inner: InnerParameters,
        device: Device,
        scratch: Path | None = None,
    ) -> "Runs":
        """All folds of a series.

        Args:
            levels: number of levels of the series.
            members: models of every fold.
            inner: the block `inner` of the parameters.
            device: where to train, and in which format.
            scratch: folder of the checkpoints of both; None for none.

        Raises:
            TrainingError: there are too few levels for the inner folds.
        """
        outer = Run(leave_one_out(levels), members, device, scratch and scratch / "outer")
        if inner.members == 0:
            return cls(outer, None)
        folds = leave_two_out(levels, inner.levels)
        return cls(outer, Run(folds, inner.members, device, scratch and scratch / "inner"))

    @property
    def models(self) -> int:
        """Number of models of both."""
        return sum(len(run.folds) * run.members for run in self if run is not None)

    def telling(self, report: Report, engine: Engine = LOCAL) -> "Runs":
        """The same, with someone to tell of every step, and an engine that takes them."""
        inner = self.inner and replace(self.inner, report=report, engine=engine)
        return Runs(replace(self.outer, report=report, engine=engine), inner)
