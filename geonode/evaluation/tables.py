"""Tables for `dvc plots` and the report: predictions and posteriors of the left-out levels."""

import numpy as np
import pandas as pd

from geonode.estimation.model import SpectralModel
from geonode.evaluation.estimates import LeftOutEstimates
from geonode.evaluation.evaluate import LeftOut
from geonode.spectra.series import Series, level_names

METRIC_PLACES = 101  # concentrations at which the posterior of the metric is drawn


def predictions_csv(series: Series, found: LeftOut) -> str:
    """Measured and predicted spectrum of every left-out level.

    The last column is the half width of the band about the prediction, under its name.

    Args:
        series: the measured series.
        found: predictions of a model, with their band.
    """
    assert found.spectra is not None and found.band is not None  # of a model
    name_of_band, half_width = found.band
    levels, wavelengths = series.signal.shape
    columns = {
        "level": np.repeat(level_names(series.concentrations), wavelengths),
        "wavelength": np.tile(series.axis, levels),
        "measured": series.signal.ravel(),
        "predicted": found.spectra.ravel(),
        name_of_band: half_width.ravel(),
    }
    return _csv(pd.DataFrame(columns))


def posterior_csv(found: LeftOutEstimates) -> str:
    """Posterior density of the concentration of every left-out level."""
    parts = [
        pd.DataFrame({"level": name, "concentration": places, "density": density})
        for name, places, density in zip(
            level_names(found.levels), found.concentrations, found.densities, strict=True
        )
    ]
    return _csv(pd.concat(parts))


def metric_csv(model: SpectralModel) -> str:
    """Posterior of sqrt(g) over concentration; the header alone without a posterior.

    Args:
        model: model of all levels.
    """
    columns = ["concentration", "sqrt_g", "deviation"]
    levels = model.series.concentrations
    places = np.union1d(levels, np.linspace(levels[0], levels[-1], METRIC_PLACES))
    places = places[places > 0]
    metric = model.predict(places).sqrt_metric if model.has_posterior else None
    if metric is None:
        return _csv(pd.DataFrame(columns=columns))
    return _csv(pd.DataFrame(np.column_stack([places, *metric]), columns=columns))


def _csv(table: pd.DataFrame) -> str:
    """CSV table with numbers of six significant digits."""
    return str(table.to_csv(index=False, float_format="%.6g", lineterminator="\n"))
