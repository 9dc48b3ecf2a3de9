"""Cache of learned models, so that a series that was learned is never learned again.

An entry is a folder named by the SHA-256 of all that decides a model: the bytes of the spectra and
levels, the parameters, the device, torch, and the code of this package. It contains the artifacts
of metrics and decoders and appears by an atomic rename, so that processes may share a store. A
damaged entry is learned anew, and one that cannot be written is not kept.
"""

import dataclasses
import hashlib
import json
import logging
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import platformdirs
import torch

from geonode.compute.device import Device
from geonode.config import Parameters
from geonode.errors import ArtifactError, MissingArtifactError
from geonode.geometry.learned import LearnedMetrics
from geonode.learning.blend import Blend
from geonode.spectra.series import Series
from geonode.storage.atomic import remove, replacing
from geonode.storage.lineage import code_digest

VARIABLE = "GEONODE_CACHE"
"""Environment variable with the folder that the store is in; by default the user's cache."""

STORE = "geonode-models"
"""Folder of the store. It belongs to it: folders in it that are named by a key may be removed."""

LARGEST_BYTES = 1_000_000_000
"""Size of a store, beyond which the entries go that were not used for longest."""

METRIC_FILE, DECODERS_FILE = "metric.safetensors", "decoders.safetensors"
"""Names of the artifacts of a model, in an entry and in the folder of a pipeline."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class ModelStore:
    """Folder of learned models."""

    folder: Path | None
    """Folder of the entries, made when the first is written; None: nothing is kept."""

    @classmethod
    def of_user(cls) -> "ModelStore":
        """Store of the user, or of whoever shares the folder in `GEONODE_CACHE`."""
        given = os.environ.get(VARIABLE)
        try:
            return cls((Path(given) if given else platformdirs.user_cache_path("geonode")) / STORE)
        except RuntimeError as error:  # as in containers whose user has no home
            _LOG.warning("%s or %s; learned models are not kept", error, VARIABLE)
            return cls(None)

    def read(self, key: str) -> tuple[LearnedMetrics, Blend] | None:
        """Model of a series, by its `key_of`; None if there is none that can be read."""
        if self.folder is None:
            return None
        entry = self.folder / key
        try:
            model = LearnedMetrics.read(entry / METRIC_FILE), Blend.read(entry / DECODERS_FILE)
        except MissingArtifactError:
            return None
        except ArtifactError as error:
            _LOG.warning("%s; the series is learned again", error)
            return None
        with suppress(OSError):  # it may be shared and read-only
            os.utime(entry)
        return model

    def write(self, key: str, learned: LearnedMetrics, blend: Blend) -> None:
        """Add a model, and remove the entries that make the store too large.

        A store that cannot be written is a warning: the model itself is not lost.
        """
        if self.folder is None:
            return
        try:
            with replacing(self.folder / key) as temporary:
                temporary.mkdir()
                learned.write(temporary / METRIC_FILE)
                blend.write(temporary / DECODERS_FILE)
            entries = self.entries()
            size = sum(entries.values())
            for entry, of_entry in entries.items():
                if size <= LARGEST_BYTES:
                    break
                remove(entry)
                size -= of_entry
        except ArtifactError as error:
            _LOG.warning("%s; the learned model is not kept", error)

    def entries(self) -> dict[Path, int]:
        """Sizes of all entries in bytes, the one that was not used for longest first."""
        used = {}
        for entry in self.folder.iterdir() if self.folder and self.folder.is_dir() else ():
            if re.fullmatch("[0-9a-f]{64}", entry.name) and not entry.is_symlink():
                with suppress(OSError):  # another process has just removed it
                    size = sum(file.stat().st_size for file in entry.iterdir())
                    used[entry] = (entry.stat().st_mtime_ns, size)
        return {entry: used[entry][1] for entry in sorted(used, key=lambda entry: used[entry])}


def key_of(series: Series, parameters: Parameters, device: Device) -> str:
    """SHA-256 of all that decides what is learned from a series, or how it is scored.

    Args:
        series: series on its given chart.
        parameters: of which the blocks `inner`, `metric` and `decoders` count.
        device: device to learn on.
    """
    values = {
        "chart": dataclasses.astuple(series.chart),
        "labels": series.labels,
        "preprocessing": repr(series.preprocessing),
        "parameters": parameters.model_dump(mode="json", include={"inner", "metric", "decoders"}),
        "device": device.describe(),
        "torch": str(torch.__version__),
        "code": code_digest(),
    }
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
    arrays = [series.concentrations, series.axis, series.signal]
    if (scans := series.replicates) is not None:
        arrays += [scans.scans, scans.level, scans.deviations]
    for array in arrays:
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
