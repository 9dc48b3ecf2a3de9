"""Spectra at many concentrations, block by block, and the files that they are written to.

A table has one row a value: one spectrum is a few columns to look at and to draw, and many are
stacked, so that rows are written as they are computed. With columns for what is not known of a
value it is no table of spectra alone; without them geonode reads it back. An artifact has the same
arrays by concentration and wavelength. Numbers that were computed have `DIGITS` significant digits
in a table, concentrations and wavelengths as many as they need.
"""

import csv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal, DecimalException
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from geonode.config import Format
from geonode.decoders.blend import COVERAGE
from geonode.devices.device import one_thread
from geonode.errors import ParameterError, SpectraError
from geonode.estimation.large import batch_size, in_format
from geonode.estimation.model import SpectralModel
from geonode.progress import Progress, silent
from geonode.spectra.headers import role
from geonode.spectra.series import Series
from geonode.spectra.sheet import shortest, to_number
from geonode.storage.atomic import replacing

AT_ONCE = 256
COPIES = 4  # of the factors of predictions that are made at once, as each kind makes them and mixed
MOST_CONCENTRATIONS = 100_000
DIGITS = 6
_OPTIONS = "options"


@dataclass(frozen=True)
class PredictedBlock:
    """Predicted spectra of some concentrations.

    Attributes:
        start: place of the first among all that were asked for.
        concentrations: theirs.
        signal: the spectra.
        std: standard deviation: the calibrated scale, or what members, sources and kinds disagree
            by if there are no inner folds.
        interval: lower and upper end of the interval of `COVERAGE`; None without inner folds.
        extrapolated: whether a concentration is out of the measured range.
    """

    start: int
    concentrations: Float[np.ndarray, "target"]
    signal: Float[np.ndarray, "target wavelength"]
    std: Float[np.ndarray, "target wavelength"]
    interval: Float[np.ndarray, "2 target wavelength"] | None
    extrapolated: Bool[np.ndarray, "target"]

    @classmethod
    def of(
        cls, model: SpectralModel, concentrations: Float[np.ndarray, "target"], start: int = 0
    ) -> "PredictedBlock":
        """What a model predicts there.

        Raises:
            SpectraError: a prediction is not finite, as far beyond all levels or at a concentration
                that has no place on the chart.
        """
        with np.errstate(all="ignore"):  # what comes of it is refused
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
"""Takes the blocks of all concentrations, in order."""


def requested(concentrations: list[float], ranges: list[str]) -> Float[np.ndarray, "target"]:
    """All concentrations that were asked for, ascending, each once.

    Args:
        concentrations: single ones.
        ranges: each START:STOP:STEP, with STOP if it lies on the steps.

    Raises:
        ParameterError: there is none, there are too many, or one is negative or not finite.
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
    """The concentrations of START:STOP:STEP, computed in decimals as they are written.

    Raises:
        ParameterError: it is no such range, or one of too many concentrations.
    """
    numbers = [to_number(part.strip()) for part in text.split(":")]
    known = [number for number in numbers if number is not None and 0 <= number < np.inf]
    if len(known) != 3 or len(numbers) != 3 or known[0] > known[1] or known[2] == 0:
        expected = "START:STOP:STEP, such as 0:60:1, none negative, START <= STOP and STEP > 0"
        raise ParameterError(_OPTIONS, "--at-range", text, expected)
    start, stop, step = (Decimal(part.strip()) for part in text.split(":"))
    try:
        count = int((stop - start) // step) + 1
    except DecimalException:  # a quotient of more digits than decimals have
        count = MOST_CONCENTRATIONS + 1
    if count > MOST_CONCENTRATIONS:
        expected = f"at most {MOST_CONCENTRATIONS} concentrations; take a larger STEP"
        raise ParameterError(_OPTIONS, "--at-range", text, expected)
    return np.array([float(start + place * step) for place in range(count)])


def spectra_at_once(model: SpectralModel) -> int:
    """Spectra of a block: `AT_ONCE`, if memory has room for them."""
    some = np.array(model.range[:1])
    factors, wavelengths = model.predict(some).predicted.factors.shape[1:]
    return batch_size(8 * COPIES * factors * wavelengths, AT_ONCE, 1)


def blocks(
    model: SpectralModel,
    concentrations: Float[np.ndarray, "target"],
    size: int = AT_ONCE,
    report: Progress = silent,
) -> Iterator[PredictedBlock]:
    """Predict some spectra at a time, so that memory does not grow with their number.

    Args:
        model: that predicts.
        concentrations: all that were asked for.
        size: spectra of a block.
        report: told of every spectrum.
    """
    for start in range(0, len(concentrations), size):
        # Operations are small: threads within them wait for each other.
        with one_thread():
            block = PredictedBlock.of(model, concentrations[start : start + size], start)
        yield block
        report(len(block.concentrations))


def summary(model: SpectralModel, block: PredictedBlock) -> list[dict[str, Any]]:
    """Of every spectrum its largest value and where it is, and the mean standard deviation."""
    peaks = block.signal.argmax(axis=1)
    return [
        {
            "concentration": concentration,
            "peak": float(signal[peak]),
            "peak_at": float(model.series.axis[peak]),
            "mean_std": float(std.mean()),
            "extrapolated": bool(extrapolated),
        }
        for concentration, signal, std, peak, extrapolated in zip(
            block.concentrations.tolist(),
            block.signal,
            block.std,
            peaks,
            block.extrapolated,
            strict=True,
        )
    ]


def meaning_of_std(model: SpectralModel) -> str:
    """What the standard deviations of a model stand for, in words."""
    if not model.blend.has_intervals:
        return (
            "what members, sources and kinds of decoders disagree by; no inner folds calibrate it"
        )
    if model.has_posterior:
        return "size of the error to expect, learned on simulated series"
    return "calibrated by the inner folds, sqrt(deviation^2 + mean squared error inside)"


@contextmanager
def table_sink(path: Path, model: SpectralModel, only_signal: bool) -> Iterator[Sink]:
    """Write spectra as CSV of one row a value, whole or not at all.

    Args:
        path: the file.
        model: whose predictions they will be.
        only_signal: whether to leave out all that is not concentration, wavelength or signal.

    Raises:
        ArtifactError: the operating system refuses.
    """
    series = model.series
    header = [*_headers(series), "signal"]
    bounds = 0 if only_signal or not model.blend.has_intervals else 2
    if not only_signal:
        header += ["std", *(f"{end}{COVERAGE * 100:.0f}" for end in ("low", "high"))][: 1 + bounds]
        header += ["extrapolated"]
    wavelengths = [shortest(number) for number in series.axis]
    computed = f",%.{DIGITS}g" * (1 if only_signal else 2 + bounds)

    with replacing(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerow(header)

        def write(block: PredictedBlock) -> None:
            columns = [block.signal] if only_signal else [block.signal, block.std]
            columns += [] if not bounds or block.interval is None else [*block.interval]
            numbers = np.stack(columns, axis=-1)
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
        model: whose predictions they will be.
        concentrations: all of them.
        only_signal: whether to leave out all that is not concentration, wavelength or signal.
        number: format of the spectra.

    Raises:
        ArtifactError: it cannot be written, or a number has no place in the format; an older one is
            then intact.
    """
    series, labels = model.series, model.series.labels
    attributes: dict[str, Any] = {
        "labels": labels,
        "measured_range": list(model.range),
        "std": meaning_of_std(model),
    }
    names = {"signal": labels["signal"]}
    if not only_signal:
        names["std"] = f"standard deviation of {labels['signal']}"
        if model.blend.has_intervals:
            share = f"{COVERAGE * 100:.0f}"
            names[f"low{share}"] = f"lower end of the {share}% interval"
            names[f"high{share}"] = f"upper end of the {share}% interval"
    shape = len(concentrations), len(series.axis)
    with series.artifact_writer(path, attributes) as writer:
        unit = labels["concentration_unit"]
        writer.coordinate("concentration", concentrations, units=unit, long_name="concentration")
        dims = ("concentration", "wavelength")
        arrays = [
            writer.mapped(name, dims, shape, number, units=labels["signal_unit"], long_name=said)
            for name, said in names.items()
        ]
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
            ends = () if block.interval is None else tuple(block.interval)
            computed = (block.signal, block.std, *ends)
            for name, array, values in zip(names, arrays, computed, strict=False):
                array[at] = in_format(values, number, f"{path}: array {name!r}")

        yield write


def _headers(series: Series) -> tuple[str, str]:
    """Headers of concentrations and wavelengths with their units, as they are read back."""
    axis, unit = series.labels["axis"], series.labels["axis_unit"]
    known = axis if role(axis) == "axis" else "wavelength"
    of_levels = series.labels["concentration_unit"]
    return (
        "concentration" if of_levels in ("", "1") else f"concentration ({of_levels})",
        known if unit == "1" else f"{known} ({unit})",
    )
