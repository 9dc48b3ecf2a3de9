"""Every kind of decoder, by name: from the geodesics of a series to left-out spectra."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Shaped
from torch import Tensor

from geonode.config import DecodersParameters
from geonode.learning.decoder_tasks import MakeTask, ScoreTask, SignalTask
from geonode.learning.early_stopping import WatchedDecoders
from geonode.learning.folds import Fold
from geonode.learning.mean_decoder import MeanDecoders, fit_means
from geonode.learning.path_decoder import PathDecoders, fit_path_decoders, watch_path_decoders
from geonode.learning.predicted import Predicted
from geonode.learning.process_decoder import (
    ArcLengths,
    EvidenceLengths,
    PositionsType,
    ProcessDecoders,
    fit_processes,
)
from geonode.learning.run import Run
from geonode.spectra.series import Series

Features = Float[np.ndarray, "member fold pair training feature"]


@runtime_checkable
class Decoders(Protocol):
    """Decoders of every fold of a run."""

    def predict(
        self,
        fold: Fold,
        series: Series,
        features: Float[np.ndarray, "member source target training feature"],
    ) -> Predicted:
        """Predicted spectra, and the covariance of their errors.

        Args:
            fold: one of the run.
            series: the measured series. The spectra that the fold leaves out are not read.
            features: of the geodesics from the fold's training levels to the targets.
        """

    def tensors(self) -> dict[str, Shaped[Tensor, "..."]]:
        """All that an artifact has to keep, by name."""


class Kind(NamedTuple):
    """How decoders come to be.

    Attributes:
        fit: (series, features, parameters, run) to decoders and the history of their training.
        from_tensors: from what `Decoders.tensors` gave; raises KeyError where one is absent.
        watch: the same as `fit` for inner folds, keeping what is said in training; None where
            nothing is trained that could stop early.
    """

    fit: Callable[
        [Series, Features, DecodersParameters, Run],
        tuple[Decoders, Float[Tensor, "epoch term model"]],
    ]
    from_tensors: Callable[[dict[str, Shaped[Tensor, "..."]]], Decoders]
    watch: Callable[[Series, Features, DecodersParameters, Run], WatchedDecoders] | None = None


def _process(mean: str, positions: PositionsType) -> Kind:
    return Kind(
        partial(fit_processes, mean=mean, positions=positions),
        partial(ProcessDecoders.from_tensors, mean=mean, positions=positions),
    )


def _path(make_task: MakeTask) -> Kind:
    return Kind(
        partial(fit_path_decoders, make_task=make_task),
        PathDecoders.from_tensors,
        partial(watch_path_decoders, make_task=make_task),
    )


KINDS: dict[str, Kind] = {
    "path": _path(SignalTask),
    "scores": _path(ScoreTask),
    "process_constant": _process("constant", ArcLengths),
    "process_linear": _process("linear", ArcLengths),
    "evidence_process": _process("linear", EvidenceLengths),
    "mean": Kind(fit_means, lambda _: MeanDecoders()),
}
