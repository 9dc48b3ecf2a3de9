"""A calibration with one file, what it was used on, and the results."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from jaxtyping import Float

from geonode.calibration.checks import Control, Correction, Validation
from geonode.calibration.control_chart import Violation
from geonode.calibration.intervals import is_determined
from geonode.calibration.one_substance import OneSubstance
from geonode.calibration.several_substances import SeveralSubstances
from geonode.calibration.transfer import Transfer
from geonode.compute.device import CPU
from geonode.config import CalibrateParameters
from geonode.errors import ArtifactError
from geonode.estimation.axis import own_values, require_axis, require_resolution
from geonode.estimation.estimates import Estimate
from geonode.mixtures.design import errors_of_file
from geonode.progress import Progress, silent
from geonode.reading.files import read_spectra
from geonode.reading.refusals import errors_naming
from geonode.spectra.arrays import real_array
from geonode.spectra.quantities import in_quantity
from geonode.spectra.series import Series
from geonode.spectra.table import Spectra

M = TypeVar("M", bound=OneSubstance | SeveralSubstances)

DEFAULTS = CalibrateParameters()


def model_of(series: Series) -> type[OneSubstance] | type[SeveralSubstances]:
    """Type of the model that calibrates with a series."""
    return OneSubstance if series.is_of_one else SeveralSubstances


def read_unknown(file: Path, series: Series, sheet: str | None = None) -> Spectra:
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


@dataclass(frozen=True, eq=False)
class CalibrationFile(Generic[M]):
    """Calibration of one substance or several, and the results of its use."""

    source: str
    """Name of the file calibrated with."""
    model: M
    """Model that estimates."""
    about: dict[str, str] = field(default_factory=dict)
    """Source and options of the calibration, for records."""
    unknowns: list[tuple[str, list[Estimate]]] = field(default_factory=list)
    """Files of unknown spectra, each with the estimates of its spectra."""
    controls: list[Control] = field(default_factory=list)
    """Samples of known amounts among the unknowns."""
    violations: list[Violation] = field(default_factory=list)
    """Of Westgard's rules, by these controls after those of a history."""
    validations: list[Validation] = field(default_factory=list)
    """By samples that the calibration does not know, one of every substance."""
    correction: Correction | Transfer | None = None
    """Of its estimates by standards; of one substance."""
    aligned: list[str] = field(default_factory=list)
    """Sentences on files whose axis was shifted by a constant, which was corrected."""
    doubts: list[str] = field(default_factory=list)
    """Sentences on files of known amounts whose spectra were calibrated with."""
    record: list[tuple[str, str]] = field(default_factory=list)
    """Of these results."""

    @staticmethod
    def of(
        source: str,
        series: Series,
        parameters: CalibrateParameters = DEFAULTS,
        report: Progress = silent,
    ) -> "CalibrationFile[Any]":
        """Calibrate with a series.

        Args:
            source: name of its file.
            series: of one substance or several.
            parameters: method and freedoms.
            report: called for as many units as `model_of(series).steps(series)`.

        Raises:
            ParameterError: parameters do not suit the series.
            TrainingError, MixtureError: spectra or amounts cannot calibrate.
        """
        with errors_of_file(source):
            return CalibrationFile(source, model_of(series).fit(series, parameters, report))

    @property
    def series(self) -> Series:
        """Series that was measured."""
        return self.model.series

    @property
    def method(self) -> str:
        """Name, for people, of what estimates."""
        return self.model.method

    @property
    def unit(self) -> str:
        """Unit of all amounts; "1" if it is not known, or not one."""
        return self.series.unit

    @property
    def substances(self) -> list[str]:
        """Names of the substances, to be added to others; with units if these differ."""
        has_several_units = self.unit == "1" and not self.series.is_of_one
        return self.series.named if has_several_units else [*self.series.substances]

    def estimated(self, file: Path, spectra: Spectra) -> list[Estimate]:
        """Estimates of measured spectra, with the correction if there is one.

        Args:
            file: theirs, for messages.
            spectra: of `read_unknown`.

        Raises:
            SpectraError: interpolated to their axis, what was calibrated with would be estimated
                wrongly, or a spectrum is too flat for a step of the preprocessing.
            ArtifactError: estimates are no numbers.
        """
        with errors_naming(file):
            require_resolution(self.model, spectra.axis)
            values = own_values(self.series, spectra)
        if self.correction:
            values = self.correction.spectra(values)
        estimates = self.model.estimates(values, spectra.names)
        for one in estimates + [one.by_geonode for one in estimates if one.by_geonode]:
            ends = np.concatenate([np.ravel(parts or np.nan) for parts in one.sets])
            _require_numbers(np.array([*one.amounts, one.p_value or 0]), ends)
        if self.correction:
            estimates = [self.correction.of(one, self.model.level) for one in estimates]
        # Of an ambiguous spectrum the parts count, and not what is between them.
        determined = [
            is_determined(
                np.array([one.amounts[place] for one in estimates]),
                np.array([(0, one.length(place)) for one in estimates]),
                levels,
            )
            for place, levels in enumerate(self.series.amounts.T)
        ]
        remarks = [
            (self.model.range_remark(one) if one.fits else "", one.remark) for one in estimates
        ]
        each = zip(estimates, remarks, np.stack(determined, axis=1).tolist(), strict=True)
        return [
            replace(one, remark="; ".join(filter(None, texts)), determined=of_one)
            for one, texts, of_one in each
        ]

    def estimate(
        self, spectra: Any
    ) -> tuple[Float[np.ndarray, "unknown *substance"], Float[np.ndarray, "unknown *substance 2"]]:
        """Amounts of unknown spectra, of one substance or of each, and their intervals.

        Args:
            spectra: array-like of shape (unknown, wavelength), as measured, on the axis of the
                series; they are preprocessed as it was.

        Raises:
            SpectraError: as `real_array`, or spectra are too flat or have other wavelengths.
        """
        axis = self.series.axis
        spectra = real_array(spectra, "spectra", unknown=None, wavelength=len(axis))
        names = [str(place) for place in range(len(spectra))]
        values = self.series.preprocessing.transform(axis, spectra, names)
        if self.correction:
            values = self.correction.spectra(values)
        layers = self.model.on(CPU)(values)[0][: 3 * len(self.series.substances)]
        amounts, ends = layers[::3].T, np.stack([layers[1::3].T, layers[2::3].T], axis=2)
        _require_numbers(amounts, ends)
        if not self.series.is_of_one:
            return amounts, ends
        numbers = amounts[:, 0], ends[:, 0]
        return self.correction.applied(*numbers, self.model.level) if self.correction else numbers

    def at(self, level: float) -> "CalibrationFile[M]":
        """Copy of the calibration with sets of another level."""
        model: Any = self.model
        return replace(self, model=replace(model, level=level))


def _require_numbers(amounts: np.ndarray, ends: np.ndarray) -> None:
    """Refuse estimates of a changed file: amounts not finite, or ends of sets that are NaN."""
    if not np.isfinite(amounts).all() or np.isnan(ends).any():
        raise ArtifactError(
            "calibration: found estimates that are no numbers, expected a calibration file as it "
            "was written; calibrate again"
        )
