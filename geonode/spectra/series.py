"""Spectra of known amounts, and the artifact of a charted series that every stage starts from."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from geonode.config import SpectraParameters
from geonode.errors import CorruptArtifactError, SpectraError, TrainingError
from geonode.parameter_types import PreprocessStep
from geonode.spectra.arrays import real_array
from geonode.spectra.chart import Chart, ChartName
from geonode.spectra.preprocessing import Preprocessing
from geonode.spectra.quantities import signal_of
from geonode.spectra.replicates import Replicates
from geonode.spectra.table import FEWEST_LEVELS, MOST_LEVELS, SpectraTable, without_rounding
from geonode.storage.artifact import JSON, open_artifact
from geonode.storage.artifact_writer import ArtifactWriter, artifact_writer

UNPROCESSED = Preprocessing()

LABELS = ("signal", "signal_unit", "axis", "axis_unit", "concentration_unit")


@dataclass(frozen=True, eq=False)
class Series:
    """Spectra of known amounts: levels of one substance, or samples of several."""

    amounts: Float[np.ndarray, "sample substance"]
    """Of every substance; those of one substance ascend."""
    axis: Float[np.ndarray, "wavelength"]
    """Spectral axis, ascending."""
    signal: Float[np.ndarray, "sample wavelength"]
    """Spectrum of every sample, or mean spectrum of every level, preprocessed."""
    labels: dict[str, str]
    """By the names of `LABELS`; the unit of amounts is "1" where substances have several."""
    substances: tuple[str, ...]
    """Names of the substances; that of a single one may be empty."""
    units: tuple[str, ...]
    """Of their amounts; "1" if unknown."""
    samples: tuple[str, ...] = ()
    """Names of the samples, which may repeat; levels have none."""
    charts: tuple[Chart, ...] = ()
    """Of a single substance its chart, whose positions are x; none of several."""
    replicates: Replicates | None = None
    """The scans behind the mean spectra of levels; None where they are not known."""
    preprocessing: Preprocessing = UNPROCESSED
    """Steps done to every spectrum."""

    @classmethod
    def of_levels(
        cls,
        concentrations: Float[np.ndarray, "concentration"],
        axis: Float[np.ndarray, "wavelength"],
        signal: Float[np.ndarray, "concentration wavelength"],
        chart: Chart,
        labels: dict[str, str],
        replicates: Replicates | None = None,
        preprocessing: Preprocessing = UNPROCESSED,
    ) -> "Series":
        """Charted series of one substance.

        Args:
            concentrations: levels, ascending.
            axis: spectral axis, ascending.
            signal: mean spectrum of every level.
            chart: of the concentrations.
            labels: by the names of `LABELS`.
            replicates: the scans behind the mean spectra, if they are known.
            preprocessing: what was done to every scan.
        """
        unit = labels.get("concentration_unit", "1")
        measured = concentrations[:, None], axis, signal, labels, ("",), (unit,), ()
        return cls(*measured, (chart,), replicates, preprocessing)

    @classmethod
    def of_rows(
        cls,
        concentrations: Any,
        spectra: Any,
        wavelengths: Any,
        fewest: int,
        chart: ChartName = "linear",
        kappa: float | None = None,
    ) -> "Series":
        """Series of one substance from arrays; rows of one concentration are scans of a level.

        Concentrations that differ by rounding alone are one.

        Args:
            concentrations: of the rows, array-like, none negative.
            spectra: theirs, of shape (row, wavelength).
            wavelengths: axis values of the columns, ascending; None: 0, 1, 2, ...
            fewest: levels.
            chart: of the concentrations.
            kappa: as of `Chart.of`.

        Raises:
            SpectraError: as `real_array`; concentrations are negative, there are too few or too
                many levels, or axis or chart do not fit.
        """
        concentrations = real_array(concentrations, "concentrations", row=None)
        spectra = real_array(spectra, "spectra", row=len(concentrations), wavelength=None)
        axis = np.arange(spectra.shape[1]) if wavelengths is None else wavelengths
        axis = real_array(axis, "wavelengths", wavelength=spectra.shape[1])
        if (np.diff(axis) <= 0).any() or (concentrations < 0).any():
            raise SpectraError(
                "found wavelengths that do not ascend or a negative concentration, expected "
                "neither; reverse wavelengths that descend, and the columns of the spectra with "
                "them"
            )
        levels, place = np.unique(without_rounding(concentrations), return_inverse=True)
        if not fewest <= len(levels) <= MOST_LEVELS:
            raise SpectraError(
                f"found {len(levels)} different concentrations in {len(spectra)} rows, expected "
                f"{fewest} to {MOST_LEVELS}; a fold of a cross-validation leaves some out"
            )
        scans = [spectra[place == level] for level in range(len(levels))]
        means = np.stack([of_level.mean(axis=0) for of_level in scans])
        labels = {"signal": "signal", "axis": "wavelength"}
        labels |= dict.fromkeys(("signal_unit", "axis_unit", "concentration_unit"), "1")
        charted, replicates = Chart.of(chart, kappa, levels), Replicates.of(scans)
        return cls.of_levels(levels, axis, means, charted, labels, replicates)

    @property
    def is_of_one(self) -> bool:
        """True if it is of one substance, and so of levels."""
        return len(self.substances) == 1

    @property
    def concentrations(self) -> Float[np.ndarray, "concentration"]:
        """Levels of the only substance, ascending."""
        (levels,) = self.amounts.T
        return levels

    @property
    def chart(self) -> Chart:
        """Chart of the only substance."""
        (chart,) = self.charts
        return chart

    @property
    def scans(self) -> tuple[Int[np.ndarray, "scan"], Float[np.ndarray, "scan wavelength"]]:
        """Place of the level, or the sample, of every scan, and its spectrum."""
        if self.replicates is None:
            return np.arange(len(self.signal)), self.signal
        return self.replicates.of_means(self.signal)

    @property
    def unit(self) -> str:
        """Unit of all amounts; "1" if it is not known, or not one."""
        return self.labels["concentration_unit"]

    @property
    def named(self) -> list[str]:
        """Substances with their units."""
        each = zip(self.substances, self.units, strict=True)
        return [labelled(name or "concentration", unit) for name, unit in each]

    @property
    def positions(self) -> Float[np.ndarray, "concentration"]:
        """Charted concentrations x, from -1 to 1."""
        return self.chart.position(self.concentrations)

    @property
    def wavelengths(self) -> Float[np.ndarray, "wavelength"]:
        """Charted wavelengths w, linear from -1 to 1; a single one is 0."""
        if len(self.axis) == 1:
            return np.zeros(1)
        low, high = self.axis[0], self.axis[-1]
        return 2 * ((self.axis - low) / (high - low)) - 1  # exact at both ends

    @property
    def axis_label(self) -> str:
        """Name and unit of the spectral axis."""
        return labelled(self.labels["axis"].replace("_", " "), self.labels["axis_unit"])

    @property
    def signal_label(self) -> str:
        """Name and unit of what was measured."""
        return labelled(self.labels["signal"], self.labels["signal_unit"])

    @contextmanager
    def artifact_writer(self, path: Path, attributes: dict[str, JSON]) -> Iterator[ArtifactWriter]:
        """Write an artifact about this series: the wavelength coordinate is there already."""
        with artifact_writer(path, attributes) as writer:
            units, name = self.labels["axis_unit"], self.labels["axis"]
            writer.coordinate("wavelength", self.axis, units=units, long_name=name)
            yield writer


def write_series(
    path: Path, table: SpectraTable, chart: Chart, parameters: SpectraParameters
) -> None:
    """Write the series as an artifact.

    Args:
        path: the artifact.
        table: the series, preprocessed.
        chart: its concentration chart.
        parameters: block `spectra`, for labels and steps of the preprocessing.

    Raises:
        ArtifactError: it cannot be written; an older one is then intact.
    """
    labels, replicates = labels_of(table, parameters), table.replicates
    attributes: dict[str, JSON] = {
        "chart": {"kappa": repr(chart.kappa), "low": chart.low, "high": chart.high},
        "labels": {**labels},
        "masked": table.masked.tolist(),
        "preprocess": [step.model_dump(exclude_unset=True) for step in parameters.preprocess],
    }
    level, deviation = ("concentration",), ("replicate", "wavelength")
    signal, unit, of_levels = (
        labels[key] for key in ("signal", "signal_unit", "concentration_unit")
    )
    with artifact_writer(path, attributes) as writer:
        coordinate, stored = writer.coordinate, writer.stored
        coordinate(
            "concentration", table.concentrations, units=of_levels, long_name="concentration"
        )
        coordinate("wavelength", table.axis, units=table.axis_unit, long_name=table.axis_name)
        positions, charted = chart.position(table.concentrations), "charted concentration"
        coordinate("position", positions, units="1", long_name=charted, dims=level)
        stored("signal", (*level, "wavelength"), table.spectra, units=unit, long_name=signal)
        behind = "scans behind the mean spectrum"
        stored("scans", level, replicates.scans, units="1", long_name=behind)
        if len(replicates.level):
            of_scan = "place of the level of a scan, where it was scanned twice or more"
            away = "a scan less the mean of its level"
            stored("replicate_level", deviation[:1], replicates.level, units="1", long_name=of_scan)
            deviations = replicates.deviations
            stored("replicate_deviation", deviation, deviations, units=unit, long_name=away)


def read_series(path: Path) -> Series:
    """Read what `write_series` wrote.

    Raises:
        MissingArtifactError, CorruptArtifactError: there is none, or it is damaged or holds no
            series.
        ArtifactError: it is about something else.
    """
    artifact = open_artifact(path)
    levels, axis, signal = (artifact[name] for name in ("concentration", "wavelength", "signal"))
    scans, level, deviations = artifact["scans"], np.zeros(0, np.int64), np.zeros((0, axis.size))
    if "replicate_level" in artifact.arrays:
        level, deviations = artifact["replicate_level"], artifact["replicate_deviation"]
    try:
        chart, labels = artifact.attributes["chart"], artifact.attributes["labels"]
        kappa, low, high = (float(chart[key]) for key in ("kappa", "low", "high"))
        labels = {name: str(labels[name]) for name in LABELS}
        stored = artifact.attributes["preprocess"]
        steps = tuple(PreprocessStep.model_validate(step) for step in stored)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        reason = " ".join(repr(error).split())
        raise CorruptArtifactError(path, f"holds no chart and labels ({reason:.80})") from error
    numbers = (levels, axis, signal, deviations)
    if (
        any(array.dtype != np.float64 or not np.isfinite(array).all() for array in numbers)
        or not (levels.ndim == axis.ndim == 1 and levels.size > 1)
        or signal.shape != (levels.size, axis.size)
        or not all((np.diff(array) > 0).all() for array in (levels, axis))
    ):
        raise CorruptArtifactError(path, "holds no series of ascending levels and wavelengths")
    if (
        scans.shape != levels.shape
        or not np.issubdtype(scans.dtype, np.integer)
        or (scans < 1).any()
        or not np.array_equal(level, np.repeat(np.arange(len(scans)), scans * (scans > 1)))
        or deviations.shape != (len(level), axis.size)
    ):
        raise CorruptArtifactError(path, "holds no scans of its own levels and wavelengths")
    replicates, done = Replicates(scans, level, deviations), Preprocessing(steps)
    chart = Chart(kappa, low, high)
    return Series.of_levels(levels, axis, signal, chart, labels, replicates, done)


def labels_of(table: SpectraTable, parameters: SpectraParameters) -> dict[str, str]:
    """The `labels` of a series, from its table and the block `spectra` of the parameters."""
    done = Preprocessing(tuple(parameters.preprocess))
    return {
        "signal": done.quantity(signal_of(parameters.quantity, parameters.unit, table.quantity)),
        "signal_unit": done.unit(parameters.unit, table.axis_unit),
        "axis": table.axis_name,
        "axis_unit": table.axis_unit,
        "concentration_unit": parameters.concentration_unit or table.concentration_unit or "1",
    }


def level_names(levels: Float[np.ndarray, "concentration"]) -> list[str]:
    """Names of levels for keys and labels: six digits, or all where six do not tell them apart."""
    short = [f"{level:g}" for level in levels]
    count = Counter(short)
    return [
        name if count[name] == 1 else repr(float(level))
        for name, level in zip(short, levels, strict=True)
    ]


def labelled(name: str, unit: str) -> str:
    """A name with its unit; the unit "1" is left out."""
    return name if unit == "1" else f"{name} ({unit})"


def require_levels(concentrations: Float[np.ndarray, "concentration"]) -> None:
    """Refuse too few or too many levels for a metric.

    Raises:
        SpectraError: they are.
    """
    if not FEWEST_LEVELS <= len(concentrations) <= MOST_LEVELS:
        raise SpectraError(
            f"found {len(concentrations)} concentrations, expected {FEWEST_LEVELS} to {MOST_LEVELS}"
        )


def require_response(spectra: Float[np.ndarray, "concentration wavelength"]) -> None:
    """Refuse spectra that say nothing of the concentration.

    Raises:
        TrainingError: they are zero, or all the same.
    """
    if (spectra == spectra[0]).all():
        value = "the same at every concentration" if spectra.any() else "zero"
        raise TrainingError(
            f"spectra: found spectra that are {value}, expected a signal that depends on "
            "concentration"
        )
