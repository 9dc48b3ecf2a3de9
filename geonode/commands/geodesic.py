"""Command `geonode geodesic`: the way from one concentration to another in the learned metric."""

from pathlib import Path
from typing import Annotated

import typer

from geonode.commands.common import (
    MOST_SHOWN,
    AsJson,
    Overwrite,
    Root,
    echo_json,
    found_wrong,
    require_destination,
)
from geonode.errors import ParameterError
from geonode.terminal import tell

From = Annotated[float, typer.Argument(metavar="FROM", help="Concentration where it starts.")]
To = Annotated[float, typer.Argument(metavar="TO", help="Concentration where it ends.")]
AtWavelengths = Annotated[
    list[float] | None,
    typer.Option("--wavelength", metavar="NUMBER", help="May be repeated.", show_default="all"),
]
Paths = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="All paths, .csv.")]
Drawn = Annotated[Path | None, typer.Option("--figure", metavar="FILE", help="Paths, .png.")]


def geodesic(
    start: From,
    end: To,
    wavelength: AtWavelengths = None,
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
    from geonode.learning.between import between  # noqa: PLC0415
    from geonode.spectra.series import read_series  # noqa: PLC0415
    from geonode.storage.document import write_text  # noqa: PLC0415
    from geonode.storage.lineage import consistent_artifacts  # noqa: PLC0415
    from geonode.storage.table import Column, Table  # noqa: PLC0415

    data = root / "data"
    for option, path, suffix in (("--out", out, ".csv"), ("--figure", figure, ".png")):
        require_destination(option, path, suffix, never=(data,), overwrite=overwrite)
    names = ("spectra.zarr", "metric.safetensors", "christoffel.zarr", "geodesics.zarr")
    spectra, metric, *later = paths = [data / name for name in names]
    with consistent_artifacts(*(paths if all(path.exists() for path in later) else paths[:2])):
        series, learned = read_series(spectra), LearnedMetrics.read(metric)
        wanted = series.axis if wavelength is None else np.unique(wavelength)
        levels, of_axis = series.concentrations, series.labels["axis_unit"]
        asked = [("FROM", start, levels, "chart"), ("TO", end, levels, "chart")]
        asked += [("--wavelength", value, series.axis, "axis") for value in wanted.tolist()]
        for name, value, (low, *_, high), what in asked:
            if not low <= value <= high:
                expected = f"{low:g} to {high:g}, the range of the {what}"
                raise ParameterError("options", name, value, expected)
        if start == end:
            raise ParameterError("options", "TO", end, "another concentration than FROM")
        table = between(series, learned, (start, end), wanted, later[-1])
    units = {"wavelength": of_axis}
    columns = [
        Column(name, table[name].to_numpy(), units.get(name, "1"), exponent=True) for name in table
    ]
    if out is not None:
        write_text(out, Table("geodesics", "Geodesics", columns).csv())
    if figure is not None:
        from geonode.report.pictures import paths_between  # noqa: PLC0415

        paths_between(series, table).save_png(figure)
    missed, largest = int((table["status"] == "missed").sum()), float(table["residual"].max())
    least, middle, most = (float(n) for n in table["length"].quantile([0, 0.5, 1]))
    if as_json:
        lengths = {"least": least, "median": middle, "most": most}
        statistics = {"missed": missed, "largest_residual": largest, "length": lengths}
        about = {"from": start, "to": end, "labels": series.labels, "statistics": statistics}
        echo_json(about | {"geodesics": table.to_dict("records")})
    else:
        shown = Table("geodesics", "Geodesics", columns[:6])
        tell("\n".join(shown.lines(MOST_SHOWN, "--out writes all of them", 6)))
        tell(
            f"length {least:.4g} to {most:.4g}, median {middle:.4g}; largest residual "
            f"{largest:.1e} (chart units)"
        )
    if missed:
        found_wrong(f"{missed} of {len(table)} geodesics miss their target")
