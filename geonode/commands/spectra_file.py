"""Commands `geonode inspect`, `calibrate` and `next`: a file of spectra, without a pipeline."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from ruamel.yaml.error import YAMLError

from geonode.commands.common import (
    AsJson,
    Context,
    Overwrite,
    aligned,
    echo_json,
    note,
    refuse_given,
)
from geonode.config import SpectraParameters
from geonode.errors import MixtureError, ParameterError
from geonode.parameters_file import default_parameters, parse_yaml
from geonode.progress import bar
from geonode.terminal import refuse, tell

if TYPE_CHECKING:
    from geonode.calibration.calibrated_file import CalibratedFile
    from geonode.calibration.mixture_file import MixtureFile
    from geonode.spectra.mixture_series import MixtureSeries
    from geonode.spectra.series import Series

ENDING = "_calibration"

KnownSpectra = Annotated[
    Path, typer.Argument(metavar="FILE", help="Spectra of known concentration, in any format.")
]
Window = Annotated[
    tuple[float, float] | None,
    typer.Option(metavar="LOW HIGH", help="Part of the axis to use."),
]
Missing = Annotated[Literal["refuse", "mask"], typer.Option(help="What a missing value does.")]
SheetName = Annotated[
    str | None, typer.Option("--sheet", metavar="NAME", help="Sheet of workbooks.")
]
SecondTable = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Second table, of names and concentrations."),
]
RenamedColumns = Annotated[
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
        help=r"Steps in order: \[snv, {savgol: {window: 11, degree: 2, derivative: 1}}].",
    ),
]
ConcentrationUnit = Annotated[
    str | None, typer.Option(help="Unit of the levels.", show_default="that of the file")
]
Unknowns = Annotated[
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
ValidationFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Spectra of known concentration, to judge by; read as those of levels."
    ),
]
User = Annotated[str | None, typer.Option(metavar="NAME", help="Who, for the record.")]
Method = Annotated[
    str, typer.Option(help="What estimates unknowns, such as pls; auto: the simplest of the best.")
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Folder to write.", show_default=f"that of FILE with {ENDING}"
    ),
]


def inspect(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Spectra, in any known format, or a folder.")
    ],
    window: Window = None,
    missing: Missing = "mask",
    sheet: SheetName = None,
    concentrations: SecondTable = None,
    replicates: RenamedColumns = "ask",
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Say how a file of spectra is understood, how noisy it is, and which parameters read it."""
    from geonode.commands.mixture_design import inspect_mixtures  # noqa: PLC0415
    from geonode.reading.files import Choices  # noqa: PLC0415
    from geonode.reading.inspection import inspect_file, options_of  # noqa: PLC0415

    choices = Choices(sheet, concentrations, replicates, target)
    chosen = asdict(choices)
    parameters = spectra_parameters(file, window=window, missing=missing, **chosen)
    if inspect_mixtures(parameters, options_of(file, window, choices), as_json=as_json):
        return
    found = inspect_file(file, window=window, missing=missing, choices=choices)
    if as_json:
        echo_json(found.to_json())
    else:
        tell(found.text())


def calibrate(
    context: Context,
    file: KnownSpectra,
    unknown: Unknowns = None,
    out: Out = None,
    quantity: Annotated[str, typer.Option(help="What was measured, for labels.")] = "signal",
    unit: Annotated[str, typer.Option(help="Unit of the signal; 1: none.")] = "1",
    concentration_unit: ConcentrationUnit = None,
    window: Window = None,
    preprocess: Preprocess = None,
    missing: Missing = "refuse",
    sheet: SheetName = None,
    concentrations: SecondTable = None,
    replicates: RenamedColumns = "ask",
    target: Target = None,
    method: Method = "auto",
    control: Controls = None,
    validation: ValidationFile = None,
    user: User = None,
    overwrite: Overwrite = False,
) -> None:
    """Calibrate with a file of spectra, and say which method to use and how far off it is.

    Every level is estimated from the others by eight methods, of which the best estimates unknowns.
    Several amounts are calibrated together, unless --target names one.
    DIR gets a page (index.html), a workbook (calibration.xlsx), CSV files, and the calibration file
    for `geonode estimate --calibration` (calibration.safetensors). The exit status is 1 if a
    control or the validation failed.
    """
    from geonode.calibration.mixture_file import MixtureFile  # noqa: PLC0415
    from geonode.calibration.routine import Routine, about_series, unchanged  # noqa: PLC0415
    from geonode.calibration.verdict import NAMES  # noqa: PLC0415
    from geonode.commands.mixture import shown_errors, shown_mixtures  # noqa: PLC0415
    from geonode.reading.files import Choices  # noqa: PLC0415
    from geonode.reading.series_file import read_mixtures, read_series_csv  # noqa: PLC0415
    from geonode.report.calibration_files import (  # noqa: PLC0415
        require_folder,
        write_calibration,
    )
    from geonode.report.results import result_tables  # noqa: PLC0415

    if method not in (known := ["auto", *NAMES]):
        raise ParameterError("options", "--method", method, ", ".join(known))
    parameters = spectra_parameters(
        file,
        quantity=quantity,
        unit=unit,
        concentration_unit=concentration_unit,
        window=window,
        preprocess=preprocess,
        missing=missing,
        sheet=sheet,
        concentrations=concentrations,
        replicates=replicates,
        target=target,
    )
    folder = out or Path(f"{file.stem}{ENDING}")
    with unchanged(file, *([concentrations] if concentrations else [])) as read:
        if (mixtures := read_mixtures(parameters)) is not None:
            expected = "none: several amounts are calibrated together; --target NAME takes one"
            refuse_given(context, ("method",), expected)
        series = mixtures or read_series_csv(parameters)
    choices = Choices(sheet, concentrations, replicates, target)
    routine = Routine.read(series, unknown or [], control or [], validation, None, choices)
    require_folder(folder, [file, *routine.files], overwrite=overwrite)
    found = _calibrated(file.name, series, method)
    found = routine.used(replace(found, about=about_series(parameters, method, read)))
    write_calibration(found, folder, routine, user)
    failed = tell_checks(found)
    tell(found.sentence)
    if isinstance(found, MixtureFile):
        unknowns = ["", *shown_mixtures(result_tables(found)[0])] if routine.unknowns else []
        tell("\n".join(["", *shown_errors(found), *unknowns]))
    by = f", unknowns estimated by {found.method}" if routine.unknowns else ""
    note(f"{found.counted} calibrated{by} -> {folder / 'index.html'}")
    if failed:
        raise typer.Exit(1)


def _calibrated(
    name: str, series: "Series | MixtureSeries", method: str
) -> "CalibratedFile | MixtureFile":
    """Calibration with the series of a file, or with its mixtures."""
    from geonode.calibration.calibrated_file import CalibratedFile  # noqa: PLC0415
    from geonode.calibration.mixture_file import MixtureFile  # noqa: PLC0415
    from geonode.spectra.series import Series  # noqa: PLC0415

    if isinstance(series, Series):
        with bar("calibrating", CalibratedFile.steps(series)) as report:
            return CalibratedFile.of(name, series, method=method, report=report)
    with bar("calibrating", MixtureFile.steps(series)) as report:
        return MixtureFile.of(name, series, report)


def tell_checks(found: "CalibratedFile | MixtureFile") -> bool:
    """Say how controls and validation came out, failed ones in red; whether one failed."""
    for control in found.controls:
        (tell if control.passed else refuse)(control.sentence(found.unit))
    for judged in found.validations:
        (refuse if judged.fails else tell)(judged.sentence(found.unit))
    passed = [control.passed for control in found.controls]
    return not all(passed) or any(judged.fails for judged in found.validations)


def next_levels(
    file: KnownSpectra,
    count: Annotated[
        int, typer.Option(min=1, max=20, help="Standards, each after those before.")
    ] = 3,
    concentration_unit: ConcentrationUnit = None,
    window: Window = None,
    preprocess: Preprocess = None,
    missing: Missing = "refuse",
    sheet: SheetName = None,
    concentrations: SecondTable = None,
    replicates: RenamedColumns = "ask",
    target: Target = None,
    as_json: AsJson = False,
) -> None:
    """Propose the concentrations to measure next, or the mixtures of several amounts.

    Each is where the predicted spectrum is least certain, or a mixture that makes it surer
    everywhere. The gain is how much this standard should reduce the total error.
    """
    from geonode.mixtures.design import Design, errors_of_file  # noqa: PLC0415
    from geonode.mixtures.forward import ForwardModel  # noqa: PLC0415
    from geonode.mixtures.next_compositions import propose_mixtures  # noqa: PLC0415
    from geonode.posterior.next_levels import propose  # noqa: PLC0415
    from geonode.reading.series_file import read_mixtures, read_series_csv  # noqa: PLC0415
    from geonode.spectra.series import labelled  # noqa: PLC0415

    parameters = spectra_parameters(
        file,
        concentration_unit=concentration_unit,
        window=window,
        preprocess=preprocess,
        missing=missing,
        sheet=sheet,
        concentrations=concentrations,
        replicates=replicates,
        target=target,
    )
    if (mixtures := read_mixtures(parameters)) is not None:
        with errors_of_file(file.name):
            design = Design.of(mixtures.amounts, mixtures.substances)
            if design.without_surface:
                raise MixtureError(design.without_surface)
            found = propose_mixtures(ForwardModel.of(design, mixtures.signal), count)
        named = mixtures.named
        content: dict[str, Any] = {"substances": mixtures.substances, "units": mixtures.units}
    else:
        series = read_series_csv(parameters)
        with bar("comparing concentrations", count) as report:
            found = propose(series.concentrations, series.signal, count, report)
        content = {"unit": series.labels["concentration_unit"]}
        named = [labelled("concentration", content["unit"])]
    if as_json:
        rows = [one._asdict() | {"gain": one.gain} for one in found]
        if mixtures is None:
            rows = [{"concentration": one.pop("amounts")[0], **one} for one in rows]
        echo_json(content | {"next": rows})
        return
    lines = [[*named, "error there", "gain"]]
    for one in found:
        amounts = [f"{amount:.4g}" for amount in one.amounts]
        lines.append([*amounts, f"{one.expected_error:.3g}", f"{one.gain:.0%}"])
    tell("\n".join(aligned(lines)))


def spectra_parameters(file: Path, **options: Any) -> SpectraParameters:
    """Block `spectra` of the parameters: the defaults of the package with the values of options.

    Args:
        file: the source.
        options: values by key of the block; `preprocess` is YAML, None stands for the default.

    Raises:
        ParameterError: a value is wrong.
    """
    values: dict[str, Any] = {"concentration_unit": None, "quantity": "signal", "source": str(file)}
    for key, value in options.items():
        if value is not None:
            values[key] = str(value) if isinstance(value, Path) else value
    if "preprocess" in values:
        try:
            values["preprocess"] = parse_yaml(values["preprocess"])
        except YAMLError as error:
            said = "options", "--preprocess", values["preprocess"], "YAML"
            raise ParameterError(*said) from error
    try:
        return default_parameters({f"spectra.{key}": one for key, one in values.items()}).spectra
    except ParameterError as error:
        _, name, *within = error.key.split(".")
        option = "FILE" if name == "source" else f"--{name.replace('_', '-')}"
        key = " ".join([option, *within])
        raise ParameterError("options", key, error.found, error.expected) from error
