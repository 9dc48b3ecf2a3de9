import numpy as np
import pytest

from geonode.spectra.noise import noise_along_the_axis


@pytest.mark.parametrize("even", [True, False])
def test_noise_is_found_under_smooth_spectra_and_spikes(even):
    random = np.random.default_rng(1)
    axis = np.linspace(0, 1, 4001) if even else np.sort(random.uniform(size=4001))
    scans = np.exp(-((axis - 0.5) ** 2) / 0.02) + random.normal(scale=0.03, size=(3, 4001))
    scans[:, ::97] += 5
    # Standard error of a median absolute deviation of 12,000 correlated residuals: some 2%.
    assert noise_along_the_axis(axis, scans) == pytest.approx(0.03, rel=0.08)
    lines = np.stack([3 * axis + 1, 2 - axis])
    assert noise_along_the_axis(axis, lines) == pytest.approx(0, abs=1e-14)
