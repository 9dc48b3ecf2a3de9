import numpy as np
import pytest

from geonode.estimation.novelty import outside_others


def one_by_one(rows, tolerance):
    """Every row less its projection on an orthonormal basis of the others."""
    found = []
    for place, row in enumerate(rows):
        _, singular, right = np.linalg.svd(np.delete(rows, place, axis=0), full_matrices=False)
        basis = right[singular > tolerance * singular[0]]
        found.append(row - row @ basis.T @ basis)
    return np.stack(found)


@pytest.mark.parametrize("count", [1, 2, 9])
def test_residuals_are_those_of_one_row_after_the_other(count):
    sizes = 10.0 ** -np.arange(count + 1)[:, None]
    rows = sizes * np.random.default_rng(0).normal(size=(count + 1, 30))
    found = outside_others(rows, 1e-10)
    np.testing.assert_allclose(found, one_by_one(rows, 1e-10), atol=1e-14, rtol=1e-6)


def test_what_the_others_span_is_nothing():
    """Two equal rows, one that is their multiple, and one apart; more rows than wavelengths."""
    apart = np.array([0.0, 0.0, 2.0])
    rows = np.array([[1.0, 2.0, 0.0], [1.0, 2.0, 0.0], [-3.0, -6.0, 0.0], apart])
    np.testing.assert_allclose(outside_others(rows, 1e-10), [[0] * 3] * 3 + [apart], atol=1e-14)
    assert np.all(outside_others(np.zeros((3, 5)), 1e-10) == 0)
