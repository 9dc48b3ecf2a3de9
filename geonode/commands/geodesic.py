"""Command `geonode geodesic`: the way from one concentration to another in the learned metric."""

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from geonode.commands.common import (
    AsJson,
    Overwrite,
    Root,
    aligned,
    echo_json,
    found_wrong,
    require_destination,
)
from geonode.errors import ParameterError
from geonode.terminal import tell

if TYPE_CHECKING:
    import numpy as np

    from geonode.learning.between import Between
    from geonode.spectra.series import Series

MOST_SHOWN = 20
"""Largest number of wavelengths on the screen."""

From = Annotated[float, typer.Argument(metavar="FROM", help="Concentration where it starts.")]
To = Annotated[float, typer.Argument(metavar="TO", help="Concentration where it ends.")]
Wavelengths = Annotated[
    list[float] | None,
    typer.Option("--wavelength", metavar="NUMBER", help="May be repeated.", show_default="all"),
]
Paths = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="All paths, .csv.")]
Drawn = Annotated[Path | None, typer.Option("--figure", metavar="FILE", help="Paths, .png.")]


def geodesic(
    start: From,
    end: To,
    wavelength: Wavelengths = None,
    out: Paths = None,
    figure: Drawn = None,
    overwrite: Overwrite = False,
    root: Root = Path(),
    as_json: AsJson = False,
) -> None:
    """Show the shortest path from one concentration to another in the learned metric.

    At every wavelength: the concentration along it, initial velocity, length, residual, status.
    Geodesics between measured levels are those that the pipeline has stored; others are solved. The
    exit status is 1 if one misses its target.
    """
    import numpy as np  # noqa: PLC0415

    from geonode.geometry.learned import LearnedMetrics  # noqa: PLC0415
    from geonode.learning.between import Between  # noqa: PLC0415
    from geonode.spectra.series import read_series  # noqa: PLC0415
    from geonode.storage.lineage import consistent_artifacts  # noqa: PLC0415

    data = root / "data"
    for option, path, suffix in (("--out", out, ".csv"), ("--figure", figure, ".png")):
        require_destination(option, path, suffix, never=(data,), overwrite=overwrite)
    spectra, metric, grids, stored = (
        data / name
        for name in ("spectra.zarr", "metric.safetensors", "christoffel.zarr", "geodesics.zarr")
    )
    made = (spectra, metric, *((grids, stored) if stored.exists() and grids.exists() else ()))
    with consistent_artifacts(*made):
        series, learned = read_series(spectra), LearnedMetrics.read(metric)
        wanted = series.axis if wavelength is None else np.unique(wavelength)
        _require(series, (start, end), wanted)
        found = Between.of(series, learned, (start, end), wanted, stored)
    rows = _rows(found)
    if out is not None:
        _write(out, series, found, rows)
    if figure is not None:
        from geonode.report.pictures import paths_between  # noqa: PLC0415

        paths_between(series, found).save_png(figure)
    lengths = found.length
    statistics = {
        "method": found.method,
        "wavelengths": len(rows),
        "missed": int((~found.converged).sum()),
        "largest_residual": float(found.residual.max()),
        "length": {"least": lengths.min(), "median": np.median(lengths), "most": lengths.max()},
    }
    if as_json:
        paths = [row | {"path": path} for row, path in zip(rows, found.path, strict=True)]
        about = {"from": start, "to": end, "labels": series.labels, "times": found.times}
        echo_json({**about, "statistics": statistics, "geodesics": paths})
    else:
        unit = series.labels["axis_unit"]
        header = (f"wavelength ({unit})", "initial velocity", "length", "residual", "status")
        shown = [
            [f"{value:.6g}" if isinstance(value, float) else value for value in row.values()]
            for row in rows[:MOST_SHOWN]
        ]
        tell("\n".join(aligned([header, *shown])))
        if len(rows) > MOST_SHOWN:
            tell(f"and {len(rows) - MOST_SHOWN} more; --out writes all of them")
        tell(
            f"{found.method}: length {lengths.min():.4g} to {lengths.max():.4g}, median "
            f"{np.median(lengths):.4g}; largest residual {found.residual.max():.1e} (chart units)"
        )
    if missed := statistics["missed"]:
        found_wrong(f"{missed} of {len(rows)} geodesics miss their target")


def _require(series: "Series", ends: tuple[float, float], wavelengths: "np.ndarray") -> None:
    """Refuse ends outside the chart, equal ones, and wavelengths off the axis."""
    low, high = series.concentrations[[0, -1]].tolist()
    first, last = series.axis[[0, -1]].tolist()
    unit, of_axis = series.labels["concentration_unit"], series.labels["axis_unit"]
    for name, value in zip(("FROM", "TO"), ends, strict=True):
        if not low <= value <= high:
            expected = f"{low:g} to {high:g} {unit}, the range of the chart"
            raise ParameterError("options", name, value, expected)
    if ends[0] == ends[1]:
        raise ParameterError("options", "TO", ends[1], "another concentration than FROM")
    for value in wavelengths.tolist():
        if not first <= value <= last:
            expected = f"{first:g} to {last:g} {of_axis}, the range of the axis"
            raise ParameterError("options", "--wavelength", value, expected)


def _rows(found: "Between") -> list[dict[str, Any]]:
    """What is known of every wavelength."""
    numbers = {
        "wavelength": found.wavelengths,
        "initial_velocity": found.velocity,
        "length": found.length,
        "residual": found.residual,
    }
    rows = zip(*(column.tolist() for column in numbers.values()), strict=True)
    return [
        dict(zip(numbers, row, strict=True)) | {"status": "converged" if reached else "missed"}
        for row, reached in zip(rows, found.converged, strict=True)
    ]


def _write(out: Path, series: "Series", found: "Between", rows: list[dict[str, Any]]) -> None:
    """Write a row for every point of every path."""
    from geonode.spectra.table import shortest  # noqa: PLC0415
    from geonode.storage.atomic import replacing  # noqa: PLC0415

    level = f"concentration_{series.labels['concentration_unit']}"
    with replacing(out) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
        table = csv.writer(stream, lineterminator="\n")
        table.writerow([*rows[0], "t", level])
        for row, path in zip(rows, found.path.tolist(), strict=True):
            at, *numbers, status = row.values()
            known = [shortest(at), *(f"{number:.9g}" for number in numbers), status]
            points = zip(found.times.tolist(), path, strict=True)
            table.writerows([*known, f"{t:.6g}", f"{c:.6g}"] for t, c in points)
