"""Use of a calibration: on unknowns with controls, a validation file, standards."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from geonode.calibration.calibration_file import CalibrationFile, M, read_unknown
from geonode.calibration.checks import TWO_SIGMA, Control, Validation, not_independent
from geonode.calibration.provenance import unchanged
from geonode.calibration.transfer import correction_by
from geonode.compute.device import CPU
from geonode.config import SpectraParameters
from geonode.errors import ParameterError, SpectraError
from geonode.estimation.axis import aligned, own_values, require_axis
from geonode.estimation.estimates import Estimate
from geonode.progress import Progress, silent
from geonode.reading.dilutions import factor_of, factors_of, require_every
from geonode.reading.files import (
    FORMATS,
    HIDDEN,
    UNCHOSEN,
    Choices,
    file_and_sheet,
    read_known,
    read_unknown_beside,
)
from geonode.reading.headers import same_unit
from geonode.reading.refusals import errors_naming
from geonode.reading.series_file import known_sheet, samples_of
from geonode.reading.sheet import plain_name, to_number
from geonode.spectra.quantities import UNSAID, in_quantity, quantity_of
from geonode.spectra.series import Series
from geonode.spectra.table import Spectra
from geonode.wording import listed, quantity

OPTIONS = "options"
WILD = ("*", "?", "[")
EXCEL = ".xlsx"

Sample = tuple[Path, str]
"""File of an unknown spectrum, and its name there."""


@dataclass(frozen=True, eq=False)
class Known:
    """Spectra of known amounts, to judge or to correct a calibration."""

    file: Path  # their file
    spectra: Spectra  # on an axis that covers that of the series
    amounts: Float[np.ndarray, "spectrum substance"]  # theirs, of every substance

    @classmethod
    def read(cls, file: Path, series: Series, choices: Choices = UNCHOSEN) -> "Known":
        """Read a file of known amounts, in the units of a series, as one of that is read.

        Raises:
            SpectraError: it cannot be read, gives no amounts of the substances, or its unit or axis
                is another; or an amount is out of the range of the series.
        """
        choices = _suiting(file, choices)
        if series.is_of_one:
            spectra, levels, unit = read_known(file, choices)
            amounts, units = levels[:, None], [unit or "1"]
        else:
            spectra, amounts, units = _mixtures(file, choices, series.substances)
        with errors_naming(file):
            columns = amounts.T, series.amounts.T, units, series.units
            each = zip(series.substances, *columns, strict=True)
            for substance, column, own, unit, one in each:
                if "1" not in (unit, one) and not same_unit(unit, one):
                    raise SpectraError(
                        f"found concentrations in {unit}, expected {one} as in the calibration"
                    )
                low, high = float(own.min()), float(own.max())
                outside = (column < low) | (column > high)
                if outside.any():
                    at = int(outside.argmax())
                    raise SpectraError(
                        f"{_of(spectra.names[at], substance)}: found a concentration of "
                        f"{quantity(float(column[at]), one)}, expected {low:g} to "
                        f"{quantity(high, one)} as calibrated; leave it out"
                    )
            require_axis(series, spectra)
        return cls(file, in_quantity(file, series.labels, spectra), amounts)


@dataclass(frozen=True, eq=False)
class Routine:
    """Files that a calibration is used on, read before anything is computed."""

    unknowns: dict[Path, Spectra]  # spectra by file
    controls: dict[Sample, tuple[str, list[float]]]
    """Names and known amounts of every substance of the controls among them."""
    validation: Known | None  # samples to judge the calibration by
    standards: Known | None  # samples to correct it by
    dilutions: dict[Sample, float]  # factors by which they were diluted; others were not
    align: bool  # whether a constant shift of the axis of a file is corrected
    asked: dict[str, Any]  # options that these were read with
    files: dict[Path, str]  # SHA-256 of all files that were read

    @classmethod
    def read(
        cls,
        series: Series,
        unknowns: list[Path],
        controls: list[str],
        validation: Path | None,
        standards: Path | None,
        choices: Choices = UNCHOSEN,
        beside: Path | None = None,
        dilution: str | None = None,
        *,
        align: bool = False,
    ) -> "Routine":
        """Read all files.

        Args:
            series: of the calibration.
            unknowns: files, patterns of names, and folders of tables.
            controls: each NAME=CONCENTRATION, of several substances NAME=AMOUNT,AMOUNT in their
                order.
            validation: samples to judge by.
            standards: samples to correct by.
            choices: what files leave open: the sheet of all workbooks, and where those of known
                concentration have it.
            beside: file of the series, which may have unknowns too.
            dilution: the factor by which all unknowns but controls were diluted, or a table with a
                column of names and one that is called dilution.
            align: whether to correct a constant shift of the axis of every file.

        Raises:
            SpectraError: a file cannot be read, or its axis, unit or range is another, or a
                dilution is none.
            ParameterError: a control is no number, or none of the spectra; or there are standards
                of several substances, a sheet of no workbook, or options of unknowns without any.
        """
        several = () if series.is_of_one else series.substances
        if several and standards:
            expected = "none: a line corrects one substance, which calibrate --target NAME takes"
            raise ParameterError(OPTIONS, "--standards", str(standards), expected)
        known = [_control(one, several) for one in controls]
        tables, known_files = tables_of(unknowns), [one for one in (validation, standards) if one]
        table = choices.concentrations if known_files else None
        second = [file_and_sheet(table)[0]] if table else []
        listed_in = None if dilution is None or factor_of(dilution) else Path(dilution)
        second += [listed_in] if listed_in else []
        every = [*tables, *known_files, *second, *([beside] if beside else [])]
        if choices.sheet and not any(one.suffix.lower() == EXCEL for one in every):
            raise ParameterError(OPTIONS, "--sheet", choices.sheet, "a workbook to read it from")
        with unchanged(*tables, *known_files, *second) as files:
            factors = factors_of(listed_in) if listed_in else {}
            spectra = {
                one: read_unknown(one, series, _suiting(one, choices).sheet) for one in tables
            }
            judge, correct = (
                None if one is None else Known.read(one, series, choices)
                for one in (validation, standards)
            )
        if beside and (here := read_unknown_beside(beside, missing="mask", choices=choices)):
            spectra[beside] = in_quantity(beside, series.labels, here)
        if not spectra:
            _refuse_of_unknowns(controls, dilution, align and not known_files)
        names = {
            (path, name): _names(path, name, alone=len(one.names) == 1)
            for path, one in spectra.items()
            for name in one.names
        }
        checks = _controls_among(names, known)
        diluted = {sample: own for sample, own in names.items() if sample not in checks}
        dilutions = dict.fromkeys(diluted, factor_of(dilution or "1"))
        if listed_in:
            require_every(listed_in, factors, diluted.values())
            each = [(sample, name) for sample, own in names.items() for name in own]
            dilutions = {sample: factors[name] for sample, name in each if name in factors}
        chosen = asdict(choices).items()
        asked = {key: value for key, value in chosen if value != getattr(UNCHOSEN, key)}
        read = spectra | {one.file: one.spectra for one in (judge, correct) if one}
        done = {path: one.converted for path, one in read.items() if one.converted}
        asked |= {f"conversion of {path}": said for path, said in done.items()}
        asked |= {"dilution": dilution} if dilution else {}
        return cls(spectra, checks, judge, correct, dilutions, align, asked, files)

    def used(self, file: CalibrationFile[M], report: Progress = silent) -> CalibrationFile[M]:
        """A calibration, corrected by the standards, with all estimates.

        Args:
            file: without any.
            report: called with the number of spectra of every file of unknowns.

        Raises:
            SpectraError: standards do not determine a line, or an axis is too coarse or, aligned,
                does not cover that of the series.
        """
        if self.align:
            file, used = self._aligned(file)
            return used.used(file, report)
        if self.standards:
            given, by = self.standards, file.model.on(CPU)
            found = file.estimated(given.file, given.spectra)
            by_line = np.array([one.amounts[0] for one in found])
            about = str(given.file), given.spectra.names, given.amounts[:, 0], by_line
            second = own_values(file.series, given.spectra)
            correction = correction_by(about, second, file.series, lambda one: by(one)[0][0])
            file = replace(file, correction=correction)
        if self.validation:
            found = file.estimated(self.validation.file, self.validation.spectra)
            each = enumerate(zip(file.substances, self.validation.amounts.T, strict=True))
            name, level = str(self.validation.file), file.model.level
            judged = [
                Validation(_of(name, substance), known, found, place, level)
                for place, (substance, known) in each
            ]
            file = replace(file, validations=judged)
        same = Counter(path.name for path in self.unknowns)
        controls: list[Control] = []
        for path, spectra in self.unknowns.items():
            name = path.name if same[path.name] == 1 else str(path)
            found = [
                one.undiluted(self.dilutions.get((path, one.name), 1.0))
                for one in file.estimated(path, spectra)
            ]
            file = replace(file, unknowns=[*file.unknowns, (name, found)])
            controls += self._controls(file, path, name, found)
            report(len(spectra.names))
        return replace(file, doubts=self._doubts(file.series), controls=controls)

    def _doubts(self, series: Series) -> list[str]:
        """Sentences on spectra that judge or correct, and were calibrated or corrected with."""
        judging = [*self.unknowns.items()] if self.controls else []
        judging += [(one.file, one.spectra) for one in (self.validation,) if one]
        correcting = [(one.file, one.spectra) for one in (self.standards,) if one]
        pairs = [("calibrated", series.scans[1], correcting + judging)]
        pairs += [("corrected", own_values(series, one), judging) for _, one in correcting]
        doubts = [
            not_independent(str(path), spectra.names, own_values(series, spectra), others, done)
            for done, others, files in pairs
            for path, spectra in files
        ]
        return list(dict.fromkeys(filter(None, doubts)))

    def _controls(
        self, file: CalibrationFile[M], path: Path, called: str, found: list[Estimate]
    ) -> list[Control]:
        """Controls among the estimates of a file, of every substance."""
        spectra, controls = self.unknowns[path], []
        for at, one in enumerate(found):
            if (path, one.name) not in self.controls:
                continue
            name, amounts = self.controls[path, one.name]
            alone = replace(spectra, names=[one.name], values=spectra.values[[at]])
            wide = file.at(TWO_SIGMA).estimated(path, alone)[0].undiluted(one.dilution)
            each = enumerate(zip(file.substances, amounts, strict=True))
            controls += [
                Control.of(called, _of(name, of), known, one, wide, place)
                for place, (of, known) in each
            ]
        return controls

    def _aligned(self, file: CalibrationFile[M]) -> tuple[CalibrationFile[M], "Routine"]:
        """The calibration that tells of shifts, and spectra without them."""
        moved: dict[Path, Spectra] = {}
        model: Any = file.model
        curve, said = getattr(model.calibration, "curve", None), []
        judge, correct = self.validation, self.standards
        known = {one.file: one.spectra for one in (judge, correct) if one}
        for path, spectra in (self.unknowns | known).items():
            with errors_naming(path):
                values = own_values(file.series, spectra)
                moved[path], shift = aligned(curve, file.series, spectra, values)
            unit = file.series.labels["axis_unit"].removeprefix("1")
            if shift:
                said.append(f"{path}: its axis was off by {shift:.4g} {unit}".rstrip())
        used = replace(
            self,
            unknowns={path: moved[path] for path in self.unknowns},
            validation=judge and replace(judge, spectra=moved[judge.file]),
            standards=correct and replace(correct, spectra=moved[correct.file]),
            align=False,
        )
        return replace(file, aligned=said), used


UNUSED = Routine({}, {}, None, None, {}, False, {}, {})
"""A calibration that was not used yet."""


def tables_of(given: list[Path]) -> list[Path]:
    """Files that are meant by files, patterns such as day1/*.csv, and folders of tables.

    Raises:
        SpectraError: there is none, or one is meant twice.
    """
    found: list[Path] = []
    for one in given:
        tables = [one]
        if not one.exists() and any(mark in str(one) for mark in WILD):
            base = Path(one.anchor)
            entries = sorted(base.glob(str(one.relative_to(base))))
            tables = [entry for entry in entries if not entry.name.startswith(HIDDEN)]
        elif one.is_dir() and one.suffix.lower() != ".zarr":
            entries = sorted(one.iterdir())
            tables = [entry for entry in entries if entry.suffix.lower() in FORMATS]
            tables = [entry for entry in tables if not entry.name.startswith(HIDDEN)]
        if not tables:
            raise SpectraError(f"{one}: found no file of spectra, expected one or more")
        for table in tables:
            if table.resolve() in {other.resolve() for other in found}:
                raise SpectraError(f"{table}: found this file twice, expected every file once")
            found.append(table)
    return found


def _suiting(file: Path, choices: Choices) -> Choices:
    """Choices without the sheet, which only workbooks have."""
    return choices if file.suffix.lower() == EXCEL else replace(choices, sheet=None)


def _names(path: Path, name: str, *, alone: bool) -> list[str]:
    """Name of a spectrum, and that of its file if it is alone, as it often has none of its own."""
    return list(dict.fromkeys(map(plain_name, [name, path.stem] if alone else [name])))


def _of(name: str, substance: str) -> str:
    return f"{name}, {substance}" if substance else name


def _refuse_of_unknowns(controls: list[str], dilution: str | None, align: bool) -> None:
    """Refuse options of unknowns, as there are none."""
    for option, given in (("--control", controls), ("--dilution", dilution), ("--align", align)):
        if given:
            raise ParameterError(OPTIONS, option, given, "spectra of unknowns (--unknown) too")


def _controls_among(
    names: dict[Sample, list[str]], known: list[tuple[str, list[float]]]
) -> dict[Sample, tuple[str, list[float]]]:
    """Controls by the spectra that have their names."""
    controls: dict[Sample, tuple[str, list[float]]] = {}
    for name, amounts in known:
        found = [sample for sample, own in names.items() if name in own]
        if not found:
            such = ", ".join(sorted({*chain(*names.values())})[:3])
            expected = f"the name of a spectrum, such as {such}"
            raise ParameterError(OPTIONS, "--control", name, expected)
        if not controls.keys().isdisjoint(found):
            raise ParameterError(OPTIONS, "--control", name, "every name once")
        controls |= dict.fromkeys(found, (name, amounts))
    return controls


def _control(text: str, several: Sequence[str]) -> tuple[str, list[float]]:
    name, _, numbers = text.rpartition("=")
    found = [to_number(one) for one in (numbers.split(",") if several else [numbers])]
    known = [one for one in found if one is not None and 0 <= one < np.inf]
    if not name or not len(known) == len(found) == max(len(several), 1):
        expected = "NAME=CONCENTRATION, a number that is not negative, such as QC=20"
        if several:
            such = ",".join("20" for _ in several)
            expected = f"NAME and amounts of {listed([*several])}, none negative, such as QC={such}"
        raise ParameterError(OPTIONS, "--control", text, expected)
    return plain_name(name), known


def _mixtures(
    file: Path, choices: Choices, substances: tuple[str, ...]
) -> tuple[Spectra, Float[np.ndarray, "spectrum substance"], list[str]]:
    """Spectra of a table of mixtures as they were measured, with the amounts of substances."""
    second = None if choices.concentrations is None else str(choices.concentrations)
    asked = SpectraParameters(
        source=str(file),
        quantity=UNSAID,
        sheet=choices.sheet,
        concentrations=second,
        target=choices.target,
        concentration_unit=None,
    )
    sheet = known_sheet(asked)
    found = samples_of(sheet, asked)[2] if sheet.sure_amounts else None
    if found is None or {*found.substances} != {*substances}:
        there = "one amount, or none" if found is None else listed([*found.substances])
        raise SpectraError(f"{file}: found {there}, expected amounts of {listed([*substances])}")
    places = [found.substances.index(one) for one in substances]
    about = found.axis, found.labels["axis"], found.labels["axis_unit"]
    quantity = quantity_of(found.labels["signal"])
    spectra = Spectra([*found.samples], *about, found.signal, np.empty(0), quantity)
    return spectra, found.amounts[:, places], [found.units[at] for at in places]
