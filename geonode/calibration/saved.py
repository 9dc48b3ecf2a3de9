"""The calibration file: all that estimates, in one sealed file, without a pickle.

A calibration is data classes and named tuples of numbers and arrays. Arrays of finite numbers
become tensors, named by their place (`calibration.curve.scores`); everything else is JSON in the
metadata, in which numbers keep all their digits. What is read back has the classes that the fields
declare, with arrays of their shapes (`geonode.calibration.packing`), and estimates.
"""

import json
import zlib
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import torch
from jaxtyping import Float

from geonode import __version__
from geonode.calibration.calibrated_file import CalibratedFile
from geonode.calibration.fit import Calibration
from geonode.calibration.intervals import ErrorLaw
from geonode.calibration.methods import Fit, Fitted
from geonode.calibration.mixture_file import MixtureFile
from geonode.calibration.packing import Unpacking, fields_of, packed
from geonode.calibration.verdict import Verdict
from geonode.errors import ArtifactError, CorruptArtifactError, GeonodeError
from geonode.estimation.covariances import Covariances
from geonode.estimation.curve import Curve
from geonode.estimation.novelty import Novelty
from geonode.mixtures.design import Design
from geonode.mixtures.forward import ForwardModel, Span
from geonode.mixtures.inverse import Inverse
from geonode.mixtures.mixture import MixtureCalibration
from geonode.mixtures.surface import Smoothers, Surface
from geonode.spectra.arrays import require_size
from geonode.spectra.chart import Chart
from geonode.spectra.mixture_series import MixtureSeries
from geonode.spectra.preprocessing import Preprocessing
from geonode.spectra.replicates import Replicates
from geonode.spectra.series import LABELS, Series
from geonode.storage.weights import read_weights, write_weights

OF_ONE: tuple[Any, ...] = (
    *(Series, Chart, Replicates, Preprocessing, Fitted, *Fit.__subclasses__(), ErrorLaw),
    *(Curve, Covariances, Novelty),
)
OF_SEVERAL: tuple[Any, ...] = (
    *(MixtureSeries, Preprocessing, MixtureCalibration, Design, ForwardModel, Surface, Smoothers),
    *(Span, Inverse),
)
OF_CALIBRATION = ("concentrations", "fitted", "curve", "absent", "method", "law", "sets")
"""Fields of a `Calibration` that are stored; its verdict follows from the estimates."""

DAMAGES = (
    *(ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError),
    *(ValueError, GeonodeError),
)
"""Errors that other contents than those that were written raise."""

CONTENT = {"source": str, "about": dict[str, str]}
MIXTURES = {"series": MixtureSeries, "calibration": MixtureCalibration, **CONTENT}
ONE = {
    "series": Series,
    "calibration": {name: get_type_hints(Calibration)[name] for name in OF_CALIBRATION},
    "estimates": dict[str, Float[np.ndarray, "sample"]],
    **CONTENT,
}
"""Declared types of what is stored."""


def _layout(kinds: tuple[Any, ...]) -> str:
    """Checksum of the names of all fields, which a file of other classes does not have."""
    names = {kind.__name__: fields_of(kind) for kind in kinds}
    return f"{zlib.crc32(repr((names, OF_CALIBRATION)).encode()):08x}"


def save_calibration(path: Path, file: CalibratedFile | MixtureFile) -> None:
    """Write a calibration, atomically; the same calibration gives the same bytes.

    Raises:
        ArtifactError: it cannot be written.
    """
    kinds, arrays = OF_SEVERAL, dict[str, np.ndarray]()
    content: dict[str, Any] = {"source": file.source, "about": file.about, "series": file.series}
    if isinstance(file, MixtureFile):
        content["calibration"] = file.calibration
    else:
        kinds, found = OF_ONE, file.calibration
        content["calibration"] = {name: getattr(found, name) for name in OF_CALIBRATION}
        content["estimates"] = {one.key: one.estimates for one in found.verdict.methods}
    text = json.dumps(packed(content, arrays))
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    metadata = {"geonode": __version__, "layout": _layout(kinds), "calibration": text}
    write_weights(path, tensors, metadata)


def load_calibration(path: Path | str) -> CalibratedFile | MixtureFile:
    """Read a calibration file of `geonode calibrate`; nothing is fitted again.

    Args:
        path: the file. `estimate` of what is returned takes spectra on its own axis.

    Raises:
        ArtifactError: there is no such file, it is damaged, of another kind, or of another version
            of geonode.
    """
    path = Path(path)
    if not path.is_file():
        expected = "a calibration file, which `geonode calibrate` writes"
        raise ArtifactError(f"{path}: found no such file, expected {expected}")
    try:
        tensors, metadata = read_weights(path)
        text = metadata["calibration"]
    except (CorruptArtifactError, KeyError) as error:
        raise ArtifactError(_damaged(path)) from error
    made_by = metadata.get("geonode"), metadata.get("layout")
    if made_by not in [(__version__, _layout(kinds)) for kinds in (OF_ONE, OF_SEVERAL)]:
        raise ArtifactError(
            f"{path}: found a calibration of geonode {made_by[0]} (layout {made_by[1]}), expected "
            f"one of this version, {__version__}, which may estimate otherwise; calibrate again, "
            "or use that version"
        )
    is_one = made_by[1] == _layout(OF_ONE)
    try:
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
        most = len(text) + sum(array.size for array in arrays.values())
        content = Unpacking(arrays, most).unpacked(json.loads(text), ONE if is_one else MIXTURES)
        found = _file(content)
        _try(found)
    except DAMAGES as error:
        raise ArtifactError(_damaged(path)) from error
    return found


def _file(content: dict[str, Any]) -> CalibratedFile | MixtureFile:
    """Calibration of a content, whose parts belong together.

    Raises:
        Exception: one of `DAMAGES`, if they do not.
    """
    source, about, series, stored = (
        content[key] for key in ("source", "about", "series", "calibration")
    )
    if {*series.labels} != {*LABELS[: None if isinstance(series, Series) else 4]}:
        raise ValueError("labels")
    if not (np.diff(series.axis) > 0).all():
        raise ValueError("axis")
    for numbers in (series.axis, series.signal):
        require_size(numbers)
    if isinstance(series, MixtureSeries):
        names = series.substances, series.units, stored.design.names
        if {*map(len, names)} != {series.amounts.shape[1]}:
            raise ValueError("substances")
        return MixtureFile(source, series, stored, about=about)
    verdict = Verdict.of(stored["concentrations"], content["estimates"])
    found = Calibration(verdict=verdict, **stored)
    if found.curve is None:
        raise ValueError("no curve")
    novelty = found.curve.novelty
    # The tail of F takes a time that grows with its degrees of freedom.
    wavelengths, levels = len(series.axis), len(series.signal)
    if not (1 <= novelty.freedom <= 2 * wavelengths and 1 <= novelty.spectra <= levels):
        raise ValueError("novelty")
    return CalibratedFile(source, series, found, found.curve, about=about)


def _try(file: CalibratedFile | MixtureFile) -> None:
    """Use a calibration on a spectrum of its own.

    Raises:
        Exception: one of `DAMAGES`, if its parts do not fit each other.
    """
    first = file.series.signal[:1]
    with np.errstate(all="ignore"):
        str(file.sentence)
        file.calibration.estimate(first)
        if isinstance(file, CalibratedFile):
            file.calibration.by_geonode(first)


def _damaged(path: Path) -> str:
    return (
        f"{path}: found a damaged file, or none of `geonode calibrate`, expected a calibration "
        "file as it was written; copy it again, or calibrate again"
    )
