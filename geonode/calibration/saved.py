"""The calibration file: all that estimates, in one sealed file, without a pickle.

A calibration is data classes of numbers and arrays. Arrays of finite numbers become tensors, named
by their place (`calibration.curve.scores`); everything else is JSON in the metadata, in which
numbers keep all their digits. The classes that may be read back are those of `KINDS`.
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
from geonode.calibration.verdict import Verdict
from geonode.errors import ArtifactError, CorruptArtifactError, GeonodeError, MissingArtifactError
from geonode.estimation.covariances import Covariances
from geonode.estimation.curve import Curve
from geonode.estimation.novelty import Novelty
from geonode.parameter_types import PreprocessStep
from geonode.spectra.chart import Chart
from geonode.spectra.preprocessing import Preprocessing
from geonode.spectra.replicates import Replicates
from geonode.spectra.series import Series
from geonode.storage.weights import read_weights, write_weights

SUFFIX = ".safetensors"

KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(Series, Chart, Replicates, Preprocessing, Fitted, Polynomial, Linear, ErrorLaw),
        *(Curve, Covariances, Novelty),
    )
}
"""Data classes that a calibration is made of, by name."""

OF_CALIBRATION = ("concentrations", "fitted", "curve", "absent", "method", "law", "sets")
"""Fields of a `Calibration` that are stored; its verdict follows from the estimates."""


def _layout() -> str:
    """Checksum of the names of all fields, which a file of other classes does not have."""
    names = {kind: [one.name for one in dataclasses.fields(KINDS[kind])] for kind in KINDS}
    return f"{zlib.crc32(repr((names, OF_CALIBRATION)).encode()):08x}"


def save_calibration(path: Path, file: CalibratedFile) -> None:
    """Write a calibration, atomically; the same calibration gives the same bytes.

    Raises:
        ArtifactError: it cannot be written.
    """
    found, arrays = file.calibration, dict[str, np.ndarray]()
    content = {
        "source": file.source,
        "about": file.about,
        "series": file.series,
        "calibration": {name: getattr(found, name) for name in OF_CALIBRATION},
        "estimates": {method.key: method.estimates for method in found.verdict.methods},
    }
    text = json.dumps(_packed(content, "", arrays))
    tensors = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    metadata = {"geonode": __version__, "layout": _layout(), "calibration": text}
    write_weights(path, tensors, metadata)


def load_calibration(path: Path | str) -> CalibratedFile:
    """Read a calibration file of `geonode calibrate`; nothing is fitted again.

    Args:
        path: the file. `estimate` of what is returned takes spectra on its own axis.

    Raises:
        ArtifactError: there is no such file, it is damaged, of another kind, or of another version
            of geonode.
    """
    path = Path(path)
    try:
        tensors, metadata = read_weights(path)
        text = metadata["calibration"]
    except MissingArtifactError as error:
        said = "not found, expected a calibration file, which `geonode calibrate` writes"
        raise ArtifactError(f"{path}: {said}") from error
    except (CorruptArtifactError, KeyError) as error:
        raise ArtifactError(_damaged(path)) from error
    made_by = metadata.get("geonode"), metadata.get("layout")
    if made_by != (__version__, _layout()):
        raise ArtifactError(
            f"{path}: found a calibration of geonode {made_by[0]}, expected one of this version, "
            f"{__version__}, which may estimate otherwise; calibrate again, or use that version"
        )
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    try:
        content = _unpacked(json.loads(text), arrays)
        stored = content["calibration"]
        verdict = Verdict.of(stored["concentrations"], content["estimates"])
        found = Calibration(verdict=verdict, **stored)
        names = "source", "series", "about"
        source, series, about = (content[name] for name in names)
        if found.curve is None:
            raise ValueError("no curve")
        return CalibratedFile(source, series, found, found.curve, [], about=about)
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
    if type(value).__name__ in KINDS:
        fields = dataclasses.fields(value)
        items: Iterable[Any] = ((one.name, getattr(value, one.name)) for one in fields)
        return {type(value).__name__: all_of(items)}
    if isinstance(value, dict | list | tuple):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {type(value).__name__: all_of(items)}
    return value.item() if isinstance(value, np.generic) else value


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
