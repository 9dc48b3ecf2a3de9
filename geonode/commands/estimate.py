"""Command `geonode estimate`: unknown spectra by a calibration file."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from geonode.commands.common import (
    MOST_SHOWN,
    AsJson,
    CacheDtype,
    Context,
    Overwrite,
    Root,
    echo_json,
    found_wrong,
    note,
    refuse_given,
    require_destination,
)
from geonode.commands.job import estimated, opened
from geonode.commands.spectra_file import (
    Accept,
    Align,
    Controls,
    Dilution,
    ReplicatesSaid,
    SecondTable,
    SheetName,
    Target,
    User,
    ValidationFile,
    tell_checks,
)
from geonode.config import EngineParameters, PrecisionParameters
from geonode.errors import ParameterError, SpectraError
from geonode.parameter_types import Format
from geonode.progress import bar
from geonode.terminal import refuse, tell

if TYPE_CHECKING:
    from geonode.calibration.calibration_file import CalibrationFile
    from geonode.calibration.routine import Routine
    from geonode.estimation.image import Image

OF_PIPELINE = Path("data/calibration.safetensors")
"""Calibration file of a pipeline, in its folder."""

RECORD = ".record.csv"
"""Ending of the record beside maps."""

FOR_IMAGES = ("workers", "scheduler", "batch_size", "cache_dtype", "device")
OF_KNOWN = ("concentrations", "replicates", "target")
FOR_TABLES = (
    "control",
    "history",
    "dilution",
    "align",
    "validation",
    "standards",
    "sheet",
    *OF_KNOWN,
)
"""Options for images, of known spectra, and for tables."""

MeasuredFiles = Annotated[
    list[Path],
    typer.Argument(
        metavar="SPECTRA",
        help="Measured spectra, in any known format: files, patterns, folders of tables; an image.",
    ),
]
ResultsOut = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="All estimates, .csv or .xlsx; maps of an image, .zarr.",
    ),
]
CalibrationPath = Annotated[
    Path | None,
    typer.Option(
        "--calibration",
        metavar="FILE",
        help="Calibration file of `geonode calibrate`.",
        show_default=f"that of the pipeline, {OF_PIPELINE}",
    ),
]
Standards = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Spectra of known concentration of another day, to correct by."
    ),
]
HistoryFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Table of all days (.csv) to which controls are added; their chart is a page beside "
        "it (.html). Westgard's rules are checked.",
    ),
]
LevelAsked = Annotated[
    float | None,
    typer.Option(
        "--level",
        metavar="SHARE",
        help="Probability of intervals, above 0.5 and below 1.",
        show_default="that of the calibration",
    ),
]
MapWorkers = Annotated[
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
TilePixels = Annotated[
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
    files: MeasuredFiles,
    calibration: CalibrationPath = None,
    control: Controls = None,
    history: HistoryFile = None,
    dilution: Dilution = None,
    align: Align = False,
    validation: ValidationFile = None,
    standards: Standards = None,
    user: User = None,
    accept: Accept = False,
    level: LevelAsked = None,
    out: ResultsOut = None,
    overwrite: Overwrite = False,
    workers: MapWorkers = None,
    scheduler: Scheduler = None,
    batch_size: TilePixels = None,
    cache_dtype: CacheDtype = None,
    device: MapDevice = None,
    sheet: SheetName = None,
    concentrations: SecondTable = None,
    replicates: ReplicatesSaid = "ask",
    target: Target = None,
    root: Root = Path(),
    as_json: AsJson = False,
) -> None:
    """Estimate the amounts of every spectrum by a calibration file, with their uncertainty.

    A spectrum may fit several concentrations, or none; both are reported. Controls come first, and
    beside --out the other tables and a record are written. The exit status is 1 if a spectrum fits
    none, a control or the validation failed, or no method of the calibration can be used and
    --accept does not allow it.

    For an image (y, x, wavelength) in a Zarr store, --out is a store of maps, in which such pixels
    are flagged; of several substances each has its maps. An interrupted run resumes from its
    finished tiles.
    """
    from geonode.calibration.results import files_of  # noqa: PLC0415
    from geonode.calibration.routine import Routine  # noqa: PLC0415
    from geonode.estimation.image import Image  # noqa: PLC0415
    from geonode.reading.files import Choices  # noqa: PLC0415

    path = root / OF_PIPELINE if calibration is None else calibration
    image = Image.open(files[0]) if len(files) == 1 else None
    if image is not None:
        refuse_given(context, FOR_TABLES, "a file of spectra, or no such option")
    else:
        refuse_given(context, FOR_IMAGES, "an image, or no such option")
        if validation is None and standards is None:
            refuse_given(context, OF_KNOWN, "--validation or --standards beside it")
    require = partial(require_destination, "--out", overwrite=overwrite)
    if image is not None and out is not None:
        require(out, ".zarr", never=(path, image.path))
        require(out.with_suffix(RECORD), ".csv", never=(path, image.path))
    found, by = opened(path, level)
    if image is not None:
        how = _engine(workers, scheduler), batch_size, cache_dtype or "float64", device
        _write_maps(found, by, image, out, user, *how)
        _tell_verdict(found)
    else:
        choices = Choices(sheet, concentrations, replicates, target)
        checks = control or [], validation, standards, choices
        routine = Routine.read(found.series, files, *checks, dilution=dilution, align=align)
        _require_history(history, routine, path, overwrite=overwrite)
        for one in files_of(out).values() if out is not None else ():
            require(one, ".csv", ".xlsx", never=(path, *routine.files, *filter(None, [history])))
        _estimate_tables(found, by, routine, out, user, history, as_json)
    if not (accept or found.model.is_usable):
        raise typer.Exit(1)


def _require_history(
    history: Path | None, routine: "Routine", calibration: Path, *, overwrite: bool
) -> None:
    """Refuse a history that is none, or whose page is not its own, or without a control."""
    from geonode.calibration.control_chart import read_history  # noqa: PLC0415

    if history is None:
        return
    if not routine.controls:
        raise ParameterError("options", "--history", str(history), "--control NAME=NUMBER too")
    never = calibration, *routine.files
    require_destination("--history", history, ".csv", never=never, overwrite=True)
    read_history(history)
    page, own = history.with_suffix(".html"), overwrite or history.exists()
    require_destination("--history", page, ".html", never=never, overwrite=own)


def _tell_verdict(found: "CalibrationFile[Any]") -> None:
    """Repeat the verdict of a calibration with doubts."""
    if not found.model.is_sound:
        refuse(f"the calibration with {found.source}: {found.model.sentence}")


def _estimate_tables(
    found: "CalibrationFile[Any]",
    by: tuple[str, str],
    routine: "Routine",
    out: Path | None,
    user: str | None,
    history: Path | None,
    as_json: bool,
) -> None:
    """Estimate spectra of files by a calibration, of which name and SHA-256 are given."""
    from geonode.calibration.results import (  # noqa: PLC0415
        brief_unknowns,
        misfits_said,
        result_tables,
        write_results,
    )

    found = estimated(found, by, routine, user, history=history)
    total = sum(len(one.names) for one in routine.unknowns.values())
    if out is not None:
        write_results(found, out)
    said = note if as_json else tell  # JSON stands alone
    failed = tell_checks(found, said)
    _tell_verdict(found)
    if found.correction:
        said(f"estimates are {found.correction.sentence(found.unit)}")
    if as_json:
        tables = {table.name: table.records() for table in result_tables(found)}
        verdict = {"verdict": found.model.sentence, "is_sound": found.model.is_sound}
        echo_json({"concentration_unit": found.unit, **verdict, **tables})
    else:
        tell("\n".join(brief_unknowns(found).lines(MOST_SHOWN, "--out writes all of them")))
    if out is not None:
        note(f"{total} estimates -> {out}")
    if misfits := misfits_said(found):
        found_wrong(misfits)
    if failed:
        raise typer.Exit(1)


def _engine(workers: int | None, scheduler: str | None) -> EngineParameters:
    if workers is not None and scheduler is not None:
        expected = "one of --workers and --scheduler; a cluster has its workers"
        raise ParameterError("options", "--workers", workers, expected)
    kind: Literal["local", "dask"] = "local" if workers is scheduler is None else "dask"
    return EngineParameters(kind=kind, scheduler=scheduler, workers=workers or 1)


def _write_maps(
    found: "CalibrationFile[Any]",
    by: tuple[str, str],
    image: "Image",
    out: Path | None,
    user: str | None,
    engine: EngineParameters,
    batch_size: int | None,
    number: Format,
    device: Literal["cpu", "cuda"] | None,
) -> None:
    """Write the maps of an image, tile by tile, and their record."""
    from geonode.calibration.provenance import record, unchanged  # noqa: PLC0415
    from geonode.compute.device import resolve  # noqa: PLC0415
    from geonode.compute.processes import open_engine  # noqa: PLC0415
    from geonode.estimation.image import Image  # noqa: PLC0415
    from geonode.estimation.maps import Maps  # noqa: PLC0415
    from geonode.spectra.quantities import quantity_of, require_quantity  # noqa: PLC0415
    from geonode.storage.document import write_text  # noqa: PLC0415
    from geonode.storage.table import Table  # noqa: PLC0415

    if out is None:
        expected = "a store of maps, .zarr, for an image"
        raise ParameterError("options", "--out", "nothing", expected)
    name, units = (image.spectra.attrs.get(key, "") for key in ("long_name", "units"))
    quantity = quantity_of(f"{name or image.spectra.name} {units}")
    if other := require_quantity(image.path, found.series.labels, quantity):
        said = f"found {quantity}, expected {other}; convert it first"
        raise SpectraError(f"{image.path}: {said}")
    place = resolve(device or "auto", PrecisionParameters()).reference
    with unchanged(image.path) as files:
        again = Image.open(image.path) or image  # as its axis was read before
        maps, (rows, columns) = Maps(found.model, again, number, place), again.shape
        own_cluster = engine.kind == "dask" and engine.scheduler is None
        most = batch_size or maps.pixels_at_once(engine.workers if own_cluster else maps.threads)
        with (
            open_engine(engine, out.with_name(f"{out.name}.shared")) as opened,
            bar(f"mapping {rows} x {columns} pixels", rows * columns) as report,
        ):
            maps.write(out, most, report, opened)
    note(f"maps of {rows} x {columns} pixels -> {out}")
    facts = record(found, by, files, {}, user)
    write_text(out.with_suffix(RECORD), Table.of_facts("record", facts).csv())
