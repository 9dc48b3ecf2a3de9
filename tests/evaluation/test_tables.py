import csv
import io
from types import SimpleNamespace

import numpy as np
import pytest

from geonode.evaluation.estimates import estimate_left_out
from geonode.evaluation.evaluate import LeftOut
from geonode.evaluation.tables import metric_csv, posterior_csv, predictions_csv
from tests.estimation.known import LEVELS, bent, noise, series_of


@pytest.mark.usefixtures("unchecked")
def test_one_row_for_every_level_and_wavelength():
    series = SimpleNamespace(
        axis=np.array([200.0, 200.5]),
        concentrations=np.array([0.0, 2.5]),
        signal=np.array([[0.1, 0.2], [0.3, 1e-9]]),
    )
    band = np.array([[0.0, 0.01], [0.02, 0.03]])
    spectra = np.array([[1 / 3, 2.0], [-3.0, 12345678.0]])
    assert predictions_csv(series, LeftOut(spectra, band=("90% interval", band))) == (
        "level,wavelength,measured,predicted,90% interval\n"
        "0,200,0.1,0.333333,0\n"
        "0,200.5,0.2,2,0.01\n"
        "2.5,200,0.3,-3,0.02\n"
        "2.5,200.5,1e-09,1.23457e+07,0.03\n"
    )


def test_the_table_has_the_posterior_of_every_level():
    found = estimate_left_out(series_of(LEVELS, bent(LEVELS) + noise(6, 0.01)))
    rows = list(csv.DictReader(io.StringIO(posterior_csv(found))))
    assert {row["level"] for row in rows} == {"0", "10", "20", "30", "40", "60"}
    for key, parts in (("concentration", found.concentrations), ("density", found.densities)):
        read = [float(row[key]) for row in rows]
        np.testing.assert_allclose(read, np.concatenate(parts), rtol=1e-5)


@pytest.mark.usefixtures("unchecked")
def test_without_a_posterior_there_is_no_metric_but_the_header():
    model = SimpleNamespace(
        series=series_of(LEVELS, bent(LEVELS)), has_posterior=False, predict=None
    )
    assert metric_csv(model) == "concentration,sqrt_g,deviation\n"


@pytest.mark.usefixtures("unchecked")
def test_the_metric_is_drawn_between_all_levels_but_not_at_zero():
    model = SimpleNamespace(
        series=series_of(LEVELS, bent(LEVELS)),
        has_posterior=True,
        predict=lambda places: SimpleNamespace(sqrt_metric=np.stack([2 * places, places / 10])),
    )
    rows = list(csv.DictReader(io.StringIO(metric_csv(model))))
    places = np.array([float(row["concentration"]) for row in rows])
    np.testing.assert_allclose(places, np.union1d(LEVELS, np.linspace(0, 60, 101))[1:])
    np.testing.assert_allclose([float(row["sqrt_g"]) for row in rows], 2 * places, rtol=1e-5)
    np.testing.assert_allclose([float(row["deviation"]) for row in rows], places / 10, rtol=1e-5)
