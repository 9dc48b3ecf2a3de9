"""Series from arrays: rows of one concentration are scans of one level."""

from typing import Any

import numpy as np

from geonode.errors import SpectraError
from geonode.spectra.arrays import real_array
from geonode.spectra.chart import Chart, ChartName
from geonode.spectra.replicates import Replicates
from geonode.spectra.series import Series
from geonode.spectra.table import MOST_LEVELS, without_rounding


def series_of(
    concentrations: Any,
    spectra: Any,
    wavelengths: Any,
    fewest: int,
    chart: ChartName = "linear",
    kappa: float | None = None,
) -> Series:
    """Series of rows; rows of one concentration are scans of one level, which is their mean.

    Concentrations that differ by rounding alone are one.

    Args:
        concentrations: of the rows, array-like, none negative.
        spectra: theirs, of shape (row, wavelength).
        wavelengths: axis values of the columns, ascending; None: 0, 1, 2, ...
        fewest: levels.
        chart: of the concentrations.
        kappa: as of `Chart.of`.

    Raises:
        SpectraError: as `real_array`; concentrations are negative, there are too few or too many
            levels, or axis or chart do not fit.
    """
    concentrations = real_array(concentrations, "concentrations", row=None)
    spectra = real_array(spectra, "spectra", row=len(concentrations), wavelength=None)
    axis = np.arange(spectra.shape[1]) if wavelengths is None else wavelengths
    axis = real_array(axis, "wavelengths", wavelength=spectra.shape[1])
    if (np.diff(axis) <= 0).any() or (concentrations < 0).any():
        raise SpectraError(
            "found wavelengths that do not ascend or a negative concentration, expected neither; "
            "reverse wavelengths that descend, and the columns of the spectra with them"
        )
    levels, place = np.unique(without_rounding(concentrations), return_inverse=True)
    if not fewest <= len(levels) <= MOST_LEVELS:
        raise SpectraError(
            f"found {len(levels)} different concentrations in {len(spectra)} rows, expected "
            f"{fewest} to {MOST_LEVELS}; a fold of a cross-validation leaves some out"
        )
    scans = [spectra[place == level] for level in range(len(levels))]
    means = np.stack([of_level.mean(axis=0) for of_level in scans])
    labels = {"signal": "signal", "axis": "wavelength"}
    labels |= dict.fromkeys(("signal_unit", "axis_unit", "concentration_unit"), "1")
    found = Chart.of(chart, kappa, levels)
    return Series.of_levels(levels, axis, means, found, labels, Replicates.of(scans))
