"""Work that the commands and the local page do alike: inspect, calibrate, estimate.

It raises a `GeonodeError` if it cannot continue, prints nothing, and reports by a `Shown`.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ruamel.yaml.error import YAMLError

from geonode.config import CalibrateParameters, Parameters, SpectraParameters
from geonode.errors import ParameterError
from geonode.parameters_file import default_parameters, parse_yaml
from geonode.progress import Progress, bar

if TYPE_CHECKING:
    from geonode.calibration.calibration_file import CalibrationFile
    from geonode.calibration.routine import Routine
    from geonode.mixtures.inspected import MixtureInspection
    from geonode.reading.inspection import Inspection

Shown = Callable[[str, int], AbstractContextManager[Progress]]
"""Display of the progress of work, by its name and its units, such as `bar`."""


def spectra_parameters(file: Path, **options: Any) -> SpectraParameters:
    """Block `spectra` of the parameters: the defaults of the package with the values of options.

    Args:
        file: the source.
        options: values by key, of which those of the block are taken; `preprocess` is YAML, None
            stands for the default.

    Raises:
        ParameterError: a value is wrong.
    """
    values: dict[str, Any] = {"concentration_unit": None, "quantity": "signal", "source": str(file)}
    for key, value in options.items():
        if value is not None and key in SpectraParameters.model_fields:
            values[key] = str(value) if isinstance(value, Path) else value
    if "preprocess" in values:
        try:
            values["preprocess"] = parse_yaml(values["preprocess"])
        except YAMLError as error:
            said = "options", "--preprocess", values["preprocess"], "YAML"
            raise ParameterError(*said) from error
    return block_of("spectra", **values).spectra


def block_of(name: str, **values: Any) -> Parameters:
    """Parameters of the package with values of options in one block.

    Raises:
        ParameterError: a value is wrong.
    """
    try:
        return default_parameters({f"{name}.{key}": one for key, one in values.items()})
    except ParameterError as error:
        _, key, *within = error.key.split(".")
        option = "FILE" if key == "source" else f"--{key.replace('_', '-')}"
        said = "options", " ".join([option, *within]), error.found, error.expected
        raise ParameterError(*said) from error


def inspected(parameters: SpectraParameters) -> "Inspection | MixtureInspection":
    """The file that parameters name as it is understood.

    Raises:
        SpectraError: it cannot be read, or is no series.
    """
    from geonode.mixtures.inspected import MixtureInspection  # noqa: PLC0415
    from geonode.reading.inspection import Inspection  # noqa: PLC0415
    from geonode.reading.series_file import known_sheet  # noqa: PLC0415

    sheet = known_sheet(parameters)
    return (MixtureInspection if sheet.sure_amounts else Inspection).of(sheet, parameters)


def calibrated_to_folder(
    parameters: SpectraParameters,
    how: CalibrateParameters,
    folder: Path,
    unknowns: Sequence[Path] = (),
    controls: Sequence[str] = (),
    validation: Path | None = None,
    user: str | None = None,
    dilution: str | None = None,
    *,
    align: bool = False,
    overwrite: bool = False,
    shown: Shown = bar,
) -> "CalibrationFile[Any]":
    """Calibrate with the file that parameters name, use it, and write the folder of results.

    Raises:
        GeonodeError: a file cannot be read or calibrated with, or the folder cannot be written.
    """
    from geonode.calibration.calibration_file import CalibrationFile, model_of  # noqa: PLC0415
    from geonode.calibration.provenance import about_series, unchanged  # noqa: PLC0415
    from geonode.calibration.routine import Routine  # noqa: PLC0415
    from geonode.reading.files import file_and_sheet  # noqa: PLC0415
    from geonode.reading.series_file import choices_of, read_measured  # noqa: PLC0415
    from geonode.report.calibration_files import write_calibration  # noqa: PLC0415
    from geonode.storage.own_folder import require_folder  # noqa: PLC0415

    file, choices = Path(parameters.source), choices_of(parameters)
    second = [file_and_sheet(choices.concentrations)[0]] if choices.concentrations else []
    with unchanged(file, *second) as read:
        series = read_measured(parameters)
    asked = [*unknowns], [*controls], validation, None, choices, file, dilution
    routine = Routine.read(series, *asked, align=align)
    require_folder(folder, [file, *routine.files], overwrite=overwrite)
    with shown("calibrating", model_of(series).steps(series)) as report:
        found = CalibrationFile.of(file.name, series, how, report)
    found = routine.used(replace(found, about=about_series(parameters, how, read)))
    write_calibration(found, folder, routine, user)
    return found


def opened(path: Path, level: object) -> "tuple[CalibrationFile[Any], tuple[str, str]]":
    """A calibration file, with intervals of a level unless it is None, and its name and SHA-256.

    Raises:
        ArtifactError: it is damaged, or none.
        ParameterError: the level is none.
    """
    from geonode.calibration.provenance import unchanged  # noqa: PLC0415
    from geonode.calibration.saved import load_calibration  # noqa: PLC0415

    with unchanged(path) as read:
        found = load_calibration(path)
    if level is not None:
        found = found.at(block_of("calibrate", level=level).calibrate.level)
    return found, (path.name, read[path])


def estimated(
    found: "CalibrationFile[Any]",
    by: tuple[str, str],
    routine: "Routine",
    user: str | None,
    shown: Shown = bar,
    history: Path | None = None,
) -> "CalibrationFile[Any]":
    """A calibration, of which name and SHA-256 are given, used on files, with its record.

    Controls are added to a history, and its chart, a page, is written beside it.

    Raises:
        SpectraError: as `Routine.used`, or the history is none.
    """
    from geonode.calibration.provenance import record  # noqa: PLC0415

    with shown("estimating", sum(len(one.names) for one in routine.unknowns.values())) as report:
        found = routine.used(found, report)
    if history is not None:
        from geonode.report.control_page import charted  # noqa: PLC0415

        found = replace(found, violations=charted(history, found.controls, found.series.units))
    return replace(found, record=record(found, by, routine.files, routine.asked, user))
