"""Read all of a file as NetCDF 4, in a process of its own.

The HDF5 library can be kept busy for ever, or crash, by one damaged byte, and nothing in the same
process stops it: so a process that can be ended tries first. It is started by its file, as
`python -P hdf5_probe.py FILE MOST_VALUES`, and knows nothing of the rest of this project.
"""

import math
import sys


def main(path: str, most_values: int) -> None:
    """Read what is read of it later, and more.

    Args:
        path: of the file.
        most_values: of an array; a larger one is not read.
    """
    import h5netcdf  # type: ignore[import-untyped]  # noqa: PLC0415 - of an extra
    import h5py  # type: ignore[import-untyped]  # noqa: PLC0415 - of an extra

    seen: list[object] = []
    with h5py.File(path, "r") as file:
        file.visititems(
            lambda _, item: seen.append([getattr(item, key, None) for key in ("shape", "chunks")])
        )
    with h5netcdf.File(path, "r") as file:
        dict(file.attrs)
        for variable in file.variables.values():
            dict(variable.attrs)
            if math.prod(variable.shape) <= most_values and variable.dimensions:
                variable[...]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
