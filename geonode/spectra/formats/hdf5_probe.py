"""Read the arrays of a NetCDF 4 file or a Zarr store, in a process of its own.

The HDF5 library can be kept busy for ever, or crash, by one damaged byte, and nothing in the same
process stops it; a chunk of either may unpack to any size, whatever its array says. So a process
that can be ended, of limited memory, tries first. It is started by its file, as
`python -P hdf5_probe.py PATH MOST_VALUES MOST_DIMENSIONS`, and knows nothing of the rest of this
project.
"""

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

COPIES = 4  # of the largest array that is read, in double precision, that there is memory for
NO_ROOM, ELSEWHERE = 3, 4  # exit status
_SAID = ("memory", "filter returned failure")  # by Zarr, and by HDF5, which says no more


def main(path: str, most_values: int, most_dimensions: int) -> None:
    """Read what is read of it later, and more.

    Args:
        path: of a file, or of a folder that is a Zarr store.
        most_values: of an array; a larger one is not read.
        most_dimensions: of an array; one of more is not read.
    """
    arrays = _of_zarr(path) if Path(path).is_dir() else _of_netcdf(path)
    _limit(COPIES * 8 * most_values)
    try:
        for array in arrays:
            if math.prod(array.shape) <= most_values and len(array.shape) <= most_dimensions:
                array[...]
    except Exception as error:
        if isinstance(error, MemoryError) or any(words in str(error) for words in _SAID):
            sys.exit(NO_ROOM)
        raise


def _of_zarr(path: str) -> Iterator[Any]:
    import zarr  # noqa: PLC0415 - of one kind alone

    # Every thread has a stack, which counts as memory.
    zarr.config.set({"async.concurrency": 1, "threading.max_workers": 1})

    def arrays() -> Iterator[Any]:
        # Consolidated metadata may name arrays that nobody has looked at, whose codecs run code.
        group = zarr.open_group(path, mode="r", use_consolidated=False)
        for _, member in group.members(max_depth=None, use_consolidated_for_children=False):
            if isinstance(member, zarr.Array):
                yield member

    return arrays()


def _of_netcdf(path: str) -> Iterator[Any]:
    import h5netcdf  # noqa: PLC0415 - few files need it
    import h5py  # noqa: PLC0415

    def arrays() -> Iterator[Any]:
        elsewhere: list[bool] = []

        def look(_: str, item: Any) -> None:
            getattr(item, "chunks", None)  # which is read
            if isinstance(item, h5py.Dataset):
                elsewhere.append(bool(item.external) or item.is_virtual)

        with h5py.File(path, "r") as file:
            file.visititems_links(
                lambda _, link: elsewhere.append(isinstance(link, h5py.ExternalLink))
            )
            file.visititems(look)
        if any(elsewhere):
            sys.exit(ELSEWHERE)
        with h5netcdf.File(path, "r") as file:
            dict(file.attrs)
            for variable in file.variables.values():
                dict(variable.attrs)
                if variable.dimensions:
                    yield variable

    return arrays()


def _limit(most: int) -> None:
    """Limit the further memory of this process, where the system can."""
    try:
        import resource  # noqa: PLC0415 - not everywhere

        taken = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (ImportError, OSError):
        return
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (taken * resource.getpagesize() + most, hard))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
