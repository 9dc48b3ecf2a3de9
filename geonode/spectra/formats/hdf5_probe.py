"""Read a NetCDF 4 file in a process of its own: `python -P hdf5_probe.py PATH MOST_VALUES`.

One damaged byte can keep the HDF5 library busy for ever, crash it, or make a chunk unpack to any
size, and nothing in the same process stops that. A process of limited memory that can be ended
tries first. It imports nothing else of this project, so that it starts quickly.
"""

import contextlib
import math
import sys
from pathlib import Path
from typing import Any

MOST_DIMENSIONS = 3
"""Dimensions of arrays that are spectra: concentration, replicate, wavelength."""

COPIES = 4  # of the largest array, in double precision, that there is memory for
NO_ROOM = 3  # exit status
_SAID = ("memory", "filter returned failure")  # HDF5 says no more where a chunk does not unpack


def main(path: str, most_values: int) -> None:
    """Read everything that is read of the file later.

    Args:
        path: the file.
        most_values: limit of an array; larger ones are not read.
    """
    import h5netcdf  # noqa: PLC0415 - not where only the constants are wanted
    import h5py  # noqa: PLC0415

    def look(_: str, item: Any) -> None:
        getattr(item, "chunks", None)  # reads them

    with h5py.File(path, "r") as file:
        file.visititems_links(look)
        file.visititems(look)
    _limit(COPIES * 8 * most_values)
    try:
        with h5netcdf.File(path, "r") as file:
            dict(file.attrs)
            for variable in file.variables.values():
                dict(variable.attrs)
                is_small = math.prod(variable.shape) <= most_values
                if variable.dimensions and is_small and len(variable.shape) <= MOST_DIMENSIONS:
                    variable[...]
    except Exception as error:
        if isinstance(error, MemoryError) or any(words in str(error) for words in _SAID):
            sys.exit(NO_ROOM)
        raise


def _limit(most: int) -> None:
    """Limit the further memory of this process (bytes), where the system can."""
    with contextlib.suppress(ImportError, OSError):
        import resource  # noqa: PLC0415 - not everywhere

        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + most, hard))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
