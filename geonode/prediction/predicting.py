"""Prediction of spectra at many concentrations, block by block, and the files written.

A table has one row per value, so that rows are written as they are computed. With columns for the
uncertainty geonode cannot read it back as spectra; without them it can. An artifact has the same
values as arrays by concentration and wavelength. Computed numbers have six significant digits
in a table, concentrations and wavelengths as many as they need.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from geonode.errors import ParameterError, SpectraError
from geonode.learning.predicted import Predicted
from geonode.parameter_types import Format
from geonode.posterior.prior import COVERAGE
from geonode.prediction.model import SpectralModel
from geonode.progress import Progress, silent
from geonode.reading.headers import role
from geonode.storage.atomic import replacing
from geonode.storage.large import batch_size, in_format
from geonode.storage.table import Column, Table, shortest
from geonode.wording import percent

BLOCK_SPECTRA = 256
COPIES = 4  # arrays of the size of a block's factors: those of every kind and of their mixture
MOST_CONCENTRATIONS = 100_000
_OPTIONS = "options"


@dataclass(frozen=True)
class PredictedBlock:
    """Predicted spectra of some concentrations."""

    start: int  # index of the first concentration among all requested
    concentrations: Float[np.ndarray, "target"]  # concentrations of the block
    predicted: Predicted  # their spectra, and the size of the errors to expect
    extrapolated: Bool[np.ndarray, "target"]  # whether a concentration is out of the measured range
    level: float = COVERAGE  # probability of the interval

    @property
    def values(self) -> tuple[Float[np.ndarray, "target wavelength"], ...]:
        """Signal, standard deviation and ends of the interval of the level, if there is any."""
        signal, (_, half) = self.predicted.spectra, self.predicted.band(self.level)
        ends = () if self.predicted.half_widths is None else (signal - half, signal + half)
        return (signal, self.predicted.deviation, *ends)

    @classmethod
    def of(
        cls,
        model: SpectralModel,
        concentrations: Float[np.ndarray, "target"],
        start: int,
        level: float = COVERAGE,
    ) -> "PredictedBlock":
        """Predictions of a model at some concentrations.

        Raises:
            SpectraError: a prediction is not finite, as far beyond all levels or at a concentration
                outside the domain of the chart.
        """
        with np.errstate(all="ignore"):  # predictions that are not finite are refused below
            predicted, inside = model.predict(concentrations), model.is_inside(concentrations)
            finite = np.isfinite(predicted.spectra + predicted.deviation).all(axis=1)
        if not finite.all():
            raise SpectraError(
                f"concentration {concentrations[~finite][0]:g}: found a prediction that is not "
                "finite, expected a concentration closer to the levels of the series"
            )
        return cls(start, concentrations, predicted, ~inside, level)


Sink = Callable[[PredictedBlock], None]
"""Function that receives the blocks of all concentrations in order."""


def requested(concentrations: list[float], ranges: list[str]) -> Float[np.ndarray, "target"]:
    """Requested concentrations, ascending, without duplicates.

    Args:
        concentrations: single concentrations.
        ranges: ranges START:STOP:STEP; STOP is included if it lies on the steps.

    Raises:
        ParameterError: no concentrations, too many, or a text is no range.
    """
    if not concentrations and not ranges:
        expected = "one or more, or --at-range START:STOP:STEP"
        raise ParameterError(_OPTIONS, "--concentration", None, expected)
    parts = [np.array(concentrations, dtype=float), *map(_evenly_spaced, ranges)]
    distinct = np.unique(np.concatenate(parts)) + 0.0  # -0 is 0
    if len(distinct) > MOST_CONCENTRATIONS:
        expected = f"at most {MOST_CONCENTRATIONS} concentrations in all"
        raise ParameterError(_OPTIONS, "--at-range", len(distinct), expected)
    return distinct


def _evenly_spaced(text: str) -> np.ndarray:
    """Concentrations of a range START:STOP:STEP, computed in decimal arithmetic."""
    try:
        start, stop, step = map(Decimal, text.split(":"))
        count = int((stop - start) / step) + 1
        known = 0 <= start <= stop and step > 0
    except (ValueError, ArithmeticError):
        known = False
    if not known:
        expected = "START:STOP:STEP, such as 0:60:1, none negative, START <= STOP and STEP > 0"
        raise ParameterError(_OPTIONS, "--at-range", text, expected)
    if count > MOST_CONCENTRATIONS:
        expected = f"at most {MOST_CONCENTRATIONS} concentrations; take a larger STEP"
        raise ParameterError(_OPTIONS, "--at-range", text, expected)
    return np.array([float(start + place * step) for place in range(count)])


def blocks(
    model: SpectralModel,
    concentrations: Float[np.ndarray, "target"],
    size: int | None = None,
    report: Progress = silent,
    level: float = COVERAGE,
) -> Iterator[PredictedBlock]:
    """Predict spectra block by block, so that memory does not grow with their number.

    Args:
        model: the model.
        concentrations: all requested concentrations.
        size: number of spectra in a block; None: `BLOCK_SPECTRA`, fewer if they are large.
        report: called with the number of predicted spectra.
        level: probability of the intervals.
    """
    if size is None:
        first = model.predict(np.array(model.range[:1]))
        size = batch_size(8 * COPIES * first.factors.size, BLOCK_SPECTRA, 1)
    for start in range(0, len(concentrations), size):
        block = PredictedBlock.of(model, concentrations[start : start + size], start, level)
        yield block
        report(len(block.concentrations))


def summary(model: SpectralModel, block: PredictedBlock) -> list[dict[str, Any]]:
    """Peak, its place and the mean standard deviation of every spectrum."""
    signal = block.predicted.spectra
    columns = {
        "concentration": block.concentrations,
        "peak": signal.max(axis=1),
        "peak_at": model.series.axis[signal.argmax(axis=1)],
        "mean_std": block.predicted.deviation.mean(axis=1),
        "extrapolated": block.extrapolated,
    }
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def meaning_of_std(model: SpectralModel) -> str:
    """Meaning of the standard deviations of a model, in words."""
    if not model.blend.has_intervals:
        return "what members and sources disagree by, which is less than the error to expect"
    return "size of the error to expect, learned on simulated series"


@dataclass(frozen=True)
class PredictedFile:
    """File of predicted spectra, written block by block, whole or not at all."""

    path: Path  # a table, or a folder .zarr of arrays by concentration and wavelength.
    model: SpectralModel  # model that predicts the spectra
    concentrations: Float[np.ndarray, "target"]  # all concentrations
    only_signal: bool = False  # whether to write only concentration, wavelength and signal
    number: Format = "float64"  # format of the spectra in arrays
    level: float = COVERAGE  # probability of the intervals

    def opened(self) -> AbstractContextManager[Sink]:
        """Context in which blocks are written.

        Raises:
            ArtifactError: the file cannot be written, or a number exceeds the format; an older one
                is then intact.
        """
        return self._table() if self.path.suffix.lower() == ".csv" else self._arrays()

    @property
    def _names(self) -> dict[str, str]:
        """Long names of what is written of a block, in the order of `PredictedBlock.values`."""
        signal = self.model.series.labels["signal"]
        names = {"signal": signal}
        if not self.only_signal:
            names["std"] = f"standard deviation of {signal}"
            if self.model.blend.has_intervals:
                share = percent(self.level)
                names[f"low{share}"] = f"lower end of the {share}% interval"
                names[f"high{share}"] = f"upper end of the {share}% interval"
        return names

    @contextmanager
    def _table(self) -> Iterator[Sink]:
        """One row per value."""
        labels = self.model.series.labels
        name = labels["axis"] if role(labels["axis"]) == "axis" else "wavelength"  # for readers
        wavelengths = [shortest(number) for number in self.model.series.axis]
        axis, count = Column(name, wavelengths, labels["axis_unit"]), len(wavelengths)
        with (
            replacing(self.path) as temporary,
            temporary.open("w", encoding="utf-8", newline="") as stream,
        ):

            def write(block: PredictedBlock) -> None:
                of_block = block.values
                for place, concentration in enumerate(block.concentrations):
                    level = [shortest(concentration)] * count
                    columns = [Column("concentration", level, labels["concentration_unit"]), axis]
                    values = (values[place] for values in of_block)
                    columns += [
                        Column(name, of_one, exponent=True)
                        for name, of_one in zip(self._names, values, strict=False)
                    ]
                    if not self.only_signal:
                        beyond = bool(block.extrapolated[place])
                        columns.append(Column("extrapolated", [beyond] * count))
                    text = Table("predicted", "Predicted spectra", columns)
                    stream.write(text.csv(header=block.start + place == 0))

            yield write

    @contextmanager
    def _arrays(self) -> Iterator[Sink]:
        """An array for every name."""
        model, labels, levels = self.model, self.model.series.labels, self.concentrations
        shape = len(levels), len(model.series.axis)
        about: dict[str, Any] = {"labels": labels, "measured_range": list(model.range)}
        about["std"] = meaning_of_std(model)
        with model.series.artifact_writer(self.path, about) as writer:
            unit, of_signal = labels["concentration_unit"], labels["signal_unit"]
            writer.coordinate("concentration", levels, units=unit, long_name="concentration")
            dims = ("concentration", "wavelength")
            arrays = {
                name: writer.mapped(
                    name, dims, shape, self.number, units=of_signal, long_name=long_name
                )
                for name, long_name in self._names.items()
            }
            if not self.only_signal:
                long_name, beyond = "whether out of the measured range", ~model.is_inside(levels)
                writer.stored("extrapolated", dims[:1], beyond, units="1", long_name=long_name)

            def write(block: PredictedBlock) -> None:
                at = slice(block.start, block.start + len(block.concentrations))
                for (name, array), values in zip(arrays.items(), block.values, strict=False):
                    array[at] = in_format(values, self.number, f"{self.path}: array {name!r}")

            yield write
