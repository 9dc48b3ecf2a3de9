"""Spectra as labelled arrays: NetCDF files and Zarr stores, opened by xarray.

One variable is read: the one of numbers over a wavelength-like dimension and one other, which is
the concentration or tells samples apart, and possibly a third of replicates. Dimensions are known
by their name or the units of their coordinate. A replicate that is NaN throughout was not made.
"""

import math
import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from geonode.errors import ArtifactError, SpectraError
from geonode.spectra.formats.hdf5_probe import ELSEWHERE, NO_ROOM
from geonode.spectra.headers import UNITS, Role, role
from geonode.spectra.sheet import (
    MOST_VALUES,
    NEVER_WRITTEN,
    Sheet,
    Understood,
    require_columns,
    require_values,
    shortest,
)
from geonode.storage.zarr_metadata import require_own_files, require_plain

MOST_CHUNKS = 100_000
"""Of an array."""

SECONDS, SECONDS_OF_A_MEGABYTE = 5.0, 1.0
"""That HDF5 or Zarr may take to read a file."""

NEVER_WRITTEN_OF = {
    **{"f4": NEVER_WRITTEN, "f8": NEVER_WRITTEN},
    **{"i2": -32767, "u2": 65535, "i4": -(2**31) + 1, "u4": 2**32 - 1},
    **{"i8": -(2**63) + 2, "u8": 2**64 - 2},
}
"""Numbers that NetCDF has where nothing was written, by type (NC_FILL_ of netcdf.h); bytes have
none that is sure."""

MOST_DIMENSIONS = 3
"""Of arrays that are spectra: concentration, replicate, wavelength."""


def read_labelled_arrays(path: Path) -> Sheet:
    """Spectra of a NetCDF file or a Zarr store.

    Raises:
        SpectraError: it is damaged, or has no such variable, or several; its metadata ask for more
            than numbers and texts that fit into memory.
        OSError: it cannot be read.
    """
    import xarray  # noqa: PLC0415 - few files need it

    engine = _engine(path)
    options: dict[str, Any] = {"consolidated": False} if engine == "zarr" else {}
    # A file is opened here, so that it is closed whatever happens in between.
    with nullcontext(path) if engine == "zarr" else path.open("rb") as source:
        try:
            _refuse_large(source, engine)
            with xarray.open_dataset(
                source, engine=engine, decode_times=False, chunks=None, **options
            ) as data:
                found = _sheet(data, "Zarr" if engine == "zarr" else "NetCDF")
                if engine == "zarr":
                    require_chunks(path, data, set(data.variables))
                return found
        except SpectraError:
            raise
        except MemoryError as error:
            raise SpectraError(
                "found arrays that do not fit into memory, expected at most "
                f"{MOST_VALUES} values; write those of spectra alone"
            ) from error
        except Exception as error:  # of a damaged part, whatever it is
            said = " ".join(repr(error).split())
            raise SpectraError(f"found no labelled arrays that can be read ({said:.80})") from error


def _engine(path: Path) -> str:
    if path.suffix.lower() == ".zarr":
        if not path.is_dir():
            raise SpectraError("found no such folder, expected a Zarr store")
        return "zarr"
    with path.open("rb") as file:
        start = file.read(4)
    if start[:3] == b"CDF":
        return "scipy"
    probe(path)
    return "h5netcdf"


def probe(path: Path, most_dimensions: int = MOST_DIMENSIONS) -> None:
    """Refuse a file that takes more to read than it says, or that its library does not survive.

    Args:
        path: NetCDF 4, or a Zarr store that `require_plain` lets pass.
        most_dimensions: of an array that is read.

    Raises:
        SpectraError: it does not come to an end, or crashes, or takes more memory than its arrays
            may (where the operating system limits that), or its arrays are in other files.
    """
    files = path.rglob("*") if path.is_dir() else [path]
    most = SECONDS + SECONDS_OF_A_MEGABYTE * sum(file.stat().st_size for file in files) / 1e6
    script = Path(__file__).with_name("hdf5_probe.py")
    numbers = map(str, (MOST_VALUES, most_dimensions))
    command = [sys.executable, "-P", str(script), str(path), *numbers]
    # Every thread would set address space aside for an arena of its own.
    environment = os.environ | {"MALLOC_ARENA_MAX": "1", "OPENBLAS_NUM_THREADS": "1"}
    library = "Zarr" if path.is_dir() else "HDF5"
    expected = f"expected {'a Zarr store' if path.is_dir() else 'NetCDF 4'}; it is damaged: "
    try:
        # What else is refused there is refused here again, and then said.
        status = subprocess.run(
            command, capture_output=True, timeout=most, check=False, env=environment
        ).returncode
    except subprocess.TimeoutExpired as error:
        raise SpectraError(
            f"found a file that {library} does not come to an end with in {most:.0f} s, "
            f"{expected}write it again"
        ) from error
    if status < 0:
        raise SpectraError(
            f"found a file that ends {library} by signal {-status}, {expected}write it again"
        )
    if status == ELSEWHERE:
        raise SpectraError(
            "found an array in another file, expected all arrays in this one; copy it with what "
            "its links, its external storage or its virtual arrays lead to"
        )
    if status == NO_ROOM:
        raise SpectraError(
            "found a chunk that cannot be unpacked, or to more than fits into memory, expected "
            "what its array says; it is damaged: write it again"
        )


def _refuse_large(source: Path | BinaryIO, engine: str) -> None:
    """Refuse arrays by what is said of them: xarray reads those of one dimension when it opens."""
    if isinstance(source, Path):
        try:
            require_own_files(source)
            require_plain(source, 8 * MOST_VALUES, MOST_CHUNKS)
        except ArtifactError as error:
            raise SpectraError(str(error)) from error
        probe(source)
    elif engine == "h5netcdf":
        import h5py  # noqa: PLC0415 - few files need it

        with h5py.File(source) as file:
            sizes: list[int] = []
            file.visititems(lambda _, item: sizes.append(_values_of(item)))
            require_values(sum(sizes))
        source.seek(0)


def _values_of(item: Any) -> int:
    """Values of a dataset of HDF5, or of a chunk of it that is larger; 0 for a group."""
    shape, chunks = getattr(item, "shape", None) or (), getattr(item, "chunks", None) or ()
    return max(math.prod(shape), math.prod(chunks))


def _sheet(data: Any, kind: str) -> Sheet:
    roles: dict[str, Role | None] = {str(name): _role(data, name) for name in data.dims}
    name, values = _variable(data, roles)
    require_values(math.prod(values.shape))
    (at_axis,) = [dim for dim in values.dims if roles[dim] == "axis"]
    (of_names,) = [dim for dim in values.dims if roles[dim] not in ("axis", "replicate")]
    replicates = [dim for dim in values.dims if roles[dim] == "replicate"]
    for dim in (at_axis, of_names):
        if dim not in data.coords or data[dim].dims != (dim,):
            raise SpectraError(f"found no coordinate {dim!r}, expected one for every dimension")
    if data[at_axis].dtype.kind not in "fiu":
        raise SpectraError(f"found {data[at_axis].dtype} on the axis, expected numbers")
    require_columns(data.sizes[of_names])
    numbers = _written(values.transpose(of_names, *replicates, at_axis), kind)
    scans = numbers.reshape(len(numbers), -1, numbers.shape[-1])
    names, places, spectra = [], [], []
    for number, (label, of_level) in enumerate(
        zip(data[of_names].values.tolist(), scans, strict=True), start=1
    ):
        text = shortest(float(label)) if isinstance(label, int | float) else str(label)
        there = of_level[~np.isnan(of_level).all(axis=1)] if replicates else of_level
        marks = ["", *(f"__r{scan}" for scan in range(2, len(there) + 1))]
        names += [text + mark for mark in marks[: len(there)]]
        places += [f"{of_names} {number}"] * len(there)
        spectra += list(there)
    axis = np.asarray(data[at_axis].values, np.float64)
    unit = str(data[at_axis].attrs.get("units", "1"))
    concentrations = roles[of_names] == "concentration"
    named = data[of_names].attrs.get("units") if concentrations else None
    return Sheet(
        names=names,
        axis=axis,
        axis_name=str(data[at_axis].attrs.get("long_name", at_axis)),
        axis_unit=UNITS.get(unit.lower(), unit),
        values=np.stack(spectra) if spectra else np.empty((0, len(axis))),
        name_places=places,
        axis_places=[f"{at_axis} {number}" for number in range(1, len(axis) + 1)],
        understood=Understood(f"{kind}, variable {name} ({', '.join(map(str, values.dims))})"),
        names_are="concentrations" if concentrations else "other",
        concentration_unit=None if named in (None, "", "1") else str(named),
        signal=_signal(name, values),
    )


def _written(values: Any, kind: str) -> np.ndarray:
    """Numbers of a variable, NaN where NetCDF has its own number for what was never written.

    xarray does the same where a variable names a number of its own.
    """
    numbers = np.asarray(values, np.float64)
    own = {"_FillValue", "missing_value"} & set(values.encoding)
    fill = NEVER_WRITTEN_OF.get(np.dtype(values.dtype).str[1:])
    if kind == "NetCDF" and not own and fill is not None:
        numbers[np.isclose(numbers, fill, rtol=1e-6, atol=0)] = np.nan
    return numbers


def require_chunks(store: Path, data: Any, names: set[Any]) -> None:
    """Refuse chunks that are not there: Zarr reads the fill value of the array instead.

    Args:
        store: of Zarr.
        data: as xarray has opened it.
        names: of its arrays.

    Raises:
        SpectraError: an array lacks one, and that value may be a measured number.
    """
    import zarr  # noqa: PLC0415 - few files need it

    for name in sorted(map(str, names)):
        array = zarr.open_array(store / name, mode="r")
        fill: Any = array.metadata.fill_value
        lost = array.nchunks - array.nchunks_initialized
        number = data[name].dtype.kind in "fiu"
        if lost > 0 and number and (fill is None or not np.isnan(fill)):
            raise SpectraError(
                f"array {name!r}: found {lost} of {array.nchunks} chunks absent, which read as "
                f"{fill or 0:g}: they are lost, or were not written as all of it is that number; "
                "write the store with NaN as fill value, or with empty chunks"
            )


def _role(data: Any, dim: Any) -> Role | None:
    """Role of a dimension by its name, or else by the attributes of its coordinate."""
    attributes = data[dim].attrs if dim in data.coords else {}
    said = (dim, *(attributes.get(key) for key in ("long_name", "standard_name", "units")))
    return next((found for text in said if text and (found := role(str(text)))), None)


def _variable(data: Any, roles: dict[str, Role | None]) -> tuple[str, Any]:
    """Name and values of the one variable that is spectra."""
    found = {}
    for name, variable in data.data_vars.items():
        dims = sorted(str(roles[dim]) for dim in variable.dims if roles[dim] != "replicate")
        replicates = len(variable.dims) - len(dims)
        over_two = len(dims) == 2 and dims.count("axis") == 1 and replicates <= 1
        if over_two and variable.dtype.kind in "fiu":
            found[str(name)] = variable
    if len(found) != 1:
        names = ", ".join(map(repr, sorted(found))) if found else "no variable"
        raise SpectraError(
            f"found {names} over a wavelength and one other dimension, expected one variable; "
            f"dimensions: {', '.join(map(repr, roles))}"
        )
    return next(iter(found.items()))


def _signal(name: str, variable: Any) -> str:
    unit = str(variable.attrs.get("units", "1"))
    called = str(variable.attrs.get("long_name", name))
    return called if unit in ("1", "") else f"{called} ({unit})"
