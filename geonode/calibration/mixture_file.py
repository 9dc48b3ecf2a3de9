"""Calibration of several substances with one file, and what its page and tables say about it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from scipy.special import stdtrit  # scipy.stats takes 0.3 s to import

from geonode.calibration.calibrated_file import AnyCalibration, require_numbers
from geonode.compute.device import moved
from geonode.errors import MixtureError
from geonode.estimation.axis import own_values, require_resolution
from geonode.estimation.posterior import CPU
from geonode.mixtures.design import Design, errors_of_file
from geonode.mixtures.mixture import NAMES, MixtureCalibration, MixtureEstimates
from geonode.progress import Progress, silent
from geonode.reading.files import errors_naming
from geonode.spectra.mixture_series import MixtureSeries
from geonode.spectra.table import Spectra
from geonode.wording import listed, number, quantity

METHODS = {"combined": "combined", **NAMES}
"""Names of all that is compared, for people."""

LARGEST_ERROR = 0.25
"""RMSEP over the range, from which a substance is not estimated."""


class UnknownMixture(NamedTuple):
    """Estimates of one unknown spectrum.

    Attributes:
        name: of the spectrum.
        fits: whether it is like those of the samples.
        numbers: amount and ends of its 90% interval, of every substance.
        remark: that it fits nowhere, or which amounts are extrapolated.
    """

    name: str
    fits: bool
    numbers: list[tuple[float, float, float]]
    remark: str
    alternatives: Sequence[float] = ()

    def contains(self, amounts: Iterable[float]) -> list[bool]:
        """Whether intervals contain amounts, of every substance."""
        each = zip(amounts, self.numbers, strict=True)
        return [bool(low <= one <= high) for one, (_, low, high) in each]


@dataclass(frozen=True, eq=False)
class MixtureFile(AnyCalibration[UnknownMixture]):
    """Calibration of the substances of a file, as its page and tables show it.

    Attributes:
        calibration: of all substances together.
    """

    series: MixtureSeries
    calibration: MixtureCalibration

    @classmethod
    def of(cls, source: str, series: MixtureSeries, report: Progress = silent) -> "MixtureFile":
        """Calibrate with the samples of a file; `report` is called for `steps` units.

        Raises:
            MixtureError: the amounts cannot calibrate, naming the file.
        """
        with errors_of_file(source):
            found = MixtureCalibration.of(
                series.signal,
                series.amounts,
                series.substances,
                preprocessed=bool(series.preprocessing.steps),
                report=report,
            )
        return cls(source, series, moved(found, CPU))

    @staticmethod
    def steps(series: MixtureSeries) -> int:
        """Units of work of `of`; 1 where the amounts will be refused."""
        try:
            return int(Design.of(series.amounts, series.substances).folds.max()) + 1
        except MixtureError:
            return 1

    def estimated(self, file: Path, spectra: Spectra) -> list[UnknownMixture]:
        """Estimates of measured spectra, as of `AnyCalibration`."""
        with errors_naming(file):
            require_resolution(self.calibration, self.series, spectra.axis)
            found = self.calibration.estimate(own_values(self.series, spectra))
        require_numbers(found.amounts, found.intervals)
        numbers = np.concatenate([found.amounts[..., None], found.intervals], axis=2).tolist()
        return [
            UnknownMixture(name, bool(fits), [*map(tuple, numbers[at])], self._remark(found, at))
            for at, (name, fits) in enumerate(zip(spectra.names, found.fits, strict=True))
        ]

    def _estimates(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = self.calibration.estimate(values)
        require_numbers(found.amounts, found.intervals)
        return found.amounts, found.intervals

    @property
    def substances(self) -> list[str]:
        """Names of the substances, with units if these differ."""
        return self.series.named if self.unit == "1" else [*self.series.substances]

    @property
    def counted(self) -> str:
        """Numbers of samples and substances."""
        several = len(self.series.substances)
        return f"{len(self.series.samples)} samples of {several} substances"

    @property
    def method(self) -> str:
        """The methods with the largest weights."""
        best = zip(self.calibration.verdict, self.series.substances, strict=True)
        said = listed([f"{NAMES[key]} of {name}" for key, name in best])
        return f"all methods together, mostly {said}"

    @property
    def unit(self) -> str:
        """Unit of all amounts; "1" if they have several."""
        units = {*self.series.units}
        return units.pop() if len(units) == 1 else "1"

    @property
    def centre(self) -> Float[np.ndarray, "substance"]:
        """Mean amounts of the samples."""
        return self.series.amounts.mean(axis=0)

    @property
    def pure(self) -> Float[np.ndarray, "wavelength substance"]:
        """Derivatives of the spectrum by every amount, at the centre (signal per amount).

        Without a response surface there are none, of no substance.
        """
        forward = self.calibration.surface
        if forward is None:
            return np.zeros((len(self.series.axis), 0))
        _, slopes, _ = forward.surface.at(torch.from_numpy(self.centre)[None])
        return forward.directions @ slopes[0].numpy()

    @property
    def pure_half_widths(self) -> Float[np.ndarray, "wavelength substance"]:
        """Half widths of the 90% intervals of `pure`, by the law of the left-out residuals."""
        forward = self.calibration.surface
        if forward is None:
            return np.zeros((len(self.series.axis), 0))
        surface = forward.surface
        relative = surface.slope_variances(torch.from_numpy(self.centre)[None])[0].sqrt().numpy()
        residuals = (surface.residuals / surface.relative.sqrt()[:, None]).numpy()
        scale = np.sqrt(np.mean((residuals @ forward.directions.T) ** 2, axis=0))
        freedom = max(self.calibration.design.compositions - len(relative) - 1, 3)
        return stdtrit(freedom, 0.95) * scale[:, None] * relative

    @property
    def of_range(self) -> Float[np.ndarray, "substance"]:
        """RMSEP of the combined estimates over the range of the amounts."""
        return self.calibration.rmsep["combined"] / self.calibration.design.ranges

    @property
    def is_sound(self) -> bool:
        """Whether every substance is estimated better than its range says."""
        return bool((self.of_range <= LARGEST_ERROR).all())

    @property
    def sentence(self) -> str:
        """Sentence on the substances calibrated, and how far off each is."""
        series, errors = self.series, self.calibration.rmsep["combined"].tolist()
        said = [
            f"{name} {quantity(error, unit)} ({number(100 * relative, 2)} % of its range)"
            for name, unit, error, relative in zip(
                series.substances, series.units, errors, self.of_range.tolist(), strict=True
            )
        ]
        poor = [series.substances[at] for at in np.flatnonzero(self.of_range > LARGEST_ERROR)]
        warning = f" Do not rely on {listed(poor)}: the errors are too large." if poor else ""
        found = (
            f"{listed([*series.substances])} are calibrated together. Errors of left-out samples "
            f"(RMSEP): {listed(said)}.{warning}"
        )
        return f"{found} {self.calibration.design.without_surface}".rstrip()

    def _remark(self, found: MixtureEstimates, unknown: int) -> str:
        if not found.fits[unknown]:
            return "fits nowhere: unlike the samples, the numbers mean nothing"
        names = [self.series.substances[at] for at in np.flatnonzero(found.outside[unknown])]
        several = len(found.parts[unknown]) > 1
        said = [f"outside the design in {listed(names)}: extrapolated"] if names else []
        return "; ".join([*said, *["several mixtures fit"] * several])
