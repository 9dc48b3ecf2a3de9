"""What one or more kinds of decoders say together, and how far off they may be.

Both are learned from leave-one-out inside every fold: each of the fold's training levels is left
out in turn, predicted from the rest, and compared with its spectrum. The fold's own left-out
spectrum takes no part. A level between the others is predicted better than one at an end, so what
is inside the training range is judged by the inner levels that are inside too. What is outside is
judged by all of them, as only two are at an end.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.stats import binomtest
from threadpoolctl import threadpool_limits
from torch import Tensor

from geonode.config import DecodersParameters
from geonode.errors import ArtifactError, CorruptArtifactError, TrainingError
from geonode.learning.calibration import PROBABILITIES, Calibration, InnerErrors
from geonode.learning.decoders import KINDS, Decoders
from geonode.learning.folds import Fold, leave_one_out, training_wavelengths
from geonode.learning.predicted import Predicted, mixture
from geonode.learning.run import Run, Runs
from geonode.spectra.series import Series
from geonode.storage.lineage import NOTHING
from geonode.storage.weights import read_weights, write_weights

BLENDS: dict[str, tuple[str, ...]] = {kind: (kind,) for kind in KINDS} | {
    "blend": ("evidence_process", "path", "mean"),
    "blend_scores": ("evidence_process", "scores", "mean"),
}
"""The kinds of decoders behind every value of the parameter `decoders.kind`."""

POWER = 2
"""A kind's weight falls with this power of its mean squared error."""

FEWEST_JUDGES = 3
"""Inner levels without which an interval is calibrated by those at the ends as well."""

SHOWN = 0.9
"""Probability of the interval that is drawn."""

SIGNIFICANCE = 0.05
"""Of the sign test by which the mean must beat the other kinds before it has any weight."""


LeftOut = Callable[[Fold, int], Predicted]
"""Prediction of a level that a fold leaves out."""


@dataclass(frozen=True)
class Prediction:
    """Predicted spectra and how far off they may be.

    Attributes:
        predicted: the predictions, and their covariance over sources, members and kinds.
        scale: standard deviation with the errors inside the folds; without inner folds that over
            sources, members and kinds alone, which does not say how far off a prediction is.
        half_width: half the width of the intervals of `PROBABILITIES`; None without inner folds.
    """

    predicted: Predicted
    scale: Float[np.ndarray, "target wavelength"]
    half_width: Float[np.ndarray, "probability target wavelength"] | None

    @property
    def spectra(self) -> Float[np.ndarray, "target wavelength"]:
        """The predictions."""
        return self.predicted.spectra

    @property
    def deviation(self) -> Float[np.ndarray, "target wavelength"]:
        """Standard deviation over sources, members and kinds."""
        return self.predicted.deviation

    @property
    def band(self) -> tuple[str, Float[np.ndarray, "target wavelength"]]:
        """What to draw about the predictions: its name, and its half width."""
        if self.half_width is None:
            return "standard deviation", self.deviation
        return f"{SHOWN:.0%} interval", self.half_width[PROBABILITIES.index(SHOWN)]


@dataclass(frozen=True)
class Blend:
    """Decoders of some kinds, and what each counts for in every fold.

    Attributes:
        decoders: by kind.
        weights: of every kind, for targets inside and outside of the training range; they add up
            to one.
        calibration: of the intervals; None without inner folds.
        inner: errors that calibrated them; None without inner folds.
        training: indices of the training wavelengths.
        wavelengths: number of wavelengths of a prediction.
    """

    decoders: dict[str, Decoders]
    weights: Float[np.ndarray, "fold side kind"]
    calibration: Calibration | None
    inner: InnerErrors | None
    training: Int[np.ndarray, "training"]
    wavelengths: int

    def predict(
        self,
        fold: Fold,
        series: Series,
        features: Float[np.ndarray, "member source target training feature"],
        inside: Bool[np.ndarray, "target"],
    ) -> Prediction:
        """Predicted spectra.

        Args:
            fold: one of `leave_one_out`.
            series: the measured series. The spectra that the fold leaves out are not read.
            features: of the geodesics from the fold's training levels to the targets, at the
                training wavelengths.
            inside: whether the targets are in the training range.
        """
        parts = [decoders.predict(fold, series, features) for decoders in self.decoders.values()]
        side = 1 - inside.astype(int)
        predicted = mixture(self.weights[fold.index, side], parts)
        deviation = predicted.deviation
        if self.calibration is None:
            return Prediction(predicted, deviation, None)
        sides = (fold.index, side, deviation)
        return Prediction(
            predicted, self.calibration.scale(*sides), self.calibration.half_width(*sides)
        )

    def left_out(
        self,
        series: Series,
        features: Float[np.ndarray, "member fold pair training feature"],
    ) -> Prediction:
        """Prediction of every level by the fold that left it out."""
        parts = [
            self.predict(
                fold, series, fold.paths_to(level, features), np.array([fold.is_inside(level)])
            )
            for level, fold in enumerate(leave_one_out(len(series.concentrations))[:-1])
        ]
        half_widths = [part.half_width for part in parts if part.half_width is not None]
        return Prediction(
            Predicted(
                np.concatenate([part.spectra for part in parts]),
                np.concatenate([part.predicted.factors for part in parts]),
            ),
            np.concatenate([part.scale for part in parts]),
            np.concatenate(half_widths, axis=1) if half_widths else None,
        )

    def weights_of_folds(self) -> Float[np.ndarray, "fold kind"]:
        """What every kind counts for where a fold predicts what it leaves out.

        The last fold leaves nothing out: its weights are those inside the training range.
        """
        *outer, whole = leave_one_out(len(self.weights) - 1)
        sides = [int(not fold.is_inside(fold.index)) for fold in outer]
        return self.weights[range(whole.index + 1), [*sides, 0]]

    def require_series(self, path: Path, series: Series) -> None:
        """Refuse decoders of another series than the one at hand.

        Raises:
            ArtifactError: naming the artifact.
        """
        found = (len(self.weights) - 1, self.wavelengths)
        expected = (len(series.concentrations), len(series.axis))
        if found != expected:
            raise ArtifactError(
                f"{path}: holds decoders of {found[0]} levels at {found[1]} wavelengths, but the "
                f"spectra have {expected[0]} at {expected[1]}; run `dvc repro`"
            )

    def write(self, path: Path, made_from: Mapping[str, str] = NOTHING) -> None:
        """Write as an artifact.

        Args:
            path: of the artifact.
            made_from: as `together` yields it.

        Raises:
            ArtifactError: it cannot be written; an older one is then intact.
        """
        tensors = {
            "weights": torch.from_numpy(self.weights),
            "training": torch.from_numpy(self.training),
        }
        for part in (self.calibration, self.inner):
            tensors |= {} if part is None else part.tensors()
        for kind, decoders in self.decoders.items():
            tensors |= {f"{kind}/{name}": tensor for name, tensor in decoders.tensors().items()}
        metadata = {
            "kinds": json.dumps(list(self.decoders)),
            "wavelengths": str(self.wavelengths),
            "made_from": json.dumps(made_from),
        }
        write_weights(path, tensors, metadata)

    @classmethod
    def read(cls, path: Path) -> "Blend":
        """Read what `write` wrote.

        Raises:
            MissingArtifactError, CorruptArtifactError: there is none, it is damaged, or it holds
                no decoders.
        """
        tensors, metadata = read_weights(path)
        try:
            decoders = {
                kind: KINDS[kind].from_tensors(_under(kind, tensors))
                for kind in json.loads(metadata["kinds"])
            }
            judged = "factors" in tensors
            return cls(
                decoders,
                tensors["weights"].numpy(),
                Calibration.from_tensors(tensors) if judged else None,
                InnerErrors.from_tensors(tensors) if judged else None,
                tensors["training"].numpy(),
                int(metadata["wavelengths"]),
            )
        except KeyError as error:
            raise CorruptArtifactError(path, f"holds no decoders: {error} is absent") from error
        except (TypeError, ValueError) as error:
            raise CorruptArtifactError(path, f"holds no decoders: {error}") from error


def training_steps(kinds: Iterable[str], parameters: DecodersParameters, runs: Runs) -> int:
    """Steps of training that `fit_blend` tells of: those of all models of the kinds that train.

    Args:
        kinds: of decoders.
        parameters: the block `decoders` of the parameters.
        runs: the folds and the inner folds.
    """
    single = sum(len(run.folds) for run in runs if run is not None)  # one metric a fold
    models = {"path": runs.models, "scores": runs.models}
    if parameters.evidence_margin is not None:
        models["evidence_process"] = single
    return parameters.epochs * sum(models.get(kind, 0) for kind in kinds)


@threadpool_limits.wrap(limits=1)  # so that no bit depends on the number of cores
def fit_blend(
    series: Series,
    features: Float[np.ndarray, "member fold pair training feature"],
    inner_features: Float[np.ndarray, "inner_member inner pair training feature"] | None,
    parameters: DecodersParameters,
    runs: Runs,
) -> tuple[Blend, Float[Tensor, "epoch term model"]]:
    """Fit every kind of decoder that the parameters name, and weigh and calibrate them.

    Args:
        series: the measured series. A fold never reads the spectra that it leaves out.
        features: of all geodesics of the folds of `leave_one_out`, at the training wavelengths.
        inner_features: the same of the inner folds; None without them.
        parameters: the block `decoders` of the parameters.
        runs: the folds and the inner folds, where to train, and who is told.

    Returns:
        The decoders, and the history of those that are trained; without steps if there are none.

    Raises:
        TrainingError: a loss is not finite, or there are several kinds and no inner folds.
        CorruptArtifactError: a checkpoint is damaged.
    """
    kinds = BLENDS[parameters.kind]
    outer, inner = runs
    training = training_wavelengths(len(series.axis), parameters.wavelengths)
    if inner is None and len(kinds) > 1:
        raise TrainingError(
            f"decoders.kind {parameters.kind}: found inner.members 0, expected 1 or more, as its "
            "weights come from inner folds; or name one of " + ", ".join(KINDS)
        )
    if (inner is None) != (inner_features is None):
        raise TrainingError(
            "inner folds: found a run without features or features without a run, expected both"
        )
    if inner is None and parameters.patience is not None:
        raise TrainingError(
            f"decoders.patience: found {parameters.patience} and inner.members 0, expected inner "
            "folds, as they say when to stop"
        )
    inside = InnerPredictions.of(series, kinds, outer.folds)
    decoders: dict[str, Decoders] = {}
    histories = []
    for kind in kinds:
        fold_epochs = None
        if inner is not None and inner_features is not None:
            of_inner, fold_epochs = _fit_inner(
                kind, series, inner_features, parameters, inner.of_kind(kind), outer.folds
            )
            inside.enter(kind, inner.folds, of_inner)
        run = replace(outer.of_kind(kind), epochs=fold_epochs)
        decoders[kind], history = KINDS[kind].fit(series, features, parameters, run)
        histories.append(history)
        if inner is not None:
            inside.enter(kind, outer.folds[:-1], left_out_by(decoders[kind], series, features))
    history = max(histories, key=len)
    if inner is None:
        weights = np.ones((len(outer.folds), 2, 1))
        return Blend(decoders, weights, None, None, training, len(series.axis)), history
    weights = inside.weights(outer.folds)
    judged = inside.calibration(outer.folds, weights)
    return Blend(decoders, weights, *judged, training, len(series.axis)), history


def _fit_inner(
    kind: str,
    series: Series,
    features: np.ndarray,
    parameters: DecodersParameters,
    run: Run,
    folds: list[Fold],
) -> tuple[LeftOut, tuple[int, ...] | None]:
    """What decoders of the inner folds say, and after how many epochs those of the folds stop."""
    watch = KINDS[kind].watch
    if parameters.patience is None or watch is None:
        decoders, _ = KINDS[kind].fit(series, features, parameters, run)
        return left_out_by(decoders, series, features), None
    watched = watch(series, features, parameters, run)
    evaluations = watched.evaluations(folds, parameters.patience)
    return watched.stopped(evaluations).predict, tuple(watched.epochs[e] for e in evaluations)


def left_out_by(
    decoders: Decoders,
    series: Series,
    features: Float[np.ndarray, "member fold pair training feature"],
) -> LeftOut:
    """How decoders predict levels that their folds leave out."""
    return lambda fold, target: decoders.predict(fold, series, fold.paths_to(target, features))


@dataclass(frozen=True)
class InnerPredictions:
    """What every fold predicts of its own training levels when each is left out as well.

    Attributes:
        series: the measured series.
        kinds: names of the kinds.
        predicted, deviation: by every kind.
        known: where there is a prediction.
    """

    series: Series
    kinds: tuple[str, ...]
    predicted: Float[np.ndarray, "kind fold level wavelength"]
    deviation: Float[np.ndarray, "kind fold level wavelength"]
    known: Bool[np.ndarray, "fold level"]

    @classmethod
    def of(cls, series: Series, kinds: tuple[str, ...], folds: list[Fold]) -> "InnerPredictions":
        """Without any prediction yet."""
        shape = (len(kinds), len(folds), *series.signal.shape)
        known = np.zeros(shape[1:3], dtype=bool)
        return cls(series, kinds, np.zeros(shape), np.zeros(shape), known)

    def enter(self, kind: str, folds: list[Fold], left_out: LeftOut) -> None:
        """Enter the predictions of one kind.

        Args:
            kind: one of `kinds`.
            folds: with two levels left out, each of which is predicted inside the fold without the
                other; or with one, which is predicted inside the fold that leaves nothing out.
            left_out: the predictions.
        """
        place, whole = self.kinds.index(kind), len(self.known) - 1
        for fold in folds:
            for target in fold.left_out:
                others = [level for level in fold.left_out if level != target]
                at = (others[0] if others else whole, target)
                predicted = left_out(fold, target)
                self.predicted[place, *at] = predicted.spectra[0]
                self.deviation[place, *at] = predicted.deviation[0]
                self.known[at] = True

    def of_kinds(self, kinds: tuple[str, ...]) -> "InnerPredictions":
        """Those of some of the kinds."""
        places = [self.kinds.index(kind) for kind in kinds]
        parts = (self.predicted[places], self.deviation[places])
        return InnerPredictions(self.series, kinds, *parts, self.known)

    def weights(self, folds: list[Fold]) -> Float[np.ndarray, "fold side kind"]:
        """Weights of the kinds for targets inside and outside of the training range.

        The mean of the spectra has none unless it predicts significantly more of the inner levels
        better than the others do together: then nothing has been learned that it does not know.
        """
        return np.stack([self._weights(fold) for fold in folds])

    def calibration(
        self, folds: list[Fold], weights: Float[np.ndarray, "fold side kind"]
    ) -> tuple[Calibration, InnerErrors]:
        """Calibration of the intervals of predictions by these weights, and what is behind it."""
        fewest, levels = FEWEST_JUDGES, len(self.series.concentrations)
        every_error = np.zeros((len(folds), *self.series.signal.shape))
        judged = np.zeros((len(folds), 2, levels), dtype=bool)
        calibrations = []
        for fold in folds:
            known = self._levels(fold, outside=True)
            inside = self._levels(fold, outside=False)
            spectra, deviation = self._blended(fold, known, weights[fold.index])
            errors = spectra - self.series.signal[known]
            sides = (inside if len(inside) >= fewest else known, known)
            calibrations.append(
                [Calibration.of(errors, deviation, [known.index(k) for k in s]) for s in sides]
            )
            every_error[fold.index, known] = errors
            for side, judges in enumerate(sides):
                judged[fold.index, side, judges] = True
        return Calibration.stack(calibrations), InnerErrors(every_error, judged)

    def _levels(self, fold: Fold, *, outside: bool) -> list[int]:
        """Levels by which targets inside or outside of the training range of a fold are judged."""
        known = np.flatnonzero(self.known[fold.index]).tolist()
        inside = [level for level in known if fold.without(level).is_inside(level)]
        return known if outside or not inside else inside

    def _squared_errors(self, fold: Fold, levels: list[int]) -> np.ndarray:
        """Of every kind, level and wavelength."""
        return (self.predicted[:, fold.index, levels] - self.series.signal[levels]) ** 2

    def _weights(self, fold: Fold) -> np.ndarray:
        others = np.array([kind != "mean" or self.kinds == ("mean",) for kind in self.kinds])
        weights = self._by_error(fold, others)
        if others.all():
            return weights
        levels = self._levels(fold, outside=True)
        blended, _ = self._blended(fold, levels, weights)
        error = ((blended - self.series.signal[levels]) ** 2).mean(axis=1)
        of_mean = self._squared_errors(fold, levels)[~others][0].mean(axis=1)
        wins = int((of_mean < error).sum())
        if binomtest(wins, len(levels), alternative="greater").pvalue > SIGNIFICANCE:
            return weights
        return self._by_error(fold, np.ones_like(others))

    def _by_error(self, fold: Fold, taken: np.ndarray) -> np.ndarray:
        """Weights of the kinds that are taken by their mean squared error on either side."""
        sides = []
        for outside in (False, True):
            errors = self._squared_errors(fold, self._levels(fold, outside=outside)).mean((1, 2))
            smallest = max(errors[taken].min(), np.finfo(float).tiny)
            weights = np.where(taken, (np.maximum(errors, smallest) / smallest) ** -POWER, 0.0)
            sides.append(weights / weights.sum())
        return np.stack(sides)

    def _blended(
        self, fold: Fold, levels: list[int], weights: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mixtures of what the kinds predict inside a fold, each by the weights of its side."""
        parts = []
        for level in levels:
            side = int(not fold.without(level).is_inside(level))
            spectra = self.predicted[:, fold.index, level]
            mean = weights[side] @ spectra
            # The diagonal of the covariance of a mixture: see `mixture`.
            squares = self.deviation[:, fold.index, level] ** 2 + (spectra - mean) ** 2
            parts.append((mean, np.sqrt(weights[side] @ squares)))
        means, deviations = zip(*parts, strict=True)
        return np.stack(means), np.stack(deviations)


def _under(kind: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors of one kind, without the kind in their names."""
    start = f"{kind}/"
    return {k.removeprefix(start): part for k, part in tensors.items() if k.startswith(start)}
