"""Prediction of spectra at many concentrations, block by block, and the files written.

A table has one row per value, so that rows are written as they are computed. With columns for the
uncertainty geonode cannot read it back as spectra; without them it can. An artifact has the same
values as arrays by concentration and wavelength. Computed numbers have `DIGITS` significant digits
in a table, concentrations and wavelengths as many as they need.
"""

import csv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from geonode.compute.device import one_thread
from geonode.errors import ParameterError, SpectraError
from geonode.estimation.large import batch_size, in_format
from geonode.estimation.model import SpectralModel
from geonode.learning.predicted import COVERAGE
from geonode.parameter_types import Format
from geonode.progress import Progress, silent
from geonode.spectra.headers import role
from geonode.spectra.series import Series, labelled
from geonode.spectra.sheet import shortest
from geonode.storage.atomic import replacing

BLOCK_SPECTRA = 256
COPIES = 4  # arrays of the size of a block's factors: those of every kind and of their mixture
MOST_CONCENTRATIONS = 100_000
DIGITS = 6
_OPTIONS = "options"


@dataclass(frozen=True)
class PredictedBlock:
    """Predicted spectra of some concentrations.

    Attributes:
        start: index of the first concentration among all requested.
        concentrations: concentrations of the block.
        signal: predicted spectra.
        std: standard deviation: the calibrated scale, or that over members, sources and kinds
            without inner folds.
        interval: lower and upper end of the interval of `COVERAGE`; None without intervals.
        extrapolated: whether a concentration is out of the measured range.
    """

    start: int
    concentrations: Float[np.ndarray, "target"]
    signal: Float[np.ndarray, "target wavelength"]
    std: Float[np.ndarray, "target wavelength"]
    interval: Float[np.ndarray, "2 target wavelength"] | None
    extrapolated: Bool[np.ndarray, "target"]

    @property
    def values(self) -> tuple[Float[np.ndarray, "target wavelength"], ...]:
        """Signal, standard deviation and ends of the interval, as far as there are any."""
        return (self.signal, self.std, *(() if self.interval is None else self.interval))

    @classmethod
    def of(
        cls, model: SpectralModel, concentrations: Float[np.ndarray, "target"], start: int = 0
    ) -> "PredictedBlock":
        """Predictions of a model at some concentrations.

        Raises:
            SpectraError: a prediction is not finite, as far beyond all levels or at a concentration
                outside the domain of the chart.
        """
        with np.errstate(all="ignore"):  # predictions that are not finite are refused below
            predicted, inside = model.predict(concentrations), model.is_inside(concentrations)
        signal, std, interval = predicted.spectra, predicted.scale, None
        if predicted.half_width is not None:
            _, half = predicted.band
            interval = np.stack([signal - half, signal + half])
        finite = np.isfinite(signal).all(axis=1) & np.isfinite(std).all(axis=1)
        if not finite.all():
            raise SpectraError(
                f"concentration {concentrations[~finite][0]:g}: found a prediction that is not "
                "finite, expected a concentration closer to the levels of the series"
            )
        return cls(start, concentrations, signal, std, interval, ~inside)


Sink = Callable[[PredictedBlock], None]
"""Function that receives the blocks of all concentrations in order."""


def requested(concentrations: list[float], ranges: list[str]) -> Float[np.ndarray, "target"]:
    """Requested concentrations, ascending, without duplicates.

    Args:
        concentrations: single concentrations.
        ranges: ranges START:STOP:STEP; STOP is included if it lies on the steps.

    Raises:
        ParameterError: no concentrations, too many, or one is negative or not finite.
    """
    if not concentrations and not ranges:
        raise ParameterError(
            _OPTIONS, "--concentration", None, "one or more, or --at-range START:STOP:STEP"
        )
    for number in concentrations:
        if not 0 <= number < np.inf:
            expected = "a finite number that is not negative"
            raise ParameterError(_OPTIONS, "--concentration", number, expected)
    parts = [np.array(concentrations, dtype=float), *map(evenly_spaced, ranges)]
    found = np.unique(np.concatenate(parts)) + 0.0  # -0 is 0
    if len(found) > MOST_CONCENTRATIONS:
        expected = f"at most {MOST_CONCENTRATIONS} concentrations in all"
        raise ParameterError(_OPTIONS, "--at-range", len(found), expected)
    return found


def evenly_spaced(text: str) -> Float[np.ndarray, "target"]:
    """Concentrations of a range START:STOP:STEP, computed in decimal arithmetic.

    Raises:
        ParameterError: the text is no such range, or the range has too many concentrations.
    """
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


def spectra_at_once(model: SpectralModel) -> int:
    """Number of spectra in a block: `BLOCK_SPECTRA`, fewer if they are large."""
    some = np.array(model.range[:1])
    factors, wavelengths = model.predict(some).factors.shape[1:]
    return batch_size(8 * COPIES * factors * wavelengths, BLOCK_SPECTRA, 1)


def blocks(
    model: SpectralModel,
    concentrations: Float[np.ndarray, "target"],
    size: int = BLOCK_SPECTRA,
    report: Progress = silent,
) -> Iterator[PredictedBlock]:
    """Predict spectra block by block, so that memory does not grow with their number.

    Args:
        model: the model.
        concentrations: all requested concentrations.
        size: number of spectra in a block.
        report: called with the number of predicted spectra.
    """
    for start in range(0, len(concentrations), size):
        # The operations are too small for several threads.
        with one_thread():
            block = PredictedBlock.of(model, concentrations[start : start + size], start)
        yield block
        report(len(block.concentrations))


def summary(model: SpectralModel, block: PredictedBlock) -> list[dict[str, Any]]:
    """Peak, its place and the mean standard deviation of every spectrum."""
    columns = {
        "concentration": block.concentrations,
        "peak": block.signal.max(axis=1),
        "peak_at": model.series.axis[block.signal.argmax(axis=1)],
        "mean_std": block.std.mean(axis=1),
        "extrapolated": block.extrapolated,
    }
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def meaning_of_std(model: SpectralModel) -> str:
    """Meaning of the standard deviations of a model, in words."""
    if not model.blend.has_intervals:
        return (
            "what members, sources and kinds of decoders disagree by; no inner folds calibrate it"
        )
    if model.has_posterior:
        return "size of the error to expect, learned on simulated series"
    return "calibrated by the inner folds, sqrt(deviation^2 + mean squared error inside)"


@contextmanager
def table_sink(path: Path, model: SpectralModel, only_signal: bool) -> Iterator[Sink]:
    """Write spectra as CSV with one row per value, whole or not at all.

    Args:
        path: the file.
        model: model that predicts the spectra.
        only_signal: whether to write only concentration, wavelength and signal.

    Raises:
        ArtifactError: the operating system refuses.
    """
    names = [*_array_names(model, only_signal)]
    header = [*_headers(model.series), *names, *([] if only_signal else ["extrapolated"])]
    wavelengths = [shortest(number) for number in model.series.axis]
    computed = f",%.{DIGITS}g" * len(names)

    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerow(header)

        def write(block: PredictedBlock) -> None:
            numbers = np.stack(block.values[: len(names)], axis=-1)
            for place, concentration in enumerate(block.concentrations):
                flag = "" if only_signal else f",{str(block.extrapolated[place]).lower()}"
                row = f"{shortest(concentration)},%s{computed}{flag}\n"
                values = zip(wavelengths, numbers[place].tolist(), strict=True)
                stream.writelines(row % (wavelength, *value) for wavelength, value in values)

        yield write


@contextmanager
def artifact_sink(
    path: Path,
    model: SpectralModel,
    concentrations: Float[np.ndarray, "target"],
    only_signal: bool,
    number: Format = "float64",
) -> Iterator[Sink]:
    """Write spectra as arrays by concentration and wavelength, whole or not at all.

    Args:
        path: folder of the artifact.
        model: model that predicts the spectra.
        concentrations: all concentrations.
        only_signal: whether to write only concentration, wavelength and signal.
        number: format of the spectra.

    Raises:
        ArtifactError: the artifact cannot be written, or a number exceeds the format; an older
            artifact is then intact.
    """
    labels, shape = model.series.labels, (len(concentrations), len(model.series.axis))
    about: dict[str, Any] = {"labels": labels, "measured_range": list(model.range)}
    about["std"] = meaning_of_std(model)
    with model.series.artifact_writer(path, about) as writer:
        unit, of_signal = labels["concentration_unit"], labels["signal_unit"]
        writer.coordinate("concentration", concentrations, units=unit, long_name="concentration")
        dims = ("concentration", "wavelength")
        arrays = {
            name: writer.mapped(name, dims, shape, number, units=of_signal, long_name=long_name)
            for name, long_name in _array_names(model, only_signal).items()
        }
        if not only_signal:
            writer.stored(
                "extrapolated",
                ("concentration",),
                ~model.is_inside(concentrations),
                units="1",
                long_name="whether the concentration is out of the measured range",
            )

        def write(block: PredictedBlock) -> None:
            at = slice(block.start, block.start + len(block.concentrations))
            for (name, array), values in zip(arrays.items(), block.values, strict=False):
                array[at] = in_format(values, number, f"{path}: array {name!r}")

        yield write


def _array_names(model: SpectralModel, only_signal: bool) -> dict[str, str]:
    """Long names of what is written of a block, in the order of `PredictedBlock.values`."""
    signal = model.series.labels["signal"]
    names = {"signal": signal}
    if not only_signal:
        names["std"] = f"standard deviation of {signal}"
        if model.blend.has_intervals:
            share = f"{COVERAGE * 100:.0f}"
            names[f"low{share}"] = f"lower end of the {share}% interval"
            names[f"high{share}"] = f"upper end of the {share}% interval"
    return names


def _headers(series: Series) -> tuple[str, str]:
    """Headers of concentrations and wavelengths with units, as the readers understand them."""
    labels = series.labels
    axis = labels["axis"] if role(labels["axis"]) == "axis" else "wavelength"
    of_levels = labelled("concentration", labels["concentration_unit"])
    return of_levels, labelled(axis, labels["axis_unit"])
