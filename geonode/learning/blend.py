"""Blends: weighted averages of one or more kinds of decoders, with intervals.

The posterior over metrics gives the intervals; perceptrons alone have none. The weights of several
kinds are learned by leave-one-out inside every fold: each training level of the fold is left out in
turn, predicted from the rest, and compared with its spectrum. The left-out spectrum of the fold
itself takes no part.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from geonode.compute.device import CPU
from geonode.config import DecodersParameters
from geonode.errors import CorruptArtifactError
from geonode.learning.context import NestedRuns
from geonode.learning.folds import Fold, leave_one_out, training_wavelengths
from geonode.learning.path_decoder import PathDecoders
from geonode.learning.posterior_decoder import PosteriorDecoders
from geonode.learning.predicted import Decoders, PathFeatures, Predicted, mixture
from geonode.posterior.prior import packaged_prior
from geonode.spectra.series import Series
from geonode.storage.lineage import NO_INPUTS
from geonode.storage.weights import read_weights, write_weights

KINDS: dict[str, type[Decoders]] = {"posterior": PosteriorDecoders, "path": PathDecoders}
"""Registry of the kinds of decoders."""

BLENDS: dict[str, tuple[str, ...]] = {kind: (kind,) for kind in KINDS} | {
    "blend": ("posterior", "path"),
}
"""Kinds of decoders by value of the parameter `decoders.kind`."""


ODDS = {"posterior": 5.0, "path": 1.0}
"""Weights of kinds whose errors inside a fold are equal. Chosen on simulated series, on which the
posterior errs less (`docs/accuracy.md`)."""

FEWEST_TO_WEIGH = 5
"""Fewest levels for weights; with fewer, inner folds would train on two and the first kind counts
alone."""


SMALLEST_SHARE = 0.01
"""A squared error counts as at least this share of the mean squared error of the best kind, so that
a spectrum that happens to be predicted exactly does not decide alone."""


@dataclass(frozen=True)
class Blend:
    """Decoders of some kinds, with their weights in every fold."""

    decoders: dict[str, Decoders]  # decoders by kind
    weights: Float[np.ndarray, "fold kind"]  # weights of the kinds; those of a fold add up to one
    training: Int[np.ndarray, "training"]  # indices of the training wavelengths

    def predict(
        self,
        fold: Fold,
        series: Series,
        concentrations: Float[np.ndarray, "target"],
        features: Float[np.ndarray, "member source target training feature"] | None,
    ) -> Predicted:
        """Predicted spectra.

        Arguments are those of `Decoders.predict`, for a fold of `leave_one_out`; features are at
        the training wavelengths, None for the posterior alone.
        """
        parts = [
            decoders.predict(fold, series, concentrations, features)
            for decoders in self.decoders.values()
        ]
        return mixture(self.weights[fold.index], parts)

    @property
    def weights_of_paths(self) -> list[float]:
        """Weight of path decoders in every fold; 0 without any."""
        at = [kind == "path" for kind in self.decoders]
        return [float(weight) for weight in self.weights[:, at].sum(axis=1)]

    @property
    def has_intervals(self) -> bool:
        """True if predictions have intervals."""
        return "posterior" in self.decoders

    def only(self, kind: str) -> "Blend":
        """Blend of one kind alone."""
        alone = {kind: self.decoders[kind]}
        return Blend(alone, np.ones((len(self.weights), 1)), self.training)

    def left_out(self, series: Series, features: PathFeatures) -> Predicted:
        """Prediction of every level by the fold that left it out."""
        folds = leave_one_out(len(series.concentrations))[:-1]
        of_kinds = [
            decoders.predict_left_out(folds, series, features)
            for decoders in self.decoders.values()
        ]
        parts = [
            mixture(self.weights[fold.index], kinds)
            for fold, *kinds in zip(folds, *of_kinds, strict=True)
        ]
        even, half_widths = (
            [known for part in parts if (known := getattr(part, name)) is not None]
            for name in ("even", "half_widths")
        )
        return Predicted(
            np.concatenate([part.spectra for part in parts]),
            np.concatenate([part.factors for part in parts]),
            np.concatenate(even) if even else None,
            np.concatenate(half_widths) if half_widths else None,
        )

    def write(self, path: Path, made_from: Mapping[str, str] = NO_INPUTS) -> None:
        """Write as an artifact.

        `made_from` is what `consistent_artifacts` yields.

        Raises:
            ArtifactError: it cannot be written; an older artifact is then intact.
        """
        named = {"weights": self.weights, "training": self.training}
        tensors = {name: torch.from_numpy(one) for name, one in named.items()}
        for kind, decoders in self.decoders.items():
            tensors |= {f"{kind}/{name}": tensor for name, tensor in decoders.tensors().items()}
        metadata = {"kinds": list(self.decoders), "made_from": made_from}
        write_weights(path, tensors, {name: json.dumps(one) for name, one in metadata.items()})

    @classmethod
    def read(cls, path: Path, place: torch.device = CPU) -> "Blend":
        """Read an artifact of `write`; `place` computes the posterior, in double precision.

        Raises:
            MissingArtifactError, CorruptArtifactError: the file is missing, damaged, or contains no
                decoders.
        """
        tensors, metadata = read_weights(path)
        try:
            decoders: dict[str, Decoders] = {}
            for kind in json.loads(metadata["kinds"]):
                start = f"{kind}/"
                own = {n[len(start) :]: one for n, one in tensors.items() if n.startswith(start)}
                decoders[kind] = KINDS[kind].from_tensors(own)
            if "posterior" in decoders:
                decoders["posterior"] = PosteriorDecoders(packaged_prior(place))
            weights = tensors["weights"].numpy()
            if weights.shape[1:] != (len(decoders),):
                raise ValueError(f"weights of shape {weights.shape} for {len(decoders)} kinds")
            return cls(decoders, weights, tensors["training"].numpy())
        except KeyError as error:
            raise CorruptArtifactError(path, f"contains no decoders: {error} is absent") from error
        except (TypeError, ValueError) as error:
            raise CorruptArtifactError(path, f"contains no decoders: {error}") from error


@dataclass(frozen=True)
class InnerPredictions:
    """Predictions of every fold for its training levels, each left out in turn."""

    series: Series
    predicted: Float[np.ndarray, "kind fold level wavelength"]
    known: Bool[np.ndarray, "fold level"]  # whether a level has been predicted

    @classmethod
    def of(cls, series: Series, kinds: int, folds: list[Fold]) -> "InnerPredictions":
        """Arrays of the right shape, still without predictions."""
        shape = (kinds, len(folds), *series.signal.shape)
        return cls(series, np.zeros(shape), np.zeros(shape[1:3], dtype=bool))

    def enter(
        self,
        kind: int,
        folds: list[Fold],
        decoders: Decoders,
        features: PathFeatures,
    ) -> None:
        """Enter the predictions of one kind.

        Args:
            kind: place of the kind.
            folds: folds with two levels left out, each of which is predicted inside the fold
                without the other; or with one, predicted inside the fold that leaves nothing out.
            decoders: decoders of these folds.
            features: of all geodesics of these folds; None for kinds that use none.
        """
        whole = len(self.known) - 1
        found = decoders.predict_left_out(folds, self.series, features)
        for fold, predicted in zip(folds, found, strict=True):
            targets = list(fold.left_out)
            inside = targets[::-1] if len(targets) > 1 else whole
            self.predicted[kind, inside, targets] = predicted.spectra
            self.known[inside, targets] = True

    def weights(self, odds: Float[np.ndarray, "kind"]) -> Float[np.ndarray, "fold kind"]:
        """Weights of the kinds: their odds, divided by the geometric means of their squared errors.

        Odds are the weights of kinds whose errors are equal.
        """
        squares = ((self.predicted - self.series.signal) ** 2).mean(3)
        found = []
        for known, of_kinds in zip(self.known, squares.swapaxes(0, 1), strict=True):
            errors = of_kinds[:, known]
            smallest = max(SMALLEST_SHARE * errors.mean(1).min(), np.finfo(float).tiny)
            logarithms = np.log(np.maximum(errors, smallest)).mean(1)
            weights = odds * np.exp(logarithms.min() - logarithms)
            found.append(weights / weights.sum())
        return np.stack(found)


def training_steps(parameters: DecodersParameters, runs: NestedRuns) -> int:
    """Training steps that `fit_blend` reports: those of all path decoders, 0 without any."""
    if "path" not in BLENDS[parameters.kind]:
        return 0
    inner = _needs_inner_folds(BLENDS[parameters.kind], runs.outer.folds[0].levels)
    models = runs.models if inner else runs.outer.members * len(runs.outer.folds)
    return parameters.epochs * models


def _needs_inner_folds(kinds: Collection[str], levels: int) -> bool:
    """True if inner folds are used, for weights of several kinds."""
    return len(kinds) > 1 and levels >= FEWEST_TO_WEIGH


def fit_blend(
    series: Series,
    features: PathFeatures,
    inner_features: Float[np.ndarray, "inner_member inner pair training feature"] | None,
    parameters: DecodersParameters,
    runs: NestedRuns,
) -> tuple[Blend, Float[Tensor, "epoch term model"]]:
    """Fit all kinds of decoders of a blend, and their weights.

    Without inner folds, or with fewer than `FEWEST_TO_WEIGH` levels, the first kind counts alone.

    Args:
        series: the measured series. A fold never reads the spectra that it leaves out.
        features: of all geodesics of the folds of `leave_one_out`, at the training wavelengths;
            None for the posterior alone.
        inner_features: features of the geodesics of the inner folds; None without them.
        parameters: the block `decoders` of the parameters.
        runs: runs over the folds and the inner folds.

    Returns:
        The blend, and the training history of its decoders; no epochs if none are trained.

    Raises:
        TrainingError: a loss is not finite.
        CorruptArtifactError: a checkpoint is damaged.
    """
    kinds, (outer, inner) = BLENDS[parameters.kind], runs
    fitted = {
        kind: KINDS[kind].fit(series, features, parameters, outer.of_kind(kind)) for kind in kinds
    }
    decoders = {kind: of_kind for kind, (of_kind, _) in fitted.items()}
    history = max((history for _, history in fitted.values()), key=len)
    weights = np.zeros((len(outer.folds), len(kinds)))
    weights[:, 0] = 1
    if inner is not None and _needs_inner_folds(kinds, len(series.concentrations)):
        inside = InnerPredictions.of(series, len(kinds), outer.folds)
        for place, kind in enumerate(kinds):
            of_inner, _ = KINDS[kind].fit(series, inner_features, parameters, inner.of_kind(kind))
            inside.enter(place, inner.folds, of_inner, inner_features)
            inside.enter(place, outer.folds[:-1], decoders[kind], features)
        weights = inside.weights(np.array([ODDS[kind] for kind in kinds]))
    training = training_wavelengths(len(series.axis), parameters.wavelengths)
    return Blend(decoders, weights, training), history
