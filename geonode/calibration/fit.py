"""A calibration: the default predictor fitted to a file, and all that is concluded from it."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Float

from geonode.calibration.limits import Limit, limits
from geonode.calibration.line import most_sensitive, straight_line
from geonode.calibration.verdict import Verdict
from geonode.decoders.blend import Prediction
from geonode.defaults import default_parameters
from geonode.devices.device import resolve
from geonode.estimation.axis import require_axis
from geonode.estimation.curve import Curve
from geonode.estimation.model import SpectralModel
from geonode.estimation.next_levels import Proposal, propose
from geonode.estimation.tables import EstimateRow, estimated
from geonode.progress import Progress, silent
from geonode.report.wording import quantity
from geonode.scores.calibrations import CALIBRATIONS, best_wavelength, estimate_left_out_by
from geonode.scores.estimation import LeftOutEstimates, estimate_left_out
from geonode.series_fit import fit_series
from geonode.spectra.reading import Spectra, errors_naming, read_spectra
from geonode.spectra.series import Series

MOST_WITH_MIDDLES = 12
"""Levels, whose middles are tabulated too."""

PROPOSALS = 3
"""Concentrations to measure next that are proposed."""

PREDICTED = 65
"""Concentrations at which spectra are predicted for tables and figures."""


def read_unknown(file: Path, series: Series) -> Spectra:
    """Spectra of unknown concentration on an axis that says all of that of a series.

    Raises:
        SpectraError: they cannot be read, or their axis misses something.
    """
    spectra = read_spectra(file)
    with errors_naming(file):
        require_axis(series, spectra)
    return spectra


@dataclass(frozen=True)
class Calibration:
    """Default predictor of a series, with its errors on left-out levels.

    Attributes:
        source: file of the series.
        model: of all levels.
        curve: of unknown single scans.
        left_out: estimate of every level by the fold without it.
        verdict: on all methods.
        place: of the most sensitive wavelength, that of the straight line.
        limits: of detection and of quantification.
        unknowns: names of files of unknown spectra, each with the estimates of its spectra.
    """

    source: str
    model: SpectralModel
    curve: Curve
    left_out: LeftOutEstimates
    verdict: Verdict
    place: int
    limits: list[Limit]
    unknowns: list[tuple[str, list[EstimateRow]]]

    @classmethod
    def of(cls, source: str, series: Series, report: Progress = silent) -> "Calibration":
        """Fit the predictor and measure its errors; `report` is called for `steps` units.

        Raises:
            TrainingError: the spectra are all zero, or levels are too far apart.
        """
        parameters = default_parameters({"preset": "fast", "device": "cpu"})
        blocks = (parameters.inner, parameters.metric, parameters.decoders)
        device = resolve(parameters.device, parameters.precision)
        learned, blend, _ = fit_series(series, blocks, device)
        model = SpectralModel.of(series, learned, blend)
        curve = Curve.of(model, one_scan=True)
        report(1)
        left_out = estimate_left_out(model, report)
        assert left_out is not None  # the preset has a posterior
        levels = series.concentrations
        methods = CALIBRATIONS | {"straight_line": straight_line}
        estimates = {name: estimate_left_out_by(one, series) for name, one in methods.items()}
        estimates["geonode"] = np.array([one.mode[0] for one in left_out.estimates])
        place = most_sensitive(levels, series.signal)
        verdict = Verdict.of(levels, estimates)
        found = limits(series, curve, verdict, place)
        report(1)
        return cls(source, model, curve, left_out, verdict, place, found, [])

    @staticmethod
    def steps(series: Series) -> int:
        """Units of work of `of`."""
        return len(series.concentrations) + 2

    def with_unknown(self, file: Path, spectra: Spectra) -> "Calibration":
        """Calibration with estimates of the spectra that `read_unknown` read of a file.

        Raises:
            SpectraError: on their axis the series itself is taken for other levels.
        """
        with errors_naming(file):
            rows = estimated(self.curve, self.series, spectra)
        return replace(self, unknowns=[*self.unknowns, (file.name, rows)])

    @property
    def series(self) -> Series:
        """Measured series."""
        return self.model.series

    @property
    def unit(self) -> str:
        """Unit of the concentrations."""
        return self.series.labels["concentration_unit"]

    def at(self, place: int) -> str:
        """A wavelength with its unit."""
        return quantity(float(self.series.axis[place]), self.series.labels["axis_unit"], 4)

    @cached_property
    def sentence(self) -> str:
        """The verdict."""
        best = best_wavelength(self.series.concentrations, self.series.signal)
        wavelengths = {"straight_line": self.at(self.place), "single_wavelength": self.at(best)}
        return self.verdict.sentence(self.unit, wavelengths)

    @cached_property
    def places(self) -> Float[np.ndarray, "target"]:
        """Concentrations of `predictions`: `tabulated`, and evenly between on the curve."""
        levels, nodes = self.series.concentrations, self.curve.concentrations
        inside = nodes[(nodes >= levels[0]) & (nodes <= levels[-1])]
        even = inside[np.linspace(0, len(inside) - 1, PREDICTED).round().astype(int)]
        return np.union1d(self.tabulated, even)

    @cached_property
    def tabulated(self) -> Float[np.ndarray, "target"]:
        """The levels and the middles between neighbours; of many levels these alone."""
        levels = self.series.concentrations
        middles = (levels[1:] + levels[:-1]) / 2
        return levels if len(levels) > MOST_WITH_MIDDLES else np.union1d(levels, middles)

    @cached_property
    def proposals(self) -> list[Proposal]:
        """Concentrations to measure next."""
        return propose(self.series.concentrations, self.series.signal, PROPOSALS)

    @cached_property
    def predictions(self) -> Prediction:
        """Spectra at `places`."""
        return self.model.predict(self.places)
