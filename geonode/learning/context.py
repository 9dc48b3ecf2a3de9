"""Execution context of a training run."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from geonode.compute.device import Device
from geonode.compute.engine import LOCAL, Engine
from geonode.config import InnerParameters, TrainingParameters
from geonode.geometry.perceptron import Perceptron
from geonode.geometry.trainable import TrainablePerceptron
from geonode.learning.folds import Fold, leave_one_out, leave_two_out
from geonode.progress import Progress, silent


@dataclass(frozen=True)
class TrainingRun:
    """Models to train, device, checkpoints, progress callback and engine."""

    folds: list[Fold]  # the folds; those that leave equally many levels out are neighbours
    members: int  # number of models per fold
    device: Device
    scratch: Path | None = None
    """Folder of checkpoints, which the caller removes once the result is written; None for none."""
    report: Progress = silent  # called after every step of every model
    engine: Engine = LOCAL  # runs the batches

    def trainable(self, network: Perceptron) -> TrainablePerceptron:
        """Trainable copy of networks, on the device in its formats."""
        moved = network.to(self.device.place, self.device.training)
        return TrainablePerceptron.of(moved, self.device.products)

    def of_kind(self, kind: str) -> "TrainingRun":
        """Copy of the run with checkpoints of its own, for one of several trainings."""
        return replace(self, scratch=self.scratch and self.scratch / kind)


class NestedRuns(NamedTuple):
    """Runs over the leave-one-out folds, and over the leave-one-out folds inside each of them."""

    outer: TrainingRun  # folds that leave one level out, and a last one that leaves none out
    inner: TrainingRun | None  # folds that leave two levels out; None without inner folds

    @classmethod
    def of(
        cls,
        levels: int,
        parameters: TrainingParameters,
        inner: InnerParameters,
        device: Device,
        scratch: Path | None = None,
    ) -> "NestedRuns":
        """Runs over all folds of a series.

        `parameters` of the training give members and sources; `scratch` is the folder of the
        checkpoints of both runs, None for none.
        """
        folds, within = (
            [replace(fold, sources=parameters.sources) for fold in found]
            for found in (leave_one_out(levels), leave_two_out(levels, inner.levels))
        )
        outer = TrainingRun(folds, parameters.members, device, scratch and scratch / "outer")
        if inner.members == 0:
            return cls(outer, None)
        return cls(outer, TrainingRun(within, inner.members, device, scratch and scratch / "inner"))

    @property
    def models(self) -> int:
        """Number of models of both runs."""
        return sum(len(run.folds) * run.members for run in self if run is not None)

    def with_progress(self, report: Progress, engine: Engine = LOCAL) -> "NestedRuns":
        """Both runs with a progress callback and an engine."""
        inner = self.inner and replace(self.inner, report=report, engine=engine)
        return NestedRuns(replace(self.outer, report=report, engine=engine), inner)
