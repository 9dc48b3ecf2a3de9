"""Parts of an artifact that is being written, opened by whatever process fills them."""

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
    """The arrays of an artifact that is being written, for any process that sees its folder.

    Whoever fills different parts needs to know nothing of each other.

    Attributes:
        path: where the artifact will be, for messages.
        folder: where it is written.
    """

    path: Path
    folder: Path

    def blocks(self, name: str, block_dims: int) -> "BlockWriter":
        """What takes the blocks of a stored array.

        Args:
            name: the array.
            block_dims: how many leading dimensions tell the blocks apart.

        Raises:
            ArtifactError: the array is not there.
        """
        return BlockWriter(self._open(name), block_dims, f"{self.path}: array {name!r}")

    def mapped(self, name: str) -> Shaped[np.memmap, "..."]:
        """A mapped array, to be filled; `flush` it for readers on other machines.

        Raises:
            ArtifactError: the array is not there.
        """
        array = self._open(name)
        file = chunk_file(self.folder / name, array)
        return np.memmap(file, array.dtype, mode="r+", shape=array.shape)

    def read(self, name: str, index: tuple[int, ...]) -> Shaped[np.ndarray, "..."]:
        """A part of a stored array, as it was written.

        Raises:
            ArtifactError: the array is not there.
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
    """Takes the blocks of a stored array: `blocks[index] = block`."""

    def __init__(self, array: zarr.Array, block_dims: int, where: str) -> None:
        self._array = array
        self._block_dims = block_dims
        self._where = where

    def __setitem__(self, index: tuple[int, ...], block: Shaped[np.ndarray, "..."]) -> None:
        """Compress and write one block.

        Args:
            index: along the leading dimensions that tell blocks apart.
            block: of the size of the other dimensions and of the dtype of the array.

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
