"""Decoders without training: Gaussian processes over the arc length between concentrations.

The position of a level is the length of the geodesic from the lowest one, averaged over members and
wavelengths: one process serves all wavelengths of a fold.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float

from geonode.errors import ArtifactError, CorruptArtifactError, TrainingError
from geonode.geodesics.features import FEATURES
from geonode.geodesics.problem import ordered_pairs
from geonode.learning.folds import leave_one_out
from geonode.learning.process import MEANS, Process, fit_process
from geonode.storage.weights import read_weights, write_weights


@dataclass(frozen=True)
class ProcessDecoders:
    """The process of every fold.

    Attributes:
        processes: one a fold, the last of which leaves nothing out.
        positions: arc length of the levels in every fold, scaled to -1 and 1 at the ends.
        wavelengths: of the spectra that they were fitted to.
    """

    processes: list[Process]
    positions: Float[np.ndarray, "fold level"]
    wavelengths: int

    def left_out(
        self,
        spectra: Float[np.ndarray, "level wavelength"],
        features: Float[np.ndarray, "member fold pair wavelength feature"],  # noqa: ARG002
    ) -> tuple[Float[np.ndarray, "level wavelength"], Float[np.ndarray, "level wavelength"]]:
        """Prediction of every level by the fold that left it out, and its standard deviation.

        Args:
            spectra: the measured series. Fold k never reads row k.
            features: not looked at: arc lengths are kept.
        """
        predictions, deviations = [], []
        for fold in leave_one_out(len(spectra))[:-1]:
            process, positions = self.processes[fold.index], self.positions[fold.index]
            training, target = positions[fold.training], positions[[fold.index]]
            known = spectra[fold.training]
            predictions.append(process.predict(training, known, target)[0])
            deviations.append(process.deviation(training, known, target)[0])
        return np.stack(predictions), np.stack(deviations)

    def require_series(self, path: Path, levels: int, wavelengths: int) -> None:
        """Refuse processes of another series than the one at hand.

        Raises:
            ArtifactError: naming the artifact.
        """
        found = (self.positions.shape[1], self.wavelengths)
        if found != (levels, wavelengths):
            raise ArtifactError(
                f"{path}: holds processes of {found[0]} levels at {found[1]} wavelengths, but the "
                f"spectra have {levels} at {wavelengths}; run `dvc repro`"
            )

    def write(self, path: Path) -> None:
        """Write as an artifact.

        Raises:
            ArtifactError: it cannot be written; an older one is then intact.
        """
        numbers = [[process.length, process.noise] for process in self.processes]
        tensors = {
            "length_and_noise": torch.tensor(numbers, dtype=torch.float64),
            "positions": torch.from_numpy(self.positions),
            "wavelengths": torch.tensor(self.wavelengths),
        }
        write_weights(path, tensors, {"kind": "process", "mean": self.processes[0].mean})

    @classmethod
    def read(cls, path: Path) -> "ProcessDecoders":
        """Read what `write` wrote.

        Raises:
            MissingArtifactError, CorruptArtifactError: there is none, it is damaged, or it holds
                no processes.
        """
        tensors, metadata = read_weights(path)
        try:
            mean = metadata["mean"]
            numbers = tensors["length_and_noise"].tolist()
            return cls(
                [Process(length, noise, mean) for length, noise in numbers],
                tensors["positions"].numpy(),
                int(tensors["wavelengths"]),
            )
        except KeyError as error:
            raise CorruptArtifactError(path, f"holds no processes: {error} is absent") from error


def fit_processes(
    spectra: Float[np.ndarray, "level wavelength"],
    features: Float[np.ndarray, "member fold pair wavelength feature"],
    mean: str,
) -> ProcessDecoders:
    """Fit the process of every fold to its training spectra.

    Args:
        spectra: the measured series, levels ascending. Fold k never reads row k.
        features: of all geodesics.
        mean: name of the mean function.

    Raises:
        TrainingError: a fold has too few levels for the mean function.
    """
    folds = leave_one_out(len(spectra))
    if len(spectra) - 1 <= MEANS[mean]:
        raise TrainingError(
            f"a process about a {mean} mean: found {len(spectra)} levels, expected "
            f"{MEANS[mean] + 2} or more"
        )
    positions = arc_lengths(features)
    processes = [
        fit_process(positions[fold.index][fold.training], spectra[fold.training], mean)[0]
        for fold in folds
    ]
    return ProcessDecoders(processes, positions, spectra.shape[1])


def arc_lengths(
    features: Float[np.ndarray, "member fold pair wavelength feature"],
) -> Float[np.ndarray, "fold level"]:
    """Length of the geodesics from the lowest level, scaled to -1 and 1 at the ends."""
    levels = round((1 + (1 + 4 * features.shape[2]) ** 0.5) / 2)  # levels (levels - 1) pairs
    source, _ = ordered_pairs(levels)  # targets ascend
    lengths = features[..., FEATURES.index("length")][:, :, source.numpy() == 0]
    means = lengths.mean(axis=(0, 3), dtype=np.float64)
    return 2 * np.pad(means, ((0, 0), (1, 0))) / means[:, -1:] - 1
