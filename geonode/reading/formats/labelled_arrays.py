"""Spectra as labelled arrays in Zarr stores and NetCDF files, opened by xarray, and of MATLAB.

The spectra are the one variable of numbers over a wavelength-like dimension and one other, which is
the concentration or distinguishes samples; a third dimension may count replicates. Dimensions are
known by their name or by the units of their coordinate. A replicate that is NaN throughout was not
measured. Amounts of samples are variables over them, or over them and the substances, which are
known as concentrations in the same way.

MATLAB files of version 5 to 7 are read by SciPy: one matrix, its axis, and amounts. The axis is the
vector that a name such as `wavelength` marks, or else the only one in order that is as long as a
side of the matrix. A vector along the other side with a name such as `conc` gives amounts; the
spectra are called 1, 2, 3, as samples.
"""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np

from geonode.errors import SpectraError
from geonode.reading.headers import UNITS, Role, axis_header, is_marked_amount, role
from geonode.reading.refusals import LARGEST_BINARY, errors_explained, require_at_most
from geonode.reading.sheet import MOST_COLUMNS, Labels, Sheet, Understood, is_one_way
from geonode.spectra.arrays import MOST_VALUES, require_values
from geonode.spectra.table import shortest
from geonode.storage.seal import require_file
from geonode.storage.zarr_metadata import require_plain

MOST_CHUNKS = 100_000
"""Chunks of an array."""

LARGEST_NETCDF = 2**28
"""Bytes of a NetCDF file."""

NEVER_WRITTEN_OF = {
    **dict.fromkeys(("f4", "f8"), 9.969209968386869e36),
    **{"i2": -32767, "u2": 65535, "i4": -(2**31) + 1, "u4": 2**32 - 1},
    **{"i8": -(2**63) + 2, "u8": 2**64 - 2},
}
"""Values of NetCDF where nothing was written, by type: NC_FILL_ of netcdf.h."""


def read_zarr(path: Path) -> Sheet:
    """Spectra of a Zarr store.

    Raises:
        SpectraError: it is damaged, asks for more than fits into memory or for more than numbers
            and texts, or contains no such variable, or several.
        OSError: it cannot be read.
    """
    import xarray  # noqa: PLC0415 - few files need it

    if not path.is_dir():
        raise SpectraError("found no such folder, expected a Zarr store")
    with errors_explained("labelled arrays"):
        require_plain(path, 8 * MOST_VALUES, MOST_CHUNKS)
        with xarray.open_zarr(path, decode_times=False, chunks=None, consolidated=False) as data:
            found = sheet_of_arrays(data, "Zarr")
            require_chunks(path, data, set(data.variables))
            return found


def read_netcdf(path: Path) -> Sheet:
    """Spectra of a NetCDF file; nothing guards against one that is made to harm HDF5.

    Raises:
        SpectraError: as `read_zarr`, or the packages for version 4 are not installed.
        OSError: it cannot be read.
    """
    import xarray  # noqa: PLC0415 - few files need it

    # A file is opened here, so that it is closed whatever a library raises.
    with path.open("rb") as file, errors_explained("labelled arrays"):
        if path.stat().st_size > LARGEST_NETCDF:
            raise SpectraError(
                f"found more than {LARGEST_NETCDF} bytes, expected at most that, as they are read "
                'at once; write them as Zarr: xarray.open_dataset("a.nc", chunks={"y": 16})'
                '.to_zarr("a.zarr")'
            )
        is_version_3 = file.read(3) == b"CDF"
        file.seek(0)
        if not is_version_3:
            _require_few_values(file)
        engine: Literal["scipy", "h5netcdf"] = "scipy" if is_version_3 else "h5netcdf"
        with xarray.open_dataset(file, engine=engine, decode_cf=False, chunks=None) as data:
            for variable in data.data_vars.values():
                fill = NEVER_WRITTEN_OF.get(variable.dtype.str[1:])
                if fill is not None and "missing_value" not in variable.attrs:
                    variable.attrs.setdefault("_FillValue", variable.dtype.type(fill))
            return sheet_of_arrays(xarray.decode_cf(data, decode_times=False), "NetCDF")


def _require_few_values(file: BinaryIO) -> None:
    """Count the values of a NetCDF 4 file, of which xarray reads some as soon as it opens it."""
    try:
        import h5netcdf  # noqa: PLC0415 - an extra

        with h5netcdf.File(file) as found:
            require_values(sum(math.prod(array.shape) for array in found.variables.values()))
    except ImportError as error:
        raise SpectraError(
            'found NetCDF 4, which needs more packages: pip install "geonode-spectra[netcdf]"'
        ) from error
    file.seek(0)


def sheet_of_arrays(data: Any, kind: str) -> Sheet:
    """The spectra of a dataset of xarray, read from a file of this kind."""
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
    require_at_most(MOST_COLUMNS, data.sizes[of_names], "spectra")
    numbers = np.asarray(values.transpose(of_names, *replicates, at_axis), np.float64)
    names, spectra, samples = [], [], []
    labels = data[of_names].values.tolist()
    for sample, (label, scans) in enumerate(zip(labels, numbers, strict=True)):
        text = _text_of_label(label)
        measured = scans[~np.isnan(scans).all(axis=1)] if replicates else [scans]
        for scan, spectrum in enumerate(measured, start=1):
            names.append(text if scan == 1 else f"{text}__r{scan}")
            spectra.append(spectrum)
            samples.append(sample)
    axis = np.asarray(data[at_axis].values, np.float64)
    unit = _unit_of_array(data[at_axis])
    is_concentration = roles[of_names] == "concentration"
    concentration_unit = _unit_of_array(data[of_names]) if is_concentration else "1"
    signal, signal_unit = str(values.attrs.get("long_name", name)), _unit_of_array(values)
    return Sheet(
        names=names,
        axis=axis,
        axis_name=str(data[at_axis].attrs.get("long_name", at_axis)),
        axis_unit=UNITS.get(unit.lower(), unit),
        values=np.stack(spectra) if spectra else np.empty((0, len(axis))),
        name_places=[f"{of_names} {sample + 1}" for sample in samples],
        axis_places=[f"{at_axis} {number}" for number in range(1, len(axis) + 1)],
        understood=Understood(f"{kind}, variable {name} ({', '.join(map(str, values.dims))})"),
        of_samples=not is_concentration,
        concentration_unit=None if concentration_unit == "1" else concentration_unit,
        signal=signal if signal_unit == "1" else f"{signal} ({signal_unit})",
        amounts=() if is_concentration else _amounts_beside(data, of_names, samples, roles, kind),
    )


def _amounts_beside(
    data: Any, of_names: Any, samples: list[int], roles: dict[str, Role | None], kind: str
) -> tuple[Labels, ...]:
    """Amounts of the samples of spectra, one of each substance."""
    found = []
    # The arrays of a Zarr store are in no order.
    names = sorted(data.variables, key=str) if kind == "Zarr" else data.variables
    for name in names:
        variable = data.variables[name]
        others = [dim for dim in variable.dims if dim != of_names]
        means, is_about = _role(data, name), role(str(name)) == "about"  # such as a humidity in %
        is_amount = (means == "concentration" and not is_about) or is_marked_amount(str(name))
        is_of_samples = of_names in variable.dims and variable.dtype.kind in "fiu"
        is_of_spectra = any(roles[dim] in ("axis", "replicate") for dim in others)
        if not is_amount or not is_of_samples or is_of_spectra or len(others) > 1:
            continue
        require_at_most(MOST_COLUMNS, variable.size, "amounts")
        values = np.asarray(variable.transpose(of_names, ...).values, np.float64)
        labels = [*map(_text_of_label, data[others[0]].values.tolist())] if others else [str(name)]
        unit, places = _unit_of_array(variable), [f"{name}, {of_names} {at + 1}" for at in samples]
        for label, amounts in zip(labels, values.reshape(len(values), -1).T, strict=True):
            cells = [shortest(float(amounts[sample])) for sample in samples]
            found.append(Labels(label if unit == "1" else f"{label} ({unit})", cells, places))
    return tuple(found)


def _unit_of_array(array: Any) -> str:
    """Unit of an array, "1" where it has none."""
    return str(array.attrs.get("units") or "1").strip()


def _text_of_label(label: Any) -> str:
    """Text of a number, a text or, of arrays of characters, bytes that end in blanks."""
    if isinstance(label, int | float):
        return shortest(float(label))
    return (label.decode(errors="replace") if isinstance(label, bytes) else str(label)).strip()


def _role(data: Any, dim: Any) -> Role | None:
    """Role of a dimension or a variable by its name, or else by its attributes."""
    attributes = data[dim].attrs if dim in data.variables else {}
    texts = (dim, *(attributes.get(key) for key in ("long_name", "standard_name", "units")))
    found = (role(str(text)) for text in texts if text)
    return next((one for one in found if one not in (None, "about")), None)


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


def require_chunks(store: Path, data: Any, names: set[Any]) -> None:
    """Refuse absent chunks, for which Zarr reads the fill value of the array.

    Args:
        store: the Zarr store.
        data: the store as xarray has opened it.
        names: its arrays to check.

    Raises:
        SpectraError: an array lacks a chunk, and its fill value may be a measured number.
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


_NUMBER_TYPES = (
    "double",
    "single",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)
_WAY_OUT = "save a matrix of spectra, its wavelengths and its concentrations alone, with -v7"


def read_matlab(path: Path) -> Sheet:
    """Spectra of a file.

    Raises:
        SpectraError: it is damaged, of another version, too large, or does not show which of its
            arrays are spectra and axis.
        OSError: it cannot be read.
    """
    import xarray  # noqa: PLC0415 - few files need it
    from scipy.io import loadmat, whosmat  # noqa: PLC0415

    require_at_most(LARGEST_BINARY, require_file(path).stat().st_size)
    with errors_explained("MATLAB file of an earlier version than 7.3", f"; {_WAY_OUT}"):
        shapes = {name: shape for name, shape, kind in whosmat(path) if kind in _NUMBER_TYPES}
        require_values(sum(map(math.prod, shapes.values())))
        found = loadmat(path, variable_names=[*shapes])
        arrays = {name: np.asarray(found[name]) for name in shapes if np.isrealobj(found[name])}
    sides = {name: [side for side in array.shape if side > 1] for name, array in arrays.items()}
    matrices = [name for name, found in sides.items() if len(found) == 2]
    if len(matrices) != 1:
        raise SpectraError(f"found the matrices {matrices[:5]}, expected one; {_WAY_OUT}")
    matrix = arrays[matrices[0]]
    vectors = {name: arrays[name].ravel() for name, found in sides.items() if len(found) == 1}
    roles = {name: role(name) for name in vectors}
    in_order = [name for name in vectors if is_one_way(vectors[name].astype(float))]
    axes = [name for name in vectors if roles[name] == "axis"]
    axes = axes or [name for name in in_order if roles[name] is None]
    axes = [name for name in axes if len(vectors[name]) in matrix.shape]
    if len(axes) != 1 or matrix.ndim != 2 or matrix.shape[0] == matrix.shape[1]:
        raise SpectraError(
            f"found the matrix {matrices[0]} {matrix.shape} and the vectors {list(vectors)[:5]}, "
            f"expected one of them along one side as axis; call it wavelength, or {_WAY_OUT}"
        )
    spectra = matrix if len(vectors[axes[0]]) == matrix.shape[1] else matrix.T
    called, unit = axis_header(axes[0])
    data = xarray.Dataset(
        {matrices[0]: (("sample", "wavelength"), spectra)},
        {"sample": np.arange(1, len(spectra) + 1), "wavelength": vectors[axes[0]]},
    )
    data["wavelength"].attrs = {"units": unit, "long_name": called}
    sheet = sheet_of_arrays(data, "MATLAB")
    amounts = [
        Labels(
            name,
            [shortest(float(one)) for one in vector],
            [f"{name}, number {number}" for number in range(1, len(spectra) + 1)],
            roles[name] == "concentration" or is_marked_amount(name),
        )
        for name, vector in vectors.items()
        if name not in axes and len(vector) == len(spectra)
    ]
    return replace(sheet, amounts=tuple(amounts))
