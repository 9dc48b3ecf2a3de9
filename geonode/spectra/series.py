"""The artifact of a charted concentration series: what every later stage starts from."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from geonode.config import SpectraParameters
from geonode.errors import CorruptArtifactError, SpectraError
from geonode.spectra.chart import Chart
from geonode.spectra.headers import same_unit
from geonode.spectra.reading import read_table
from geonode.spectra.table import SpectraTable
from geonode.storage.artifact import JSON, ArtifactWriter, artifact_writer, open_artifact

LABELS = ("signal", "signal_unit", "axis", "axis_unit", "concentration_unit")


@dataclass(frozen=True, eq=False)
class Series:
    """A charted concentration series.

    Attributes:
        concentrations: levels, ascending.
        axis: spectral axis, ascending.
        signal: mean spectrum of every level.
        chart: the concentration chart; its positions are x.
        labels: `signal`, `signal_unit`, `axis`, `axis_unit` and `concentration_unit`.
    """

    concentrations: Float[np.ndarray, "concentration"]
    axis: Float[np.ndarray, "wavelength"]
    signal: Float[np.ndarray, "concentration wavelength"]
    chart: Chart
    labels: dict[str, str]

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
        return _label(self.labels["axis"].replace("_", " "), self.labels["axis_unit"])

    @property
    def signal_label(self) -> str:
        """Name and unit of what was measured."""
        return _label(self.labels["signal"], self.labels["signal_unit"])

    @contextmanager
    def artifact_writer(self, path: Path, attributes: dict[str, JSON]) -> Iterator[ArtifactWriter]:
        """Write an artifact about this series: the wavelength coordinate is there already."""
        with artifact_writer(path, attributes) as writer:
            _axis(writer, self.axis, self.labels["axis"], self.labels["axis_unit"])
            yield writer


def write_series(
    path: Path, table: SpectraTable, chart: Chart, parameters: SpectraParameters
) -> None:
    """Write the series as an artifact.

    Raises:
        ArtifactError: it cannot be written; an older one is then intact.
    """
    noise = table.replicate_noise_by_wavelength()
    quantity, unit = parameters.quantity, parameters.unit
    attributes = {
        "chart": {"kappa": repr(chart.kappa), "low": chart.low, "high": chart.high},
        "labels": _labels(table, parameters),
        "masked": table.masked.tolist(),
    }
    with artifact_writer(path, attributes) as writer:
        writer.coordinate(
            "concentration",
            table.concentrations,
            units=parameters.concentration_unit,
            long_name="concentration",
        )
        _axis(writer, table.axis, table.axis_name, table.axis_unit)
        writer.coordinate(
            "position",
            chart.position(table.concentrations),
            units="1",
            long_name="charted concentration",
            dims=("concentration",),
        )
        dims = ("concentration", "wavelength")
        writer.stored("signal", dims, table.spectra, units=unit, long_name=quantity)
        writer.stored(
            "scans",
            ("concentration",),
            np.array([len(scans) for scans in table.scans]),
            units="1",
            long_name="scans behind the mean spectrum",
        )
        if noise is not None:
            writer.stored(
                "replicate_noise",
                ("wavelength",),
                noise,
                units=unit,
                long_name="pooled standard deviation of one scan",
            )


def read_series(path: Path) -> Series:
    """Read what `write_series` wrote.

    Raises:
        MissingArtifactError, CorruptArtifactError: there is none, or it is damaged, or what it
            holds is no series.
        ArtifactError: it is about something else.
    """
    artifact = open_artifact(path)
    levels, axis, signal = (artifact[name] for name in ("concentration", "wavelength", "signal"))
    try:
        chart, labels = artifact.attributes["chart"], artifact.attributes["labels"]
        kappa, low, high = (float(chart[key]) for key in ("kappa", "low", "high"))
        labels = {name: str(labels[name]) for name in LABELS}
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise CorruptArtifactError(path, f"holds no chart and labels ({error!r:.80})") from error
    numbers = (levels, axis, signal)
    if (
        any(array.dtype != np.float64 or not np.isfinite(array).all() for array in numbers)
        or signal.shape != (levels.size, axis.size)
        or not (levels.ndim == axis.ndim == 1 and levels.size > 1)
        or not all((np.diff(array) > 0).all() for array in (levels, axis))
    ):
        raise CorruptArtifactError(path, "holds no series of ascending levels and wavelengths")
    return Series(levels, axis, signal, Chart(kappa, low, high), labels)


def measured_table(parameters: SpectraParameters) -> SpectraTable:
    """The table that parameters name.

    Raises:
        SpectraError: it cannot be right, or its concentrations are in another unit.
    """
    source = Path(parameters.source)
    table = read_table(source, window=parameters.window, missing=parameters.missing)
    found, expected = table.concentration_unit, parameters.concentration_unit
    if found is not None and not same_unit(found, expected):
        raise SpectraError(
            f"{source}: found concentrations in {found}, and spectra.concentration_unit "
            f"{expected}; set spectra.concentration_unit to {found}"
        )
    return table


def read_series_csv(parameters: SpectraParameters) -> Series:
    """The series of a measured table, without an artifact between.

    Raises:
        SpectraError: the table cannot be right, or the chart does not fit its levels.
    """
    table = measured_table(parameters)
    chart = Chart.of(parameters.chart, parameters.kappa, table.concentrations)
    labels = _labels(table, parameters)
    return Series(table.concentrations, table.axis, table.spectra, chart, labels)


def level_names(levels: Float[np.ndarray, "concentration"]) -> list[str]:
    """Name levels for keys and labels: six digits, or all of them where six do not tell apart."""
    short = [f"{level:g}" for level in levels]
    count = Counter(short)
    return [
        name if count[name] == 1 else repr(float(level))
        for name, level in zip(short, levels, strict=True)
    ]


def _labels(table: SpectraTable, parameters: SpectraParameters) -> dict[str, str]:
    return {
        "signal": parameters.quantity,
        "signal_unit": parameters.unit,
        "axis": table.axis_name,
        "axis_unit": table.axis_unit,
        "concentration_unit": parameters.concentration_unit,
    }


def _axis(
    writer: ArtifactWriter, axis: Float[np.ndarray, "wavelength"], name: str, unit: str
) -> None:
    writer.coordinate("wavelength", axis, units=unit, long_name=name)


def _label(name: str, unit: str) -> str:
    return name if unit == "1" else f"{name} ({unit})"
