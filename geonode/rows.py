"""Rows of arrays as a series, and parameters by name: for the estimators of scikit-learn."""

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from geonode.config import Parameters
from geonode.defaults import default_parameters
from geonode.errors import ParameterError, SpectraError
from geonode.spectra.chart import Chart
from geonode.spectra.replicates import Replicates
from geonode.spectra.series import Series
from geonode.spectra.table import MOST_LEVELS


def parameters_of(estimator: str, given: Mapping[str, tuple[str, Any]]) -> Parameters:
    """The parameters of a preset, but for those of an estimator.

    Args:
        estimator: its name, for errors.
        given: by dotted key: the name of the estimator's parameter, and its value. NumPy's numbers,
            such as those of a search, become Python's.

    Raises:
        ParameterError: naming a parameter of the estimator.
    """
    values = {
        key: value.item() if isinstance(value, np.generic) else value
        for key, (_, value) in given.items()
    }
    try:
        return default_parameters(values)
    except ParameterError as error:
        # Of values that contradict each other only their block is named.
        first = next(key for key in given if key == error.key or key.startswith(f"{error.key}."))
        name, value = given[first]
        raise ParameterError(estimator, name, value, error.expected) from error


def series_of_rows(
    concentrations: Float[np.ndarray, "row"],
    spectra: Float[np.ndarray, "row wavelength"],
    axis: Float[np.ndarray, "wavelength"],
    parameters: Parameters,
    fewest: int,
) -> Series:
    """Mean spectra of ascending levels; rows of one concentration are scans of one level.

    Args:
        concentrations: of the rows, none negative.
        spectra: theirs.
        axis: of the spectra.
        parameters: `spectra` of them.
        fewest: levels.

    Raises:
        SpectraError: there are too few or too many levels.
    """
    levels, place = np.unique(concentrations, return_inverse=True)
    if not fewest <= len(levels) <= MOST_LEVELS:
        raise SpectraError(
            f"found {len(levels)} different concentrations in {len(spectra)} rows, expected "
            f"{fewest} to {MOST_LEVELS}; a fold of a cross-validation leaves some out"
        )
    scans = [spectra[place == level] for level in range(len(levels))]
    means = np.stack([of_level.mean(axis=0) for of_level in scans])
    about = parameters.spectra
    labels = {
        "signal": "signal",
        "signal_unit": "1",
        "axis": "wavelength",
        "axis_unit": "1",
        "concentration_unit": "1",
    }
    chart = Chart.of(about.chart, about.kappa, levels)
    return Series(levels, axis, means, chart, labels, Replicates.of(scans))


def grouped(concentrations: Float[np.ndarray, "row"]) -> Float[np.ndarray, "row"]:
    """Concentrations of at most `MOST_LEVELS` different values.

    More of them are put in so many groups of neighbours, with equally many different concentrations
    each; a row gets the mean of its group, and a warning says so.
    """
    different, place = np.unique(concentrations, return_inverse=True)
    if len(different) <= MOST_LEVELS:
        return concentrations
    sizes = [len(group) for group in np.array_split(different, MOST_LEVELS)]
    group = np.repeat(np.arange(MOST_LEVELS), sizes)[place]
    warnings.warn(
        f"found {len(different)} different concentrations: neighbours are made one level, "
        f"{MOST_LEVELS} in all",
        stacklevel=3,
    )
    return (np.bincount(group, concentrations) / np.bincount(group))[group]


def axis_of(wavelengths: ArrayLike | None, count: int) -> Float[np.ndarray, "wavelength"]:
    """The spectral axis of spectra with so many columns; 0, 1, 2, ... where none is given.

    Raises:
        SpectraError: the wavelengths are of another number, not finite or not ascending.
    """
    if wavelengths is None:
        return np.arange(count, dtype=np.float64)
    axis = np.asarray(wavelengths)
    if axis.shape != (count,):
        raise SpectraError(
            f"wavelengths: found shape {axis.shape}, expected ({count},), one a column of spectra"
        )
    if axis.dtype.kind not in "iuf" or not np.isfinite(axis).all() or (np.diff(axis) <= 0).any():
        raise SpectraError(
            "wavelengths: expected finite numbers that ascend; reverse those that descend, and "
            "the columns of the spectra with them"
        )
    return axis.astype(np.float64)
