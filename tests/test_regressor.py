import json
import os
import pickle
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, LeaveOneOut, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

import geonode
from geonode import regressor as module
from geonode.config import SpectraParameters
from geonode.decoders.path_features import path_features
from geonode.errors import ParameterError, SpectraError, TrainingError
from geonode.estimation.curve import Curve
from geonode.estimation.model import DECODERS, METRIC, SPECTRA
from geonode.estimation.posterior import estimate
from geonode.parameters_file import read_parameters
from geonode.regressor import SpectrumRegressor
from geonode.spectra.chart import Chart
from geonode.spectra.series import write_series
from geonode.spectra.table import SpectraTable
from geonode.storage.lineage import consistent_artifacts

ROOT = Path(__file__).parents[1]
LEVELS = np.array([0.0, 4.0, 10.0, 20.0, 35.0, 60.0])
AXIS = np.linspace(400.0, 700.0, 9)
X = LEVELS[:, None]
BETWEEN = np.array([[2.0], [15.0], [60.0], [75.0]])
CHEAP = {"learning": "flat", "kind": "posterior", "members": 1, "inner_members": 0}
PATH = {"kind": "path", "epochs": 12, "inner_members": 1}
TRAINED = {"members": 1, "inner_members": 1, "inner_levels": None, "epochs": 12}


def spectra(concentrations):
    """A band that grows and moves, not everywhere monotonic in concentration."""
    c, w = np.reshape(concentrations, (-1, 1)) / 60, (AXIS - 550) / 150
    return 0.2 + (0.3 + 0.2 * c) * np.exp(-((w - 0.5 * c) ** 2) / 0.5)


Y = spectra(LEVELS)


def cheap(**changes):
    return SpectrumRegressor(**(CHEAP | {"wavelengths": AXIS} | changes))


def trained(**changes):
    return SpectrumRegressor(**(TRAINED | {"wavelengths": AXIS} | changes))


def left_out_of_the_pipeline(fitted):
    """Every level by the fold that leaves it out, as the pipeline scores it."""
    features = path_features(fitted.learned_, fitted.series_, fitted.blend_.training)
    return fitted.blend_.left_out(fitted.series_, features).spectra


# Spectra beyond the levels are asked for on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.* are outside")


# parameters


@pytest.mark.parametrize("preset", ["fast", "standard", "thorough"])
def test_the_parameters_are_those_of_the_preset(preset):
    expected = read_parameters(ROOT / "params.yaml", {"preset": preset})
    found = SpectrumRegressor(preset=preset)._parameters()
    for block in ("metric", "decoders", "spectra", "precision", "device"):
        assert getattr(found, block) == getattr(expected, block)
    # Two inner levels are as good as all for what a regressor predicts; see below.
    assert found.inner == expected.inner.model_copy(update={"levels": 2})
    changed = SpectrumRegressor(preset=preset, members=7)._parameters()
    assert changed.metric.members == changed.decoders.members == 7


@pytest.mark.parametrize(
    ("changes", "key", "found"),
    [
        ({"preset": "slow"}, "preset", "'slow'"),
        ({"members": 0}, "members", "0"),
        ({"epochs": 2.5}, "epochs", "2.5"),
        ({"seed": -1}, "seed", "-1"),
        ({"learning": "none"}, "learning", "'none'"),
        ({"kind": "none"}, "kind", "'none'"),
        ({"inner_members": -1}, "inner_members", "-1"),
        ({"inner_levels": 1}, "inner_levels", "1"),
        ({"chart": "root"}, "chart", "'root'"),
        ({"chart": "asinh"}, "kappa", "None"),
        ({"kappa": 3.0}, "kappa", "3.0"),
        ({"device": "abacus"}, "device", "'abacus'"),
    ],
)
def test_a_wrong_parameter_is_refused_by_fit_and_named(changes, key, found):
    wrong = cheap().set_params(**changes)
    with pytest.raises(ParameterError, match=f"{key}: found {found}, expected"):
        wrong.fit(X, Y)


def test_numbers_of_numpy_are_numbers():
    numbers = {"members": np.int64(1), "epochs": np.int32(3), "kappa": np.float32(8)}
    fitted = cheap().set_params(chart="asinh", **numbers).fit(X, Y)
    assert fitted.series_.chart == Chart.of("asinh", 8.0, LEVELS)


def test_a_blend_without_inner_folds_is_the_posterior():
    alone, blend = (cheap(kind=kind, epochs=3).fit(X, Y) for kind in ("posterior", "blend"))
    for found, expected in zip(
        blend.predict(BETWEEN, return_std=True),
        alone.predict(BETWEEN, return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    np.testing.assert_array_equal(blend.estimate(Y).mean, alone.estimate(Y).mean)


# data


def test_replicates_are_averaged_whatever_their_order():
    random = np.random.default_rng(0)
    copies = [3, 1, 2, 1, 4, 2]
    scans = np.repeat(Y, copies, axis=0)
    scans = scans + 0.01 * random.normal(size=scans.shape)
    means = np.stack([part.mean(axis=0) for part in np.split(scans, np.cumsum(copies)[:-1])])
    order = random.permutation(len(scans))
    fitted = cheap().fit(np.repeat(X, copies, axis=0)[order], scans[order])
    np.testing.assert_array_equal(fitted.series_.concentrations, LEVELS)
    np.testing.assert_allclose(fitted.series_.signal, means, rtol=1e-14)
    expected = cheap().fit(X, means).predict(BETWEEN)
    np.testing.assert_allclose(fitted.predict(BETWEEN), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "of", [lambda a: a.tolist(), pd.DataFrame, lambda a: a.astype(np.float32), np.asfortranarray]
)
def test_data_of_every_container_give_the_same(of):
    fitted = cheap().fit(of(X), of(Y))
    found = fitted.predict(of(BETWEEN))
    np.testing.assert_allclose(found, cheap().fit(X, Y).predict(BETWEEN), atol=1e-6)


def test_a_named_column_is_remembered():
    fitted = cheap().fit(pd.DataFrame(X, columns=["ppb"]), Y)
    assert (fitted.n_features_in_, fitted.feature_names_in_.tolist()) == (1, ["ppb"])
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(pd.DataFrame(BETWEEN, columns=["ppm"]))


def test_one_wavelength_has_the_shape_it_was_given_in():
    fitted = cheap(wavelengths=None).fit(X, Y[:, 3])
    column = cheap(wavelengths=None).fit(X, Y[:, [3]])
    found, deviation = fitted.predict(BETWEEN, return_std=True)
    assert found.shape == deviation.shape == (4,)
    np.testing.assert_array_equal(found, column.predict(BETWEEN)[:, 0])
    # The posterior of one wavelength still follows the spectra.
    np.testing.assert_allclose(found[:3], spectra(BETWEEN)[:3, 3], atol=0.01)


@pytest.mark.parametrize(
    ("concentrations", "signal", "error", "message"),
    [
        (LEVELS, Y, ValueError, "Expected 2D array"),
        (np.hstack([X, X]), Y, SpectraError, "X: found 2 columns, expected one"),
        (X[:5], Y, ValueError, "inconsistent numbers of samples"),
        (X, Y[:, :, None], ValueError, "dim 3"),
        (X - 1, Y, ValueError, "Negative values in data"),
        (np.where(X == 10, np.nan, X), Y, ValueError, "X contains NaN"),
        (X, np.where(np.isclose(Y, Y[2, 2]), np.nan, Y), ValueError, "contains NaN"),
        (X[:3], Y[:3], SpectraError, "found 3 different concentrations in 3 rows, expected 4 to"),
        (np.minimum(X, 10), Y, SpectraError, "found 3 different concentrations in 6 rows"),
        (np.arange(51.0)[:, None], np.ones((51, 9)), SpectraError, "found 51 .* 4 to 50"),
        (X, Y[:, :4], SpectraError, r"wavelengths: found shape \(9,\), expected \(4,\)"),
        (X, 0 * Y, TrainingError, "spectra that are zero"),
    ],
)
def test_wrong_data_are_refused(concentrations, signal, error, message):
    with pytest.raises(error, match=message):
        cheap().fit(concentrations, signal)


@pytest.mark.parametrize(
    "axis", [AXIS[::-1], np.where(AXIS > 600, np.nan, AXIS), list("abcdefghi")]
)
def test_wavelengths_are_numbers_that_ascend(axis):
    with pytest.raises(SpectraError, match="wavelengths: expected finite numbers that ascend"):
        cheap(wavelengths=axis).fit(X, Y)


def test_a_logarithmic_chart_has_no_zero():
    with pytest.raises(SpectraError, match="logarithmic chart"):
        cheap(chart="log").fit(X, Y)


# predictions


@pytest.mark.parametrize(
    ("concentrations", "error", "message"),
    [
        (-BETWEEN, ValueError, "Negative values in data"),
        (BETWEEN * np.nan, ValueError, "NaN"),
        (np.hstack([BETWEEN, BETWEEN]), ValueError, "expecting 1 features"),
    ],
)
def test_wrong_concentrations_are_not_predicted(concentrations, error, message):
    with pytest.raises(error, match=message):
        cheap().fit(X, Y).predict(concentrations)


def test_a_warning_says_what_is_beyond_the_levels():
    fitted = cheap().fit(X, Y)
    with pytest.warns(UserWarning, match=r"1 of 4 concentrations are outside 0 to 60"):
        fitted.predict(BETWEEN)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.predict(BETWEEN[:3])


def test_nothing_is_said_before_fit():
    for ask in (lambda: cheap().predict(X), lambda: cheap().estimate(Y)):
        with pytest.raises(NotFittedError):
            ask()


def test_standard_deviations_add_the_errors_of_leave_one_out_to_the_disagreement():
    fitted = cheap(inner_levels=2, **PATH).fit(X, Y)
    found, deviation = fitted.predict(BETWEEN, return_std=True)
    np.testing.assert_array_equal(found, fitted.predict(BETWEEN))
    squares = (left_out_of_the_pipeline(fitted) - Y) ** 2
    of_side = [squares[1:-1].mean(axis=0), squares.mean(axis=0)]
    expected = fitted.model_.predict(BETWEEN[:, 0]).deviation ** 2
    expected += [of_side[0], of_side[0], of_side[0], of_side[1]]  # 60 is the highest level
    np.testing.assert_allclose(deviation**2, expected, rtol=1e-9)


@pytest.mark.parametrize("changes", [{}, PATH | {"inner_members": 0}])
def test_without_inner_folds_standard_deviations_are_those_of_the_prediction(changes):
    fitted = cheap(**changes).fit(X, Y)
    _, deviation = fitted.predict(BETWEEN, return_std=True)
    np.testing.assert_array_equal(deviation, fitted.model_.predict(BETWEEN[:, 0]).deviation)


def test_many_concentrations_are_predicted_as_one_by_one(monkeypatch):
    monkeypatch.setattr(module, "AT_ONCE", 7)
    fitted, many = cheap().fit(X, Y), np.linspace(0, 80, 2 * module.AT_ONCE + 3)[:, None]
    together, deviation = fitted.predict(many, return_std=True)
    assert together.shape == deviation.shape == (len(many), len(AXIS))
    for row in (0, module.AT_ONCE - 1, module.AT_ONCE, 2 * module.AT_ONCE + 2):
        alone, its = fitted.predict(many[[row]], return_std=True)
        np.testing.assert_allclose(together[row], alone[0], rtol=1e-9)
        # A variance is a small difference of numbers near 1.
        np.testing.assert_allclose(deviation[row], its[0], atol=1e-9)


def test_the_score_is_the_mean_of_those_of_the_wavelengths():
    fitted, held_out = cheap().fit(X, Y), np.array([[7.0], [28.0], [50.0]])
    truth, found = spectra(held_out), fitted.predict(held_out)
    of_each = 1 - ((truth - found) ** 2).sum(axis=0) / ((truth - truth.mean(axis=0)) ** 2).sum(
        axis=0
    )
    assert fitted.score(held_out, truth) == pytest.approx(of_each.mean())
    assert of_each.mean() > 0.9


def test_inner_levels_change_nothing_that_is_predicted_or_estimated():
    every, few = (cheap(inner_levels=n, **PATH).fit(X, Y) for n in (None, 2))
    for one, other in zip(
        *(m.predict(BETWEEN, return_std=True) for m in (every, few)), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(every.estimate(Y).mean, few.estimate(Y).mean)


# estimates


def test_estimates_are_those_of_the_curve_which_is_made_once_a_fit(monkeypatch):
    made, of = [], Curve.of
    monkeypatch.setattr(
        Curve, "of", lambda model, **keys: made.append(tuple(keys.values())) or of(model, **keys)
    )
    fitted = cheap().fit(X, Y)
    assert not made
    measured = spectra([15.0, 28.0]) + 0.05
    for offset, scale in [(True, False), (True, False), (False, True), (True, False)]:
        found = fitted.estimate(measured, offset=offset, scale=scale)
        expected = estimate(of(fitted.model_, offset=offset, scale=scale, one_scan=True), measured)
        np.testing.assert_array_equal(found.mean, expected.mean)
        np.testing.assert_array_equal(found.p_value, expected.p_value)
    assert made == [(True, False, True), (False, True, True)]
    np.testing.assert_allclose(fitted.estimate(measured, offset=True).mean, [15, 28], atol=2)
    fitted.fit(X, Y[::-1]).estimate(measured, offset=True)
    assert made == [(True, False, True), (False, True, True), (True, False, True)]


def test_estimates_refuse_what_they_cannot_do():
    single = cheap(wavelengths=None).fit(X, Y[:, 3])
    assert np.isfinite(single.estimate(Y[:, [3]]).mean).all()
    fitted = cheap().fit(X, Y)
    unjudged = cheap(**(PATH | {"inner_members": 0})).fit(X, Y)
    for ask, error, message in [
        (lambda: single.estimate(Y[:, [3]], offset=True), SpectraError, "offset and one wavelen"),
        (lambda: fitted.estimate(Y[:, :4]), SpectraError, "found 4 wavelengths, expected the 9"),
        (lambda: fitted.estimate(Y * np.nan), ValueError, "spectra contains NaN"),
        (lambda: fitted.estimate(Y[0]), ValueError, "Expected 2D array"),
        (lambda: unjudged.estimate(Y), TrainingError, "inner.members 0"),
    ]:
        with pytest.raises(error, match=message):
            ask()


# the pipeline


def test_leave_one_out_is_that_of_the_pipeline():
    found = cross_val_predict(cheap(), X, Y, cv=LeaveOneOut())
    expected = left_out_of_the_pipeline(cheap().fit(X, Y))
    np.testing.assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.slow
def test_leave_one_out_of_a_blend_is_that_of_the_pipeline_but_for_its_random_numbers():
    # A fold that knows where the left-out level is has other first weights, panels, candidates of
    # the evidence and inner models than a fit that does not. What both predict between the ends
    # differs by less than a twentieth of what spectra differ by from their mean, root mean square.
    noisy = Y + 0.03 * np.random.default_rng(1).normal(size=Y.shape)
    found = cross_val_predict(trained(), X, noisy, cv=LeaveOneOut())
    fitted = trained().fit(X, noisy)
    assert (fitted.blend_.weights[..., 1] > 0.001).all()  # that of the trained decoders
    difference = np.sqrt(((found - left_out_of_the_pipeline(fitted))[1:-1] ** 2).mean())
    assert 0 < difference < 0.05 * np.sqrt(((noisy - noisy.mean(axis=0)) ** 2).mean())
    assert np.isfinite(found).all()  # also where an end is left out and the chart is continued


def test_five_levels_are_enough_for_leave_one_out():
    found = cross_val_predict(cheap(), X[:5], Y[:5], cv=LeaveOneOut())
    assert found.shape == (5, 9)
    assert np.isfinite(found).all()
    with pytest.raises(SpectraError, match="found 3 different concentrations"):
        cross_val_predict(cheap(), X[:4], Y[:4], cv=LeaveOneOut())


@pytest.mark.slow
@pytest.mark.parametrize(("chart", "kappa"), [("linear", None), ("asinh", 12.0)])
def test_artifacts_are_a_fitted_regressor(tmp_path, chart, kappa):
    fitted = trained(chart=chart, kappa=kappa, epochs=3).fit(X, Y)
    values = {"source": "-", "quantity": "signal", "unit": "1", "concentration_unit": "ppb"}
    values |= {"chart": chart, "kappa": kappa, "window": None, "missing": "refuse"}
    table = SpectraTable(AXIS, "wavelength", "nm", LEVELS, list(Y[:, None]), np.zeros(0))
    of = Chart.of(chart, kappa, LEVELS)
    write_series(tmp_path / SPECTRA, table, of, SpectraParameters(**values))
    with consistent_artifacts(tmp_path / SPECTRA) as made_from:
        fitted.learned_.write(tmp_path / METRIC, made_from)
    with consistent_artifacts(tmp_path / SPECTRA, tmp_path / METRIC) as made_from:
        fitted.blend_.write(tmp_path / DECODERS, made_from)
    read = SpectrumRegressor.from_artifacts(str(tmp_path))
    for found, expected in zip(
        read.predict(BETWEEN, return_std=True),
        fitted.predict(BETWEEN, return_std=True),
        strict=True,
    ):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(read.estimate(Y).mean, fitted.estimate(Y).mean)
    assert read.score(X, Y) == fitted.score(X, Y)
    assert (read.n_features_in_, read.chart, read.kappa) == (1, chart, kappa)
    np.testing.assert_array_equal(clone(read).wavelengths, AXIS)


# scikit-learn


@pytest.mark.slow
def test_a_second_fit_and_a_clone_predict_the_same_and_another_seed_does_not():
    first = trained(epochs=3).fit(X, Y)
    expected = first.predict(BETWEEN)
    np.testing.assert_array_equal(first.fit(X, Y).predict(BETWEEN), expected)
    np.testing.assert_array_equal(clone(first).fit(X, Y).predict(BETWEEN), expected)
    assert not np.array_equal(trained(epochs=3, seed=1).fit(X, Y).predict(BETWEEN), expected)


def test_a_clone_is_not_fitted_and_a_pickled_regressor_is():
    fitted = cheap().fit(X, Y)
    expected = fitted.estimate(Y).mean  # the curve is kept
    with pytest.raises(NotFittedError):
        clone(fitted).predict(X)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.estimate(Y).mean, expected)
    np.testing.assert_array_equal(again.predict(BETWEEN), fitted.predict(BETWEEN))


def test_a_step_before_it_may_change_the_unit_of_concentrations():
    scaled = make_pipeline(MaxAbsScaler(), cheap()).fit(X, Y)  # a linear chart has no unit
    np.testing.assert_allclose(scaled.predict(BETWEEN), cheap().fit(X, Y).predict(BETWEEN))


@pytest.mark.slow
def test_a_search_finds_the_better_decoder():
    grid = {"kind": ["path", "posterior"]}
    search = GridSearchCV(cheap(epochs=3), grid, scoring="neg_mean_squared_error", cv=LeaveOneOut())
    search.fit(X, Y)
    assert search.best_params_ == {"kind": "posterior"}
    assert search.predict(BETWEEN).shape == (4, 9)
    assert (np.diff(search.cv_results_["mean_test_score"]) > 0).all()


EXPECTED_FAILURES = {
    "check_estimators_dtypes": "as integers, its concentrations are 3 different ones",
}

CHECKS = f"""
import json
import numpy as np
from sklearn.utils.estimator_checks import check_estimator
from geonode import SpectrumRegressor

class OfFirstColumn(SpectrumRegressor):
    "Reads the first of several columns, to thirds: scikit-learn's checks have up to 200 levels."

    def _concentrations(self, rows):
        return np.round(3 * rows[:, 0]) / 3

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # the first of ten columns says little
        return tags

def failures(kind, **changes):
    cheap = kind(**({CHEAP!r} | changes))
    found = check_estimator(cheap, on_fail=None, on_skip=None)
    return {{
        one["check_name"]: [type(one["exception"]).__name__, str(one["exception"])]
        for one in found if one["status"] != "passed"
    }}, len(found)

changes = dict(inner_members=1, inner_levels=2)
print(json.dumps([failures(OfFirstColumn, **changes), failures(SpectrumRegressor)]))
"""


@pytest.mark.slow
def test_scikit_learn_finds_nothing_to_object_to():
    # In a process of its own: here, annotations are enforced, also those of __init__, which
    # scikit-learn wants to take anything; and its checks of array APIs want SciPy's switch.
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHECKS],
        cwd=ROOT,
        env=os.environ | {"SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    (failures, checks), (refusals, _) = json.loads(run.stdout)
    assert checks > 50
    assert failures.keys() == EXPECTED_FAILURES.keys()
    # The regressor itself takes one column, and refuses those of the checks for no other reason.
    for check, (kind, message) in (failures | refusals).items():
        of_columns = message.startswith("X: found") and message.endswith("of concentrations")
        of_levels = "3 different concentrations in 20 rows" in message
        assert kind == "SpectraError", f"{check}: {message}"
        assert of_columns or of_levels, f"{check}: {message}"


@pytest.mark.slow
def test_the_package_is_light_until_the_regressor_is_asked_for():
    code = (  # it fails by itself
        "import sys, geonode\n"
        "heavy = {'torch', 'sklearn', 'scipy', 'pydantic'} & set(sys.modules)\n"
        "from geonode import SpectrumRegressor\n"
        "assert not heavy, heavy\n"
        "assert SpectrumRegressor.__module__ == 'geonode.regressor'\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    assert geonode.__all__ == ["ConcentrationRegressor", "SpectrumRegressor"]
    with pytest.raises(AttributeError, match="no attribute 'Regressor'"):
        geonode.Regressor  # noqa: B018
