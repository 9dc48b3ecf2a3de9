import numpy as np
import pytest
import torch
from scipy.interpolate import CubicHermiteSpline
from scipy.stats import kstest

from geonode.config import AugmentationParameters
from geonode.training.augmentation import Augmentation

CPU = torch.device("cpu")
# Uneven: spacings from 0.5 to 3.5 nm, about 2 nm on average.
AXIS = 400 + np.concatenate([[0.0], np.random.default_rng(1).uniform(0.5, 3.5, 150).cumsum()])
CHARTED = 2 * (AXIS - AXIS[0]) / (AXIS[-1] - AXIS[0]) - 1
CHOSEN = np.array([0, 9, 31, 32, 60, 88, 119, 143, 150])  # nine: no multiple of a vector's width
SPECTRA = np.random.default_rng(2).normal(1, 0.3, (5, len(AXIS)))
RISE = np.array([0.01, 0.02, -0.01, 0.005, -0.03])
LINES = RISE[:, None] * (AXIS - 500) + 2
SEEDS = [(7, 0, 0), (7, 0, 3), (7, 2, 0), (8, 1, 1)]
STRENGTH = {"offset": 0.3, "slope": 0.2, "scatter": 0.1, "shift": 1.5, "detector": 0.05}


def levels(**kinds):
    return AugmentationParameters(**(dict.fromkeys(STRENGTH, 0.0) | kinds))


def build(spectra=SPECTRA, seeds=SEEDS, dtype=torch.float64, device=CPU, **kinds):
    return Augmentation(spectra, AXIS, CHOSEN, levels(**kinds), seeds, device, dtype)


def draws(augmentation, epochs):
    return torch.stack([augmentation.draw(epoch) for epoch in epochs]).numpy()


def shifted(spectra, distance):
    """f(w - distance) of one spectrum from cubics whose slopes are those of parabolas."""
    count = len(AXIS)
    slopes = np.empty(count)
    for place in range(count):
        three = np.arange(3) + np.clip(place - 1, 0, count - 3)
        parabola = np.polyfit(AXIS[three] - AXIS[place], spectra[three], 2)
        slopes[place] = parabola[1]
    at = np.clip(AXIS[CHOSEN] - distance, AXIS[0], AXIS[-1])
    return CubicHermiteSpline(AXIS, spectra, slopes)(at)


def numbers(kind, seeds=SEEDS, epochs=range(3)):
    """Standard normal numbers behind the draws of one kind alone: (epoch, model, level, number).

    Of straight lines, which show a shift by the same amount everywhere but at the ends. What is
    seen of a spectrum's number at one training wavelength must be seen at all of them.
    """
    found = draws(build(LINES, seeds, **{kind: STRENGTH[kind]}), epochs) - LINES[:, CHOSEN]
    if kind == "detector":
        return found / STRENGTH[kind]
    effect = (
        STRENGTH[kind]
        * {
            "shift": np.broadcast_to(-RISE[:, None], LINES[:, CHOSEN].shape),
            "scatter": LINES[:, CHOSEN],
            "offset": np.ones_like(LINES[:, CHOSEN]),
            "slope": np.broadcast_to(CHARTED[CHOSEN], LINES[:, CHOSEN].shape),
        }[kind]
    )
    inside = slice(1, -1) if kind == "shift" else slice(None)
    at = found.shape[-1] - 2  # the last but one: none of the effects is zero there
    number = found[..., at] / effect[:, at]
    np.testing.assert_allclose(
        found[..., inside], (number[..., None] * effect)[..., inside], atol=1e-12
    )
    return number[..., None]


@pytest.mark.parametrize("kind", STRENGTH)
def test_every_kind_is_normal_with_its_level_and_independent(kind):
    """Between neighbouring epochs (of one block and of two), models, spectra and readings."""
    drawn = numbers(kind, [(3, model) for model in range(40)], range(40))
    count = drawn.size
    assert abs(drawn.mean()) < 4 / count**0.5
    assert abs(drawn.std() - 1) < 4 / (2 * count) ** 0.5
    assert kstest(drawn.flatten(), "norm").pvalue > 1e-3
    for axis in range(4 if kind == "detector" else 3):
        along = np.moveaxis(drawn, axis, 0)
        together = np.corrcoef(along[1:].flatten(), along[:-1].flatten())[0, 1]
        assert abs(together) < 5 / count**0.5


def test_kinds_are_independent_of_each_other():
    drawn = [numbers(kind, epochs=range(300))[..., 0].flatten() for kind in STRENGTH]
    together = np.corrcoef(drawn) - np.eye(len(STRENGTH))
    assert np.abs(together).max() < 4 / len(drawn[0]) ** 0.5


def test_kinds_follow_each_other_as_in_an_instrument():
    """Shift, scatter, baseline, noise; each with the numbers that it has alone."""
    shift, scatter, offset, slope, detector = (
        STRENGTH[kind] * numbers(kind)
        for kind in ("shift", "scatter", "offset", "slope", "detector")
    )
    copies = np.stack(
        [
            shifted(SPECTRA[level], shift[epoch, model, level])
            for epoch, model, level in np.ndindex(shift.shape[:3])
        ]
    ).reshape(detector.shape)
    expected = copies * (1 + scatter) + offset + slope * CHARTED[CHOSEN] + detector
    np.testing.assert_allclose(draws(build(**STRENGTH), range(3)), expected, atol=1e-11)


def test_a_model_does_not_feel_its_company():
    together = build(dtype=torch.float32, **STRENGTH)
    for place, seed in enumerate(SEEDS):
        alone = build(seeds=[seed], dtype=torch.float32, **STRENGTH)
        pair = build(seeds=[(1, 1), seed], dtype=torch.float32, **STRENGTH)
        for epoch in (0, 7, 8, 30):
            expected = together.draw(epoch)[place]
            assert torch.equal(alone.draw(epoch)[0], expected)
            assert torch.equal(pair.draw(epoch)[1], expected)


def test_epochs_may_be_drawn_in_any_order():
    ascending = draws(build(**STRENGTH), range(20))
    descending = draws(build(**STRENGTH), range(19, -1, -1))[::-1]
    np.testing.assert_array_equal(ascending, descending)
    np.testing.assert_array_equal(draws(build(**STRENGTH), [13])[0], ascending[13])


def test_no_model_repeats_what_another_had_at_another_epoch():
    """As (7,) in block 1 and (7, 1) in block 0 would, were the block one integer more."""
    augmentation = build(seeds=[(7,), (7, 1), (7, 2), (7, 0, 1), (8,)], offset=1.0)
    drawn = draws(augmentation, range(40))[..., 0]
    assert len(np.unique(drawn)) == drawn.size


def test_formats_agree_to_rounding():
    """Of a charted wavelength, which is up to 1, times the steepest slope; and of the values."""
    waves = np.sin(0.1 * AXIS + np.arange(5.0)[:, None])
    single = build(waves, dtype=torch.float32, **STRENGTH).draw(5)
    assert single.dtype == torch.float32
    steepest = 0.1 * (AXIS[-1] - AXIS[0]) / 2
    rounding = np.finfo(np.float32).eps * (steepest + 8 * np.abs(single.numpy()).max())
    expected = build(waves, **STRENGTH).draw(5)
    np.testing.assert_allclose(single, expected, rtol=0, atol=rounding)


def test_a_spectrum_left_out_as_nan_changes_no_other():
    spoilt = SPECTRA.copy()
    spoilt[2] = np.nan
    found, expected = (draws(build(spectra, **STRENGTH), range(3)) for spectra in (spoilt, SPECTRA))
    assert np.isnan(found[:, :, 2]).all()
    others = [0, 1, 3, 4]
    np.testing.assert_array_equal(found[:, :, others], expected[:, :, others])
