"""Store of learned models, so that a series that was learned is never learned again.

An entry is a folder named by the SHA-256 of all that decides a model: spectra, levels, axis and
chart, parameters, device, and the versions of torch and of this package. It holds the artifacts of
metrics and decoders, and appears by an atomic rename, so that processes may share a store. It is a
cache: a damaged entry is learned anew, and one that cannot be written is not kept.
"""

import dataclasses
import hashlib
import json
import logging
import os
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import platformdirs
import torch
from pydantic import BaseModel

from geonode.decoders.blend import Blend
from geonode.devices.device import Device
from geonode.errors import ArtifactError, MissingArtifactError
from geonode.geometry.learned import LearnedMetrics
from geonode.spectra.series import Series
from geonode.storage.atomic import remove, replacing
from geonode.storage.pipeline import size_of

VARIABLE = "GEONODE_CACHE"
"""Environment variable with the folder of the store; by default one in the user's cache."""

LARGEST_BYTES = 1_000_000_000
"""Size of a store, beyond which the entries go that were not used for longest."""

METRICS, DECODERS = "metric.safetensors", "decoders.safetensors"

_LOG = logging.getLogger(__name__)


class Model(NamedTuple):
    """Learned metrics and decoders of a series."""

    learned: LearnedMetrics
    blend: Blend


@dataclass(frozen=True)
class ModelStore:
    """Folder of learned models.

    Attributes:
        folder: folder of the entries; made when the first is written.
    """

    folder: Path

    @classmethod
    def of_user(cls) -> "ModelStore":
        """Store of the user, or of whoever shares the folder in `GEONODE_CACHE`."""
        given = os.environ.get(VARIABLE)
        return cls(Path(given) if given else platformdirs.user_cache_path("geonode") / "models")

    def read(self, key: str) -> Model | None:
        """Model with a key of `key_of`; None if there is none that can be read."""
        entry = self.folder / key
        try:
            found = Model(LearnedMetrics.read(entry / METRICS), Blend.read(entry / DECODERS))
        except MissingArtifactError:
            return None
        except ArtifactError as error:
            _LOG.warning("%s; the series is learned again", error)
            return None
        with suppress(OSError):  # it may be shared and read-only
            os.utime(entry)
        return found

    def write(self, key: str, model: Model) -> None:
        """Add a model, and remove the entries that make the store too large.

        A store that cannot be written is a warning: the model itself is not lost.
        """
        try:
            with replacing(self.folder / key) as temporary:
                temporary.mkdir()
                model.learned.write(temporary / METRICS)
                model.blend.write(temporary / DECODERS)
            self._shrink()
        except ArtifactError as error:
            _LOG.warning("%s; the learned model is not kept", error)

    def entries(self) -> dict[Path, int]:
        """Sizes of all entries in bytes, the one that was not used for longest first."""
        used = {}
        for entry in self.folder.glob("[0-9a-f]*"):
            with suppress(OSError):  # another process has just removed it
                used[entry] = (entry.stat().st_mtime_ns, size_of(entry))
        return {entry: used[entry][1] for entry in sorted(used, key=lambda entry: used[entry])}

    def _shrink(self) -> None:
        entries = self.entries()
        size = sum(entries.values())
        for entry, of_entry in entries.items():
            if size <= LARGEST_BYTES:
                return
            with suppress(OSError, ArtifactError):  # another process removes or writes it
                remove(entry)
            size -= of_entry


def key_of(series: Series, blocks: tuple[BaseModel, ...], device: Device) -> str:
    """SHA-256 of all that decides a learned model.

    Args:
        series: series on its given chart.
        blocks: blocks of parameters of the learning.
        device: device to learn on.
    """
    values = {
        "chart": dataclasses.astuple(series.chart),
        "parameters": [block.model_dump(mode="json") for block in blocks],
        "device": device.describe(),
        "torch": str(torch.__version__),
        "code": _code(),
    }
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
    for array in (series.concentrations, series.axis, series.signal):
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


@cache
def _code() -> str:
    """SHA-256 of the files of this package."""
    root, digest = Path(__file__).parent, hashlib.sha256()
    for file in sorted(path for path in root.rglob("*") if path.suffix in (".py", ".safetensors")):
        digest.update(file.relative_to(root).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
