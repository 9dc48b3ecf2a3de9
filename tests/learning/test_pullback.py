import numpy as np
import pytest
import torch

from geonode.devices.device import Device
from geonode.errors import TrainingError
from geonode.geometry.metric import SIZES, Metric
from geonode.geometry.perceptron import Perceptron
from geonode.learning.end_to_end import METRIC_STREAM
from geonode.learning.folds import Fold, leave_one_out
from geonode.learning.pullback import TERMS, fit_pullback, pullback
from geonode.learning.run import Run
from tests.learning.series import metric_parameters, positions, spectra

LEVELS, WAVELENGTHS = 5, 9
CHARTED = np.linspace(-1, 1, WAVELENGTHS)
ALL = [Fold(0, LEVELS, ())]
WIDE = (1e-3, 1e3)


def fit(signal=None, folds=None, members=1, dtype=torch.float32, **changes):
    folds = leave_one_out(LEVELS) if folds is None else folds
    signal = spectra(LEVELS, WAVELENGTHS) if signal is None else signal
    x = np.tile(positions(LEVELS)[0], (len(folds), 1))
    where = Run(folds, members, Device("cpu", "any", dtype, torch.float64))
    return fit_pullback(signal, x, CHARTED, metric_parameters(**changes), where)


def about_one(values):
    return values / np.exp(np.log(values).mean())


def test_the_pullback_of_three_levels_by_hand():
    # Secants 1 and 3: the monotone cubic has slope 0 at the first level (the three-point formula
    # gives it), the harmonic mean 1.5 at the second, and (3 * 3 - 1) / 2 = 4 at the third.
    # Source: F. N. Fritsch and J. Butland, SIAM J. Sci. Stat. Comput. 5 (1984) 300.
    levels, signal = np.array([0.0, 1.0, 2.0]), np.array([[0.0], [1.0], [4.0]])
    points = np.array([-1.0, 0.0, 1.0, 2.0, 5.0])  # held beyond the ends
    squares = np.array([0, 0, 2.25, 16, 16])
    expected = about_one(squares + 0.1 * squares.mean())[:, None]
    np.testing.assert_allclose(pullback(levels, signal, points, WIDE), expected, rtol=1e-12)
    cut = pullback(levels, signal, points, (0.5, 3.0))
    np.testing.assert_allclose(cut, expected.clip(0.5, 3), rtol=1e-12)
    assert cut.min() == 0.5
    assert cut.max() == 3


def test_neighbouring_wavelengths_are_smoothed():
    levels = np.array([-1.0, 0.5, 1.0])
    signal = np.outer(levels, [0.0, 2.0, 0.0, 0.0, 4.0])  # straight: squared slopes 0 4 0 0 16
    smooth = np.array([1.0, 2.0, 1.0, 4.0, 12.0])  # the last one has itself for a neighbour
    expected = about_one(smooth + 0.1 * 4)
    found = pullback(levels, signal, np.array([-0.3, 0.9]), WIDE)
    np.testing.assert_allclose(found, np.stack([expected, expected]), rtol=1e-12)


def test_neither_scale_nor_offset_of_the_signal_counts():
    signal, points = spectra(LEVELS, WAVELENGTHS), np.linspace(-1, 1, 7)
    one, other = (
        pullback(positions(LEVELS)[0], shown, points, WIDE) for shown in (signal, 7 - 30 * signal)
    )
    np.testing.assert_allclose(one, other, rtol=1e-9)


def test_a_series_that_does_not_change_is_flat():
    found = pullback(positions(3)[0], np.full((3, 4), 0.3), np.linspace(-1, 1, 5), WIDE)
    np.testing.assert_array_equal(found, np.ones((5, 4)))


def test_the_network_learns_the_pullback():
    # Steep between the first levels, slow between the last, the more so at long wavelengths.
    x = positions(LEVELS)[0]
    signal = np.exp(-np.outer(x + 1, 1 + 0.3 * CHARTED))
    options = {"epochs": 400, "learning_rate": 0.01, "wavelengths": 9, "quadrature_nodes": 5}
    network, history = fit(signal, ALL, **options)
    points = np.linspace(-0.95, 0.95, 40)  # others than it was trained at
    found = Metric(network.to(torch.device("cpu"), torch.float64)).log_sqrt(
        torch.from_numpy(points)[None], torch.from_numpy(CHARTED)
    )
    wanted = np.log(pullback(x, signal, points, metric_parameters().bounds))
    # Both about their mean: points and nodes are not the same places.
    error = (2 * found[0].numpy() - wanted) - (2 * found[0].numpy() - wanted).mean()
    assert wanted.std() > 0.8
    assert error.std() < 0.1
    assert history[0, 0, 0] > 0.5
    assert history[-1, 0, 0] < 0.01


@pytest.mark.parametrize("k", range(LEVELS))
def test_a_left_out_spectrum_changes_not_one_bit_of_its_fold(k):
    signal = spectra(LEVELS, WAVELENGTHS)
    noisy, unknown = signal.copy(), signal.copy()
    noisy[k], unknown[k] = np.random.default_rng(k).normal(0, 1e3, WAVELENGTHS), np.nan
    before, after = fit(signal), fit(noisy)
    alone = [fit(row, [Fold(0, LEVELS, (k,))]) for row in (signal, unknown)]
    for first, second in zip(
        [*alone[0][0].parameters, alone[0][1]], [*alone[1][0].parameters, alone[1][1]], strict=True
    ):
        assert torch.isfinite(second).all()
        assert torch.equal(first, second)
    histories = before[1].movedim(2, 0), after[1].movedim(2, 0)
    for first, second in (*zip(before[0].weights, after[0].weights, strict=True), histories):
        same = [torch.equal(*pair) for pair in zip(first, second, strict=True)]
        # Every other fold is trained on that spectrum, so that the test can fail.
        assert same == [fold == k for fold in range(LEVELS + 1)]


def test_networks_come_back_in_the_order_of_member_and_fold():
    network, history = fit(members=2, epochs=2, seed=5)
    assert history.shape == (2, len(TERMS), 2 * (LEVELS + 1))
    seeds = [(5, METRIC_STREAM, m, *f.seed) for m in range(2) for f in leave_one_out(LEVELS)]
    initial = Perceptron.initial(SIZES, seeds).weights
    for weight, first in zip(network.weights, initial, strict=True):
        assert (weight - first).abs().amax() < 2.1 * 0.005
        assert (weight != first).flatten(1).any(1).all()


@pytest.mark.parametrize("parts", [2, 5])
def test_accumulation_changes_rounding_alone(parts):
    whole, history = fit(folds=ALL, dtype=torch.float64, epochs=5)
    added, terms = fit(folds=ALL, dtype=torch.float64, epochs=5, accumulation=parts)
    torch.testing.assert_close(terms, history, rtol=1e-9, atol=0)
    for expected, found in zip(whole.parameters, added.parameters, strict=True):
        # Adam moves a weight even by a gradient that is rounding alone.
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


def test_a_training_that_was_stopped_ends_in_the_same_bits(tmp_path):
    def stop(_):
        seen.append(0)
        if len(seen) == 4:
            raise KeyboardInterrupt

    def run(report=lambda _: None):
        device = Device("cpu", "any", torch.float32, torch.float64)
        where = Run(ALL, 1, device, tmp_path / "scratch", report)
        parameters = metric_parameters(epochs=6, checkpoint_every=2)
        x = positions(LEVELS)[:1]
        return fit_pullback(spectra(LEVELS, WAVELENGTHS), x, CHARTED, parameters, where)

    seen, whole = [], run()
    with pytest.raises(KeyboardInterrupt):
        run(stop)
    assert list((tmp_path / "scratch").glob("*/*.safetensors"))
    again = run()
    assert torch.equal(again[1], whole[1])
    for part, same in zip(again[0].parameters, whole[0].parameters, strict=True):
        assert torch.equal(part, same)
    assert not (tmp_path / "scratch").exists()


def test_a_nan_that_is_trained_on_is_an_error():
    signal = spectra(LEVELS, WAVELENGTHS)
    signal[2, 3] = np.nan
    with pytest.raises(TrainingError, match="found spectra that are not finite"):
        fit(signal, ALL)
