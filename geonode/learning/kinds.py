"""Registry of the kinds of decoders."""

from collections.abc import Callable
from typing import NamedTuple

from jaxtyping import Float, Shaped
from torch import Tensor

from geonode.config import DecodersParameters
from geonode.learning.context import TrainingRun
from geonode.learning.path_decoder import PathDecoders, fit_path_decoders
from geonode.learning.posterior_decoder import PosteriorDecoders, fit_posteriors
from geonode.learning.predicted import Decoders, Features
from geonode.spectra.series import Series


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
