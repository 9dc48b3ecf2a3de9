import itertools
import math

import numpy as np
import pytest
import torch
from scipy.integrate import quad

from geonode.devices.device import Device
from geonode.errors import TrainingError
from geonode.geometry.metric import SIZES, Metric
from geonode.geometry.perceptron import Perceptron
from geonode.learning import evidence_network, process
from geonode.learning.end_to_end import METRIC_STREAM
from geonode.learning.evidence_network import (
    FLATNESS,
    TERMS,
    fit_evidence_network,
    restricted_likelihood,
    scaled_arc_lengths,
)
from geonode.learning.folds import Fold, leave_one_out
from geonode.learning.run import Run
from tests.learning.series import metric_parameters, positions, spectra

LEVELS, WAVELENGTHS = 5, 9
CHARTED = np.linspace(-1, 1, WAVELENGTHS)
ALL = [Fold(0, LEVELS, ())]
MANY_NODES = 12  # of a quadrature that is as good as exact
EVIDENCE, FLAT = TERMS.index("evidence"), TERMS.index("flatness")
both = pytest.mark.parametrize("shared", [True, False], ids=["shared", "by wavelength"])


def cpu(dtype=torch.float32):
    return Device("cpu", "any", dtype, torch.float64)


def fit(shared, signal=None, folds=None, members=1, dtype=torch.float32, **changes):
    folds = leave_one_out(LEVELS) if folds is None else folds
    signal = spectra(LEVELS, WAVELENGTHS) if signal is None else signal
    x = np.tile(positions(len(signal))[0], (len(folds), 1))
    parameters = metric_parameters(**changes)
    return fit_evidence_network(
        signal, x, CHARTED, parameters, Run(folds, members, cpu(dtype)), shared=shared
    )


def contrasts_of(levels):
    """An orthonormal basis of what a constant leaves over, from the singular vectors."""
    return np.linalg.svd(np.ones((1, levels)))[2][1:]


@pytest.mark.parametrize(("length", "noise"), [(0, 0), (39, 0), (39, 12), (20, 5)])
@pytest.mark.parametrize("levels", [2, 6])
def test_the_likelihood_of_one_kernel_is_that_of_the_process(length, noise, levels):
    rng = np.random.default_rng(levels)
    x = np.sort(rng.uniform(-1, 1, (2, levels)), axis=1)
    signals = np.cos(2 * x[..., None] + CHARTED) + rng.normal(0, 0.1, (2, levels, WAVELENGTHS))
    found = restricted_likelihood(
        torch.from_numpy(x)[:, None],
        torch.from_numpy(signals)[:, None],
        torch.full((2,), process.LENGTHS[length], dtype=torch.float64),
        torch.full((2,), process.NOISES[noise], dtype=torch.float64),
    )
    for value, position, signal in zip(found.tolist(), x, signals, strict=True):
        expected = process.restricted_likelihood(position, signal, "constant")[length, noise]
        # The two invert matrices of condition 1e6 differently.
        assert value == pytest.approx(expected, abs=1e-7)


def test_the_likelihood_of_several_kernels_by_matrices_written_out():
    rng = np.random.default_rng(0)
    x, y = np.sort(rng.uniform(-1, 1, (3, LEVELS)), axis=1), rng.normal(size=(LEVELS, 3))
    one, residual, determinants = np.ones((LEVELS, 1)) / LEVELS**0.5, 0.0, 0.0
    for position, signal in zip(x, y.T, strict=True):
        kernel = np.exp(-((position[:, None] - position) ** 2) / (2 * 0.7**2))
        inverse = np.linalg.inv(kernel + 0.05 * np.eye(LEVELS))
        among = one.T @ inverse @ one
        residual += signal @ (inverse - inverse @ one @ one.T @ inverse / among) @ signal
        determinants += -np.linalg.slogdet(inverse)[1] + math.log(among.item())
    expected = -0.5 * ((LEVELS - 1) * math.log(residual) + determinants / 3)
    found = restricted_likelihood(
        torch.from_numpy(x)[None],
        torch.from_numpy(y).T[None, ..., None],
        torch.tensor([0.7], dtype=torch.float64),
        torch.tensor([0.05], dtype=torch.float64),
    )
    assert found.item() == pytest.approx(expected, rel=1e-12)


def test_gradients_of_the_likelihood_are_its_slopes():
    rng = np.random.default_rng(0)
    inputs = [
        torch.tensor(np.sort(rng.uniform(-1, 1, (2, 3, LEVELS)))).requires_grad_(),
        torch.tensor(rng.normal(size=(2, 3, LEVELS, 2))),
        torch.tensor([0.5, 1.0], dtype=torch.float64).requires_grad_(),
        torch.tensor([0.01, 0.1], dtype=torch.float64).requires_grad_(),
    ]
    assert torch.autograd.gradcheck(restricted_likelihood, inputs)


def test_arc_length_is_scaled_by_the_ends_whoever_asks():
    # Two models, levels 0 to 3, one wavelength and another that is twice as long.
    lengths = torch.tensor([[1.0, 3.0, 4.0], [2.0, 4.0, 8.0]])[..., None] * torch.tensor([1.0, 2.0])
    found = scaled_arc_lengths(lengths, torch.tensor([[1, 2], [0, 3]]))
    expected = torch.tensor([[[-0.5, 0.5]] * 2, [[-1.0, 1.0]] * 2])
    torch.testing.assert_close(found, expected)


def first_terms(metric, x, known, outputs, charted):
    """Evidence and flatness by adaptive quadrature, inverses and determinants."""
    best, _ = process.fit_process(x[known], np.hstack(outputs), "constant")
    assert 5e-6 < best.noise < 0.5
    assert 0.2 < best.length < 15
    contrasts, residual, determinants, squares = contrasts_of(len(known)), 0.0, [], []
    for w, output in zip(charted, outputs, strict=True):

        def log_metric(at, w=w):
            at, w = (torch.tensor([[value]], dtype=torch.float64) for value in (at, w))
            return 2 * metric.log_sqrt_at(at, w).item()

        gaps = list(itertools.pairwise(x))
        lengths = [quad(lambda at: math.exp(log_metric(at) / 2), *gap)[0] for gap in gaps]
        arc = np.array([0, *np.cumsum(lengths)])
        arc = (2 * arc / arc[-1] - 1)[known]
        kernel = np.exp(-((arc[:, None] - arc) ** 2) / (2 * best.length**2))
        covariance = contrasts @ (kernel + best.noise * np.eye(len(arc))) @ contrasts.T
        seen = contrasts @ output
        residual += np.sum(seen * (np.linalg.inv(covariance) @ seen))
        determinants.append(np.linalg.slogdet(covariance)[1])
        nodes = np.polynomial.legendre.leggauss(MANY_NODES)[0]
        places = [(low + high + (high - low) * nodes) / 2 for low, high in gaps]
        squares.append([log_metric(at) ** 2 for at in np.concatenate(places)])
    evidence = 0.5 * ((len(known) - 1) * math.log(residual) + np.mean(determinants))
    return evidence, FLATNESS * np.mean(squares)


@both
@pytest.mark.parametrize("model", [1, LEVELS])
def test_the_first_terms_are_those_of_the_first_networks(shared, model, monkeypatch):
    monkeypatch.setattr(evidence_network, "NODES", MANY_NODES)
    fold = leave_one_out(LEVELS)[model]
    noise = np.random.default_rng(7).normal(0, 0.05, (LEVELS, WAVELENGTHS))
    signal = spectra(LEVELS, WAVELENGTHS) + noise
    _, history = fit(shared, signal, epochs=1, dtype=torch.float64)
    network = Perceptron.initial(SIZES, [(0, METRIC_STREAM, 0, *fold.seed)])
    if shared:
        network.weights[0][:, 1] = 0
    metric = Metric(network.to(torch.device("cpu"), torch.float64))
    scaled = signal[fold.training][:, ::2] / signal[fold.training].std()
    outputs = [scaled] if shared else list(scaled.T[..., None])
    charted = [0.3] if shared else CHARTED[::2]
    expected = first_terms(metric, positions(LEVELS)[0], fold.training, outputs, charted)
    assert history[0, [EVIDENCE, FLAT], model].tolist() == pytest.approx(expected, abs=1e-8)


def bent(x, w, strength):
    """A new coordinate from -1 to 1, and a smooth signal of it."""
    warp = (np.tanh(strength * x) / math.tanh(strength)) if strength else x
    return warp, np.cos(2.5 * warp[:, None] + w)


def arcs(network, w, levels):
    """Scaled arc length at the levels, by the trapezoidal rule on many points."""
    fine = np.linspace(-1, 1, 2001)
    metric = Metric(network.to(torch.device("cpu"), torch.float64))
    root = metric(torch.from_numpy(fine)[None], torch.tensor([w], dtype=torch.float64)).sqrt()
    root = root[0, :, 0].numpy()
    total = np.concatenate([[0], np.cumsum((root[1:] + root[:-1]) / 2)])
    return np.interp(levels, fine, 2 * total / total[-1] - 1)


@both
def test_the_arc_length_that_made_the_spectra_is_found(shared):
    x, w = positions(9)[0], np.linspace(-1, 1, WAVELENGTHS)
    warp, signal = bent(x, w, 1.5)
    network, history = fit(
        shared, signal, [Fold(0, 9, ())], epochs=300, learning_rate=0.01, wavelengths=9
    )
    assert history[-1, EVIDENCE] < history[0, EVIDENCE] - 2  # nats
    assert np.abs(warp - x).max() > 0.19
    for at in (-1.0, 0.5):
        assert np.abs(arcs(network, at, x) - warp).max() < 0.05


def test_every_wavelength_has_its_own_arc_length_if_it_is_not_shared():
    x, w = positions(9)[0], np.linspace(-1, 1, WAVELENGTHS)
    # The lower half of the wavelengths sees the chart, the upper half another coordinate.
    warp, upper = bent(x, w, 1.5)
    signal = np.where(w > 0, upper, bent(x, w, 0.0)[1])
    folds = [Fold(0, 9, ())]
    network, _ = fit(False, signal, folds, epochs=300, learning_rate=0.01, wavelengths=9)
    assert np.abs(arcs(network, -0.75, x) - x).max() < 0.1
    assert np.abs(arcs(network, 0.75, x) - warp).max() < 0.1
    together, _ = fit(True, signal, folds, epochs=20)
    np.testing.assert_array_equal(arcs(together, -0.75, x), arcs(together, 0.75, x))


def test_where_the_spectra_say_nothing_the_metric_becomes_flat():
    # Two training levels have a single contrast, which any metric explains equally well.
    network, history = fit(
        False, spectra(4, WAVELENGTHS), [Fold(0, 4, (1, 2))], epochs=200, learning_rate=0.01
    )
    torch.testing.assert_close(history[:, EVIDENCE], history[:1, EVIDENCE].expand(200, -1))
    x = torch.linspace(-1, 1, 20, dtype=torch.float64)
    metric = Metric(network.to(torch.device("cpu"), torch.float64))
    assert metric(x[None], x).log().abs().max() < 0.03


@both
@pytest.mark.parametrize("k", range(LEVELS))
def test_a_left_out_spectrum_changes_not_one_bit_of_its_fold(shared, k):
    signal = spectra(LEVELS, WAVELENGTHS)
    noisy, unknown = signal.copy(), signal.copy()
    noisy[k], unknown[k] = np.random.default_rng(k).normal(0, 1e3, WAVELENGTHS), np.nan
    before, after = fit(shared, signal), fit(shared, noisy)
    alone = [fit(shared, row, [Fold(0, LEVELS, (k,))]) for row in (signal, unknown)]
    for first, second in zip(
        [*alone[0][0].parameters, alone[0][1].movedim(2, 0)],
        [*alone[1][0].parameters, alone[1][1].movedim(2, 0)],
        strict=True,
    ):
        assert torch.isfinite(second).all()
        assert torch.equal(first, second)
    histories = before[1].movedim(2, 0), after[1].movedim(2, 0)
    for first, second in (
        *zip(before[0].weights, after[0].weights, strict=True),
        histories,
    ):
        same = [torch.equal(*pair) for pair in zip(first, second, strict=True)]
        # Every other fold is trained on that spectrum, so that the test can fail.
        assert same == [fold == k for fold in range(LEVELS + 1)]


@both
def test_networks_come_back_in_the_order_of_member_and_fold(shared):
    network, history = fit(shared, members=2, epochs=2, seed=5)
    assert history.shape == (2, len(TERMS), 2 * (LEVELS + 1))
    seeds = [(5, METRIC_STREAM, m, *f.seed) for m in range(2) for f in leave_one_out(LEVELS)]
    initial = Perceptron.initial(SIZES, seeds).weights
    for weight, first in zip(network.weights[1:], initial[1:], strict=True):
        assert (weight - first).abs().amax() < 2.1 * 0.005
        assert (weight != first).flatten(1).any(1).all()
    assert torch.equal(network.weights[0][:, 1] == 0, torch.full((2 * (LEVELS + 1), 64), shared))


def test_a_training_that_was_stopped_ends_in_the_same_bits(tmp_path):
    def stop(_):
        seen.append(0)
        if len(seen) == 4:
            raise KeyboardInterrupt

    seen, signal, x = [], spectra(LEVELS, WAVELENGTHS), positions(LEVELS)[:1]

    def run(report=lambda _: None):
        where = Run(ALL, 1, cpu(), tmp_path / "scratch", report)
        parameters = metric_parameters(epochs=6, checkpoint_every=2)
        return fit_evidence_network(signal, x, CHARTED, parameters, where, shared=True)

    whole = run()
    with pytest.raises(KeyboardInterrupt):
        run(stop)
    assert list((tmp_path / "scratch").glob("*/*.safetensors"))
    again = run()
    assert torch.equal(again[1], whole[1])
    for part, same in zip(again[0].parameters, whole[0].parameters, strict=True):
        assert torch.equal(part, same)
    assert not (tmp_path / "scratch").exists()


def test_what_cannot_be_trained_is_an_error():
    signal = spectra(LEVELS, WAVELENGTHS)
    signal[2, 3] = np.nan
    with pytest.raises(TrainingError, match="not finite"):
        fit(True, signal, ALL, wavelengths=WAVELENGTHS)
    with pytest.raises(TrainingError, match=r"not finite at epoch .*lower the learning rate"):
        fit(True, folds=ALL, epochs=4, learning_rate=1e38)
    with pytest.raises(TrainingError, match="accumulation: found 2, expected at most 1"):
        fit(True, folds=ALL, accumulation=2)
