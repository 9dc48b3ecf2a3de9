import pickle
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import LeaveOneOut, cross_val_predict

import geonode
from geonode.errors import ParameterError, SpectraError, TrainingError
from geonode.estimation import regressor as module
from geonode.estimation.model import SpectralModel
from geonode.estimation.predicting import BLOCK_SPECTRA
from geonode.estimation.regressor import SpectrumRegressor
from geonode.parameters_file import read_parameters
from geonode.spectra.chart import Chart

ROOT = Path(__file__).parents[2]
LEVELS = np.array([0.0, 4.0, 10.0, 20.0, 35.0, 60.0])
AXIS = np.linspace(400.0, 700.0, 9)
X = LEVELS[:, None]
BETWEEN = np.array([[2.0], [15.0], [60.0], [75.0]])
PATH = {
    "decoders.kind": "path",
    "decoders.members": 1,
    "decoders.epochs": 12,
    "inner.members": 1,
}


def spectra(concentrations):
    """A band that grows and moves, not everywhere monotonic in concentration."""
    c, w = np.reshape(concentrations, (-1, 1)) / 60, (AXIS - 550) / 150
    return 0.2 + (0.3 + 0.2 * c) * np.exp(-((w - 0.5 * c) ** 2) / 0.5)


Y = spectra(LEVELS)


def cheap(**changes):
    return SpectrumRegressor(**({"preset": "fast", "wavelengths": AXIS} | changes))


@pytest.fixture(scope="module")
def fitted():
    """A regressor of the posterior alone; tests do not fit it again."""
    return cheap().fit(X, Y)


def test_levels_that_are_equal_to_rounding_are_one():
    levels = np.array([0.0, 0.1, 0.3, 0.1 + 0.2, 0.5, 0.9])
    found = cheap().fit(levels[:, None], Y).series_
    np.testing.assert_array_equal(found.concentrations, [0, 0.1, 0.3, 0.5, 0.9])
    np.testing.assert_array_equal(found.replicates.scans, [1, 1, 2, 1, 1])
    np.testing.assert_allclose(found.signal[2], (Y[2] + Y[3]) / 2)


def test_columns_of_a_frame_are_the_wavelengths():
    frame = pd.DataFrame(Y, columns=AXIS)
    expected = cheap().fit(X, Y).predict(BETWEEN)
    texts = frame.set_axis([f"w{place}" for place in range(9)], axis=1)
    for same in (frame, texts):
        np.testing.assert_array_equal(cheap().fit(X, same).predict(BETWEEN), expected)
    for other in (frame.set_axis(AXIS + 100, axis=1), frame[AXIS[::-1]]):
        with pytest.raises(SpectraError, match=r"y: found column 1 called [57]00\.0, expected 400"):
            cheap().fit(X, other)


def left_out_of_the_pipeline(fitted):
    """Every level by the fold that leaves it out, as the pipeline scores it."""
    return fitted.model_.left_out().spectra


# Spectra beyond the levels are asked for on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.* are outside")


# parameters


@pytest.mark.parametrize("preset", ["fast", "standard", "thorough"])
def test_the_parameters_are_those_of_the_preset(preset):
    expected = read_parameters(ROOT / "params.yaml", {"preset": preset})
    found = SpectrumRegressor(preset=preset)._parameters()
    for block in ("metric", "decoders", "precision", "device"):
        assert getattr(found, block) == getattr(expected, block)
    # Two inner levels are as good as all for what a regressor predicts; see below.
    assert found.inner == expected.inner.model_copy(update={"levels": 2})
    settings = {"decoders.members": np.int64(7)}
    changed = SpectrumRegressor(preset=preset, settings=settings, seed=np.int32(3))._parameters()
    assert changed.decoders.members == 7
    assert changed.metric.seed == changed.decoders.seed == 3


@pytest.mark.parametrize(
    ("changes", "key", "found"),
    [
        ({"preset": "slow"}, "preset", "'slow'"),
        ({"settings": {"metric.members": 0}}, "metric.members", "0"),
        ({"settings": {"decoders.kin": "path"}}, "decoders.kin", "'path'"),
        ({"seed": -1}, "metric.seed", "-1"),
        ({"chart": "asinh"}, "spectra", ".*'kappa': None}"),
        ({"kappa": 3.0}, "spectra", ".*'kappa': 3.0}"),
    ],
)
def test_a_wrong_parameter_is_refused_by_fit_and_named(changes, key, found):
    with pytest.raises(ParameterError, match=f"Regressor: {key}: found {found}, expected"):
        cheap().set_params(**changes).fit(X, Y)


def test_inner_levels_change_nothing_that_is_predicted(monkeypatch):
    few = cheap(settings=PATH).fit(X, Y)
    monkeypatch.setattr(module, "INNER_LEVELS", None)
    every = cheap(settings=PATH).fit(X, Y)
    for one, other in zip(
        *(m.predict(BETWEEN, return_std=True) for m in (every, few)), strict=True
    ):
        np.testing.assert_array_equal(one, other)


# data


def test_replicates_are_averaged_whatever_their_order():
    random = np.random.default_rng(0)
    copies = [3, 1, 2, 1, 4, 2]
    scans = np.repeat(Y, copies, axis=0)
    scans = scans + 0.01 * random.normal(size=scans.shape)
    means = np.stack([part.mean(axis=0) for part in np.split(scans, np.cumsum(copies)[:-1])])
    order = random.permutation(len(scans))
    found = cheap().fit(np.repeat(X, copies, axis=0)[order], scans[order])
    np.testing.assert_array_equal(found.series_.concentrations, LEVELS)
    np.testing.assert_allclose(found.series_.signal, means, rtol=1e-14)


def test_containers_and_numbers_of_every_kind_give_the_same_and_names_are_remembered(fitted):
    named = cheap().fit(pd.DataFrame(X, columns=["ppb"]), Y.tolist())
    given = pd.DataFrame(BETWEEN, columns=["ppb"])
    np.testing.assert_array_equal(named.predict(given), fitted.predict(BETWEEN))
    assert (named.n_features_in_, named.feature_names_in_.tolist()) == (1, ["ppb"])
    with pytest.raises(ValueError, match="feature names"):
        named.predict(given.rename(columns={"ppb": "ppm"}))
    other = cheap(chart="asinh", kappa=np.float32(8)).fit(X, Y.astype(np.float32))
    assert other.series_.chart == Chart.of("asinh", 8.0, LEVELS)


@pytest.mark.parametrize(
    ("concentrations", "signal", "error", "message"),
    [
        (np.hstack([X, X]), Y, SpectraError, "X: found 2 columns, expected one"),
        (X - 1, Y, ValueError, "Negative values in data"),
        (np.minimum(X, 10), Y, SpectraError, "found 3 different concentrations in 6 rows, exp"),
        (np.arange(51.0)[:, None], np.ones((51, 9)), SpectraError, "found 51 .* 4 to 50"),
        (X, Y[:, :4], SpectraError, r"wavelengths: found shape \(9,\), expected \(4,\)"),
        (X, 0 * Y, TrainingError, "spectra that are zero"),
    ],
)
def test_wrong_data_are_refused(concentrations, signal, error, message):
    with pytest.raises(error, match=message):
        cheap().fit(concentrations, signal)


def test_a_wrong_axis_or_chart_is_refused():
    for axis in (AXIS[::-1], np.where(AXIS > 600, np.nan, AXIS), list("abcdefghi")):
        with pytest.raises(SpectraError, match="wavelengths: expected finite numbers that ascend"):
            cheap(wavelengths=axis).fit(X, Y)
    with pytest.raises(SpectraError, match="logarithmic chart"):  # the lowest level is 0
        cheap(chart="log").fit(X, Y)


# predictions


def test_wrong_concentrations_are_not_predicted_and_those_beyond_are_warned_of(fitted):
    for wrong, message in (
        (-BETWEEN, "Negative values in data"),
        (BETWEEN * np.nan, "NaN"),
        (np.hstack([BETWEEN, BETWEEN]), "expecting 1 features"),
    ):
        with pytest.raises(ValueError, match=message):
            fitted.predict(wrong)
    with pytest.warns(UserWarning, match=r"1 of 4 concentrations are outside 0 to 60"):
        fitted.predict(BETWEEN)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.predict(BETWEEN[:3])


def test_standard_deviations_add_the_errors_of_leave_one_out_to_the_disagreement():
    found = cheap(settings=PATH).fit(X, Y)
    _, deviation = found.predict(BETWEEN, return_std=True)
    squares = (left_out_of_the_pipeline(found) - Y) ** 2
    of_side = [squares[1:-1].mean(axis=0), squares.mean(axis=0)]
    expected = found.model_.predict(BETWEEN[:, 0]).deviation ** 2
    expected += [of_side[0], of_side[0], of_side[0], of_side[1]]  # 60 is the highest level
    np.testing.assert_allclose(deviation**2, expected, rtol=1e-9)


def test_without_inner_folds_the_deviation_is_the_disagreement():
    found = cheap(settings=PATH | {"inner.members": 0}).fit(X, Y)
    _, deviation = found.predict(BETWEEN, return_std=True)
    np.testing.assert_array_equal(deviation, found.model_.predict(BETWEEN[:, 0]).deviation)


def test_many_concentrations_are_predicted_as_one_by_one(fitted):
    many = np.linspace(0, 80, BLOCK_SPECTRA + 3)[:, None]
    together, deviation = fitted.predict(many, return_std=True)
    assert together.shape == deviation.shape == (len(many), len(AXIS))
    for row in (0, BLOCK_SPECTRA - 1, BLOCK_SPECTRA, BLOCK_SPECTRA + 2):
        alone, its = fitted.predict(many[[row]], return_std=True)
        np.testing.assert_allclose(together[row], alone[0], rtol=1e-9)
        # A variance is a small difference of numbers near 1.
        np.testing.assert_allclose(deviation[row], its[0], atol=1e-9)


def test_one_wavelength_has_the_shape_it_was_given_in():
    single = cheap(wavelengths=None).fit(X, Y[:, 3])
    found, deviation = single.predict(BETWEEN, return_std=True)
    assert found.shape == deviation.shape == (4,)
    # The posterior of one wavelength still follows the spectra.
    np.testing.assert_allclose(found[:3], spectra(BETWEEN)[:3, 3], atol=0.01)


def test_nothing_is_predicted_before_a_fit(fitted):
    with pytest.raises(NotFittedError):
        clone(fitted).predict(X)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(BETWEEN), fitted.predict(BETWEEN))


# the pipeline


def test_leave_one_out_is_that_of_the_pipeline(fitted):
    found = cross_val_predict(cheap(), X, Y, cv=LeaveOneOut())
    np.testing.assert_allclose(found, left_out_of_the_pipeline(fitted), rtol=1e-9)


def test_artifacts_are_a_fitted_regressor(trained, monkeypatch):
    model = SpectralModel.read(trained / "data")
    levels, inside = model.series.concentrations, np.array([[10.0], [33.0]])
    read = SpectrumRegressor.from_artifacts(str(trained / "data"))
    expected = model.predict(inside[:, 0])
    found, deviation = read.predict(inside, return_std=True)
    np.testing.assert_array_equal(found, expected.spectra)
    np.testing.assert_array_equal(deviation, expected.scale)
    assert (read.n_features_in_, read.chart, read.kappa) == (1, "linear", None)
    np.testing.assert_array_equal(clone(read).wavelengths, model.series.axis)
    chart = Chart.of("asinh", 12.0, levels)
    other = replace(model, series=replace(model.series, chart=chart))
    monkeypatch.setattr(SpectralModel, "read", lambda _: other)
    read = SpectrumRegressor.from_artifacts(trained)
    assert (read.chart, read.kappa) == ("asinh", 12.0)


# scikit-learn


def test_the_package_has_its_regressors_and_nothing_else():
    assert [getattr(geonode, name).__name__ for name in geonode.__all__] == geonode.__all__
    with pytest.raises(AttributeError, match="no attribute 'Regressor'"):
        geonode.Regressor  # noqa: B018
