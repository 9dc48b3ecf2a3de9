"""Decoders that are Gaussian processes over the arc length between concentrations.

The position of a level is the length of the geodesic from the lowest one, averaged over members and
wavelengths: one process serves all wavelengths of a fold. Or it is that on a metric which the
process learns itself, by its evidence, on top of the chart.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from geonode.config import DecodersParameters
from geonode.geodesics.features import FEATURES
from geonode.geodesics.problem import ordered_pairs
from geonode.learning.evidence_network import fit_evidence_network, shared_arc_lengths
from geonode.learning.folds import Fold
from geonode.learning.process import Process, fit_process
from geonode.learning.run import Run
from geonode.spectra.series import Series

Positions = Callable[
    [Series, Float[np.ndarray, "member fold pair training feature"], DecodersParameters, Run],
    Float[np.ndarray, "fold level"],
]


METRIC_RATE = 5e-3
"""Learning rate of the metric by evidence: that of metrics, half that of decoders."""


@dataclass(frozen=True)
class ProcessDecoders:
    """The process of every fold.

    Attributes:
        processes: one a fold.
        positions: arc length of the levels in every fold, scaled to -1 and 1 at the ends.
    """

    processes: list[Process]
    positions: Float[np.ndarray, "fold level"]

    def predict(
        self,
        fold: Fold,
        target: int,
        series: Series,
        features: Float[np.ndarray, "member fold pair training feature"],  # noqa: ARG002
    ) -> tuple[Float[np.ndarray, "wavelength"], Float[np.ndarray, "wavelength"]]:
        """Prediction of a level by a fold, and the standard deviation of a new reading.

        Args:
            fold: one that leaves the level out.
            target: index of the level.
            series: the measured series. The spectra that the fold leaves out are not read.
            features: not looked at: arc lengths are kept.
        """
        process, positions = self.processes[fold.index], self.positions[fold.index]
        known = (positions[fold.training], series.signal[fold.training], positions[[target]])
        return process.predict(*known)[0], process.deviation(*known)[0]

    def tensors(self) -> dict[str, Shaped[Tensor, "..."]]:
        """All that an artifact has to keep, by name."""
        numbers = [[process.length, process.noise] for process in self.processes]
        return {
            "length_and_noise": torch.tensor(numbers, dtype=torch.float64),
            "positions": torch.from_numpy(self.positions),
        }

    @classmethod
    def from_tensors(
        cls, tensors: dict[str, Shaped[Tensor, "..."]], mean: str
    ) -> "ProcessDecoders":
        """The processes about a mean function that `tensors` wrote down.

        Raises:
            KeyError: a tensor is absent.
        """
        numbers = tensors["length_and_noise"].tolist()
        processes = [Process(length, noise, mean) for length, noise in numbers]
        return cls(processes, tensors["positions"].numpy())


def fit_processes(
    series: Series,
    features: Float[np.ndarray, "member fold pair training feature"],
    parameters: DecodersParameters,
    run: Run,
    mean: str,
    positions_of: Positions,
) -> tuple[ProcessDecoders, Float[Tensor, "epoch term model"]]:
    """Fit the process of every fold to its training spectra.

    Args:
        series: the measured series. A fold never reads the spectra that it leaves out.
        features: of all geodesics.
        parameters: the block `decoders` of the parameters.
        run: the folds. There is one process a fold, whatever the number of members.
        mean: name of the mean function.
        positions_of: where the levels are: `arc_lengths` or `positions_by_evidence`.

    Returns:
        The processes, and a history without steps.

    Raises:
        TrainingError: the spectra are not finite.
    """
    positions = positions_of(series, features, parameters, run)
    processes = [
        fit_process(positions[fold.index][fold.training], series.signal[fold.training], mean)[0]
        for fold in run.folds
    ]
    return ProcessDecoders(processes, positions), torch.zeros(0, 1, len(run.folds))


def arc_lengths(
    series: Series,  # noqa: ARG001
    features: Float[np.ndarray, "member fold pair training feature"],
    parameters: DecodersParameters,  # noqa: ARG001
    run: Run,  # noqa: ARG001
) -> Float[np.ndarray, "fold level"]:
    """Length of the geodesics from the lowest level, scaled to -1 and 1 at the ends."""
    lengths = _from_lowest(features, "length")
    means = lengths.mean(axis=(0, 3), dtype=np.float64)
    return 2 * np.pad(means, ((0, 0), (1, 0))) / means[:, -1:] - 1


def positions_by_evidence(
    series: Series,
    features: Float[np.ndarray, "member fold pair training feature"],
    parameters: DecodersParameters,
    run: Run,
) -> Float[np.ndarray, "fold level"]:
    """Scaled arc length of the metric that the training spectra of every fold speak for.

    It is the reference metric, on which the chart is even, or a network on top of it whose process
    is more likely by the margin.
    """
    ends = _from_lowest(features, "final_position")[0, :, :, 0].astype(np.float64)
    charted = np.pad(ends, ((0, 0), (1, 0)), constant_values=-1.0)
    if parameters.evidence_margin is None:
        return charted
    spectra, margin = series.signal, parameters.evidence_margin
    # One likelihood of all training spectra: there are no parts to accumulate.
    own = parameters.model_copy(update={"learning_rate": METRIC_RATE, "accumulation": 1})
    one = replace(run, members=1)
    network, _ = fit_evidence_network(spectra, charted, series.wavelengths, own, one, shared=True)
    learned = shared_arc_lengths(network, charted)
    positions = charted.copy()
    for fold in run.folds:
        known, place = spectra[fold.training], fold.index
        plain, bent = (
            fit_process(candidate[place, fold.training], known, "constant")[1]
            for candidate in (charted, learned)
        )
        if bent > plain + margin:
            positions[place] = learned[place]
    return positions


def _from_lowest(features: np.ndarray, feature: str) -> np.ndarray:
    """A feature of the geodesics from the lowest level; their targets ascend."""
    levels = round((1 + (1 + 4 * features.shape[2]) ** 0.5) / 2)  # levels (levels - 1) pairs
    source, _ = ordered_pairs(levels)
    return features[..., FEATURES.index(feature)][:, :, source.numpy() == 0]
