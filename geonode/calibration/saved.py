"""The calibration file: all that estimates, in one sealed file, without a pickle.

A calibration is data classes and named tuples of numbers and arrays. Arrays of finite numbers
become tensors, named by their place (`calibration.curve.scores`); everything else is JSON in the
metadata, in which numbers keep all their digits. What is read back has the classes that the fields
declare, with arrays of their shapes (`geonode.calibration.packing`), and estimates.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from geonode import __version__
from geonode.calibration.calibration_file import CalibrationFile
from geonode.calibration.one_substance import OneSubstance
from geonode.calibration.packing import Unpacking, as_stored
from geonode.calibration.several_substances import SeveralSubstances
from geonode.errors import ArtifactError, CorruptArtifactError, GeonodeError
from geonode.spectra.arrays import require_size
from geonode.spectra.series import LABELS, Series
from geonode.storage.weights import read_weights, write_weights

CONTENT = {"source": str, "about": dict[str, str], "model": OneSubstance | SeveralSubstances}
"""Declared types of what is stored."""

DAMAGES = (
    *(ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError),
    *(ValueError, GeonodeError),
)
"""Errors that other contents than those that were written raise."""


def save_calibration(path: Path, file: CalibrationFile[Any]) -> None:
    """Write a calibration, atomically; the same calibration gives the same bytes.

    Raises:
        ArtifactError: it cannot be written.
    """
    arrays: dict[str, np.ndarray] = {}
    text = json.dumps(as_stored({name: getattr(file, name) for name in CONTENT}, arrays))
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    write_weights(path, tensors, {"geonode": __version__, "calibration": text})


def load_calibration(path: Path | str) -> CalibrationFile[Any]:
    """Read a calibration file of `geonode calibrate`; nothing is fitted again.

    Args:
        path: the file. `estimate` of what is returned takes spectra on its own axis.

    Raises:
        ArtifactError: there is no such file, it is damaged, of another kind, or of another version
            of geonode.
    """
    path = Path(path)
    if not path.is_file():
        found = "a folder" if path.is_dir() else "no such file"
        expected = "a calibration file, which `geonode calibrate` and the pipeline write"
        raise ArtifactError(f"{path}: found {found}, expected {expected}")
    try:
        tensors, metadata = read_weights(path)
        text = metadata["calibration"]
    except (CorruptArtifactError, KeyError) as error:
        raise ArtifactError(_damaged(path)) from error
    if (made_by := metadata.get("geonode")) != __version__:
        made_by = " ".join(str(made_by).split())[:20]  # one line, whatever it is
        raise ArtifactError(
            f"{path}: found a calibration of geonode {made_by}, expected one of this version, "
            f"{__version__}, which may estimate otherwise; calibrate again, or use that version"
        )
    try:
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        most = len(text) + sum(array.size for array in arrays.values())
        file = CalibrationFile[Any](**Unpacking(arrays, most).unpacked(json.loads(text), CONTENT))
        _require_whole(file.series)
        with np.errstate(all="ignore"):  # used on a spectrum of its own
            str(file.model.sentence)
            file.model.estimates(file.series.signal[:1], ["first"])
    except DAMAGES as error:
        raise ArtifactError(_damaged(path)) from error
    return file


def _require_whole(series: Series) -> None:
    """Refuse a series whose parts do not belong together."""
    sizes = {len(series.substances), len(series.units), series.amounts.shape[1]}
    if {*series.labels} != {*LABELS} or sizes != {len(series.substances)}:
        raise ValueError("labels")
    if len(series.charts) != series.is_of_one or not (np.diff(series.axis) > 0).all():
        raise ValueError("axis")
    for numbers in (series.axis, series.signal):
        require_size(numbers)


def _damaged(path: Path) -> str:
    return (
        f"{path}: found a damaged file, or none of `geonode calibrate`, expected a calibration "
        "file as it was written; copy it again, or calibrate again"
    )
