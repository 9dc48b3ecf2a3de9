"""Command `geonode estimate`: concentrations of measured spectra."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from geonode.commands.common import (
    AsJson,
    CacheDtype,
    Overwrite,
    Root,
    aligned,
    echo_json,
    found_wrong,
    note,
)
from geonode.commands.destination import require_destination
from geonode.commands.imaging import BatchSize, ImageOptions, Scheduler, Workers, write_maps
from geonode.commands.spectra_options import Sheet
from geonode.errors import ParameterError
from geonode.progress import bar
from geonode.terminal import tell

if TYPE_CHECKING:
    from geonode.estimation.curve import Curve
    from geonode.estimation.model import SpectralModel
    from geonode.estimation.tables import EstimateRow
    from geonode.spectra.reading import Spectra

MOST_LINES = 50
"""Largest number of rows, and of sentences, on the screen."""

NAMED = 5
"""Largest number of names in the last line."""

Measured = Annotated[
    Path, typer.Argument(metavar="SPECTRA", help="Measured spectra, in any known format.")
]
Out = Annotated[
    Path | None, typer.Option(metavar="FILE", help="All estimates, .csv; maps of an image, .zarr.")
]
Figure = Annotated[
    Path | None, typer.Option(metavar="FILE", help="The first posteriors drawn, .png.")
]
AllowOffset = Annotated[
    bool, typer.Option("--allow-offset", help="Spectra may be off by a constant.")
]
AllowScale = Annotated[
    bool, typer.Option("--allow-scale", help="Spectra may be off by a factor near 1.")
]


def estimate(
    file: Measured,
    out: Out = None,
    figure: Figure = None,
    allow_offset: AllowOffset = False,
    allow_scale: AllowScale = False,
    overwrite: Overwrite = False,
    workers: Workers = None,
    scheduler: Scheduler = None,
    batch_size: BatchSize = None,
    cache_dtype: CacheDtype = None,
    sheet: Sheet = None,
    root: Root = Path(),
    as_json: AsJson = False,
) -> None:
    """Estimate the concentration of every spectrum of a file, with its uncertainty.

    A spectrum may fit several concentrations, or none; both are reported. The exit status is 1 if
    a spectrum fits none. For an image (y, x, wavelength) in a Zarr store, --out is a store of maps,
    in which such pixels are flagged. An interrupted run resumes from its finished tiles.
    """
    from geonode.estimation.axis import require_axis  # noqa: PLC0415
    from geonode.estimation.curve import Curve  # noqa: PLC0415
    from geonode.estimation.image import is_image  # noqa: PLC0415
    from geonode.spectra.reading import read_spectra  # noqa: PLC0415

    data, image = root / "data", is_image(file)
    options = ImageOptions(workers, scheduler, batch_size, cache_dtype)
    require = partial(require_destination, never=(data, file), overwrite=overwrite)
    require("--out", out, ".zarr" if image else ".csv")
    require("--figure", figure, ".png")
    allowed = {"offset": allow_offset, "scale": allow_scale, "one_scan": True}
    if image:
        maps = _maps_of_image(out, figure)
        model = _model(data, allow_offset, allow_scale)
        write_maps(file, maps, Curve.of(model, **allowed), model.series, options)
        return
    options.require_none()
    model = _model(data, allow_offset, allow_scale)
    spectra = read_spectra(file, sheet_name=sheet)
    require_axis(model.series, spectra)
    curve = Curve.of(model, **allowed)
    rows = _estimates(curve, model, spectra, out)
    if figure is not None:
        _draw(figure, curve, model, spectra, rows, scale=allow_scale)
    _tell(rows, model.series.labels["concentration_unit"], as_json=as_json)


def _maps_of_image(out: Path | None, figure: Path | None) -> Path:
    """Destination of the maps of an image, of which no figure is drawn."""
    if out is None:
        expected = "a store of maps, .zarr, for an image"
        raise ParameterError("options", "--out", "nothing", expected)
    if figure is not None:
        raise ParameterError("options", "--figure", str(figure), "no figure of an image")
    return out


def _model(data: Path, allow_offset: bool, allow_scale: bool) -> "SpectralModel":
    """Model of a folder, whose preprocessing keeps what is to be allowed."""
    from geonode.estimation.model import SpectralModel  # noqa: PLC0415

    model = SpectralModel.read(data)
    if (allow_offset or allow_scale) and not model.series.preprocessing.keeps_offset_and_scale:
        raise ParameterError(
            "options",
            "--allow-offset" if allow_offset else "--allow-scale",
            True,
            f"neither, as the model is of {model.series.labels['signal']}, in which offsets and "
            "factors are others",
        )
    return model


def _draw(
    path: Path,
    curve: "Curve",
    model: "SpectralModel",
    spectra: "Spectra",
    rows: "list[EstimateRow]",
    *,
    scale: bool,
) -> None:
    """Draw the posterior of every spectrum."""
    from geonode.evaluation.estimation_figures import estimates_figure  # noqa: PLC0415
    from geonode.evaluation.figures import save_figure  # noqa: PLC0415

    save_figure(estimates_figure(model, curve, spectra, rows, scale=scale), path)


def _tell(rows: "list[EstimateRow]", unit: str, *, as_json: bool) -> None:
    """Print the estimates; exit with status 1 if a spectrum fits nowhere."""
    if as_json:
        echo_json({"concentration_unit": unit, "spectra": [row.to_json() for row in rows]})
    else:
        tell("\n".join(_described(rows, unit)))
    if wrong := [row.name for row in rows if not row.fits]:
        names = ", ".join(wrong[:NAMED]) + (", ..." if len(wrong) > NAMED else "")
        found_wrong(f"{len(wrong)} of {len(rows)} spectra fit nowhere: {names}")


def _estimates(
    curve: "Curve", model: "SpectralModel", spectra: "Spectra", out: Path | None
) -> list["EstimateRow"]:
    """Estimates of a table, also written to a file if requested."""
    from geonode.estimation.tables import estimated, to_csv  # noqa: PLC0415
    from geonode.storage.document import write_text  # noqa: PLC0415

    with bar("estimating", len(spectra.names)) as report:
        rows = estimated(curve, model.series, spectra, report)
    if out is not None:
        write_text(out, to_csv(rows))
        note(f"{len(rows)} estimates -> {out}")
    return rows


def _described(rows: list["EstimateRow"], unit: str) -> Iterator[str]:
    from geonode.estimation.tables import header  # noqa: PLC0415

    yield from aligned([header(unit), *(row.shown() for row in rows[:MOST_LINES])])
    if len(rows) > MOST_LINES:
        yield f"and {len(rows) - MOST_LINES} more; --out writes all of them"
    warnings = [text for row in rows if (text := row.sentence(unit))]
    if warnings:
        yield ""
        yield from warnings[:MOST_LINES]
    if len(warnings) > MOST_LINES:
        yield f"and {len(warnings) - MOST_LINES} more that are ambiguous or fit nowhere"
