"""Decoders that are Gaussian processes over the arc length between concentrations.

The position of a level is the length of the geodesic from the lowest one, averaged over members and
wavelengths: one process serves all wavelengths of a fold. Or it is that on a metric which the
process learns itself, by its evidence, on top of the chart.
"""

from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from geonode.config import DecodersParameters
from geonode.geodesics.features import FEATURES
from geonode.geodesics.problem import ordered_pairs
from geonode.geometry.metric import SIZES
from geonode.geometry.perceptron import Perceptron
from geonode.learning.evidence_network import fit_evidence_network, shared_arc_lengths
from geonode.learning.folds import Fold
from geonode.learning.predicted import Predicted
from geonode.learning.process import Process, fit_process
from geonode.learning.run import Run
from geonode.spectra.series import Series

FINAL, MEAN, LENGTH = (
    FEATURES.index(name) for name in ("final_position", "mean_position", "length")
)

METRIC_RATE = 5e-3
"""Learning rate of the metric by evidence: that of metrics, half that of decoders."""


@runtime_checkable
class Positions(Protocol):
    """Where concentrations are for the process of every fold."""

    @property
    def levels(self) -> Float[np.ndarray, "fold level"]:
        """Positions of the levels, from -1 to 1."""

    def of_targets(
        self, fold: int, features: Float[np.ndarray, "member source target training feature"]
    ) -> Float[np.ndarray, "target"]:
        """Positions of the targets of geodesics from the training levels of a fold."""

    def tensors(self) -> dict[str, Shaped[Tensor, "..."]]:
        """All that an artifact has to keep, by name."""


@dataclass(frozen=True)
class ArcLengths:
    """Length of the geodesics from the lowest level, on the metrics of the geometry.

    Attributes:
        levels: scaled to -1 and 1 at the ends.
        lowest: position of the lowest training level.
        whole: length from the lowest to the highest level.
    """

    levels: Float[np.ndarray, "fold level"]
    lowest: Float[np.ndarray, "fold"]
    whole: Float[np.ndarray, "fold"]

    @classmethod
    def fit(
        cls,
        series: Series,  # noqa: ARG003
        features: Float[np.ndarray, "member fold pair training feature"],
        parameters: DecodersParameters,  # noqa: ARG003
        run: Run,
    ) -> "ArcLengths":
        """Averages over members and wavelengths."""
        lengths = _from_lowest(features)[..., LENGTH].mean(axis=(0, 3), dtype=np.float64)
        levels = 2 * np.pad(lengths, ((0, 0), (1, 0))) / lengths[:, -1:] - 1
        lowest = np.array([levels[fold.index, fold.training[0]] for fold in run.folds])
        return cls(levels, lowest, lengths[:, -1])

    def of_targets(
        self, fold: int, features: Float[np.ndarray, "member source target training feature"]
    ) -> Float[np.ndarray, "target"]:
        """From the lowest training level on, in either direction."""
        from_lowest = features[:, 0]
        lengths = from_lowest[..., LENGTH].mean(axis=(0, 2), dtype=np.float64)
        ahead = np.sign(from_lowest[0, :, 0, FINAL] - from_lowest[0, :, 0, MEAN])
        return self.lowest[fold] + ahead * 2 * lengths / self.whole[fold]

    def tensors(self) -> dict[str, Shaped[Tensor, "..."]]:
        """All that an artifact has to keep, by name."""
        names = ("levels", "lowest", "whole")
        return {name: torch.from_numpy(getattr(self, name)) for name in names}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Shaped[Tensor, "..."]]) -> "ArcLengths":
        """What `tensors` wrote down.

        Raises:
            KeyError: a tensor is absent.
        """
        return cls(*(tensors[name].numpy() for name in ("levels", "lowest", "whole")))


@dataclass(frozen=True)
class EvidenceLengths:
    """Arc length of the metric that the training spectra of every fold speak for.

    It is the reference metric, on which the chart is even, or a network on top of it whose process
    is more likely by the margin.

    Attributes:
        levels: scaled to -1 and 1 at the ends.
        charted: positions of the levels on the chart.
        network: one metric a fold, shared by all wavelengths.
        bent: of which folds it is taken.
    """

    levels: Float[np.ndarray, "fold level"]
    charted: Float[np.ndarray, "fold level"]
    network: Perceptron
    bent: Bool[np.ndarray, "fold"]

    @classmethod
    def fit(
        cls,
        series: Series,
        features: Float[np.ndarray, "member fold pair training feature"],
        parameters: DecodersParameters,
        run: Run,
    ) -> "EvidenceLengths":
        """Metrics by the evidence of the training spectra of every fold."""
        ends = _from_lowest(features)[0, :, :, 0, FINAL].astype(np.float64)
        charted = np.pad(ends, ((0, 0), (1, 0)), constant_values=-1.0)
        straight = np.zeros(len(run.folds), dtype=bool)
        if parameters.evidence_margin is None:
            flat = Perceptron.initial(SIZES, [(0,)] * len(run.folds))
            return cls(charted, charted, flat, straight)
        spectra, margin = series.signal, parameters.evidence_margin
        # One likelihood of all training spectra: there are no parts to accumulate.
        own = parameters.model_copy(update={"learning_rate": METRIC_RATE, "accumulation": 1})
        one = replace(run, members=1)
        network, _ = fit_evidence_network(
            spectra, charted, series.wavelengths, own, one, shared=True
        )
        learned = shared_arc_lengths(network, charted)
        levels, bent = charted.copy(), straight
        for fold in run.folds:
            known, place = spectra[fold.training], fold.index
            plain, curved = (
                fit_process(candidate[place, fold.training], known, "constant")[1]
                for candidate in (charted, learned)
            )
            if curved > plain + margin:
                levels[place], bent[place] = learned[place], True
        return cls(levels, charted, network, bent)

    def of_targets(
        self, fold: int, features: Float[np.ndarray, "member source target training feature"]
    ) -> Float[np.ndarray, "target"]:
        """Of the chart, or of the metric on it."""
        charted = features[0, 0, :, 0, FINAL].astype(np.float64)
        if not self.bent[fold]:
            return charted
        levels = self.charted[fold]
        stations = np.unique(np.concatenate([levels, charted]))
        lengths = shared_arc_lengths(self.network[[fold]], stations[None])[0]
        low, high = lengths[np.searchsorted(stations, levels[[0, -1]])]
        return 2 * (lengths[np.searchsorted(stations, charted)] - low) / (high - low) - 1

    def tensors(self) -> dict[str, Shaped[Tensor, "..."]]:
        """All that an artifact has to keep, by name."""
        names = ("levels", "charted", "bent")
        arrays = {name: torch.from_numpy(getattr(self, name)) for name in names}
        return arrays | self.network.tensors("metric", len(self.bent))

    @classmethod
    def from_tensors(cls, tensors: dict[str, Shaped[Tensor, "..."]]) -> "EvidenceLengths":
        """What `tensors` wrote down.

        Raises:
            KeyError: a tensor is absent.
        """
        levels, charted, bent = (tensors[name].numpy() for name in ("levels", "charted", "bent"))
        return cls(levels, charted, Perceptron.from_tensors("metric", tensors), bent)


PositionsType = type[ArcLengths] | type[EvidenceLengths]


@dataclass(frozen=True)
class ProcessDecoders:
    """The process of every fold.

    Attributes:
        processes: one a fold.
        positions: where concentrations are.
    """

    processes: list[Process]
    positions: Positions

    def predict(
        self,
        fold: Fold,
        series: Series,
        features: Float[np.ndarray, "member source target training feature"],
    ) -> Predicted:
        """Best predictions, and the covariance of new readings about them.

        Args:
            fold: whose process.
            series: the measured series. The spectra that the fold leaves out are not read.
            features: of the geodesics from the fold's training levels to the targets.
        """
        process = self.processes[fold.index]
        known = (self.positions.levels[fold.index, fold.training], series.signal[fold.training])
        targets = self.positions.of_targets(fold.index, features)
        return Predicted(process.predict(*known, targets), process.factors(*known, targets))

    def tensors(self) -> dict[str, Shaped[Tensor, "..."]]:
        """All that an artifact has to keep, by name."""
        numbers = [[process.length, process.noise] for process in self.processes]
        return {
            "length_and_noise": torch.tensor(numbers, dtype=torch.float64),
            **self.positions.tensors(),
        }

    @classmethod
    def from_tensors(
        cls, tensors: dict[str, Shaped[Tensor, "..."]], mean: str, positions: PositionsType
    ) -> "ProcessDecoders":
        """The processes about a mean function that `tensors` wrote down.

        Raises:
            KeyError: a tensor is absent.
        """
        numbers = tensors["length_and_noise"].tolist()
        processes = [Process(length, noise, mean) for length, noise in numbers]
        return cls(processes, positions.from_tensors(tensors))


def fit_processes(
    series: Series,
    features: Float[np.ndarray, "member fold pair training feature"],
    parameters: DecodersParameters,
    run: Run,
    mean: str,
    positions: PositionsType,
) -> tuple[ProcessDecoders, Float[Tensor, "epoch term model"]]:
    """Fit the process of every fold to its training spectra.

    Args:
        series: the measured series. A fold never reads the spectra that it leaves out.
        features: of all geodesics.
        parameters: the block `decoders` of the parameters.
        run: the folds. There is one process a fold, whatever the number of members.
        mean: name of the mean function.
        positions: how to tell where the levels are.

    Returns:
        The processes, and a history without steps.

    Raises:
        TrainingError: the spectra are not finite.
    """
    found = positions.fit(series, features, parameters, run)
    processes = [
        fit_process(found.levels[fold.index][fold.training], series.signal[fold.training], mean)[0]
        for fold in run.folds
    ]
    return ProcessDecoders(processes, found), torch.zeros(0, 1, len(run.folds))


def _from_lowest(features: np.ndarray) -> np.ndarray:
    """Features of the geodesics from the lowest level; their targets ascend."""
    levels = round((1 + (1 + 4 * features.shape[2]) ** 0.5) / 2)  # levels (levels - 1) pairs
    source, _ = ordered_pairs(levels)
    return features[:, :, source.numpy() == 0]
