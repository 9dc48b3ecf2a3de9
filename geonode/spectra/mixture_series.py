"""Spectra of samples with known amounts of several substances."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from geonode.spectra.preprocessing import Preprocessing
from geonode.spectra.series import labelled


@dataclass(frozen=True, eq=False)
class MixtureSeries:
    """Samples of several substances on one spectral axis.

    Attributes:
        samples: names of the samples, which may repeat.
        substances: names of the substances.
        units: of their amounts; "1" if unknown.
        amounts: of every substance in every sample.
        axis: spectral axis, ascending.
        signal: spectrum of every sample, preprocessed.
        labels: `signal`, `signal_unit`, `axis` and `axis_unit`.
        preprocessing: what was done to every spectrum.
    """

    samples: list[str]
    substances: tuple[str, ...]
    units: tuple[str, ...]
    amounts: Float[np.ndarray, "sample substance"]
    axis: Float[np.ndarray, "wavelength"]
    signal: Float[np.ndarray, "sample wavelength"]
    labels: dict[str, str]
    preprocessing: Preprocessing

    @property
    def axis_label(self) -> str:
        """Name and unit of the spectral axis."""
        return labelled(self.labels["axis"].replace("_", " "), self.labels["axis_unit"])

    @property
    def named(self) -> list[str]:
        """Substances with their units."""
        return [labelled(*one) for one in zip(self.substances, self.units, strict=True)]
