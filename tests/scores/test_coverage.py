import numpy as np
import pytest

from geonode.scores.coverage import coverage


def test_shares_by_hand():
    measured = np.zeros((4, 2))
    predicted = np.array([[1.0, -3.0], [0.0, 2.0], [-2.0, 2.0], [4.0, 4.0]])
    half_width = np.stack([np.full((4, 2), width) for width in (0.0, 1.0, 2.0, 4.0)])
    half_width[3, 3, 0] = 3.5
    found = coverage(measured, predicted, half_width)
    assert found == {
        "50": {"all": 1 / 8, "interior": 1 / 4, "ends": 0.0, "half_width": 0.0},
        "80": {"all": 2 / 8, "interior": 1 / 4, "ends": 1 / 4, "half_width": 1.0},
        "90": {"all": 5 / 8, "interior": 1.0, "ends": 1 / 4, "half_width": 2.0},
        "95": {"all": 7 / 8, "interior": 1.0, "ends": 3 / 4, "half_width": (7 * 4 + 3.5) / 8},
    }


def test_of_three_levels_one_is_inside():
    half_width = np.ones((4, 3, 1)) * np.array([[0.0], [1.0], [0.0]])
    found = coverage(np.zeros((3, 1)), np.full((3, 1), 0.5), half_width)
    assert all((part["interior"], part["ends"]) == (1.0, 0.0) for part in found.values())
    assert found["90"]["all"] == pytest.approx(1 / 3)


def test_gaussian_errors_are_inside_as_often_as_the_law_says():
    generator = np.random.default_rng(0)
    sigma = np.linspace(1, 5, 10)[:, None]
    predicted = 3 + sigma * generator.normal(size=(10, 20_000))
    width = np.broadcast_to(sigma, predicted.shape)
    quantiles = np.array([0.6744897502, 1.2815515655, 1.6448536270, 1.9599639845])
    found = coverage(np.full((10, 20_000), 3.0), predicted, quantiles[:, None, None] * width)
    for name, part in found.items():
        for share in ("all", "interior", "ends"):
            assert part[share] == pytest.approx(float(name) / 100, abs=0.01)
