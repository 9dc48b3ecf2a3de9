"""Estimators of the pixels of an image by a calibration file."""

import re
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float

from geonode.calibration.calibrated_file import CalibratedFile
from geonode.calibration.mixture_file import MixtureFile
from geonode.compute.device import moved
from geonode.estimation.axis import require_resolution
from geonode.estimation.maps import AMBIGUOUS, FLAGS, MISFIT, OUTSIDE, Estimated, Estimating
from geonode.estimation.posterior import MISFIT as SMALLEST_P
from geonode.estimation.posterior import Law
from geonode.mixtures.mixture import MixtureCalibration
from geonode.spectra.mixture_series import MixtureSeries
from geonode.spectra.series import Series

ALL_FLAGS = FLAGS | {"outside_the_samples": OUTSIDE}


@dataclass(frozen=True)
class LevelPixels:
    """Pixels estimated by the method of a calibration of one substance; geonode says if they fit.

    Attributes:
        file: the calibration.
    """

    file: CalibratedFile
    flags = ALL_FLAGS

    @property
    def series(self) -> Series:
        """Levels of the calibration."""
        return self.file.series

    @property
    def layers(self) -> dict[str, tuple[str, str]]:
        """The concentration with its interval, and whether a pixel fits."""
        unit = self.file.unit
        return {
            "concentration": (unit, f"concentration by {self.file.method}"),
            "low90": (unit, "lower end of its 90% interval"),
            "high90": (unit, "upper end of its 90% interval"),
            "p_value": ("1", "p-value of a misfit as large"),
        }

    def require_resolution(self, axis: Float[np.ndarray, "found"]) -> None:
        """Refuse an axis too coarse to tell the levels apart."""
        require_resolution(self.file.curve, self.series, axis)

    def on(self, place: torch.device) -> Estimating:
        """Function that estimates complete spectra; the curve of geonode is on a device."""
        return partial(self._estimated, Law(self.file.curve, place))

    def _estimated(self, law: Law, spectra: np.ndarray) -> Estimated:
        found, calibration = law.summaries(spectra), self.file.calibration
        middle, low, high, ambiguous = found.mode, found.low, found.high, found.disconnected
        if calibration.law is not None:
            middle, ends = calibration.estimate(spectra, found.mode)
            (low, high), ambiguous = ends.T, np.zeros_like(ambiguous)
        levels = self.series.concentrations
        outside = ((middle < levels[0]) & (levels[0] > 0)) | (middle > levels[-1])
        flags = AMBIGUOUS * ambiguous + MISFIT * (found.p_value < SMALLEST_P) + OUTSIDE * outside
        return np.stack([middle, low, high, found.p_value]), flags.astype(np.uint8)


@dataclass(frozen=True)
class MixturePixels:
    """Pixels of which all substances are estimated together.

    Attributes:
        calibration: of the substances.
        series: its samples.
    """

    calibration: MixtureCalibration
    series: MixtureSeries
    flags = ALL_FLAGS

    @property
    def layers(self) -> dict[str, tuple[str, str]]:
        """The amount of every substance with its interval, and how far a pixel is off."""
        found = {}
        safe = [re.sub(r"\W+", "_", name) for name in self.series.substances]
        for place, (name, unit) in enumerate(zip(safe, self.series.units, strict=True)):
            own = name if safe.count(name) == 1 else f"{name}_{place + 1}"
            of = self.series.substances[place]
            found[f"amount_{own}"] = (unit, f"amount of {of}")
            found[f"low90_{own}"] = (unit, f"lower end of the 90% interval of {of}")
            found[f"high90_{own}"] = (unit, f"upper end of the 90% interval of {of}")
        return found | {"misfit": ("1", "distance from the samples over the largest that fits")}

    def require_resolution(self, axis: Float[np.ndarray, "found"]) -> None:
        """Refuse an axis too coarse to tell the samples apart."""
        require_resolution(self.calibration, self.series, axis)

    def on(self, place: torch.device) -> Estimating:
        """Function that estimates complete spectra on a device."""
        # torch loads its linear algebra for a GPU at the first use, which has to be by one thread
        # alone: https://github.com/pytorch/pytorch/issues/90613
        torch.linalg.inv(torch.ones(1, 1, device=place))
        return partial(_mixtures, moved(self.calibration, place))


def pixels_of(file: CalibratedFile | MixtureFile) -> LevelPixels | MixturePixels:
    """The estimator of pixels that a calibration file holds."""
    if isinstance(file, MixtureFile):
        return MixturePixels(file.calibration, file.series)
    return LevelPixels(file)


def _mixtures(calibration: MixtureCalibration, spectra: np.ndarray) -> Estimated:
    found = calibration.estimate(spectra)
    each = np.concatenate([found.amounts[..., None], found.intervals], axis=2)
    flags = AMBIGUOUS * (found.are_parts.sum(axis=1) > 1) + MISFIT * ~found.fits
    flags = flags + OUTSIDE * found.outside.any(axis=1)
    layers = np.vstack([each.reshape(len(spectra), -1).T, found.misfit])
    return layers, flags.astype(np.uint8)
