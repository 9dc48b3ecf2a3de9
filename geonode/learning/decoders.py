"""Every kind of decoder, by name: from the geodesics of a series to left-out spectra."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geonode.config import DecodersParameters
from geonode.devices.device import Device
from geonode.errors import CorruptArtifactError
from geonode.learning.path_decoder import PathDecoders, fit_decoders
from geonode.learning.process_decoder import ProcessDecoders, fit_processes
from geonode.progress import Report
from geonode.storage.weights import read_weights

Spectra = Float[np.ndarray, "level wavelength"]
Features = Float[np.ndarray, "member fold pair wavelength feature"]


@runtime_checkable
class Decoders(Protocol):
    """Decoders of every fold."""

    def left_out(
        self,
        spectra: Float[np.ndarray, "level wavelength"],
        features: Float[np.ndarray, "member fold pair wavelength feature"],
    ) -> tuple[Float[np.ndarray, "level wavelength"], Float[np.ndarray, "level wavelength"]]:
        """Prediction of every level by the fold that left it out, and its spread."""

    def require_series(self, path: Path, levels: int, wavelengths: int) -> None:
        """Refuse decoders of another series than the one at hand."""

    def write(self, path: Path) -> None:
        """Write as an artifact."""


Fit = Callable[
    [Spectra, Features, DecodersParameters, Device, Path, Report],
    tuple[Decoders, Float[Tensor, "epoch term model"]],
]
"""(spectra, features, parameters, device, scratch, report) to decoders and history of training."""


def _path(
    spectra: Spectra,
    features: Features,
    parameters: DecodersParameters,
    device: Device,
    scratch: Path,
    report: Report,
) -> tuple[Decoders, Tensor]:
    return fit_decoders(
        spectra,
        features,
        parameters,
        device=device.place,
        dtype=device.training,
        report=report,
        scratch=scratch,
    )


def _process(mean: str) -> Fit:
    def fit(
        spectra: Spectra,
        features: Features,
        parameters: DecodersParameters,  # noqa: ARG001
        device: Device,  # noqa: ARG001
        scratch: Path,  # noqa: ARG001
        report: Report,  # noqa: ARG001
    ) -> tuple[Decoders, Tensor]:
        return fit_processes(spectra, features, mean), torch.zeros(0, 1, len(spectra) + 1)

    return fit


KINDS: dict[str, Fit] = {
    "path": _path,
    "process_constant": _process("constant"),
    "process_linear": _process("linear"),
}

READERS: dict[str, Callable[[Path], Decoders]] = {
    "path": PathDecoders.read,
    "process": ProcessDecoders.read,
}


def read_decoders(path: Path) -> Decoders:
    """Read decoders of whatever kind.

    Raises:
        MissingArtifactError, CorruptArtifactError: there are none, they are damaged, or they are
            of no kind that there is.
    """
    _, metadata = read_weights(path)
    kind = metadata.get("kind")
    if kind not in READERS:
        raise CorruptArtifactError(path, f"holds decoders of kind {kind}, not of {list(READERS)}")
    return READERS[kind](path)
