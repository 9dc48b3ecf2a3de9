import numpy as np
import pytest
from scipy.integrate import quad_vec
from scipy.stats import chi2

from geonode.config import GenerateParameters
from geonode.errors import GeonodeError
from geonode.spectra.synthetic import absorbance, aggregation, plasmon, synthetic_scans
from geonode.spectra.table import to_csv

LEVELS = np.array([0.0, 10.0, 20.0, 30.0, 40.0, 60.0])
WAVELENGTHS = np.arange(200.0, 801.0)
QUIET = {"detector": 0.0, "scatter": 0.0, "offset": 0.0, "slope": 0.0}


def parameters(seed=0, noise=None, axis=(200.0, 800.0, 1.0), **changes):
    start, stop, step = axis
    return GenerateParameters(
        seed=seed,
        concentrations=changes.pop("concentrations", LEVELS.tolist()),
        replicates=changes.pop("replicates", 3),
        wavelengths={"start": start, "stop": stop, "step": step},
        noise=QUIET | (noise or {}),
    )


def test_response_turns_at_a_majority_of_visible_wavelengths():
    steps = np.diff(absorbance(LEVELS, np.arange(400.0, 801.0)), axis=0)
    assert np.mean(np.any(steps > 0, axis=0) & np.any(steps < 0, axis=0)) > 0.5


def test_gold_turns_blue_and_back():
    found = aggregation(np.array([0.0, 12.5, 25.0, 50.0, 1e12]))
    # theta = 0, 1/5, 1/2, 4/5, 1 for K = 25 ppb and n = 2, in 4 theta (1 - theta).
    np.testing.assert_allclose(found, [0, 0.64, 1, 0.64, 0], atol=1e-10)


def test_plasmon_area_is_conserved():
    # Bands of at most 80 nm about 520 to 670 nm vanish to rounding within these limits.
    area, _ = quad_vec(lambda w: plasmon(LEVELS, np.array([w]))[:, 0], -200, 1500, epsabs=1e-10)
    np.testing.assert_allclose(area, 16.0, rtol=1e-9)


def test_without_noise_every_scan_is_the_response_rounded():
    table = synthetic_scans(parameters())
    expected = absorbance(LEVELS, WAVELENGTHS)
    for scans, exact in zip(table.scans, expected, strict=True):
        np.testing.assert_allclose(scans, np.tile(exact, (3, 1)), atol=0.5001e-6)
    assert table.replicate_noise() == pytest.approx(0, abs=1e-15)


def assert_standard_deviation(sample, stated):
    """Two-sided chi-square test of a zero-mean normal sample at 1e-6."""
    statistic = np.sum(sample**2) / stated**2
    low, high = chi2.ppf([5e-7, 1 - 5e-7], sample.size)
    assert low < statistic < high


def noise_of(kind, level, replicates):
    """Scans minus response, one row a scan, with one kind of noise."""
    table = synthetic_scans(
        parameters(noise={kind: level}, replicates=replicates, axis=(300.0, 700.0, 40.0))
    )
    response = absorbance(table.concentrations, table.axis)
    residuals = [scans - exact for scans, exact in zip(table.scans, response, strict=True)]
    return np.concatenate(residuals), np.repeat(response, replicates, axis=0)


def test_every_kind_of_noise_is_of_the_stated_size_and_shape():
    detector, _ = noise_of("detector", 0.002, 500)
    assert_standard_deviation(detector, 0.002)
    correlation = np.corrcoef(detector.T) - np.eye(detector.shape[1])
    assert np.max(np.abs(correlation)) < 5 / np.sqrt(len(detector))

    noise, response = noise_of("scatter", 0.05, 500)
    factor = noise / response
    np.testing.assert_allclose(factor, np.tile(factor[:, :1], factor.shape[1]), atol=3e-5)
    assert_standard_deviation(factor[:, 0], 0.05)

    # An offset moves a scan; a slope tilts it about the centre of the axis.
    for kind, shape in (("offset", np.ones(11)), ("slope", np.linspace(-1, 1, 11))):
        noise, _ = noise_of(kind, 0.01, 500)
        np.testing.assert_allclose(noise, np.outer(noise[:, -1], shape), atol=2e-6)
        assert_standard_deviation(noise[:, -1], 0.01)


def test_a_seed_decides_every_byte():
    noise = {"detector": 0.001, "scatter": 0.005, "offset": 0.001, "slope": 0.001}
    first, again, other = (to_csv(synthetic_scans(parameters(seed, noise))) for seed in (7, 7, 8))
    assert first == again
    assert first != other


def test_size_follows_the_parameters():
    levels, axis = [60.0, 5.0, 0.0, 20.0], (450.0, 451.0, 0.1)
    table = synthetic_scans(parameters(concentrations=levels, axis=axis, replicates=2))
    np.testing.assert_array_equal(table.concentrations, sorted(levels))
    assert np.stack(table.scans).shape == (4, 2, 11)
    np.testing.assert_allclose(table.axis, np.linspace(450, 451, 11), atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"axis": (100.0, 800.0, 1.0)}, r"generate: wavelengths: .* within 190 to 1100 nm"),
        ({"axis": (200.0, 1200.0, 1.0)}, r"generate: wavelengths: .* within 190 to 1100 nm"),
        ({"axis": (200.0, 800.0, 7.0)}, r"wavelengths.step: found 7\.0, expected a step"),
        ({"concentrations": [0.0, 10.0, 10.0, 20.0]}, "expected each once"),
        ({"replicates": 10**9}, "generate: replicates: found 1000000000, expected at most"),
        ({"axis": (200.0, 800.0, 1e-300)}, "step: found 1e-300, expected at most"),
    ],
)
def test_what_cannot_be_measured_is_refused(changes, message):
    with pytest.raises(GeonodeError, match=message):
        synthetic_scans(parameters(**changes))


def test_the_more_gold_aggregates_the_farther_and_the_wider_is_its_band():
    levels, axis = np.array([0.0, 5.0, 12.5, 25.0]), np.arange(-400.0, 1700.0)
    dispersed, *found = plasmon(levels, axis)
    # At most 70% of the gold aggregate, at half coverage; the rest is as without analyte.
    bands = found - (1 - 0.7 * aggregation(levels[1:]))[:, None] * dispersed
    shares = bands / bands.sum(axis=1, keepdims=True)
    centres = shares @ axis
    widths = np.sqrt(np.sum(shares * (axis - centres[:, None]) ** 2, axis=1))
    assert (np.diff(centres) > 0).all()
    assert (np.diff(widths) > 0).all()
