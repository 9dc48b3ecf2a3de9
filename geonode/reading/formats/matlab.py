"""Spectra in MATLAB files of version 5 to 7, read by SciPy: one matrix, its axis, and amounts.

The axis is the vector that a name such as `wavelength` tells, or else the only one in order that is
as long as a side of the matrix. A vector along the other side with a name such as `conc` gives
amounts; the spectra are called 1, 2, 3, as samples.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from geonode.errors import SpectraError
from geonode.reading.formats.labelled_arrays import errors_explained, sheet_of_arrays
from geonode.reading.headers import axis_header, is_marked_amount, role
from geonode.reading.sheet import Labels, Sheet, require_binary
from geonode.spectra.arrays import require_values
from geonode.spectra.table import shortest

_NUMBER_TYPES = (
    "double",
    "single",
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32)),
)
_WAY_OUT = "save a matrix of spectra, its wavelengths and its concentrations alone, with -v7"


def read_matlab(path: Path) -> Sheet:
    """Spectra of a file.

    Raises:
        SpectraError: it is damaged, of another version, too large, or does not tell which of its
            arrays are spectra and axis.
        OSError: it cannot be read.
    """
    import xarray  # noqa: PLC0415 - few files need it

    arrays = {name: array for name, array in _arrays(path).items() if np.isrealobj(array)}
    sides = {name: [side for side in array.shape if side > 1] for name, array in arrays.items()}
    matrices = [name for name, found in sides.items() if len(found) == 2]
    if len(matrices) != 1:
        raise SpectraError(f"found the matrices {matrices[:5]}, expected one; {_WAY_OUT}")
    matrix = arrays[matrices[0]]
    vectors = {name: arrays[name].ravel() for name, found in sides.items() if len(found) == 1}
    roles = {name: role(name) for name in vectors}
    steps = {name: np.diff(vector.astype(float)) for name, vector in vectors.items()}
    axes = [name for name in vectors if roles[name] == "axis"] or [
        name
        for name in vectors
        if roles[name] is None and ((steps[name] > 0).all() or (steps[name] < 0).all())
    ]
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


def _arrays(path: Path) -> dict[str, np.ndarray]:
    """Arrays of numbers of a file, by name."""
    from scipy.io import loadmat, whosmat  # noqa: PLC0415 - few files need it

    require_binary(path)
    try:
        with errors_explained("MATLAB file of an earlier version than 7.3"):
            held = [(name, shape) for name, shape, kind in whosmat(path) if kind in _NUMBER_TYPES]
            require_values(sum(int(np.prod(shape, dtype=object)) for _, shape in held))
            found = loadmat(path, variable_names=[name for name, _ in held])
            return {name: np.asarray(found[name]) for name, _ in held}
    except SpectraError as error:
        raise SpectraError(f"{error}; {_WAY_OUT}") from error
