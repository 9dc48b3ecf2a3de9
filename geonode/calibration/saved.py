"""The calibration file: all that estimates, in one sealed file, without a pickle.

A calibration is data classes and named tuples of numbers and arrays. Arrays of finite numbers
become tensors, named by their place (`calibration.curve.scores`); everything else is JSON in the
metadata, in which numbers keep all their digits. What may be read back is in `KINDS`.
"""

import dataclasses
import json
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from geonode import __version__
from geonode.calibration.calibrated_file import CalibratedFile
from geonode.calibration.fit import Calibration
from geonode.calibration.intervals import ErrorLaw
from geonode.calibration.methods import Fitted, Linear, Polynomial
from geonode.calibration.mixture_file import MixtureFile
from geonode.calibration.verdict import Verdict
from geonode.errors import ArtifactError, CorruptArtifactError, GeonodeError
from geonode.estimation.covariances import Covariances
from geonode.estimation.curve import Curve
from geonode.estimation.novelty import Novelty
from geonode.mixtures.design import Design
from geonode.mixtures.forward import ForwardModel
from geonode.mixtures.inverse import Inverse
from geonode.mixtures.mixture import MixtureCalibration
from geonode.mixtures.surface import Smoothers, Surface
from geonode.parameter_types import PreprocessStep
from geonode.spectra.chart import Chart
from geonode.spectra.mixture_series import MixtureSeries
from geonode.spectra.preprocessing import Preprocessing
from geonode.spectra.replicates import Replicates
from geonode.spectra.series import Series
from geonode.storage.weights import read_weights, write_weights

OF_ONE: tuple[Any, ...] = (
    *(Series, Chart, Replicates, Preprocessing, Fitted, Polynomial, Linear, ErrorLaw),
    *(Curve, Covariances, Novelty),
)
OF_SEVERAL: tuple[Any, ...] = (
    *(MixtureSeries, Preprocessing, MixtureCalibration, Design, ForwardModel, Surface, Smoothers),
    Inverse,
)
KINDS = {kind.__name__: kind for kind in (*OF_ONE, *OF_SEVERAL)} | {"Tensor": torch.tensor}
"""What makes the parts of a calibration of one substance, or of several, by name."""

OF_CALIBRATION = ("concentrations", "fitted", "curve", "absent", "method", "law", "sets")
"""Fields of a `Calibration` that are stored; its verdict follows from the estimates."""


def _fields(kind: Any) -> list[str]:
    is_class = dataclasses.is_dataclass(kind)
    return [one.name for one in dataclasses.fields(kind)] if is_class else [*kind._fields]


def _layout(kinds: tuple[Any, ...]) -> str:
    """Checksum of the names of all fields, which a file of other classes does not have."""
    names = {kind.__name__: _fields(kind) for kind in kinds}
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
    text = json.dumps(_packed(content, "", arrays))
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
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    try:
        content = _unpacked(json.loads(text), arrays)
        names = "source", "series", "about", "calibration"
        source, series, about, stored = (content[name] for name in names)
        if isinstance(stored, MixtureCalibration):
            return MixtureFile(source, series, stored, about=about)
        verdict = Verdict.of(stored["concentrations"], content["estimates"])
        found = Calibration(verdict=verdict, **stored)
        if found.curve is None:
            raise ValueError("no curve")
        return CalibratedFile(source, series, found, found.curve, about=about)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, GeonodeError) as error:
        raise ArtifactError(_damaged(path)) from error


def _damaged(path: Path) -> str:
    return (
        f"{path}: found a damaged file, or none of `geonode calibrate`, expected a calibration "
        "file as it was written; copy it again, or calibrate again"
    )


def _packed(value: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    """A value as JSON, in which finite arrays are named and added to `arrays`."""

    def all_of(items: Any) -> dict[str, Any]:
        return {str(key): _packed(one, f"{name}.{key}".strip("."), arrays) for key, one in items}

    if isinstance(value, np.ndarray):
        if np.isfinite(value).all() and value.size:
            arrays[name] = value
            return {"array": name}
        return {"values": value.tolist(), "type": str(value.dtype), "shape": value.shape}
    if isinstance(value, PreprocessStep):
        return {"step": value.model_dump(exclude_unset=True)}
    items: Iterable[Any]
    if isinstance(value, torch.Tensor):
        items = [("data", value.numpy())]
    elif type(value).__name__ in KINDS:
        items = ((one, getattr(value, one)) for one in _fields(type(value)))
    elif isinstance(value, dict | list | tuple):
        items = value.items() if isinstance(value, dict) else enumerate(value)
    else:
        return value.item() if isinstance(value, np.generic) else value
    return {type(value).__name__: all_of(items)}


def _unpacked(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Value that `_packed` has packed.

    Raises:
        KeyError, TypeError, ValueError: it is something else.
    """
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return arrays[value["array"]]
    if "values" in value:
        return np.array(value["values"], value["type"]).reshape(value["shape"])
    if "step" in value:
        return PreprocessStep.model_validate(value["step"])
    ((kind, items),) = value.items()
    found = {key: _unpacked(one, arrays) for key, one in items.items()}
    if kind in ("list", "tuple"):
        return [*found.values()] if kind == "list" else (*found.values(),)
    return found if kind == "dict" else KINDS[kind](**found)
