"""Registry of the kinds of decoders."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float, Shaped
from torch import Tensor

from geonode.config import DecodersParameters
from geonode.learning.context import TrainingRun
from geonode.learning.folds import Fold
from geonode.learning.path_decoder import PathDecoders, fit_path_decoders
from geonode.learning.posterior_decoder import PosteriorDecoders, fit_posteriors
from geonode.learning.predicted import Predicted
from geonode.spectra.series import Series

Features = Float[np.ndarray, "member fold pair training feature"] | None


@runtime_checkable
class Decoders(Protocol):
    """Decoders of every fold of a run."""

    def predict(
        self,
        fold: Fold,
        series: Series,
        concentrations: Float[np.ndarray, "target"],
        features: Float[np.ndarray, "member source target training feature"] | None,
    ) -> Predicted:
        """Predicted spectra, and the covariance of their errors.

        Args:
            fold: a fold of the run.
            series: the measured series. The spectra that the fold leaves out are not read.
            concentrations: targets.
            features: of the geodesics from the fold's training levels to the targets; None for
                kinds that use no geodesics.
        """

    def predict_left_out(
        self, folds: list[Fold], series: Series, features: Features
    ) -> list[Predicted]:
        """Predictions of every fold for the levels that it leaves out.

        Args:
            folds: folds of the run that leave out equally many levels.
            series: the measured series. The spectra that a fold leaves out are not read.
            features: of the geodesics between all levels; None for kinds that use no geodesics.
        """

    def tensors(self) -> dict[str, Shaped[Tensor, "..."]]:
        """Tensors to store, by name."""


class DecoderKind(NamedTuple):
    """Kind of decoder: the functions that fit and restore it.

    Attributes:
        fit: from (series, features, parameters, run) to decoders and their training history.
        from_tensors: inverse of `Decoders.tensors`; raises KeyError if a tensor is absent.
    """

    fit: Callable[
        [Series, Features, DecodersParameters, TrainingRun],
        tuple[Decoders, Float[Tensor, "epoch term model"]],
    ]
    from_tensors: Callable[[dict[str, Shaped[Tensor, "..."]]], Decoders]


KINDS: dict[str, DecoderKind] = {
    "posterior": DecoderKind(fit_posteriors, PosteriorDecoders.from_tensors),
    "path": DecoderKind(fit_path_decoders, PathDecoders.from_tensors),
}
