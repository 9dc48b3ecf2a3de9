"""Calibration of several substances with one file, and what its page and tables say about it."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float

from geonode.errors import MixtureError
from geonode.estimation.axis import own_values
from geonode.mixtures.design import Design
from geonode.mixtures.mixture import NAMES, MixtureCalibration, MixtureEstimates
from geonode.progress import Progress, silent
from geonode.spectra.mixture_series import MixtureSeries
from geonode.spectra.reading import Spectra, errors_naming
from geonode.wording import listed, number, quantity

METHODS = {"combined": "combined", **NAMES}
"""Names of all that is compared, for people."""

LARGEST_ERROR = 0.25
"""RMSEP over the range, from which a substance is not estimated."""


@dataclass(frozen=True, eq=False)
class MixtureFile:
    """Calibration of the substances of a file, as its page and tables show it.

    Attributes:
        source: name of the file.
        series: its samples.
        calibration: of all substances together.
        unknowns: name of the file and of every unknown spectrum.
        estimates: of all of them; None without any.
    """

    source: str
    series: MixtureSeries
    calibration: MixtureCalibration
    unknowns: list[tuple[str, str]]
    estimates: MixtureEstimates | None = None

    @classmethod
    def of(cls, source: str, series: MixtureSeries, report: Progress = silent) -> "MixtureFile":
        """Calibrate with the samples of a file; `report` is called for `steps` units.

        Raises:
            MixtureError: the amounts cannot calibrate, naming the file.
        """
        try:
            found = MixtureCalibration.of(series.signal, series.amounts, series.substances, report)
        except MixtureError as error:
            raise MixtureError(
                f"{source}: {error} (several amounts are calibrated together; --target NAME takes "
                "one alone)"
            ) from error
        return cls(source, series, found, [])

    @staticmethod
    def steps(series: MixtureSeries) -> int:
        """Units of work of `of`; 1 where the amounts will be refused."""
        try:
            return int(Design.of(series.amounts, series.substances).folds.max()) + 1
        except MixtureError:
            return 1

    def with_unknowns(self, files: dict[Path, Spectra]) -> "MixtureFile":
        """The same calibration, with estimates of unknown spectra.

        Raises:
            SpectraError: a spectrum is too flat for a step of the preprocessing.
        """
        values, named = [], []
        for file, spectra in files.items():
            with errors_naming(file):
                values.append(own_values(self.series, spectra))
            named += [(file.name, name) for name in spectra.names]
        if not values:
            return self
        found = self.calibration.estimate(np.concatenate(values))
        return replace(self, unknowns=named, estimates=found)

    @property
    def centre(self) -> Float[np.ndarray, "substance"]:
        """Mean amounts of the samples."""
        return self.series.amounts.mean(axis=0)

    @property
    def pure(self) -> Float[np.ndarray, "wavelength substance"]:
        """Derivatives of the spectrum by every amount, at the centre (signal per amount)."""
        forward = self.calibration.forward
        _, slopes, _ = forward.surface.at(torch.from_numpy(self.centre)[None])
        return forward.directions @ slopes[0].numpy()

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
        return (
            f"{listed([*series.substances])} are calibrated together. Errors of left-out samples "
            f"(RMSEP): {listed(said)}.{warning}"
        )

    def remark(self, unknown: int) -> str:
        """Remark on an unknown: that it fits nowhere, or which amounts are extrapolated."""
        assert self.estimates is not None
        if not self.estimates.fits[unknown]:
            return "fits nowhere: unlike the samples, the numbers mean nothing"
        outside = self.estimates.outside[unknown]
        names = [self.series.substances[at] for at in np.flatnonzero(outside)]
        several = len(self.estimates.parts[unknown]) > 1
        said = [f"outside the design in {listed(names)}: extrapolated"] if names else []
        return "; ".join([*said, *["several mixtures fit"] * several])
