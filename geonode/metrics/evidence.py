"""Choice of the concentration chart by the evidence of the training spectra.

Candidates are the arc lengths of the reference metrics g0(c) = 1 / (c^2 + kappa^2): linear for
kappa -> inf, logarithmic for kappa -> 0. On each a Gaussian process is fitted to the training
spectra. The chart of the largest restricted likelihood is taken if it exceeds that of the given
chart by a margin, as a few spectra are weak evidence about charts.
"""

import numpy as np
from jaxtyping import Float

from geonode.errors import TrainingError
from geonode.metrics.gaussian_process import fit_process
from geonode.spectra.chart import Chart
from geonode.training.folds import Fold

KAPPAS = 16  # between a fifth of the smallest positive level and three times the largest
MEAN = "constant"


def charts_by_evidence(
    given: Chart,
    concentrations: Float[np.ndarray, "level"],
    spectra: Float[np.ndarray, "level wavelength"],
    folds: list[Fold],
    margin: float,
) -> list[Chart]:
    """Chart of every fold.

    Args:
        given: chart to keep unless another exceeds the margin.
        concentrations: all levels, ascending. That of a left-out level is known to its fold.
        spectra: the measured series. A fold never reads the rows that it leaves out.
        folds: the folds.
        margin: smallest excess of the log likelihood per wavelength over that of the given chart.

    Raises:
        TrainingError: a level is negative, where these charts are not defined.
    """
    if concentrations[0] < 0:
        raise TrainingError(
            f"chart by evidence: found the level {concentrations[0]:g}, expected levels of "
            "0 or more; set metric.evidence_margin to null"
        )
    return [
        _best(
            [given, *_candidates(concentrations, fold)],
            concentrations,
            spectra,
            fold.training,
            margin,
        )
        for fold in folds
    ]


def _candidates(concentrations: np.ndarray, fold: Fold) -> list[Chart]:
    """Charts known from the lowest to the highest training level of a fold."""
    low, high = float(concentrations[0]), float(concentrations[-1])
    known = (float(concentrations[fold.training[0]]), float(concentrations[fold.training[-1]]))
    smallest = float(concentrations[concentrations > 0].min())
    kappas = [np.inf, *np.geomspace(smallest / 5, 3 * high, KAPPAS)] + [0.0] * (
        low > 0
    )  # ln c has no place for 0
    return [Chart(float(kappa), low, high, known) for kappa in kappas]


def _best(
    candidates: list[Chart],
    concentrations: np.ndarray,
    spectra: np.ndarray,
    training: list[int],
    margin: float,
) -> Chart:
    likelihoods = [
        fit_process(chart.position(concentrations)[training], spectra[training], MEAN)[1]
        for chart in candidates
    ]
    best = int(np.argmax(likelihoods))
    return candidates[best if likelihoods[best] > likelihoods[0] + margin else 0]
