"""Tables for `dvc plots` and the report: predictions and posteriors of the left-out levels."""

import csv
import io
from collections.abc import Iterable

import numpy as np

from geonode.estimation.model import SpectralModel
from geonode.evaluation.estimation import LeftOutEstimates
from geonode.learning.blend import Prediction
from geonode.spectra.series import Series, level_names

METRIC_PLACES = 101  # concentrations at which the posterior of the metric is drawn


def predictions_csv(series: Series, found: Prediction) -> str:
    """Measured and predicted spectrum of every left-out level.

    The last column is the half width of the band about the prediction, under its name.
    """
    name_of_band, half_width = found.band
    names = level_names(series.concentrations)
    return _csv(
        ("level", "wavelength", "measured", "predicted", name_of_band),
        (
            (name, f"{wavelength:g}", *values)
            for name, *rows in zip(names, series.signal, found.spectra, half_width, strict=True)
            for wavelength, *values in zip(series.axis, *rows, strict=True)
        ),
    )


def posterior_csv(found: LeftOutEstimates) -> str:
    """Posterior density of the concentration of every left-out level."""
    rows: list[tuple[str | float, ...]] = []
    names = level_names(found.levels)
    for name, *columns in zip(names, found.concentrations, found.densities, strict=True):
        rows += [(name, *point) for point in zip(*columns, strict=True)]
    return _csv(("level", "concentration", "density"), rows)


def metric_csv(model: SpectralModel) -> str:
    """Posterior of sqrt(g) over concentration; the header alone without a posterior.

    Args:
        model: model of all levels.
    """
    levels = model.series.concentrations
    places = np.union1d(levels, np.linspace(levels[0], levels[-1], METRIC_PLACES))
    places = places[places > 0]
    metric = model.predict(places).predicted.sqrt_metric if model.has_posterior else None
    rows = () if metric is None else zip(places, *metric, strict=True)
    return _csv(("concentration", "sqrt_g", "deviation"), rows)


def _csv(header: Iterable[str], rows: Iterable[Iterable[str | float]]) -> str:
    """CSV table with numbers of six significant digits."""
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(header)
    for row in rows:
        table.writerow([cell if isinstance(cell, str) else f"{cell:.6g}" for cell in row])
    return text.getvalue()
