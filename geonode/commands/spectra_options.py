"""Options of commands that read spectra of known concentration without a parameter file."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from ruamel.yaml.error import YAMLError

from geonode.config import SpectraParameters
from geonode.defaults import default_parameters
from geonode.errors import ParameterError
from geonode.parameters_file import parse_yaml


class Gaps(StrEnum):
    """Treatment of missing values."""

    refuse = "refuse"
    mask = "mask"


class Marks(StrEnum):
    """Meaning of a header `20.1` next to `20`."""

    ask = "ask"
    marks = "marks"
    levels = "levels"


KnownSpectra = Annotated[
    Path, typer.Argument(metavar="FILE", help="Spectra of known concentration, in any format.")
]
Window = Annotated[
    tuple[float, float] | None,
    typer.Option(metavar="LOW HIGH", help="Part of the axis to use."),
]
Missing = Annotated[Gaps, typer.Option(help="What a missing value does.")]
Sheet = Annotated[str | None, typer.Option("--sheet", metavar="NAME", help="Sheet of a workbook.")]
SecondTable = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Second table, of names and concentrations."),
]
Replicates = Annotated[
    Marks, typer.Option(help="What a column 20.1 beside 20 is: a scan (marks), or a level.")
]
Preprocess = Annotated[
    str | None,
    typer.Option(metavar="YAML", help="Steps, as in the parameter file: [snv, {savgol: {…}}]."),
]
ConcentrationUnit = Annotated[
    str | None, typer.Option(help="Unit of the levels.", show_default="that of the file")
]


def spectra_parameters(file: Path, **given: Any) -> SpectraParameters:
    """Block `spectra` of the parameters: the defaults of the package with the values of options.

    Args:
        file: file of spectra.
        given: values by key of the block; `preprocess` is YAML, None stands for the default.

    Raises:
        ParameterError: a value is wrong.
    """
    values: dict[str, Any] = {"source": str(file), "concentration_unit": None, "quantity": "signal"}
    for key, value in given.items():
        if key == "preprocess" and value is not None:
            values[key] = _parsed("--preprocess", value)
        elif value is not None:
            values[key] = str(value) if isinstance(value, Path | StrEnum) else value
    return default_parameters({f"spectra.{key}": value for key, value in values.items()}).spectra


def _parsed(option: str, text: str) -> Any:
    try:
        return parse_yaml(text)
    except YAMLError as error:
        raise ParameterError("options", option, text, "YAML") from error
