import numpy as np
import pandas as pd
import pytest

from geonode import ConcentrationRegressor, MixtureCalibration
from geonode.errors import MixtureError
from tests.mixtures import beer

KNOWN = beer.amounts(16, 2)
SIGNAL = beer.spectra(KNOWN, noise=5e-3)
UNKNOWN = np.clip(beer.amounts(6, 2, seed=3), 1, 9)


@pytest.fixture(scope="module")
def fitted():
    return ConcentrationRegressor().fit(SIGNAL, pd.DataFrame(KNOWN, columns=["lead", "zinc"]))


def test_several_substances_are_estimated_together(fitted):
    found, intervals = fitted.predict(beer.spectra(UNKNOWN), return_interval=True)
    assert intervals.shape == (6, 2, 2)
    np.testing.assert_allclose(found, UNKNOWN, atol=0.1)
    assert ((intervals[..., 0] < UNKNOWN) & (intervals[..., 1] > UNKNOWN)).mean() > 0.8
    assert fitted.score(SIGNAL, KNOWN) > 0.999
    assert isinstance(fitted.calibration_, MixtureCalibration)
    assert fitted.calibration_.design.names == ("lead", "zinc")
    assert len(fitted.method_) == 2
    np.testing.assert_array_equal(fitted.estimate(beer.spectra(UNKNOWN)).amounts, found)


def test_spectra_that_fit_nowhere_are_counted(fitted):
    strange = beer.spectra(UNKNOWN[:3])
    strange[2] += 2 * np.exp(-(((beer.AXIS - 0.95) / 0.02) ** 2))
    with pytest.warns(UserWarning, match="1 of 3 spectra fit no concentration"):
        fitted.predict(strange)


@pytest.mark.parametrize(
    ("changes", "amounts", "groups", "message"),
    [
        ({"method": "pls"}, KNOWN, None, 'expected method="auto" alone'),
        ({"offset": True}, KNOWN, None, 'expected method="auto" alone'),
        ({"scale": True}, KNOWN, None, 'expected method="auto" alone'),
        ({}, KNOWN, np.arange(16), 'expected method="auto" alone'),
        ({}, KNOWN - 5, None, "which is negative"),
    ],
)
def test_what_several_substances_have_not_is_refused(changes, amounts, groups, message):
    with pytest.raises(MixtureError, match=message):
        ConcentrationRegressor(**changes).fit(SIGNAL, amounts, groups)
