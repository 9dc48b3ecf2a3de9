"""Folder of series: one file each, with optional parameters of its own next to it.

Every file of a known format is a series, except texts with the endings that notes have (`TEXTS`);
what is left out is reported. Beside
`NAME.csv` or `NAME.xlsx` there may be a `NAME.yaml` with those values of the block `spectra` that
differ from the common ones, such as `chart: log` or `window: [220, 800]`. A second table of
concentrations is never common.
"""

import logging
from itertools import pairwise
from pathlib import Path

from ruamel.yaml.error import YAMLError

from geonode.config import SpectraParameters
from geonode.errors import ParameterError, SpectraError
from geonode.parameters_file import default_parameters, parse_yaml
from geonode.reading.files import SUFFIXES, TEXTS
from geonode.reading.refusals import errors_naming
from geonode.terminal import printable

_LOG = logging.getLogger(__name__)


def parameters_of_folder(folder: Path, common: SpectraParameters) -> dict[str, SpectraParameters]:
    """The block `spectra` of every series of a folder, by the name of its file.

    Raises:
        SpectraError: the folder does not exist, or contains no file of spectra or two of one name.
        ParameterError: a file of parameters cannot be read, or a value in it is wrong.
    """
    known = [suffix for suffix in SUFFIXES if suffix not in TEXTS]
    with errors_naming(folder):
        there = folder.is_dir()
        found = sorted(folder.iterdir()) if there else []
    files = [file for file in found if file.suffix.lower() in known]
    own = {file.with_suffix(".yaml") for file in files}
    left = [one.name for one in found if one not in {*files, *own} and one.name[0] != "."]
    if files and left:
        _LOG.warning("%s: left out %s", printable(str(folder)), printable(", ".join(left[:10])))
    if not files:
        fault = f"no file *{', *'.join(known)}" if there else "no such folder"
        raise SpectraError(f"{folder}: found {fault}, expected a folder of series")
    for one, other in pairwise(sorted(files, key=lambda file: file.stem)):
        if one.stem == other.stem:
            raise SpectraError(
                f"{folder}: found {one.name} and {other.name}, expected one file a series"
            )
    return {file.stem: _of_file(file, common) for file in files}


def _of_file(file: Path, common: SpectraParameters) -> SpectraParameters:
    path = file.with_suffix(".yaml")
    try:
        own = parse_yaml(path.read_text(encoding="utf-8")) if path.exists() else {}
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise ParameterError(str(path), "file", " ".join(str(error).split()), "YAML") from error
    if not isinstance(own, dict) or "source" in own:
        raise ParameterError(str(path), "file", own, "a mapping of parameters but source")
    # A second table names the samples of one source.
    values = common.model_dump() | {"source": str(file), "concentrations": None} | own
    try:
        return default_parameters({f"spectra.{key}": one for key, one in values.items()}).spectra
    except ParameterError as error:
        key = error.key.removeprefix("spectra.")
        raise ParameterError(str(path), key, error.found, error.expected) from error
