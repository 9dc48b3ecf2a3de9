"""Series made of levels and spectra."""

import numpy as np

from geonode.spectra.chart import Chart
from geonode.spectra.series import Series

LABELS = {
    "signal": "absorbance",
    "signal_unit": "1",
    "axis": "wavelength",
    "axis_unit": "nm",
    "concentration_unit": "ppb",
}


def series_of(levels, signal, axis=None, chart=None):
    """A series on a linear chart and from 400 to 700 nm, if nothing else is given."""
    levels = np.asarray(levels, dtype=float)
    axis = np.linspace(400, 700, signal.shape[1]) if axis is None else axis
    chart = chart or Chart.of("linear", None, levels)
    return Series.of_levels(levels, axis, signal, chart, LABELS)
