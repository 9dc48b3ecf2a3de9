"""Access of several processes to the arrays of an artifact that is being written."""

from dataclasses import dataclass
from pathlib import Path
from types import EllipsisType

import numpy as np
import zarr
from jaxtyping import Shaped

from geonode.errors import ArtifactError
from geonode.storage.artifact_layout import chunk_file


@dataclass(frozen=True)
class Parts:
    """Arrays of an artifact that is being written, for any process that sees its folder.

    Processes that fill different parts need no synchronisation.

    Attributes:
        path: final path of the artifact, for messages.
        folder: folder in which it is written.
    """

    path: Path
    folder: Path

    def blocks(self, name: str, block_dims: int) -> "BlockWriter":
        """Writer of the blocks of a stored array.

        Args:
            name: the array.
            block_dims: number of leading dimensions that index the blocks.

        Raises:
            ArtifactError: there is no such array.
        """
        return BlockWriter(self._open(name), block_dims, f"{self.path}: array {name!r}")

    def mapped(self, name: str) -> Shaped[np.memmap, "..."]:
        """Mapped array to fill; `flush` it for readers on other machines.

        Raises:
            ArtifactError: there is no such array.
        """
        array = self._open(name)
        file = chunk_file(self.folder / name, array)
        return np.memmap(file, array.dtype, mode="r+", shape=array.shape)

    def read(self, name: str, index: tuple[int, ...]) -> Shaped[np.ndarray, "..."]:
        """Written part of a stored array.

        Raises:
            ArtifactError: there is no such array.
        """
        selection: tuple[int | EllipsisType, ...] = (*index, ...)
        return np.asarray(self._open(name)[selection])

    def _open(self, name: str) -> zarr.Array:
        try:
            folder, config = self.folder / name, {"write_empty_chunks": True}
            return zarr.open_array(folder, mode="r+", zarr_format=3, config=config)
        except (OSError, ValueError) as error:
            raise ArtifactError(
                f"{self.path}: array {name!r}: cannot be opened to be filled: {error}"
            ) from error


class BlockWriter:
    """Writer of the blocks of a stored array: `blocks[index] = block`."""

    def __init__(self, array: zarr.Array, block_dims: int, where: str) -> None:
        self._array = array
        self._block_dims = block_dims
        self._where = where

    def __setitem__(self, index: tuple[int, ...], block: Shaped[np.ndarray, "..."]) -> None:
        """Compress and write one block.

        Args:
            index: index along the leading dimensions.
            block: values over the other dimensions, in the dtype of the array.

        Raises:
            ArtifactError: index or block are of another size or dtype; nothing is broadcast or
                cast.
        """
        shape, dtype = self._array.shape[self._block_dims :], self._array.dtype
        if len(index) != self._block_dims or block.shape != shape or block.dtype != dtype:
            raise ArtifactError(
                f"{self._where}: block {index}: found {block.dtype} of shape {block.shape}, "
                f"expected {dtype} of shape {shape} at an index of length {self._block_dims}"
            )
        self._array[index] = block
