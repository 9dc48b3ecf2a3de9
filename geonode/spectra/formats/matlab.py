"""Spectra in MATLAB files of version 5 to 7, read by SciPy: one matrix, its axis, and amounts.

The axis is the vector that a name such as `wavelength` or `nm` tells, or else the only one that is
as long as one side of the matrix and in order. A vector along the other side with a name such as
`conc` gives concentrations; without one the spectra are called 1, 2, 3, as samples.
"""

from pathlib import Path

import numpy as np

from geonode.errors import SpectraError
from geonode.spectra.headers import axis_header, concentration_header, role
from geonode.spectra.sheet import Sheet, Understood, require_columns, require_values, shortest
from geonode.storage.seal import require_file

LARGEST_FILE = 2**27
"""Bytes of a file."""

_WAY_OUT = "save a matrix of spectra, its wavelengths and its concentrations alone, with -v7"


def read_matlab(path: Path) -> Sheet:
    """Spectra of a file.

    Raises:
        SpectraError: it is damaged, of another version, too large, or does not tell which of its
            arrays are spectra and axis.
        OSError: it cannot be read.
    """
    name, matrix, vectors = _arrays(path)
    along = {side: [] for side in (0, 1)}  # type: dict[int, list[str]]
    for one, values in vectors.items():
        for side in (0, 1):
            if len(values) == matrix.shape[side]:
                along[side].append(one)
    axes = [(one, side) for side in (0, 1) for one in along[side] if role(one) == "axis"]
    axes = axes or [
        (one, side)
        for side in (0, 1)
        for one in along[side]
        if role(one) is None and _is_in_order(vectors[one])
    ]
    if len(axes) != 1:
        found = ", ".join(f"{one} ({len(values)})" for one, values in vectors.items())
        raise SpectraError(
            f"found the matrix {name} {matrix.shape} and the vectors {found or 'none'}, expected "
            f"one of them as axis; call it wavelength, or {_WAY_OUT}"
        )
    (axis_called, side), other = axes[0], 1 - axes[0][1]
    levels = [one for one in along[other] if role(one) == "concentration"]
    if len(levels) > 1 or (levels and matrix.shape[0] == matrix.shape[1]):
        raise SpectraError(
            f"found {', '.join(levels)} beside the matrix {name} {matrix.shape}, expected one "
            f"vector of concentrations along one side; {_WAY_OUT}"
        )
    spectra = matrix if side == 1 else matrix.T
    require_columns(len(spectra))
    numbers = vectors[levels[0]] if levels else np.arange(1.0, len(spectra) + 1)
    axis_name, axis_unit = axis_header(axis_called)
    return Sheet(
        names=[shortest(number) for number in numbers],
        axis=vectors[axis_called],
        axis_name=axis_name,
        axis_unit=axis_unit,
        values=spectra,
        name_places=[f"spectrum {number + 1}" for number in range(len(spectra))],
        axis_places=[f"{axis_called} {number + 1}" for number in range(spectra.shape[1])],
        understood=Understood(f"MATLAB, matrix {name}, axis {axis_called}"),
        names_are="concentrations" if levels else "other",
        concentration_unit=concentration_header(levels[0])[1] if levels else None,
    )


def _arrays(path: Path) -> tuple[str, np.ndarray, dict[str, np.ndarray]]:
    """Name and values of the one matrix of a file, and its vectors."""
    from scipy.io import loadmat, whosmat  # noqa: PLC0415 - few files need it

    if require_file(path).stat().st_size > LARGEST_FILE:
        raise SpectraError(f"found more than {LARGEST_FILE} bytes, expected a smaller file")
    try:
        kinds = ("double", "single", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
        held = [(name, shape) for name, shape, kind in whosmat(path) if kind in kinds]
        require_values(sum(int(np.prod(shape, dtype=object)) for _, shape in held))
        found = loadmat(path, variable_names=[name for name, _ in held])
        arrays = {name: np.asarray(found[name]) for name, _ in held}
    except (SpectraError, OSError):
        raise
    except NotImplementedError as error:
        raise SpectraError(f"found MATLAB 7.3, expected an earlier one; {_WAY_OUT}") from error
    except Exception as error:  # damaged parts raise anything
        raise SpectraError(f"found no MATLAB file that can be read ({error!r:.80})") from error
    sizes = {name: sum(side > 1 for side in array.shape) for name, array in arrays.items()}
    matrices = [name for name, size in sizes.items() if size == 2 and arrays[name].ndim == 2]
    if len(matrices) != 1 or any(np.iscomplexobj(array) for array in arrays.values()):
        raise SpectraError(
            f"found {len(matrices)} matrices of real numbers ({', '.join(matrices[:5])}), expected "
            f"one; {_WAY_OUT}"
        )
    vectors = {name: arrays[name].ravel().astype(float) for name in arrays if sizes[name] == 1}
    return matrices[0], arrays[matrices[0]].astype(float), vectors


def _is_in_order(values: np.ndarray) -> bool:
    steps = np.diff(values)
    return bool((steps > 0).all() or (steps < 0).all())
