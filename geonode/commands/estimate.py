"""Command `geonode estimate`: by the model of a pipeline, or by a calibration file."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from geonode.commands.common import (
    MOST_LINES,
    AsJson,
    CacheDtype,
    Context,
    Overwrite,
    Root,
    echo_json,
    end_with_misfits,
    note,
    refuse_given,
    require_destination,
)
from geonode.commands.estimate_by_file import estimate_by_file
from geonode.commands.spectra_file import (
    Controls,
    RenamedColumns,
    SecondTable,
    SheetName,
    Target,
    User,
    ValidationFile,
)
from geonode.config import EngineParameters, PrecisionParameters
from geonode.errors import ParameterError, SpectraError
from geonode.parameter_types import Format
from geonode.progress import bar
from geonode.terminal import tell

if TYPE_CHECKING:
    from geonode.estimation.curve import Curve
    from geonode.estimation.image import Image
    from geonode.estimation.maps import Pixels
    from geonode.estimation.model import SpectralModel
    from geonode.estimation.tables import EstimateRow
    from geonode.spectra.series import Series
    from geonode.spectra.table import Spectra

FOR_IMAGES = ("workers", "scheduler", "batch_size", "cache_dtype", "device")
OF_KNOWN = ("concentrations", "replicates", "target")
FOR_TABLES = ("figure", "control", "validation", "standards", "sheet", *OF_KNOWN)
BY_MODEL = ("figure", "allow_offset", "allow_scale", "root")
BY_FILE = ("control", "validation", "standards", "user", *OF_KNOWN)
"""Options for images, of known spectra, for tables, by a model, and by a calibration file."""

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
        show_default="this process, with up to four threads",
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
        show_default="a chunk, or 16 MB of spectra, on a GPU 16,384 pixels; fewer if the tiles "
        "together take more than 1 GB",
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
    context: Context,
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
    concentrations: SecondTable = None,
    replicates: RenamedColumns = "ask",
    target: Target = None,
    root: Root = Path(),
    as_json: AsJson = False,
) -> None:
    """Estimate the concentration of every spectrum of a file, with its uncertainty.

    A spectrum may fit several concentrations, or none; both are reported. The exit status is 1 if
    a spectrum fits none, or a control or the validation failed. For an image (y, x, wavelength) in
    a Zarr store, --out is a store of maps, in which such pixels are flagged. An interrupted run
    resumes from its finished tiles.

    With --calibration nothing is fitted: all spectra are estimated as when it was made, controls
    first, and beside --out the other tables and a record are written. A calibration of several
    substances gives a map of each.
    """
    from geonode.estimation.image import Image  # noqa: PLC0415
    from geonode.reading.files import Choices, read_spectra  # noqa: PLC0415

    if calibration is not None:
        refuse_given(context, BY_MODEL, "no such option with --calibration")
    else:
        refuse_given(context, BY_FILE, "--calibration beside it")
        if len(files) > 1:
            raise ParameterError("options", "SPECTRA", str(files[1]), "one file, or --calibration")
    file, data = files[0], root / "data"
    require = partial(require_destination, never=(calibration or data, file), overwrite=overwrite)
    if len(files) == 1 and (image := Image.open(file)) is not None:
        refuse_given(context, FOR_TABLES, "a file of spectra, or no such option")
        require("--out", out, ".zarr")
        maps = MapOptions(workers, scheduler, batch_size, cache_dtype or "float64", device)
        if calibration is not None:
            require("--out", record_of(out), ".csv")
            maps.write_by_file(image, calibration, user, out)
        else:
            maps.write_by_model(image, *_read_model(data, allow_offset, allow_scale), out)
        return
    refuse_given(context, FOR_IMAGES, "an image, or no such option")
    if calibration is not None:
        if validation is None and standards is None:
            refuse_given(context, OF_KNOWN, "--validation or --standards beside it")
        choices = Choices(sheet, concentrations, replicates, target)
        checks = control or [], validation, standards, choices
        estimate_by_file(calibration, files, *checks, user, out, overwrite, as_json)
        return
    require("--out", out, ".csv")
    require("--figure", figure, ".png")
    found = read_spectra(file, sheet_name=sheet)
    model, curve = _read_model(data, allow_offset, allow_scale)
    spectra, rows = _estimated(file, model.series, curve, found, out)
    if figure is not None:
        from geonode.report.pictures import estimates_figure  # noqa: PLC0415

        estimates_figure(model, curve, spectra, rows, scale=allow_scale).save_png(figure)
    unit = model.series.labels["concentration_unit"]
    if as_json:
        echo_json({"concentration_unit": unit, "spectra": [row.to_json() for row in rows]})
    else:
        tell("\n".join(_described(rows, unit)))
    end_with_misfits([row.name for row in rows if not row.fits], len(rows))


def record_of(out: Path | None) -> Path | None:
    """File of the record beside maps."""
    return None if out is None else out.with_suffix(".record.csv")


def _read_model(data: Path, offset: bool, scale: bool) -> tuple["SpectralModel", "Curve"]:
    """Model of a pipeline, and its curve for single scans.

    Raises:
        ParameterError: offset or scale is to be allowed, and the preprocessing changes them.
    """
    from geonode.estimation.curve import Curve  # noqa: PLC0415
    from geonode.estimation.model import SpectralModel  # noqa: PLC0415

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
    return model, Curve.of(series, model.fold, offset=offset, scale=scale, one_scan=True)


def _estimated(
    file: Path, series: "Series", curve: "Curve", spectra: "Spectra", out: Path | None
) -> tuple["Spectra", list["EstimateRow"]]:
    """Spectra of a file as those of a series, and estimates, which are written to `out`."""
    from geonode.estimation.axis import require_axis  # noqa: PLC0415
    from geonode.estimation.tables import estimated, estimates_table  # noqa: PLC0415
    from geonode.reading.files import errors_naming  # noqa: PLC0415
    from geonode.spectra.quantities import in_quantity  # noqa: PLC0415
    from geonode.storage.document import write_text  # noqa: PLC0415

    spectra = in_quantity(file, series.labels, spectra)
    with errors_naming(file), bar("estimating", len(spectra.names)) as report:
        require_axis(series, spectra)
        rows = estimated(curve, series, spectra, report)
    if out is not None:
        write_text(out, estimates_table(rows).csv())
        note(f"{len(rows)} estimates -> {out}")
    return spectra, rows


def _described(rows: list["EstimateRow"], unit: str) -> Iterator[str]:
    from geonode.estimation.tables import estimates_table  # noqa: PLC0415

    shown = ("name", "mode", "mean", "std", "set90", "p_value", "ambiguous", "fits")
    table = estimates_table(rows, unit).only(*shown)
    yield from table.lines(MOST_LINES, "--out writes all of them")
    warnings = [text for row in rows if (text := row.sentence(unit))]
    if warnings:
        yield ""
        yield from warnings[:MOST_LINES]
    if len(warnings) > MOST_LINES:
        yield f"and {len(warnings) - MOST_LINES} more that are ambiguous or fit nowhere"


def _require_quantity(image: "Image", labels: dict[str, str]) -> None:
    """Refuse an image of another quantity than that of a series with these labels.

    Raises:
        SpectraError: it is one.
    """
    from geonode.spectra.quantities import quantity_of, require_quantity  # noqa: PLC0415

    name, units = (image.spectra.attrs.get(key, "") for key in ("long_name", "units"))
    found = quantity_of(f"{name or image.spectra.name} {units}")
    if expected := require_quantity(image.path, labels, found):
        raise SpectraError(f"{image.path}: found {found}, expected {expected}; convert it first")


@dataclass(frozen=True)
class MapOptions:
    """How maps of an image are computed, as the options for images say."""

    workers: int | None
    scheduler: str | None
    batch_size: int | None
    number: Format
    device: Literal["cpu", "cuda"] | None

    @property
    def engine(self) -> EngineParameters:
        """Parameters of the engine.

        Raises:
            ParameterError: both --workers and --scheduler are given.
        """
        if self.workers is not None and self.scheduler is not None:
            expected = "one of --workers and --scheduler; a cluster has its workers"
            raise ParameterError("options", "--workers", self.workers, expected)
        kind: Literal["local", "dask"] = (
            "local" if self.workers is self.scheduler is None else "dask"
        )
        return EngineParameters(kind=kind, scheduler=self.scheduler, workers=self.workers or 1)

    def write_by_model(
        self, image: "Image", model: "SpectralModel", curve: "Curve", out: Path | None
    ) -> None:
        """Write the maps of an image by the model of a pipeline; as `write`."""
        from geonode.estimation.maps import CurvePixels  # noqa: PLC0415

        _require_quantity(image, model.series.labels)
        self.write(image, CurvePixels(curve, model.series), out)

    def write_by_file(self, image: "Image", file: Path, user: str | None, out: Path | None) -> None:
        """Write the maps of an image by a calibration file, and their record.

        Raises:
            GeonodeError: the file cannot be used, or as `write`.
        """
        from geonode.calibration.pixels import pixels_of  # noqa: PLC0415
        from geonode.calibration.routine import record, unchanged  # noqa: PLC0415
        from geonode.calibration.saved import load_calibration  # noqa: PLC0415
        from geonode.estimation.image import Image  # noqa: PLC0415
        from geonode.storage.document import write_text  # noqa: PLC0415
        from geonode.storage.table import Table  # noqa: PLC0415

        with unchanged(file) as read:
            found = load_calibration(file)
        _require_quantity(image, found.series.labels)
        with unchanged(image.path) as files:
            again = Image.open(image.path) or image  # as its axis was read before
            self.write(again, pixels_of(found), out)
        if (path := record_of(out)) is not None:
            rows = record(found, (file.name, read[file]), files, {}, user)
            write_text(path, Table.of_facts("record", "Record", rows).csv())

    def write(self, image: "Image", pixels: "Pixels", out: Path | None) -> None:
        """Write the maps of an image, tile by tile.

        Raises:
            ParameterError: there is no `out`, or options contradict each other.
        """
        from geonode.compute.device import resolve  # noqa: PLC0415
        from geonode.compute.processes import open_engine  # noqa: PLC0415
        from geonode.estimation.maps import Maps  # noqa: PLC0415

        engine = self.engine
        if out is None:
            expected = "a store of maps, .zarr, for an image"
            raise ParameterError("options", "--out", "nothing", expected)
        place = resolve(self.device or "auto", PrecisionParameters()).reference
        maps, (rows, columns) = Maps(pixels, image, self.number, place), image.shape
        own_cluster = engine.kind == "dask" and engine.scheduler is None
        at_once = engine.workers if own_cluster else maps.threads
        most = self.batch_size or maps.pixels_at_once(at_once)
        shared = out.with_name(f"{out.name}.shared")
        with (
            open_engine(engine, shared) as opened,
            bar(f"mapping {rows} x {columns} pixels", rows * columns) as report,
        ):
            maps.write(out, most, report, opened)
        note(f"maps of {rows} x {columns} pixels -> {out}")
