"""Store of learned models, so that a series that was learned is never learned again.

An entry is a folder named by the SHA-256 of all that decides a model: spectra, levels, axis and
chart, parameters, device, and the versions of torch and of this package. It holds the artifacts of
metrics and decoders, each sealed with that name, and appears by an atomic rename, so that processes
may share a store. It is a cache: a damaged entry is learned anew, and one that cannot be written is
not kept. Nothing is removed but entries, known by name and seals, in a folder with the mark.
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
from typing import NamedTuple

import numpy as np
import platformdirs
import torch
from pydantic import BaseModel

from geonode.compute.device import Device
from geonode.errors import ArtifactError, MissingArtifactError
from geonode.geometry.learned import LearnedMetrics
from geonode.learning.blend import Blend
from geonode.spectra.series import Series
from geonode.storage.atomic import remove, replacing
from geonode.storage.inventory import size_of
from geonode.storage.lineage import code_digest, read_seal

VARIABLE = "GEONODE_CACHE"
"""Environment variable with the folder that the store is in; by default the user's cache."""

STORE = "geonode-models"
"""Folder of the store."""

MARK = "CACHEDIR.TAG"
"""File that marks the folder as this store, and as a cache for programs that make backups."""

MARKED = (
    b"Signature: 8a477f597d28d172789f06886806bc55\n"  # https://bford.info/cachedir
    b"# Learned models of geonode. They may be deleted: what is needed is learned again.\n"
)

LARGEST_BYTES = 1_000_000_000
"""Size of a store, beyond which the entries go that were not used for longest."""

KEY = "key"
"""Name of the key in what an entry says that it was made from."""

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
        return cls((Path(given) if given else platformdirs.user_cache_path("geonode")) / STORE)

    def read(self, key: str, series: Series) -> Model | None:
        """Model of a series; None if there is none that can be read, or it is of another series.

        Args:
            key: of `key_of`.
            series: the series, whose levels and wavelengths are compared.
        """
        entry = self.folder / key
        try:
            found = Model(LearnedMetrics.read(entry / METRICS), Blend.read(entry / DECODERS))
            _require_series(entry, found, series)
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
        entry, made_from = self.folder / key, {KEY: key}
        try:
            self._mark()
            if os.path.lexists(entry) and not _is_entry(entry):
                raise ArtifactError(
                    f"{entry}: found something that is no learned model, expected one or nothing; "
                    "move it away"
                )
            with replacing(entry) as temporary:
                temporary.mkdir()
                model.learned.write(temporary / METRICS, made_from)
                model.blend.write(temporary / DECODERS, made_from)
            self._shrink()
        except ArtifactError as error:
            _LOG.warning("%s; the learned model is not kept", error)

    def entries(self) -> dict[Path, int]:
        """Sizes of all entries in bytes, the one that was not used for longest first."""
        used = {}
        for entry in self.folder.iterdir() if self._is_marked() else ():
            with suppress(OSError):  # another process has just removed it
                if _looks_like_entry(entry):
                    used[entry] = (entry.stat().st_mtime_ns, size_of(entry))
        return {entry: used[entry][1] for entry in sorted(used, key=lambda entry: used[entry])}

    def _is_marked(self) -> bool:
        """Whether the folder has the mark, or its beginning, while another process writes it."""
        try:
            return MARKED.startswith((self.folder / MARK).read_bytes())
        except OSError:
            return False

    def _mark(self) -> None:
        """Make the folder and mark it, where there is none.

        Raises:
            ArtifactError: it has something in it and no mark, or cannot be written.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            is_used = any(self.folder.iterdir())  # seen first: the mark is the first to be there
            if self._is_marked():
                return
            if is_used:
                raise ArtifactError(
                    f"{self.folder}: found files but no {MARK} of a store of models, expected one "
                    f"or an empty folder; move them away, or set {VARIABLE} to another folder"
                )
            (self.folder / MARK).write_bytes(MARKED)
        except OSError as error:
            raise ArtifactError(f"{self.folder}: cannot be written: {error}") from error

    def _shrink(self) -> None:
        entries = self.entries()
        size = sum(entries.values())
        for entry, of_entry in entries.items():
            if size <= LARGEST_BYTES:
                return
            if not _is_entry(entry):
                continue
            with suppress(OSError, ArtifactError):  # another process removes or writes it
                remove(entry)
            size -= of_entry


def _looks_like_entry(path: Path) -> bool:
    """Whether a folder is called by a key and has no other files than those of an entry."""
    if re.fullmatch("[0-9a-f]{64}", path.name) is None or path.is_symlink() or not path.is_dir():
        return False
    return {file.name for file in path.iterdir()} <= {METRICS, DECODERS}


def _is_entry(path: Path) -> bool:
    """Whether `ModelStore.write` made a folder, of which damage or a kill may have left a part."""
    try:
        files = list(path.iterdir())
        return _looks_like_entry(path) and (not files or any(map(_key_in, files)))
    except OSError:  # another process has just removed it
        return False


def _key_in(file: Path) -> str | None:
    """Key in the seal of a file of an entry; None if it is damaged, or no such file."""
    try:
        return read_seal(file).made_from.get(KEY)
    except ArtifactError:
        return None


def _require_series(entry: Path, model: Model, series: Series) -> None:
    """Refuse a model that was learned from another series than its entry is called by.

    Raises:
        ArtifactError: naming the entry.
    """
    for file in (METRICS, DECODERS):
        if (key := _key_in(entry / file)) != entry.name:
            raise ArtifactError(
                f"{entry}: found {file} of the key {key}, expected that of its name"
            )
    found = (len(model.learned.charts) - 1, len(model.blend.weights) - 1, model.blend.wavelengths)
    levels, wavelengths = series.signal.shape
    if found != (levels, levels, wavelengths):
        raise ArtifactError(
            f"{entry}: found metrics of {found[0]} levels and decoders of {found[1]} at {found[2]} "
            f"wavelengths, expected {levels} levels at {wavelengths}"
        )


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
        "code": code_digest(),
    }
    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
    for array in (series.concentrations, series.axis, series.signal):
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
