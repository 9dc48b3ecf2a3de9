"""`geonode estimate`: concentrations of measured spectra."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from geonode.commands.common import AsJson, Root, aligned, echo_json, found_wrong, note
from geonode.commands.destination import require_destination
from geonode.errors import ParameterError
from geonode.progress import bar

if TYPE_CHECKING:
    from geonode.estimation.model import SpectralModel
    from geonode.estimation.tables import Row

SHOWN = 50
"""Rows, and sentences, on the screen."""

NAMED = 5
"""Spectra that the last line calls by their names."""


def estimate(
    file: Annotated[
        Path, typer.Argument(metavar="SPECTRA", help="Measured spectra, in any known format.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="All that was found: .csv; maps: .zarr."),
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The first posteriors drawn, .png.")
    ] = None,
    allow_offset: Annotated[
        bool, typer.Option("--allow-offset", help="Spectra may be off by a constant.")
    ] = False,
    allow_scale: Annotated[
        bool, typer.Option("--allow-scale", help="Spectra may be off by a factor near 1.")
    ] = False,
    root: Root = Path(),
    as_json: AsJson = False,
) -> None:
    """Estimate the concentration of every spectrum of a file, and say how sure that is.

    A spectrum may fit several concentrations, or none: both are said. The exit status is 1 if one
    fits none. Of an image (y, x, wavelength) in a Zarr store, --out is another store, of maps; what
    fits nowhere is flagged there.
    """
    from geonode.estimation import maps  # noqa: PLC0415
    from geonode.estimation.axis import require_axis  # noqa: PLC0415
    from geonode.estimation.curve import Curve  # noqa: PLC0415
    from geonode.estimation.model import SpectralModel  # noqa: PLC0415
    from geonode.estimation.tables import estimated, to_csv  # noqa: PLC0415
    from geonode.spectra.reading import read_spectra  # noqa: PLC0415
    from geonode.storage.document import write_text  # noqa: PLC0415

    data = root / "data"
    image = maps.is_image(file)
    for never in (data, file):
        require_destination("--out", out, ".zarr" if image else ".csv", never=never)
        require_destination("--figure", figure, ".png", never=never)
    model = SpectralModel.read(data)
    if image:
        _write_maps(model, file, out, offset=allow_offset, scale=allow_scale)
        return
    spectra = read_spectra(file)
    require_axis(model.series, spectra)
    curve = Curve.of(model, offset=allow_offset, scale=allow_scale)
    with bar("estimating", len(spectra.names)) as report:
        rows = estimated(curve, model.series, spectra, report)
    if out is not None:
        write_text(out, to_csv(rows))
        note(f"{len(rows)} estimates -> {out}")
    if figure is not None:
        from geonode.evaluation.estimation_figures import estimates_figure  # noqa: PLC0415
        from geonode.evaluation.figures import save_figure  # noqa: PLC0415

        drawn = estimates_figure(model, curve, spectra, rows, scale=allow_scale)
        save_figure(drawn, figure)
    unit = model.series.labels["concentration_unit"]
    if as_json:
        echo_json({"concentration_unit": unit, "spectra": [row.to_json() for row in rows]})
    else:
        typer.echo("\n".join(_described(rows, unit)))
    if wrong := [row.name for row in rows if not row.fits]:
        names = ", ".join(wrong[:NAMED]) + (", ..." if len(wrong) > NAMED else "")
        found_wrong(f"{len(wrong)} of {len(rows)} spectra fit nowhere: {names}")


def _write_maps(
    model: "SpectralModel", file: Path, out: Path | None, *, offset: bool, scale: bool
) -> None:
    """Maps of an image, block by block."""
    from geonode.estimation import maps  # noqa: PLC0415
    from geonode.estimation.curve import Curve  # noqa: PLC0415

    if out is None:
        raise ParameterError("options", "--out", "nothing", "a store of maps, .zarr, for an image")
    curve = Curve.of(model, offset=offset, scale=scale)
    made = maps.concentration_maps(curve, model.series, maps.Image.open(file))
    sizes = " x ".join(str(size) for size in made.sizes.values())
    with bar(f"mapping {sizes} pixels", made["flags"].data.npartitions) as report:
        maps.write_maps(made, out, report)
    note(f"maps of {sizes} pixels -> {out}")


def _described(rows: list["Row"], unit: str) -> Iterator[str]:
    from geonode.estimation.tables import header  # noqa: PLC0415

    yield from aligned([header(unit), *(row.shown() for row in rows[:SHOWN])])
    if len(rows) > SHOWN:
        yield f"and {len(rows) - SHOWN} more; --out writes all of them"
    told = [text for row in rows if (text := row.sentence(unit))]
    if told:
        yield ""
        yield from told[:SHOWN]
    if len(told) > SHOWN:
        yield f"and {len(told) - SHOWN} more that are ambiguous or fit nowhere"
