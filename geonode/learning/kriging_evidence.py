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
    return [_best(series, fold, margin) for fold in folds]


def _best(series: Series, fold: Fold, margin: float) -> Chart:
    candidates = [series.chart, *_candidates(series.concentrations, fold)]
    likelihoods = []
    for chart in candidates:
        positions = chart.position(series.concentrations)[fold.training]
        likelihoods.append(fit_process(positions, series.signal[fold.training], MEAN)[1])
    best = int(np.argmax(likelihoods))
    return candidates[best if likelihoods[best] > likelihoods[0] + margin else 0]


def _candidates(concentrations: np.ndarray, fold: Fold) -> list[Chart]:
    """Charts known from the lowest to the highest training level of a fold."""
    low, high = float(concentrations[0]), float(concentrations[-1])
    known = (float(concentrations[fold.training[0]]), float(concentrations[fold.training[-1]]))
    smallest = float(concentrations[concentrations > 0].min())
    kappas = [np.inf, *np.geomspace(smallest / 5, 3 * high, KAPPAS)]
    if low > 0:  # ln c has no place for 0
        kappas.append(0.0)
    return [Chart(float(kappa), low, high, known) for kappa in kappas]
