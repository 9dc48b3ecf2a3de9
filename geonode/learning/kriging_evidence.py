"""Choice of the concentration chart by the evidence of the training spectra.

Candidates are the arc lengths of the reference metrics g0(c) = 1 / (c^2 + kappa^2): linear for
kappa -> inf, logarithmic for kappa -> 0. On each a Gaussian process is fitted to the training
spectra. The chart of the largest restricted likelihood is taken if it exceeds that of the given
chart by a margin, as a few spectra are weak evidence about charts.
"""

import numpy as np

from geonode.learning.folds import Fold
from geonode.learning.gaussian_process import fit_process
from geonode.spectra.chart import Chart
from geonode.spectra.series import Series

KAPPAS = 16  # between a fifth of the smallest positive level and three times the largest
MEAN = "constant"


def charts_by_evidence(series: Series, folds: list[Fold], margin: float) -> list[Chart]:
    """Chart of every fold.

    Args:
        series: the measured series on its given chart, which is kept unless another exceeds the
            margin. The concentration of a left-out level is known to its fold, its spectrum is not.
        folds: the folds.
        margin: smallest excess of the log likelihood per wavelength over that of the given chart.
    """
    levels = series.concentrations
    low, high = float(levels[0]), float(levels[-1])
    smallest = float(levels[levels > 0].min())
    kappas = [np.inf, *np.geomspace(smallest / 5, 3 * high, KAPPAS).tolist()]
    if low > 0:  # ln c has no place for 0
        kappas.append(0.0)
    charts = []
    for fold in folds:
        # known from the lowest to the highest training level
        known = (float(levels[fold.training[0]]), float(levels[fold.training[-1]]))
        others = (Chart(kappa, low, high, known) for kappa in kappas)
        candidates, spectra = [series.chart, *others], series.signal[fold.training]
        evidence = [
            fit_process(chart.position(levels)[fold.training], spectra, MEAN)[1]
            for chart in candidates
        ]
        best = int(np.argmax(evidence))
        charts.append(candidates[best if evidence[best] > evidence[0] + margin else 0])
    return charts
