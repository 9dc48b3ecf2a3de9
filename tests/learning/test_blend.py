from functools import cache

import numpy as np
import pytest
import torch

from geonode.config import InnerParameters
from geonode.errors import CorruptArtifactError
from geonode.learning import blend as blend_module
from geonode.learning.blend import BLENDS, FEWEST_TO_WEIGH, KINDS, Blend, fit_blend
from geonode.learning.context import NestedRuns
from geonode.learning.predicted import Decoders, Predicted
from geonode.storage.weights import read_weights, write_weights
from tests.learning.series import cpu, decoder_parameters, flat_features, left_out, series

LEVELS, WAVELENGTHS = 5, 11
SERIES = series(LEVELS, WAVELENGTHS)


def fit(measured, kind="blend", members=1):
    """A blend, and the features behind it."""
    shape = measured.signal.shape
    parameters = decoder_parameters(kind=kind, members=2)
    inner_parameters = InnerParameters(members=members, levels=None)
    runs = NestedRuns.of(shape[0], parameters, inner_parameters, cpu())
    features, inner_features = flat_features(*shape), None
    if runs.inner is not None:
        inner_features = flat_features(*shape, folds=len(runs.inner.folds))
    return fit_blend(measured, features, inner_features, parameters, runs)[0], features


@cache
def fitted(kind="blend", members=1):
    """A blend of the series, and its features."""
    return fit(SERIES, kind, members)


def is_inside(fold, target):
    training = [level for level in range(fold.levels) if level not in fold.left_out]
    return min(training) < target < max(training)


class KnownErrors(Decoders):
    """Decoders that miss by a number of each (fold, target), the same at every wavelength."""

    def __init__(self, error, deviation):
        self.error, self.deviation = error, deviation

    def predict(self, fold, series, concentrations, features):
        targets = np.searchsorted(series.concentrations, concentrations).tolist()
        assert set(targets) <= set(fold.left_out)
        errors = np.array([self.error(fold, target) for target in targets])
        spectra = series.signal[targets] + errors[:, None]
        return Predicted(spectra, np.full_like(spectra, self.deviation)[:, None])

    def fit(self, series, features, parameters, run):
        return self, torch.zeros(0, 1, len(run.folds))


@pytest.fixture
def known_errors(monkeypatch):
    """Replace the decoders of a blend by ones with given errors and a given deviation."""

    def replace(errors, deviation=0.0):
        for kind, error in errors.items():
            monkeypatch.setitem(KINDS, kind, KnownErrors(error, deviation))
        monkeypatch.setitem(BLENDS, "blend", tuple(errors))

    return replace


def inside_or_not(inside, outside):
    return lambda fold, target: inside if is_inside(fold, target) else outside


ONE_OR_THREE, TWO_OR_ONE = inside_or_not(1.0, 3.0), inside_or_not(2.0, 1.0)


# weights


def test_weights_by_hand(known_errors, monkeypatch):
    """Squared errors of 1 and 4 inside, of 9 and 1 at the ends, of kinds with odds of 1 and 3."""
    monkeypatch.setattr(blend_module, "ODDS", {"path": 1.0, "posterior": 3.0})
    known_errors({"path": ONE_OR_THREE, "posterior": TWO_OR_ONE}, deviation=0.5)
    blend, features = fit(SERIES)
    # Two of four inner levels are ends of a fold's training range: the geometric means are
    # (1 * 1 * 9 * 9)^(1/4) = 3 and (4 * 4 * 1 * 1)^(1/4) = 2. With nothing left out they are two
    # of five: 9^(2/5) and 4^(3/5).
    last = np.array([9**-0.4, 3 * 4**-0.6])
    expected = [[2 / 11, 9 / 11]] * LEVELS + [last / last.sum()]
    np.testing.assert_allclose(blend.weights, expected)
    found = blend.left_out(SERIES, features)
    end, middle = (2 * 3 + 9 * 1) / 11, (2 * 1 + 9 * 2) / 11
    off = found.spectra - SERIES.signal
    np.testing.assert_allclose(off[:, 0], [end, middle, middle, middle, end])
    # Two values of weights p and q that differ by d have the variance p q d^2.
    np.testing.assert_allclose(found.deviation[2], (0.25 + 18 / 11**2) ** 0.5)
    np.testing.assert_allclose(found.deviation[0], (0.25 + 18 / 11**2 * 2**2) ** 0.5)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("others", "shares"), [(1e-200, [1, 5]), (1e-3, [1, 0])])
def test_a_perfect_kind_has_all_the_weight_and_a_tie_is_shared_by_odds(
    known_errors, others, shares
):
    """The square of 1e-200 is no number."""
    known_errors({"path": lambda *_: 0.0, "posterior": lambda *_: others})
    blend = fit(series(LEVELS, WAVELENGTHS, np.zeros((LEVELS, WAVELENGTHS))))[0]
    expected = [np.array(shares) / sum(shares)] * (LEVELS + 1)
    np.testing.assert_allclose(blend.weights, expected, atol=1e-12)


def test_one_spectrum_that_is_predicted_exactly_does_not_decide(known_errors):
    """Its squared error counts as a hundredth of the mean of the better kind."""
    known_errors({"path": lambda _, target: 3.0 * (target != 2), "posterior": lambda *_: 2.0})
    blend = fit(SERIES)[0]
    # Of fold 0, whose levels are 1 to 4: means of (0 + 3 * 9) / 4 = 6.75 and 4.
    path, posterior = (0.04 * 9**3) ** -0.25, 5 / 4
    np.testing.assert_allclose(blend.weights[0, 0], path / (path + posterior))


@pytest.mark.parametrize(("levels", "members"), [(LEVELS, 0), (FEWEST_TO_WEIGH - 1, 1)])
def test_without_inner_folds_or_with_few_levels_the_posterior_counts_alone(levels, members):
    measured = series(levels, WAVELENGTHS)
    blend, features = fit(measured, members=members)
    assert list(blend.decoders) == ["posterior", "path"]
    np.testing.assert_array_equal(blend.weights, [[1, 0]] * (levels + 1))
    found = blend.left_out(measured, features)
    expected = fit(measured, "posterior", members=0)[0].left_out(measured, None)
    np.testing.assert_allclose(found.spectra, expected.spectra, rtol=1e-12)
    np.testing.assert_allclose(found.half_width, expected.half_width, rtol=1e-12)


# one kind


@pytest.mark.parametrize(("kind", "members"), [("path", 1), ("path", 0), ("posterior", 0)])
def test_a_kind_alone_has_all_the_weight(kind, members):
    blend, features = fitted(kind, members)
    np.testing.assert_array_equal(blend.weights, np.ones((LEVELS + 1, 1)))
    spectra, deviations = left_out(blend.decoders[kind], SERIES, features)
    for alone in (blend, fitted()[0].only(kind)):
        found = alone.left_out(SERIES, None if kind == "posterior" else features)
        np.testing.assert_allclose(found.spectra, spectra, rtol=1e-6)
        np.testing.assert_allclose(found.deviation, deviations, rtol=1e-6)
    assert blend.has_intervals == (kind == "posterior")
    name, half = found.band()
    if kind == "path":
        assert (name, found.half_width) == ("standard deviation", None)
        np.testing.assert_array_equal(half, found.deviation)
    else:
        assert (name, found.half_width.shape) == ("90% interval", (4, LEVELS, WAVELENGTHS))
        np.testing.assert_array_equal(half, found.half_width[2])


# artifact


@pytest.mark.parametrize(("kind", "members"), [("blend", 1), ("path", 0)])
def test_what_is_written_is_read_bit_for_bit(kind, members, tmp_path):
    blend, features = fitted(kind, members)
    blend.write(tmp_path / "decoders.safetensors")
    again = Blend.read(tmp_path / "decoders.safetensors")
    assert [*again.decoders] == [*BLENDS[kind]]
    found, expected = (b.left_out(SERIES, features) for b in (again, blend))
    for name in ("spectra", "deviation", "half_width"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    again.write(tmp_path / "again.safetensors")
    contents = [(tmp_path / f"{name}.safetensors").read_bytes() for name in ("decoders", "again")]
    assert contents[0] == contents[1]


def test_what_holds_no_decoders_is_refused(tmp_path):
    file = tmp_path / "decoders.safetensors"
    fitted("path")[0].write(file)
    tensors, metadata = read_weights(file)

    def refused(message, tensors=tensors, metadata=metadata):
        write_weights(file, tensors, metadata)
        with pytest.raises(CorruptArtifactError, match=f"contains no decoders: {message}"):
            Blend.read(file)

    for name in ("weights", "training", "path/matrix"):
        kept = {key: tensor for key, tensor in tensors.items() if key != name}
        refused(f"'{name.split('/')[-1]}' is absent", kept)
    refused("'kinds' is absent", metadata={})
    refused("'oracle' is absent", metadata={"kinds": '["oracle"]'})
    refused(r"weights of shape \(6, 2\) for 1 kinds", tensors | {"weights": torch.ones(6, 2)})
