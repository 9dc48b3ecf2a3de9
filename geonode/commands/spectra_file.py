"""Commands `geonode inspect`, `calibrate` and `next`: a file of spectra, without a pipeline."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from geonode.commands.common import MOST_SHOWN, AsJson, Overwrite, echo_json, note
from geonode.commands.job import block_of, calibrated_to_folder, inspected, spectra_parameters
from geonode.errors import MixtureError
from geonode.progress import bar
from geonode.terminal import refuse, tell

if TYPE_CHECKING:
    from geonode.calibration.calibration_file import CalibrationFile

ENDING = "_calibration"

KnownSpectra = Annotated[
    Path, typer.Argument(metavar="FILE", help="Spectra of known concentration, in any format.")
]
WindowSaid = Annotated[
    tuple[float, float] | None,
    typer.Option(metavar="LOW HIGH", help="Part of the axis to use."),
]
MissingSaid = Annotated[Literal["refuse", "mask"], typer.Option(help="What a missing value does.")]
SheetName = Annotated[
    str | None, typer.Option("--sheet", metavar="NAME", help="Sheet of workbooks.")
]
SecondTable = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Table of names and concentrations, or book.xlsx:Sheet."),
]
ReplicatesSaid = Annotated[
    Literal["ask", "marks", "levels"],
    typer.Option(help="What a column 20.1 beside 20 is: a scan (marks), or a level."),
]
Target = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Which amount to take, where the table gives several."),
]
Preprocess = Annotated[
    str | None,
    typer.Option(
        metavar="YAML",
        help=r"Steps in order: \[snv, {savgol: {window: 11, degree: 2, derivative: 1}}]; also "
        "asls; absorbance of % transmittance, kubelka_munk of % reflectance.",
    ),
]
ConcentrationUnit = Annotated[
    str | None, typer.Option(help="Unit of the levels.", show_default="that of the file")
]
UnknownFiles = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="Spectra of unknown concentration, or a pattern or folder; may be repeated.",
    ),
]
Controls = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=NUMBER",
        help="Unknown of known concentration, or amounts: QC=2,0.5; repeatable.",
    ),
]
Align = Annotated[
    bool,
    typer.Option(
        "--align", help="Correct an axis that is off by a constant; spectra must reach as far."
    ),
]
Dilution = Annotated[
    str | None,
    typer.Option(
        metavar="FACTOR|FILE",
        help="Unknowns were diluted: 10 for 1 part in 10, or a table with a column dilution; "
        "amounts are given before it.",
    ),
]
ValidationFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Spectra of known concentration, to judge by; read as those of levels."
    ),
]
User = Annotated[str | None, typer.Option(metavar="NAME", help="Who, for the record.")]
Accept = Annotated[
    bool, typer.Option("--accept", help="Exit status 0 although no method can be used.")
]
MethodKey = Annotated[
    str, typer.Option(help="What estimates unknowns, such as pls; auto: the combination of all.")
]
AllowOffset = Annotated[
    bool, typer.Option("--allow-offset", help="Unknowns may be off by a constant; by geonode.")
]
AllowScale = Annotated[
    bool, typer.Option("--allow-scale", help="Or by a factor near 1; by geonode.")
]
Level = Annotated[
    float,
    typer.Option(
        metavar="SHARE",
        help="Probability of intervals, above 0.5 and below 1; chemists often report 0.95 (k = 2).",
    ),
]
Precision = Annotated[
    float | None,
    typer.Option(
        metavar="PERCENT",
        help="Largest standard error, in % of the concentration, of a working range to be given.",
        show_default="20 and 10",
    ),
]
FolderOut = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Folder to write.", show_default=f"that of FILE with {ENDING}"
    ),
]


def inspect(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Spectra, in any known format, or a folder.")
    ],
    window: WindowSaid = None,
    missing: MissingSaid = "mask",
    sheet: SheetName = None,
    concentrations: SecondTable = None,
    replicates: ReplicatesSaid = "ask",
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Say how a file of spectra is understood, how noisy it is, and which parameters read it."""
    found = inspected(spectra_parameters(**locals()))
    if as_json:
        echo_json(found.to_json())
    else:
        tell(found.text())


def calibrate(
    file: KnownSpectra,
    unknown: UnknownFiles = None,
    out: FolderOut = None,
    quantity: Annotated[str, typer.Option(help="What was measured, for labels.")] = "signal",
    unit: Annotated[str, typer.Option(help="Unit of the signal; 1: none.")] = "1",
    concentration_unit: ConcentrationUnit = None,
    window: WindowSaid = None,
    preprocess: Preprocess = None,
    missing: MissingSaid = "refuse",
    sheet: SheetName = None,
    concentrations: SecondTable = None,
    replicates: ReplicatesSaid = "ask",
    target: Target = None,
    method: MethodKey = "auto",
    allow_offset: AllowOffset = False,
    allow_scale: AllowScale = False,
    level: Level = 0.9,
    precision: Precision = None,
    control: Controls = None,
    dilution: Dilution = None,
    align: Align = False,
    validation: ValidationFile = None,
    user: User = None,
    accept: Accept = False,
    overwrite: Overwrite = False,
) -> None:
    """Calibrate with a file of spectra, and say which method to use and how far off it is.

    Every level is estimated from the others by nine methods, whose mean, weighted by their errors,
    estimates unknowns. Several amounts are calibrated together, unless --target names one.
    DIR gets a page (index.html), a workbook (calibration.xlsx), CSV files, and the calibration file
    for `geonode estimate --calibration` (calibration.safetensors). The exit status is 1 if a
    control or the validation failed, or no method can be used and --accept does not allow it.
    """
    from geonode.calibration.results import brief_unknowns  # noqa: PLC0415
    from geonode.report.calibration_tables import errors_table  # noqa: PLC0415

    parameters = spectra_parameters(**locals())
    options: dict[str, Any] = {"allow_offset": allow_offset, "allow_scale": allow_scale}
    options |= {"level": level, "precision": precision}
    how = block_of("calibrate", method=method, **options).calibrate
    folder = out or Path(f"{file.stem}{ENDING}")
    use = unknown or (), control or (), validation, user, dilution
    found = calibrated_to_folder(parameters, how, folder, *use, align=align, overwrite=overwrite)
    failed = tell_checks(found)
    (tell if found.model.is_sound else refuse)(found.model.sentence)
    if not found.series.is_of_one:
        shown = ("RMSEP, combined", "RMSEP, PLS on preprocessings", "best method")
        tell("\n".join(["", *errors_table(found.model).only("substance", *shown).lines()]))
    if found.unknowns:
        lines = brief_unknowns(found).lines(MOST_SHOWN, "in the table of unknowns")
        tell("\n".join(["", *lines]))
    by = f", unknowns estimated by {found.method}" if found.unknowns else ""
    note(f"{found.model.counted} calibrated{by} -> {folder / 'index.html'}")
    if failed or not (accept or found.model.is_usable):
        raise typer.Exit(1)


def next_levels(
    file: KnownSpectra,
    count: Annotated[
        int, typer.Option(min=1, max=20, help="Standards, each after those before.")
    ] = 3,
    concentration_unit: ConcentrationUnit = None,
    window: WindowSaid = None,
    preprocess: Preprocess = None,
    missing: MissingSaid = "refuse",
    sheet: SheetName = None,
    concentrations: SecondTable = None,
    replicates: ReplicatesSaid = "ask",
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Propose the concentrations to measure next, or the mixtures of several amounts.

    Each is where the predicted spectrum is least certain, or a mixture that makes it surer
    everywhere. The expected error is that of the signal, in its unit; the share is what this
    standard should remove of the error over the whole range (`gain` in JSON).
    """
    from geonode.mixtures.design import Design, errors_of_file  # noqa: PLC0415
    from geonode.mixtures.forward import ForwardModel  # noqa: PLC0415
    from geonode.mixtures.next_compositions import propose_mixtures  # noqa: PLC0415
    from geonode.posterior.next_levels import propose  # noqa: PLC0415
    from geonode.reading.series_file import read_measured  # noqa: PLC0415
    from geonode.storage.table import Column, Table  # noqa: PLC0415

    series = read_measured(spectra_parameters(**locals()))
    if series.is_of_one:
        with bar("comparing concentrations", count) as report:
            found = propose(series.concentrations, series.signal, count, report)
        content: dict[str, Any] = {"unit": series.unit}
    else:
        with errors_of_file(file.name):
            design = Design.of(series.amounts, series.substances)
            if design.without_surface:
                raise MixtureError(design.without_surface)
            found = propose_mixtures(ForwardModel.of(design, series.signal), count)
        content = {"substances": series.substances, "units": series.units}
    if as_json:
        rows = [one._asdict() | {"gain": one.gain} for one in found]
        if series.is_of_one:
            rows = [{"concentration": one.pop("amounts")[0], **one} for one in rows]
        echo_json(content | {"next": rows})
        return
    amounts = zip(*(one.amounts for one in found), strict=True)
    columns = [Column(*one) for one in zip(series.named, amounts, strict=True)]
    errors, signal_unit = [one.expected_error for one in found], series.labels["signal_unit"]
    columns.append(Column("expected error of the signal there", errors, signal_unit, digits=3))
    columns.append(Column("share of the error removed", [f"{one.gain:.0%}" for one in found]))
    tell("\n".join(Table("next", "What to measure next", columns).lines()))


def tell_checks(found: "CalibrationFile[Any]", said: Callable[[str], None] = tell) -> bool:
    """Report how controls and validation came out, failed ones in red; whether one failed."""
    checks = [(check.sentence(found.unit), check.passed) for check in found.controls]
    checks += [(rule.sentence, False) for rule in found.violations if rule.rejects]
    checks += [(check.sentence(found.unit), not check.fails) for check in found.validations]
    for sentence, passed in checks:
        (said if passed else refuse)(sentence)
    for doubt in found.doubts:
        refuse(doubt)
    for sentence in found.aligned:
        said(sentence)
    return not all(passed for _, passed in checks)
