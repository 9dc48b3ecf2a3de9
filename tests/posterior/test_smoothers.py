import numpy as np
import pytest
import torch

from geonode.posterior.charts import positions
from geonode.posterior.smoothers import (
    KERNELS,
    MEANS,
    Smoothers,
    dictionary,
    inverse_and_log_determinant,
)

LEVELS = np.array([0.0, 5.0, 10.0, 30.0, 60.0])
TARGETS = np.array([20.0, 75.0])
SOME = [0, 40, 333, 700, 951, 1300, 1871]


def batch(array):
    return torch.from_numpy(array)[None]


def reference(smoother, kept, at):
    """Kriging weights by the full system of equations, and the variance: slow and plain."""
    description = dictionary()
    chart, mean = description.chart[smoother], MEANS[description.mean[smoother]]
    place = positions(batch(LEVELS), batch(TARGETS))
    on_chart = np.concatenate([place.levels[0, chart], place.targets[0, chart]])
    concentration = np.concatenate([LEVELS, TARGETS])

    def kernel(a, b):
        r = np.abs(on_chart[a][:, None] - on_chart[b]) / float(description.length[smoother])
        if KERNELS[description.kernel[smoother]] == "squared exponential":
            return np.exp(-(r**2) / 2)
        return (1 + 3**0.5 * r) * np.exp(-(3**0.5) * r)

    def terms(a):
        columns = {"1": 0 * on_chart[a] + 1, "x": on_chart[a], "c": concentration[a] / 60}
        return np.stack([columns[name] for name in mean.split()], axis=1)

    noise = float(description.noise[smoother]) * np.eye(len(kept))
    h, wanted = terms(kept), terms([at])
    size = h.shape[1]
    system = np.block([[kernel(kept, kept) + noise, h], [h.T, np.zeros((size, size))]])
    right = np.concatenate([kernel(kept, [at])[:, 0], wanted[0]])
    solution = np.linalg.solve(system, right)
    return solution[: len(kept)], 1 - solution @ right


@pytest.mark.parametrize("smoother", SOME)
def test_weights_variance_and_residuals_are_those_of_kriging(smoother):
    """Leave-one-out residuals need no refit."""
    closed = Smoothers.of(batch(LEVELS))
    found = closed.at(batch(TARGETS))
    for target in range(len(TARGETS)):
        weights, variance = reference(smoother, list(range(5)), 5 + target)
        np.testing.assert_allclose(
            found.weights[0, smoother, target], weights, rtol=1e-6, atol=1e-8
        )
        assert found.variance[0, smoother, target] == pytest.approx(variance, rel=1e-6, abs=1e-8)
    spectra = np.random.default_rng(0).normal(size=(5, 3))
    projection = closed.projection[0, smoother].numpy()
    residuals = projection @ spectra / np.diag(projection)[:, None]
    for level in range(5):
        kept = [other for other in range(5) if other != level]
        weights, _ = reference(smoother, kept, level)
        expected = spectra[level] - weights @ spectra[kept]
        np.testing.assert_allclose(residuals[level], expected, rtol=1e-6, atol=1e-8)


def test_matrices_are_inverted_like_a_library_does():
    roots = torch.randn(7, 6, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    matrices = roots @ roots.transpose(1, 2) + 0.1 * torch.eye(6)
    inverse, logarithm = inverse_and_log_determinant(matrices)
    torch.testing.assert_close(inverse, torch.linalg.inv(matrices))
    torch.testing.assert_close(logarithm, torch.logdet(matrices))


def test_folds_of_a_batch_do_not_depend_on_each_other():
    other = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    both = Smoothers.of(torch.from_numpy(np.stack([LEVELS, other])))
    alone = Smoothers.of(batch(LEVELS))
    torch.testing.assert_close(both.projection[:1], alone.projection, rtol=1e-9, atol=1e-9)
