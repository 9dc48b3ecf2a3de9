"""Calibration with the series of one file, and what its page and tables say about it."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Float, Int

from geonode.calibration.checks import Control, Correction, Validation
from geonode.calibration.diagnostics import Diagnostics
from geonode.calibration.fit import Calibration
from geonode.calibration.limits import Limit, limits
from geonode.calibration.methods import (
    OF_COMPONENTS,
    OF_ONE_WAVELENGTH,
    PREPROCESSED,
    folds_of,
    most_sensitive,
)
from geonode.calibration.verdict import NAMES
from geonode.errors import ArtifactError, TrainingError
from geonode.estimation.axis import own_values, require_axis
from geonode.estimation.curve import Curve
from geonode.estimation.model import SpectralModel
from geonode.estimation.tables import EstimateRow, estimated
from geonode.learning.predicted import Predicted
from geonode.parameters_file import default_parameters
from geonode.posterior.next_levels import Proposal, propose
from geonode.progress import Progress, silent
from geonode.reading.files import errors_naming, read_spectra
from geonode.spectra.arrays import real_array
from geonode.spectra.mixture_series import MixtureSeries
from geonode.spectra.quantities import in_quantity
from geonode.spectra.series import Series, require_response
from geonode.spectra.table import Spectra
from geonode.wording import quantity

MOST_WITH_MIDDLES = 12
"""Largest number of levels between which predictions are tabulated too."""

PROPOSALS = 3
"""Number of concentrations that are proposed for the next measurement."""

PREDICTED = 65
"""Number of concentrations at which spectra are predicted for tables and figures."""


def read_unknown(file: Path, series: Series | MixtureSeries, sheet: str | None = None) -> Spectra:
    """Read spectra of unknown concentration, whose axis must cover that of a series.

    Args:
        file: any file of spectra.
        series: the series.
        sheet: of a workbook.

    Raises:
        SpectraError: they cannot be read, their axis does not cover that of the series, or they are
            of another quantity that is not converted exactly.
    """
    spectra = read_spectra(file, sheet_name=sheet)
    with errors_naming(file):
        require_axis(series, spectra)
    return in_quantity(file, series.labels, spectra)


def require_numbers(amounts: Float[np.ndarray, "..."], ends: Float[np.ndarray, "..."]) -> None:
    """Refuse estimates that are no numbers, which a calibration file that was changed may give.

    Args:
        amounts: finite.
        ends: of intervals; they may be infinite.

    Raises:
        ArtifactError: they are not.
    """
    if not np.isfinite(amounts).all() or np.isnan(ends).any():
        raise ArtifactError(
            "calibration: found estimates that are no numbers, expected a calibration file as it "
            "was written; calibrate again"
        )


@runtime_checkable
class Estimate(Protocol):
    """Estimates of one unknown spectrum, whatever estimated it."""

    @property
    def name(self) -> str:
        """Name of the spectrum."""

    @property
    def fits(self) -> bool:
        """Whether the spectrum may be one of those calibrated with."""

    @property
    def numbers(self) -> list[tuple[float, float, float]]:
        """Amount and ends of its 90% interval, of every substance."""

    @property
    def alternatives(self) -> Sequence[float]:
        """Of an ambiguous spectrum, the concentrations that are as likely."""

    def contains(self, amounts: Iterable[float]) -> list[bool]:
        """Whether intervals, or parts of the set, contain amounts, of every substance."""


E = TypeVar("E", bound=Estimate)
C = TypeVar("C", bound="AnyCalibration[Any]")


@dataclass(frozen=True, eq=False)
class AnyCalibration(ABC, Generic[E]):
    """What a calibration file holds, of one substance or several, and what it was used on.

    Attributes:
        source: name of the file calibrated with.
        series: what was measured.
        unknowns: files of unknown spectra, each with the estimates of its spectra.
        controls: samples of known amounts among the unknowns.
        validations: by samples that the calibration does not know, one of every substance.
        correction: of its estimates by standards.
        about: source and options of the calibration, for records.
        record: of these results.
    """

    source: str
    series: Any
    unknowns: list[tuple[str, list[E]]] = field(default_factory=list, kw_only=True)
    controls: list[Control] = field(default_factory=list, kw_only=True)
    validations: list[Validation] = field(default_factory=list, kw_only=True)
    correction: Correction | None = field(default=None, kw_only=True)
    about: dict[str, str] = field(default_factory=dict, kw_only=True)
    record: list[tuple[str, str]] = field(default_factory=list, kw_only=True)

    @property
    @abstractmethod
    def method(self) -> str:
        """Name, for people, of what estimates."""

    @property
    @abstractmethod
    def unit(self) -> str:
        """Unit of all amounts; "1" if it is not known, or not one."""

    @property
    @abstractmethod
    def substances(self) -> list[str]:
        """What estimates are of, to be added to names; with units if these differ."""

    @abstractmethod
    def estimated(self, file: Path, spectra: Spectra) -> list[E]:
        """Estimates of measured spectra, with the correction if there is one.

        Args:
            file: theirs, for messages.
            spectra: of `read_unknown`.

        Raises:
            SpectraError: interpolated to their axis, what was calibrated with would be estimated
                wrongly, or a spectrum is too flat for a step of the preprocessing.
        """

    def estimate(
        self, spectra: Any
    ) -> tuple[Float[np.ndarray, "unknown *substance"], Float[np.ndarray, "unknown *substance 2"]]:
        """Amounts of unknown spectra, of one substance or of each, and their 90% intervals.

        Args:
            spectra: array-like of shape (unknown, wavelength), as measured, on the axis of the
                series; they are preprocessed as it was.

        Raises:
            SpectraError: as `real_array`, or spectra are too flat or have other wavelengths.
        """
        axis = self.series.axis
        spectra = real_array(spectra, "spectra", unknown=None, wavelength=len(axis))
        names = [str(place) for place in range(len(spectra))]
        return self._estimates(self.series.preprocessing.require(axis, spectra, names))

    @abstractmethod
    def _estimates(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Estimates of preprocessed spectra, as of `estimate`."""

    def with_unknown(self: C, file: Path, spectra: Spectra, name: str | None = None) -> C:
        """Calibration to which the estimates of a file of unknown spectra are added.

        Args:
            file: the file.
            spectra: of `read_unknown`.
            name: of the file, for tables; None: without its folder.
        """
        unknowns = [*self.unknowns, (name or file.name, self.estimated(file, spectra))]
        return replace(self, unknowns=unknowns)

    @property
    def misfits(self) -> list[str]:
        """Names of the unknown spectra that fit nowhere."""
        return [one.name for _, found in self.unknowns for one in found if not one.fits]


class Unknown(NamedTuple):
    """Estimates of one unknown spectrum.

    Attributes:
        of_geonode: by geonode, with its verdict on the spectrum.
        concentration: by the chosen method.
        low, high: ends of its 90% interval.
        uncorrected: the concentration before a correction by standards.
        sets: parts of the interval, several where geonode estimates an ambiguous spectrum.
        alternatives: of an ambiguous spectrum, the concentrations that are as likely.
    """

    of_geonode: EstimateRow
    concentration: float
    low: float
    high: float
    uncorrected: float
    sets: list[list[float]]
    alternatives: Sequence[float]

    @property
    def name(self) -> str:
        """Name of the spectrum."""
        return self.of_geonode.name

    @property
    def fits(self) -> bool:
        """Whether the spectrum may be one of the series."""
        return self.of_geonode.fits

    @property
    def numbers(self) -> list[tuple[float, float, float]]:
        """The concentration and the ends of its interval."""
        return [(self.concentration, self.low, self.high)]

    def contains(self, amounts: Iterable[float]) -> list[bool]:
        """Whether a part of the interval contains the one amount."""
        return [any(low <= one <= high for low, high in self.sets) for one in amounts]


@dataclass(frozen=True, eq=False)
class CalibratedFile(AnyCalibration[Unknown]):
    """Calibration with the series of a file, as its page and tables show it.

    Attributes:
        calibration: of the mean spectra of its levels, with a curve; unknowns are single scans.
        curve: of geonode.
    """

    series: Series
    calibration: Calibration
    curve: Curve

    @classmethod
    def of(
        cls, source: str, series: Series, *, method: str = "auto", report: Progress = silent
    ) -> "CalibratedFile":
        """Calibrate with a series; `report` is called for `steps` units.

        Raises:
            ParameterError: there is no such method.
            TrainingError: geonode takes no part, which predicts spectra: they are all zero, or
                levels are too far apart.
        """
        levels, spectra = series.concentrations, series.signal
        require_response(spectra)
        found = Calibration.fit(
            spectra,
            levels,
            method=method,
            scans=scans_of(series),
            preprocessed=bool(series.preprocessing.steps),
            report=report,
        )
        if found.curve is None:
            raise TrainingError(found.absent)
        return cls(source, series, found, found.curve)

    @staticmethod
    def steps(series: Series) -> int:
        """Units of work of `of`."""
        levels = series.concentrations
        return int(folds_of(levels, np.arange(len(levels))).max()) + 1

    def estimated(self, file: Path, spectra: Spectra) -> list[Unknown]:
        """Estimates of measured spectra, as of `AnyCalibration`."""
        with errors_naming(file):
            rows = estimated(self.curve, self.series, spectra)
            values = own_values(self.series, spectra)
        of_geonode = np.array([(row.mode, row.mean, row.p_value) for row in rows])
        require_numbers(of_geonode, np.array([(row.sets or [(np.nan,) * 2])[0] for row in rows]))
        raw, ends = self.calibration.estimate(values)
        require_numbers(raw, ends)
        used = self.correction.applied(raw, ends) if self.correction else (raw, ends)
        numbers = np.column_stack([*used, raw]).tolist()
        each = zip(rows, map(tuple, numbers), strict=True)
        return [self._unknown(row, four) for row, four in each]

    def _unknown(self, row: EstimateRow, numbers: tuple[float, float, float, float]) -> Unknown:
        """Estimates of one spectrum by geonode, with the numbers of the chosen method."""
        if self.calibration.law is not None or not row.ambiguous:
            return Unknown(row, *numbers, sets=[[*numbers[1:3]]], alternatives=())
        sets, several = np.array(row.sets), np.array(row.alternatives)
        if self.correction:
            several = self.correction.intercept + self.correction.slope * several
            _, sets = self.correction.applied(sets.mean(axis=1), sets)
        return Unknown(row, *numbers, sets=sets.tolist(), alternatives=several.tolist())

    def _estimates(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = self.calibration.estimate(values)
        require_numbers(*found)
        return self.correction.applied(*found) if self.correction else found

    @cached_property
    def limits(self) -> list[Limit]:
        """Limits of detection and of quantification."""
        return limits(self.series, self.calibration, self.curve)

    @cached_property
    def scans(self) -> tuple[Int[np.ndarray, "scan"], Float[np.ndarray, "scan wavelength"]]:
        """Place of the level of every scan, and its spectrum."""
        return scans_of(self.series)

    @property
    def substances(self) -> list[str]:
        """One, without a name."""
        return [""]

    @property
    def counted(self) -> str:
        """Number of levels."""
        return f"{len(self.series.concentrations)} levels"

    @property
    def method(self) -> str:
        """Name, for people, of the method that estimates."""
        return NAMES[self.calibration.method]

    @cached_property
    def place(self) -> int:
        """Place of the most sensitive wavelength, that of the lines."""
        return most_sensitive(self.series.concentrations, self.series.signal)

    @property
    def unit(self) -> str:
        """Unit of the concentrations."""
        return self.series.labels["concentration_unit"]

    def at(self, place: int) -> str:
        """A wavelength with its unit."""
        return quantity(float(self.series.axis[place]), self.series.labels["axis_unit"], 4)

    @cached_property
    def sentence(self) -> str:
        """The verdict with its warnings, and the method that estimates if it is another one."""
        wavelengths = dict.fromkeys(OF_ONE_WAVELENGTH, self.at(self.place))
        best = self.calibration.fitted["single_wavelength"].option
        wavelengths["single_wavelength"] = self.at(best)
        verdict = self.calibration.verdict
        said = [verdict.sentence(self.unit, wavelengths), *self.calibration.warnings]
        if verdict.chosen is None or verdict.chosen.key != self.calibration.method:
            said.insert(1, f"Unknown spectra are estimated by {self.method}.")
        return " ".join(said)

    @property
    def is_sound(self) -> bool:
        """Whether a method can be used, and there is no warning about the one that estimates."""
        return self.calibration.verdict.chosen is not None and not self.calibration.warnings

    def range_remark(self, concentration: float) -> str | None:
        """Remark on an estimate beyond the levels; None for one within them."""
        levels = self.series.concentrations
        if levels[0] <= concentration <= levels[-1] or (levels[0] == 0 > concentration):
            return None
        side, end = ("above", -1) if concentration > levels[-1] else ("below", 0)
        level = quantity(float(levels[end]), self.unit)
        return f"{side} the range: beyond the level of {level}, extrapolated"

    @cached_property
    def places(self) -> Float[np.ndarray, "target"]:
        """Concentrations of `predictions`: those of `tabulated`, and others along the curve."""
        levels, nodes = self.series.concentrations, self.curve.concentrations
        inside = nodes[(nodes >= levels[0]) & (nodes <= levels[-1])]
        even = inside[np.linspace(0, len(inside) - 1, PREDICTED).round().astype(int)]
        return np.union1d(self.tabulated, even)

    @cached_property
    def tabulated(self) -> Float[np.ndarray, "target"]:
        """The levels and, unless there are many, the midpoints between neighbours."""
        levels = self.series.concentrations
        middles = (levels[1:] + levels[:-1]) / 2
        return levels if len(levels) > MOST_WITH_MIDDLES else np.union1d(levels, middles)

    @cached_property
    def proposals(self) -> list[Proposal]:
        """Concentrations to measure next."""
        return propose(self.series.concentrations, self.series.signal, PROPOSALS)

    @cached_property
    def diagnostics(self) -> Diagnostics:
        """Of the method that estimates if it is PLS or PCR, else of PLS."""
        levels = self.series.concentrations
        key = (
            self.calibration.method
            if self.calibration.method in (*OF_COMPONENTS, PREPROCESSED)
            else "pls"
        )
        folds = folds_of(levels, np.arange(len(levels)))
        fitted = self.calibration.fitted[key]
        return Diagnostics.of(key, fitted, self.series.signal, levels, folds)

    @cached_property
    def predictions(self) -> Predicted:
        """Spectra at `places` by the posterior over metrics."""
        parameters = default_parameters({"preset": "fast", "device": "cpu"})
        return SpectralModel.fit(self.series, parameters).predict(self.places)


def scans_of(
    series: Series,
) -> tuple[Int[np.ndarray, "scan"], Float[np.ndarray, "scan wavelength"]]:
    """Scans behind the levels of a series: the index of its level and the spectrum of each."""
    level = np.arange(len(series.signal))
    if series.replicates is None:
        return level, series.signal
    once = level[series.replicates.scans == 1]
    repeated = series.replicates.level
    scans = series.signal[repeated] + series.replicates.deviations
    return np.append(once, repeated), np.concatenate([series.signal[once], scans])
