"""Command `geonode estimate`: by the model of a pipeline, or by a calibration file."""

import csv
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

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
    require_destination,
)
from geonode.commands.spectra_file import Controls, SheetName, User, ValidationFile, tell_checks
from geonode.config import EngineParameters, PrecisionParameters
from geonode.errors import ParameterError
from geonode.parameter_types import Format
from geonode.progress import bar
from geonode.terminal import tell

if TYPE_CHECKING:
    from geonode.estimation.curve import Curve
    from geonode.estimation.image import Image
    from geonode.estimation.tables import EstimateRow
    from geonode.spectra.series import Series

MOST_LINES = 50
"""Largest number of rows, and of sentences, on the screen."""

NAMED = 5
"""Largest number of names in the last line."""

Measured = Annotated[
    list[Path],
    typer.Argument(
        metavar="SPECTRA",
        help="Measured spectra, in any known format; with --calibration several files, patterns or "
        "folders of tables.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="All estimates, .csv; maps of an image, .zarr; with --calibration also .xlsx.",
    ),
]
CalibrationFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Calibration file of `geonode calibrate`, to estimate by."),
]
Standards = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Spectra of known concentration of another day, to correct by."
    ),
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

Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="For an image: processes of Dask.",
        show_default="this process, with a thread per core",
    ),
]
Scheduler = Annotated[
    str | None, typer.Option(metavar="tcp://HOST:PORT", help="For an image: a cluster of Dask.")
]
BatchSize = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="For an image: pixels of a tile.",
        show_default="a chunk, or 16 MB of spectra; fewer if the tiles together take more than "
        "1 GB",
    ),
]


MapDevice = Annotated[
    Literal["cpu", "cuda"] | None,
    typer.Option(
        "--device",
        help="For an image: device that estimates.",
        show_default="a GPU with double precision, if there is one",
    ),
]


def estimate(
    files: Measured,
    calibration: CalibrationFile = None,
    control: Controls = None,
    validation: ValidationFile = None,
    standards: Standards = None,
    user: User = None,
    out: Out = None,
    figure: Figure = None,
    allow_offset: AllowOffset = False,
    allow_scale: AllowScale = False,
    overwrite: Overwrite = False,
    workers: Workers = None,
    scheduler: Scheduler = None,
    batch_size: BatchSize = None,
    cache_dtype: CacheDtype = None,
    device: MapDevice = None,
    sheet: SheetName = None,
    root: Root = Path(),
    as_json: AsJson = False,
) -> None:
    """Estimate the concentration of every spectrum of a file, with its uncertainty.

    A spectrum may fit several concentrations, or none; both are reported. The exit status is 1 if
    a spectrum fits none, or a control failed. For an image (y, x, wavelength) in a Zarr store,
    --out is a store of maps, in which such pixels are flagged. An interrupted run resumes from its
    finished tiles.

    With --calibration nothing is fitted: all spectra are estimated as when it was made, controls
    first, and beside --out the other tables and a record are written.
    """
    of_images = {"--workers": workers, "--scheduler": scheduler, "--batch-size": batch_size}
    of_images |= {"--cache-dtype": cache_dtype, "--device": device}
    of_model = of_images | {"--figure": figure, "--allow-offset": allow_offset or None}
    of_model["--allow-scale"] = allow_scale or None
    of_file: dict[str, Any] = {
        "--control": control,
        "--validation": validation,
        "--standards": standards,
    }
    of_file["--user"] = user
    if calibration is not None:
        _refuse(of_model, "no such option with --calibration")
        checks = control or [], validation, standards, sheet
        _by_calibration(calibration, files, checks, user, out, overwrite, as_json)
        return
    _refuse(of_file, "--calibration beside it")
    if len(files) > 1:
        raise ParameterError("options", "SPECTRA", str(files[1]), "one file, or --calibration")
    _by_model(files[0], locals(), of_images)


def _refuse(options: dict[str, Any], expected: str) -> None:
    """Refuse options that mean nothing here.

    Raises:
        ParameterError: one was given.
    """
    for option, value in options.items():
        if value is not None:
            found = str(value) if isinstance(value, Path) else value
            raise ParameterError("options", option, found, expected)


def _by_calibration(
    calibration: Path,
    given: list[Path],
    checks: tuple[list[str], Path | None, Path | None, str | None],
    user: str | None,
    out: Path | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Estimate by a calibration file; `checks` are the last arguments of `Routine.read`."""
    from geonode.calibration.routine import Routine, record  # noqa: PLC0415
    from geonode.calibration.saved import load_calibration  # noqa: PLC0415
    from geonode.estimation.tables import csv_text  # noqa: PLC0415
    from geonode.report.calibration_files import beside, write_results  # noqa: PLC0415
    from geonode.report.calibration_tables import result_tables  # noqa: PLC0415

    found = load_calibration(calibration)
    routine = Routine.read(found.series, given, *checks)
    require = partial(require_destination, never=(calibration, *routine.files), overwrite=overwrite)
    require("--out", out, ".csv", ".xlsx")
    for one in beside(out) if out is not None else ():
        require("--out", one, ".csv")
    total = sum(len(one.names) for one in routine.unknowns.values())
    with bar("estimating", total) as report:
        found = routine.used(found, report)
    found = replace(found, record=record(found, calibration, routine.files, user))
    if out is not None:
        write_results(found, out)
    failed = tell_checks(found)
    if found.correction:
        tell(f"estimates are {found.correction.sentence(found.unit)}")
    tables = {table.name: table for table in result_tables(found)}
    if as_json:
        of_table = {
            name: [dict(zip(table.columns, row, strict=True)) for row in table.rows]
            for name, table in tables.items()
        }
        echo_json({"concentration_unit": found.unit, **of_table})
    else:
        shown = tables["unknowns"]
        text = csv_text(shown.columns, shown.rows[:MOST_LINES])
        remark = shown.columns.index("remark")
        cells = [[*row[:6], row[remark]] for row in csv.reader(text.splitlines())]
        tell("\n".join(aligned(cells)))
        if len(shown.rows) > MOST_LINES:
            tell(f"and {len(shown.rows) - MOST_LINES} more; --out writes all of them")
    if out is not None:
        note(f"{total} estimates -> {out}")
    rows = [one.of_geonode for _, of_file in found.unknowns for one in of_file]
    _end_with([row.name for row in rows if not row.fits], total)
    if failed:
        raise typer.Exit(1)


def _end_with(wrong: list[str], total: int) -> None:
    """End with exit status 1 if spectra fit nowhere."""
    if wrong:
        names = ", ".join(wrong[:NAMED]) + (", ..." if len(wrong) > NAMED else "")
        found_wrong(f"{len(wrong)} of {total} spectra fit nowhere: {names}")


def _by_model(file: Path, options: dict[str, Any], of_images: dict[str, Any]) -> None:
    """Estimate by the model of a pipeline; `options` are those of `estimate` by name."""
    from geonode.estimation.axis import require_axis  # noqa: PLC0415
    from geonode.estimation.curve import Curve  # noqa: PLC0415
    from geonode.estimation.image import Image  # noqa: PLC0415
    from geonode.estimation.model import SpectralModel  # noqa: PLC0415
    from geonode.estimation.tables import csv_text, estimated  # noqa: PLC0415
    from geonode.spectra.reading import read_spectra  # noqa: PLC0415
    from geonode.storage.document import write_text  # noqa: PLC0415

    out, figure, overwrite, as_json = (
        options[name] for name in ("out", "figure", "overwrite", "as_json")
    )
    offset, scale = options["allow_offset"], options["allow_scale"]
    data, image = options["root"] / "data", Image.open(file)
    require = partial(require_destination, never=(data, file), overwrite=overwrite)
    require("--out", out, ".zarr" if image is not None else ".csv")
    require("--figure", figure, ".png")
    if image is not None:
        _refuse({"--figure": figure}, "a file of spectra, or no such option")
    else:
        _refuse(of_images, "an image, or no such option")
    model = SpectralModel.read(data)
    series = model.series
    if (offset or scale) and not series.preprocessing.keeps_offset_and_scale:
        raise ParameterError(
            "options",
            "--allow-offset" if offset else "--allow-scale",
            True,
            f"neither, as the model is of {series.labels['signal']}, in which offsets and "
            "factors are others",
        )
    curve_of = partial(Curve.of, series, model.fold, offset=offset, scale=scale, one_scan=True)
    if image is not None:
        engine = _engine(options["workers"], options["scheduler"])
        number: Format = options["cache_dtype"] or "float64"
        pixels, device = options["batch_size"], options["device"]
        _write_maps(image, out, curve_of(), series, engine, pixels, number, device)
        return
    spectra = read_spectra(file, sheet_name=options["sheet"])
    require_axis(series, spectra)
    curve = curve_of()
    with bar("estimating", len(spectra.names)) as report:
        rows = estimated(curve, series, spectra, report)
    if out is not None:
        cells = [row.cells() for row in rows]
        write_text(out, csv_text(cells[0], (row.values() for row in cells)))
        note(f"{len(rows)} estimates -> {out}")
    if figure is not None:
        from geonode.report.pictures import estimates_figure  # noqa: PLC0415

        estimates_figure(model, curve, spectra, rows, scale=scale).save_png(figure)
    unit = series.labels["concentration_unit"]
    if as_json:
        echo_json({"concentration_unit": unit, "spectra": [row.to_json() for row in rows]})
    else:
        tell("\n".join(_described(rows, unit)))
    _end_with([row.name for row in rows if not row.fits], len(rows))


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


def _engine(workers: int | None, scheduler: str | None) -> EngineParameters:
    """Parameters of the engine.

    Raises:
        ParameterError: both --workers and --scheduler are given.
    """
    if workers is not None and scheduler is not None:
        expected = "one of --workers and --scheduler; a cluster has its workers"
        raise ParameterError("options", "--workers", workers, expected)
    kind: Literal["local", "dask"] = "local" if workers is scheduler is None else "dask"
    return EngineParameters(kind=kind, scheduler=scheduler, workers=workers or 1)


def _write_maps(
    image: "Image",
    out: Path | None,
    curve: "Curve",
    series: "Series",
    engine: EngineParameters,
    batch_size: int | None,
    number: Format,
    device: Literal["cpu", "cuda"] | None,
) -> None:
    """Write the maps of an image, tile by tile."""
    from geonode.compute.device import resolve  # noqa: PLC0415
    from geonode.compute.processes import open_engine  # noqa: PLC0415
    from geonode.estimation.maps import Maps  # noqa: PLC0415
    from geonode.machine import usable_cores  # noqa: PLC0415

    if out is None:
        expected = "a store of maps, .zarr, for an image"
        raise ParameterError("options", "--out", "nothing", expected)
    place = resolve(device or "auto", PrecisionParameters()).reference
    (rows, columns), cores = image.shape, usable_cores()
    own_cluster = engine.kind == "dask" and engine.scheduler is None
    pixels = batch_size or image.pixels_at_once(engine.workers if own_cluster else cores)
    shared = out.with_name(f"{out.name}.shared")
    with (
        open_engine(engine, shared) as opened,
        bar(f"mapping {rows} x {columns} pixels", rows * columns) as report,
    ):
        Maps(curve, series, image, number, place).write(out, pixels, report, opened, cores)
    note(f"maps of {rows} x {columns} pixels -> {out}")
