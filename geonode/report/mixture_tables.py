"""Calibration of several substances with one file, and its tables."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float

from geonode import __version__
from geonode.errors import MixtureError
from geonode.estimation.axis import own_values
from geonode.mixtures.design import Design, errors_of_file
from geonode.mixtures.mixture import NAMES, MixtureCalibration, MixtureEstimates
from geonode.progress import Progress, silent
from geonode.report.page import Cell, Table
from geonode.spectra.mixture_series import MixtureSeries
from geonode.spectra.reading import Spectra, errors_naming
from geonode.spectra.series import labelled
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
        with errors_of_file(source):
            found = MixtureCalibration.of(series.signal, series.amounts, series.substances, report)
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


def tables(file: MixtureFile) -> list[Table]:
    """All tables, the summary first."""
    unknowns = [] if file.estimates is None else [_unknowns(file)]
    return [_summary(file), _errors(file), _left_out(file), *unknowns, _pure(file)]


def _summary(file: MixtureFile) -> Table:
    series, design = file.series, file.calibration.design
    low, high = series.axis[[0, -1]].tolist()
    rows: list[list[Cell]] = [
        ["verdict", file.sentence],
        ["file", file.source],
        ["samples", float(len(series.samples))],
        ["compositions", float(design.compositions)],
        ["substances", listed(series.named)],
        ["wavelengths", float(len(series.axis))],
        ["axis", f"{low:.10g} to {high:.10g} {series.labels['axis_unit']}".removesuffix(" 1")],
        ["made by", f"geonode {__version__} calibrate"],
    ]
    return Table("summary", "Summary", ["what", "value"], rows)


def _errors(file: MixtureFile) -> Table:
    found, rows = file.calibration, []
    ends, amounts = found.left_out_intervals, file.series.amounts
    held = ((ends[..., 0] <= amounts) & (amounts <= ends[..., 1])).sum(axis=0)
    columns = ["substance", *(f"RMSEP, {one}" for one in METHODS.values()), "best method"]
    columns += ["its weight", "RMSEP of the range", "inside the intervals", "lowest", "highest"]
    for place, name in enumerate(file.series.named):
        errors = [float(found.rmsep[key][place]) for key in METHODS]
        low, high = float(found.design.low[place]), float(found.design.high[place])
        weight, relative = found.weights[:, place].max(), file.of_range[place]
        best = NAMES[found.verdict[place]]
        inside = f"{held[place]} of {len(found.design.amounts)}"
        row: list[Cell] = [name, *errors, best, float(weight), float(relative), inside, low, high]
        rows.append(row)
    return Table("errors", "Errors of samples whose composition was left out", columns, rows)


def _left_out(file: MixtureFile) -> Table:
    found, columns = file.calibration, ["sample"]
    for name, unit in zip(file.series.substances, file.series.units, strict=True):
        of_one = ("measured", "estimated", "low90", "high90", "by geonode", "by PLS", "by PLS2")
        columns += [labelled(f"{name} {what}", unit) for what in of_one]
    ends = found.left_out_intervals
    others = [found.left_out[key] for key in ("geonode", "pls", "pls2")]
    each = [file.series.amounts, found.left_out["combined"], ends[..., 0], ends[..., 1], *others]
    values = np.stack(each, axis=2).reshape(len(ends), -1)
    rows: list[list[Cell]] = [
        [name, *row] for name, row in zip(file.series.samples, values.tolist(), strict=True)
    ]
    return Table("left_out", "Samples, estimated without their composition", columns, rows)


def _unknowns(file: MixtureFile) -> Table:
    found, columns = file.estimates, ["file", "spectrum", "fits", "remark"]
    assert found is not None
    for name, unit in zip(file.series.substances, file.series.units, strict=True):
        columns += [labelled(f"{name}{end}", unit) for end in ("", " low90", " high90")]
    numbers = np.concatenate([found.amounts[..., None], found.intervals], axis=2)
    rows: list[list[Cell]] = [
        [*names, bool(found.fits[place]), file.remark(place), *numbers[place].ravel().tolist()]
        for place, names in enumerate(file.unknowns)
    ]
    title = "Unknown spectra, all amounts estimated together, with 90% intervals"
    return Table("unknowns", title, columns, rows)


def _pure(file: MixtureFile) -> Table:
    of = zip(file.series.substances, file.series.units, strict=True)
    columns = [file.series.axis_label, *(f"d signal / d {labelled(*one)}" for one in of)]
    rows = [list(row) for row in np.column_stack([file.series.axis, file.pure]).tolist()]
    return Table(
        "pure", "Spectra of the substances: change of the signal per amount", columns, rows
    )
