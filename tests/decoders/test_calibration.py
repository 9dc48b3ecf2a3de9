import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t

from geonode.decoders.calibration import PROBABILITIES, Calibration


def half_width(calibration, deviation):
    """Of a calibration that is not yet one of several folds."""
    return Calibration.stack([[calibration]]).half_width(
        0, np.zeros(len(deviation), int), deviation
    )


def test_half_widths_by_hand():
    errors = np.array([[3.0, 1.0, -2.0], [-1.0, 2.0, 0.0], [2.0, -2.0, 4.0]])
    deviations = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 1.0, 0.0]])
    found = Calibration.of(errors, deviations, [0, 1, 2])
    np.testing.assert_allclose(found.residual, [14 / 3, 3, 20 / 3])
    # s^2 is the squared deviation and the mean square of the other two errors.
    ratios = [
        *(3 / 2.5**0.5, 1 / 5**0.5, 2 / 12**0.5),
        *(1 / 7.5**0.5, 2 / 2.5**0.5, 0.0),
        *(2 / 9**0.5, 2 / 3.5**0.5, 4 / 2**0.5),
    ]
    ordered = sorted(ratios)
    # Nine ratios: eight gaps, so that the median is the fifth, and 0.8 and 0.95 lie between.
    expected = [
        ordered[4],
        ordered[6] + 0.4 * (ordered[7] - ordered[6]),
        ordered[7] + 0.2 * (ordered[8] - ordered[7]),
        ordered[7] + 0.6 * (ordered[8] - ordered[7]),
    ]
    np.testing.assert_allclose(found.factors, expected)
    deviation = np.array([[2.0, 0.0, 1.0]])
    widths = half_width(found, deviation)
    assert widths.shape == (len(PROBABILITIES), 1, 3)
    scale = np.sqrt([4 + 14 / 3, 3, 1 + 20 / 3])
    np.testing.assert_allclose(widths[:, 0], np.outer(expected, scale))


def test_those_that_judge_are_judged_by_each_other_alone():
    errors, deviations = np.random.default_rng(0).normal(size=(2, 5, 30))
    some = Calibration.of(errors, deviations, [1, 3, 4])
    alone = Calibration.of(errors[[1, 3, 4]], deviations[[1, 3, 4]], [0, 1, 2])
    np.testing.assert_array_equal(some.residual, alone.residual)
    np.testing.assert_array_equal(some.factors, alone.factors)


@pytest.mark.parametrize("known", [4, 8])
def test_gaussian_errors_are_covered_as_often_as_promised(known):
    """By Student's law: n - 1 errors make the scale of those known, and n that of a new one."""
    generator, repetitions, wavelengths = np.random.default_rng(known), 300, 200
    by_wavelength = np.linspace(0.5, 3, wavelengths)
    held = np.zeros(len(PROBABILITIES))
    for _ in range(repetitions):
        errors = by_wavelength * generator.normal(size=(known + 1, wavelengths))
        calibration = Calibration.of(errors[:-1], np.zeros((known, wavelengths)), [*range(known)])
        widths = half_width(calibration, np.zeros((1, wavelengths)))
        held += (np.abs(errors[-1]) <= widths[:, 0]).mean(axis=1) / repetitions
    promised = np.array(PROBABILITIES)
    expected = 2 * t.cdf(t.ppf((1 + promised) / 2, known - 1), known) - 1
    np.testing.assert_allclose(held, expected, atol=0.01)  # 60,000 points, and their quantiles
    assert (held > promised - 0.005).all()


def test_errors_as_large_as_their_deviations_are_covered_as_often_as_promised():
    generator, wavelengths = np.random.default_rng(3), 4000
    deviations = np.linspace(1, 10, 12)[:, None] * np.ones(wavelengths)
    errors = deviations * generator.normal(size=(12, wavelengths))
    calibration = Calibration.of(errors, deviations, [*range(12)])
    widths = half_width(calibration, deviations)
    fresh = deviations * generator.normal(size=(12, wavelengths))
    held = (np.abs(fresh) <= widths).mean(axis=(1, 2))
    np.testing.assert_allclose(held, PROBABILITIES, atol=0.02)
    assert (widths[:, -1].mean(axis=1) > 1.3 * widths[:, 0].mean(axis=1)).all()


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.floats(0.1, 10))
def test_intervals_are_nested_and_wider_where_the_deviation_is_larger(seed, more):
    errors, deviations = np.random.default_rng(seed).normal(size=(2, 4, 9))
    calibration = Calibration.of(errors, np.abs(deviations), [0, 1, 2, 3])
    deviation = np.abs(deviations[:1])
    widths, wider = (half_width(calibration, d) for d in (deviation, deviation + more))
    assert (widths > 0).all()
    assert (np.diff(widths, axis=0) >= 0).all()
    assert (wider > widths).all()


@pytest.mark.parametrize("scale", [1e-150, 1e-3, 1e6, 1e150])
def test_the_unit_of_the_signal_is_that_of_the_intervals(scale):
    errors, deviations = np.abs(np.random.default_rng(1).normal(size=(2, 3, 20)))
    one = half_width(Calibration.of(errors, deviations, [0, 1, 2]), deviations[:1])
    other = Calibration.of(scale * errors, scale * deviations, [0, 1, 2])
    np.testing.assert_allclose(half_width(other, scale * deviations[:1]), scale * one, rtol=1e-9)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("deviation", [0.0, 0.3])
@pytest.mark.parametrize("judges", [[0, 1, 2], [0, 2]])
def test_perfect_predictions_have_no_width(deviation, judges):
    deviations = np.full((3, 4), deviation)
    widths = half_width(Calibration.of(np.zeros((3, 4)), deviations, judges), deviations[:1])
    np.testing.assert_array_equal(widths, 0)


@pytest.mark.filterwarnings("error")
def test_a_single_error_among_perfect_predictions_is_finite():
    errors = np.zeros((3, 4))
    errors[1, 2] = 1e-3
    widths = half_width(Calibration.of(errors, np.zeros((3, 4)), [0, 1, 2]), np.zeros((1, 4)))
    assert np.isfinite(widths).all()


def test_folds_and_sides_are_kept_apart_and_what_is_written_is_read():
    generator = np.random.default_rng(2)
    parts = [
        [Calibration.of(*generator.normal(size=(2, 3, 6)), [0, 1, 2]) for _ in range(2)]
        for _ in range(4)
    ]
    stacked = Calibration.stack(parts)
    written = {name: tensor.clone() for name, tensor in stacked.tensors().items()}
    again = Calibration.from_tensors(written)
    deviation = np.abs(generator.normal(size=(2, 6)))
    for fold, sides in enumerate(parts):
        for side, part in enumerate(sides):
            expected = half_width(part, deviation)
            np.testing.assert_array_equal(
                stacked.half_width(fold, np.full(2, side), deviation), expected
            )
            np.testing.assert_array_equal(
                again.half_width(fold, np.full(2, side), deviation), expected
            )
    with pytest.raises(KeyError, match="factors"):
        Calibration.from_tensors({"residual": torch.zeros(1, 2, 3)})
