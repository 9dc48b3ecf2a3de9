import numpy as np
import pytest

from geonode.mixtures.inverse import METHODS, Inverse, fit_inverse
from geonode.spectra.preprocessed_pls import fit_preprocessed, reweighted
from tests.mixtures import beer

KNOWN = beer.amounts(14, 3)
SIGNAL = beer.spectra(KNOWN, noise=0.2, bend=2.0)
COMPOSITION = np.arange(len(KNOWN))


def test_methods_are_linear_after_preprocessings_and_closed_under_means():
    found = fit_inverse(SIGNAL, KNOWN, COMPOSITION)
    scaled = (KNOWN - KNOWN.mean(axis=0)) / KNOWN.std(axis=0)
    alone = fit_preprocessed(scaled, SIGNAL, COMPOSITION, nested=False)
    expected = np.stack([one.fit.estimates(SIGNAL)[:, 0] for one in alone], axis=1)
    estimates = found["preprocessed_pls"].estimates(SIGNAL)
    np.testing.assert_allclose(estimates, KNOWN.mean(axis=0) + expected * KNOWN.std(axis=0))
    each = [reweighted(SIGNAL, target, COMPOSITION)[1] for target in scaled.T]
    slopes = [member.rotation @ member.slopes for member in each]
    expected = (SIGNAL - SIGNAL.mean(axis=0)) @ np.stack(slopes, axis=1) * KNOWN.std(axis=0)
    estimates = found["reweighted_pls"].estimates(SIGNAL)
    np.testing.assert_allclose(estimates, KNOWN.mean(axis=0) + expected)
    several = [*found.values()]
    mean = Inverse.mean(several).estimates(SIGNAL)
    np.testing.assert_allclose(mean, np.mean([one.estimates(SIGNAL) for one in several], axis=0))


def test_classical_least_squares_reads_amounts_from_pure_spectra():
    offset = 0.5 * beer.AXIS
    found = fit_inverse(offset + beer.spectra(KNOWN), KNOWN, COMPOSITION)["cls"]
    foreign = 0.3 * np.sin(9 * beer.AXIS)
    signal = offset + beer.spectra([2.0, 3.0, 4.0]) + foreign
    along = np.linalg.lstsq(beer.PURE.T, foreign)[0]
    np.testing.assert_allclose(found.estimates(signal), np.add([[2, 3, 4]], along), rtol=1e-8)


def test_classical_least_squares_of_equal_pure_spectra_shares_by_variances():
    """Of amounts with one sum those nearest to the mean, in units of their deviations."""
    total, variances = KNOWN.sum(axis=1), KNOWN.var(axis=0)
    found = fit_inverse(100 + np.outer(total, beer.PURE[0]), KNOWN, COMPOSITION)["cls"]
    more = np.outer([-1.0, 2.0], variances / variances.sum())
    signal = 100 + np.outer(total.mean() + more.sum(axis=1), beer.PURE[0])
    np.testing.assert_allclose(found.estimates(signal), KNOWN.mean(axis=0) + more, rtol=1e-6)


@pytest.mark.parametrize("key", METHODS)
def test_linear_mixtures_are_recovered_exactly(key):
    signal = 0.2 + beer.spectra(KNOWN)
    unknown = beer.amounts(5, 3, seed=8)
    found = fit_inverse(signal, KNOWN, COMPOSITION)[key]
    np.testing.assert_allclose(found.estimates(0.2 + beer.spectra(unknown)), unknown, atol=1e-7)
