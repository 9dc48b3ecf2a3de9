import json
import shutil
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from geonode.config import DecodersParameters, InnerParameters
from geonode.decoders import blend as blend_module
from geonode.decoders.blend import (
    BLENDS,
    FEWEST_TO_WEIGH,
    Blend,
    Prediction,
    fit_blend,
    training_steps,
)
from geonode.decoders.calibration import PROBABILITIES, Calibration
from geonode.decoders.kinds import KINDS, DecoderKind
from geonode.decoders.predicted import Predicted
from geonode.errors import ArtifactError, CorruptArtifactError, MissingArtifactError, TrainingError
from geonode.storage.weights import read_weights, write_weights
from geonode.training.context import NestedRuns
from geonode.training.folds import leave_one_out
from tests.storage.damage import DAMAGES
from tests.training.series import cpu, decoder_parameters, flat_features, predict, series

LEVELS, WAVELENGTHS = 5, 11
SINGLE = [kind for kind, parts in BLENDS.items() if len(parts) == 1]


def fit(measured, kind="blend", members=1, inner=None, **changes):
    """A blend, and the features behind it."""
    shape = measured.signal.shape
    runs = NestedRuns.of(shape[0], 2, InnerParameters(members=members, levels=inner), cpu())
    features, inner_features = flat_features(*shape), None
    if runs.inner is not None:
        inner_features = flat_features(*shape, folds=len(runs.inner.folds))
    parameters = decoder_parameters(kind=kind, members=2, **changes)
    return fit_blend(measured, features, inner_features, parameters, runs)[0], features


def is_inside(fold, target):
    training = [level for level in range(fold.levels) if level not in fold.left_out]
    return min(training) < target < max(training)


class KnownErrors:
    """Decoders that miss by a number of each (fold, target), the same at every wavelength."""

    def __init__(self, error, deviation):
        self.error, self.deviation = error, deviation

    def predict(self, fold, series, concentrations, features):
        target = series.concentrations.tolist().index(*concentrations)
        assert target in fold.left_out
        spectrum = series.signal[[target]] + self.error(fold, target)
        return Predicted(spectrum, np.full_like(spectrum, self.deviation)[:, None])

    def tensors(self):
        return {}


@pytest.fixture
def known_errors(monkeypatch):
    """Replace the decoders of a blend by ones with given errors and a given deviation."""

    def replace(errors, deviation=0.0):
        for kind, error in errors.items():
            decoders = KnownErrors(error, deviation)

            def fake(series, features, parameters, run, decoders=decoders):
                return decoders, torch.zeros(0, 1, len(run.folds))

            monkeypatch.setitem(KINDS, kind, DecoderKind(fake, lambda tensors: None))
        monkeypatch.setitem(BLENDS, "blend", tuple(errors))

    return replace


def inside_or_not(inside, outside):
    return lambda fold, target: inside if is_inside(fold, target) else outside


ONE_OR_THREE, TWO_OR_ONE = inside_or_not(1.0, 3.0), inside_or_not(2.0, 1.0)


# weights


def test_weights_by_hand(known_errors):
    """Squared errors of 1 and 4 inside, of 9 and 1 at the ends; weights fall with their square."""
    known_errors({"path": ONE_OR_THREE, "posterior": TWO_OR_ONE})
    blend, features = fit(series(LEVELS, WAVELENGTHS))
    # Two of four inner levels are ends of a fold's training range: (9 + 1 + 1 + 9) / 4 = 5, and
    # (1 + 4 + 4 + 1) / 4 = 2.5. With nothing left out they are two of five: 21 / 5 and 14 / 5.
    inside, outside = [16 / 17, 1 / 17], [1 / 5, 4 / 5]
    expected = [[inside, outside]] * LEVELS + [[inside, [4 / 13, 9 / 13]]]
    np.testing.assert_allclose(blend.weights, expected)
    # An end that is left out is outside of the training range; all others are inside.
    by_fold = [outside, inside, inside, inside, outside, inside]
    np.testing.assert_allclose(blend.weights_of_folds(), by_fold)
    measured = series(LEVELS, WAVELENGTHS)
    off = blend.left_out(measured, features).spectra - measured.signal
    end, middle = 0.2 * 3 + 0.8 * 1, (16 * 1 + 1 * 2) / 17
    np.testing.assert_allclose(off[:, 0], [end, middle, middle, middle, end])


def test_deviations_are_those_of_the_mixture(known_errors):
    known_errors({"path": ONE_OR_THREE, "posterior": TWO_OR_ONE}, deviation=0.5)
    measured = series(LEVELS, WAVELENGTHS)
    blend, features = fit(measured)
    found = blend.left_out(measured, features).deviation
    # Two values of weights p and q that differ by d have the variance p q d^2.
    np.testing.assert_allclose(found[2], (0.25 + 16 / 17**2) ** 0.5)
    np.testing.assert_allclose(found[0], (0.25 + 0.2 * 0.8 * 2**2) ** 0.5)


def test_what_is_outside_does_not_decide_what_is_inside(known_errors):
    known_errors({"path": ONE_OR_THREE, "posterior": TWO_OR_ONE})
    before = fit(series(LEVELS, WAVELENGTHS))[0]
    known_errors({"path": inside_or_not(1.0, 9.0), "posterior": inside_or_not(2.0, 0.1)})
    after = fit(series(LEVELS, WAVELENGTHS))[0]
    np.testing.assert_array_equal(before.weights[:, 0], after.weights[:, 0])
    assert (after.weights[:, 1, 0] < before.weights[:, 1, 0]).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("others", [1e-200, 1e-3, 1.0])
def test_a_perfect_kind_has_all_the_weight_and_a_tie_is_shared(known_errors, others):
    known_errors({"path": inside_or_not(0.0, 1e-3), "posterior": inside_or_not(others, 1e-3)})
    measured = series(LEVELS, WAVELENGTHS, np.zeros((LEVELS, WAVELENGTHS)))
    blend, _ = fit(measured)
    expected = [0.5, 0.5] if others == 1e-200 else [1.0, 0.0]  # its square is no number
    np.testing.assert_allclose(blend.weights[:, 0], [expected] * 6, atol=1e-12)
    assert np.isfinite(blend.weights).all()


def test_four_levels_have_one_inside_of_every_fold(known_errors):
    """Training levels 1, 2 and 3 of fold 0: inside it 2 is between the others, 1 and 3 are not."""
    known_errors({"path": ONE_OR_THREE, "other": TWO_OR_ONE})
    blend, _ = fit(series(4, WAVELENGTHS))
    # At the ends of a fold (9 + 1 + 9) / 3 and (1 + 4 + 1) / 3: 19 to 6.
    outside = [36 / (36 + 361), 361 / (36 + 361)]
    np.testing.assert_allclose(blend.weights[:4, 0], [[16 / 17, 1 / 17]] * 4)
    np.testing.assert_allclose(blend.weights[:4, 1], [outside] * 4)


def test_where_no_inner_level_is_inside_those_at_the_ends_judge(known_errors):
    """Of six levels, two inside every fold: those are the ends."""
    known_errors({"path": ONE_OR_THREE, "other": TWO_OR_ONE})
    blend, _ = fit(series(6, WAVELENGTHS), inner=2)
    # Fold 2 knows 0 and 5 alone. Fold 0 has 1 and 5, and is used by all others as their lowest.
    expected = [1 / (1 + 81), 81 / (1 + 81)]
    np.testing.assert_allclose(blend.weights[2], [expected] * 2)
    np.testing.assert_allclose(blend.weights[0, 0], [16 / 17, 1 / 17])


@pytest.mark.parametrize(
    ("levels", "members"), [(LEVELS, 0), (FEWEST_TO_WEIGH - 1, 0), (FEWEST_TO_WEIGH - 1, 1)]
)
def test_without_inner_folds_or_with_few_levels_the_posterior_counts_alone(levels, members):
    measured = series(levels, WAVELENGTHS)
    blend, features = fit(measured, members=members)
    assert list(blend.decoders) == ["posterior", "path"]
    np.testing.assert_array_equal(blend.weights, [[[1, 0]] * 2] * (levels + 1))
    found = blend.left_out(measured, features)
    expected = fit(measured, "posterior", members=0)[0].left_out(measured, None)
    np.testing.assert_allclose(found.spectra, expected.spectra, rtol=1e-12)
    np.testing.assert_allclose(found.half_width, expected.half_width, rtol=1e-12)


def test_a_blend_of_enough_levels_counts_every_kind():
    weights = fit(series(FEWEST_TO_WEIGH, WAVELENGTHS))[0].weights
    np.testing.assert_allclose(weights.sum(axis=2), 1)
    assert (weights > 0).all()


# one kind


@pytest.mark.parametrize("inner", [None, 2])
@pytest.mark.parametrize("kind", SINGLE)
def test_a_kind_alone_has_all_the_weight_and_intervals(kind, inner):
    measured = series(4, WAVELENGTHS)
    blend, features = fit(measured, kind, inner=inner)
    np.testing.assert_array_equal(blend.weights, np.ones((5, 2, 1)))
    found = blend.left_out(measured, features)
    alone = blend.decoders[kind]
    for fold in leave_one_out(4)[:-1]:
        spectrum, deviation = predict(alone, fold, fold.index, measured, features)
        np.testing.assert_allclose(found.spectra[fold.index], spectrum, rtol=1e-6)
        np.testing.assert_allclose(found.deviation[fold.index], deviation, rtol=1e-6)
    assert found.half_width.shape == (len(PROBABILITIES), 4, WAVELENGTHS)
    assert (found.half_width > 0).all()
    assert found.band[0] == "90% interval"
    np.testing.assert_array_equal(found.band[1], found.half_width[2])


def test_without_inner_folds_a_path_decoder_has_no_intervals():
    measured = series(4, WAVELENGTHS)
    blend, features = fit(measured, "path", members=0)
    np.testing.assert_array_equal(blend.weights, np.ones((5, 2, 1)))
    found = blend.left_out(measured, features)
    assert (blend.calibration, found.half_width) == (None, None)
    assert found.band[0] == "standard deviation"
    np.testing.assert_array_equal(found.band[1], found.deviation)
    with_intervals, _ = fit(measured, "path")
    expected = with_intervals.left_out(measured, features)
    np.testing.assert_array_equal(found.spectra, expected.spectra)
    np.testing.assert_array_equal(found.deviation, expected.deviation)


def test_a_posterior_needs_neither_inner_folds_nor_geodesics():
    measured = series(LEVELS, WAVELENGTHS)
    with_them, features = fit(measured, "posterior")
    runs = NestedRuns.of(LEVELS, 1, InnerParameters(members=0, levels=None), cpu())
    parameters = decoder_parameters(kind="posterior")
    without, history = fit_blend(measured, None, None, parameters, runs)
    assert len(history) == 0
    assert (without.calibration, without.inner) == (None, None)
    found, expected = without.left_out(measured, None), with_them.left_out(measured, features)
    for one, other in (
        (found.spectra, expected.spectra),
        (found.scale, expected.scale),
        (found.half_width, expected.half_width),
    ):
        np.testing.assert_array_equal(one, other)


def test_one_kind_of_a_blend_is_that_kind_alone():
    measured = series(LEVELS, WAVELENGTHS)
    blend, features = fit(measured)
    for kind in BLENDS["blend"]:
        found = blend.only(kind).left_out(measured, features)
        for fold in leave_one_out(LEVELS)[:-1]:
            spectrum, _ = predict(blend.decoders[kind], fold, fold.index, measured, features)
            np.testing.assert_allclose(found.spectra[fold.index], spectrum, rtol=1e-6)


def test_every_value_of_the_parameter_names_decoders():
    field = DecodersParameters.model_fields["kind"]
    assert set(get_args(field.annotation)) == set(BLENDS)
    assert {kind for parts in BLENDS.values() for kind in parts} == set(KINDS)


def test_the_history_is_that_of_the_decoders_that_are_trained():
    measured = series(LEVELS, WAVELENGTHS)
    runs = NestedRuns.of(LEVELS, 2, InnerParameters(members=1, levels=None), cpu())
    features = [flat_features(LEVELS, WAVELENGTHS, folds=folds) for folds in (6, 10)]
    for kind, steps, models in (("blend", 3, 12), ("posterior", 0, 6)):
        parameters = decoder_parameters(kind=kind, members=2)
        _, history = fit_blend(measured, *features, parameters, runs)
        assert history.shape == (steps, 1, models)


# intervals


@pytest.mark.parametrize("levels", [5, 6])
def test_intervals_are_calibrated_on_what_is_left_out_inside(known_errors, levels):
    """Two that are inside are too few to judge, three are not.

    Of five levels, fold 2 knows 0, 1, 3 and 4, of which 1 and 3 are inside. The last fold knows
    all, of which 1, 2 and 3 are inside. Of six levels every fold has three inside or more.
    """
    error = np.random.default_rng(0).normal(size=(levels + 1, levels))

    def of_pair(fold, target):
        (other,) = [*(level for level in fold.left_out if level != target)] or [levels]
        return error[other, target]

    known_errors({"path": of_pair}, deviation=0.3)
    measured = series(levels, WAVELENGTHS)
    blend, features = fit(measured, "blend")
    folds = {
        5: (
            (2, [0, 1, 3, 4], [0, 1, 2, 3]),
            (0, [1, 2, 3, 4], [0, 1, 2, 3]),
            (4, [0, 1, 2, 3], [0, 1, 2, 3]),
            (5, [0, 1, 2, 3, 4], [1, 2, 3]),
        ),
        6: (
            (2, [0, 1, 3, 4, 5], [1, 2, 3]),
            (0, [1, 2, 3, 4, 5], [1, 2, 3]),
            (5, [0, 1, 2, 3, 4], [1, 2, 3]),
            (6, [0, 1, 2, 3, 4, 5], [1, 2, 3, 4]),
        ),
    }
    for fold, known, inside in folds[levels]:
        errors = np.repeat(error[fold, known][:, None], WAVELENGTHS, axis=1)
        for side, judges in enumerate((inside, list(range(len(known))))):
            expected = Calibration.of(errors, np.full_like(errors, 0.3), judges)
            np.testing.assert_allclose(blend.calibration.residual[fold, side], expected.residual)
            np.testing.assert_allclose(blend.calibration.factors[fold, side], expected.factors)
    found = blend.left_out(measured, features).half_width
    for fold, side in ((0, 1), (1, 0), (2, 0), (levels - 1, 1)):
        scale = np.sqrt(0.3**2 + blend.calibration.residual[fold, side])
        expected = np.outer(blend.calibration.factors[fold, side], scale)
        np.testing.assert_allclose(found[:, fold], expected)


def test_intervals_are_calibrated_on_the_blend_of_the_side_of_each_level(known_errors):
    known_errors({"path": ONE_OR_THREE, "other": TWO_OR_ONE})
    residual = fit(series(LEVELS, WAVELENGTHS))[0].calibration.residual
    middle, end = (18 / 17) ** 2, 1.4**2
    # Two inside of a fold are too few to judge alone; of all levels there are three.
    np.testing.assert_allclose(residual[:5], (2 * middle + 2 * end) / 4)
    of_all = (3 * 4 / 13 + 1 * 9 / 13) ** 2
    np.testing.assert_allclose(residual[5, 0], middle)
    np.testing.assert_allclose(residual[5, 1], (3 * middle + 2 * of_all) / 5)


class Lines:
    """Straight lines through the training spectra, and how far noise of 0.3 moves them."""

    def predict(self, fold, series, concentrations, features):
        known, places = series.concentrations[fold.training], concentrations[:, None] ** [0, 1]
        basis = known[:, None] ** [0, 1]
        weights = places @ np.linalg.pinv(basis)
        spectra = weights @ series.signal[fold.training]
        spread = 0.3 * np.linalg.norm(weights, axis=1)
        return Predicted(
            spectra,
            np.broadcast_to(spread[:, None, None], (*places[:, :1].shape, spectra.shape[1])),
        )

    def tensors(self):
        return {}


def coverage_of_noisy_lines(kind, levels, repetitions):
    """Share of the points inside each interval, by level, over many series of lines in noise."""
    generator, held = np.random.default_rng(levels), []
    for _ in range(repetitions):
        straight = np.linspace(-1, 1, levels)[:, None] * generator.normal(size=40)
        noisy = straight + 0.3 * generator.normal(size=(levels, 40))
        measured = series(levels, 40, noisy)
        blend, features = fit(measured, kind)
        found = blend.left_out(measured, features)
        held.append((np.abs(found.spectra - noisy) <= found.half_width).mean(axis=2))
    return np.mean(held, axis=0)


@pytest.fixture
def lines(monkeypatch):
    """Put straight lines in place of perceptrons, so that their intervals are known to be fair."""

    def straight(series, features, parameters, run):
        return Lines(), torch.zeros(0, 1, len(run.folds))

    monkeypatch.setitem(KINDS, "path", DecoderKind(straight, lambda tensors: None))


@pytest.mark.usefixtures("lines")
def test_intervals_of_a_noisy_series_hold_what_they_promise():
    held = coverage_of_noisy_lines("path", 7, 20).mean(axis=1)
    np.testing.assert_allclose(held, PROBABILITIES, atol=0.05)


@pytest.mark.usefixtures("lines")
@pytest.mark.parametrize("levels", [4, 5])
def test_intervals_of_few_levels_hold_most_of_what_they_promise(levels):
    """Three or four spectra tell little; of nine points in ten, three in four must be inside."""
    held = coverage_of_noisy_lines("path", levels, 20)[:, 1:-1].mean(axis=1)
    assert held[PROBABILITIES.index(0.9)] > 0.75


@pytest.mark.slow
@pytest.mark.parametrize("levels", [4, 7])
def test_intervals_of_a_posterior_hold_most_of_what_they_promise(levels):
    held = coverage_of_noisy_lines("posterior", levels, 20).mean(axis=1)
    assert held[PROBABILITIES.index(0.9)] > 0.75


def test_a_band_is_the_interval_that_is_shown_or_the_deviation():
    half_width = np.arange(4.0)[:, None, None] * np.ones((4, 2, 3))
    predicted = Predicted(np.zeros((2, 3)), np.full((2, 4, 3), 0.5))
    name, band = Prediction(predicted, predicted.deviation, half_width).band
    assert (name, band.tolist()) == ("90% interval", half_width[2].tolist())
    name, band = Prediction(predicted, predicted.deviation, None).band
    assert (name, band.tolist()) == ("standard deviation", np.ones((2, 3)).tolist())


# artifact


@pytest.mark.parametrize(
    ("kind", "members"), [("blend", 1), ("path", 1), ("path", 0), ("posterior", 0)]
)
def test_what_is_written_is_read_bit_for_bit(kind, members, tmp_path):
    measured = series(LEVELS, WAVELENGTHS)
    blend, features = fit(measured, kind, members)
    blend.write(tmp_path / "decoders.safetensors")
    again = Blend.read(tmp_path / "decoders.safetensors")
    assert list(again.decoders) == list(BLENDS[kind])
    for name, decoders in again.decoders.items():
        assert type(decoders) is type(blend.decoders[name])
        tensors = blend.decoders[name].tensors()
        assert decoders.tensors().keys() == tensors.keys()
        assert all(torch.equal(part, tensors[of]) for of, part in decoders.tensors().items())
    np.testing.assert_array_equal(again.weights, blend.weights)
    np.testing.assert_array_equal(again.training, blend.training)
    assert again.wavelengths == WAVELENGTHS
    found, expected = (b.left_out(measured, features) for b in (again, blend))
    np.testing.assert_array_equal(found.spectra, expected.spectra)
    np.testing.assert_array_equal(found.deviation, expected.deviation)
    assert (again.calibration is None) == (again.inner is None) == ((kind, members) != ("path", 1))
    if (kind, members) == ("path", 0):
        assert found.half_width is expected.half_width is None
    else:
        np.testing.assert_array_equal(found.half_width, expected.half_width)
    again.write(tmp_path / "again.safetensors")
    contents = [(tmp_path / f"{name}.safetensors").read_bytes() for name in ("decoders", "again")]
    assert contents[0] == contents[1]


@pytest.fixture(scope="module")
def blended(tmp_path_factory):
    """The file of a blend; tests do not write there."""
    path = tmp_path_factory.mktemp("blend") / "decoders.safetensors"
    fit(series(LEVELS, WAVELENGTHS))[0].write(path)
    return path


@pytest.fixture
def written(blended, tmp_path):
    """A copy to damage."""
    return Path(shutil.copy(blended, tmp_path))


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_artifact_is_refused(written, damage):
    damage(written)
    with pytest.raises(CorruptArtifactError, match=r"decoders\.safetensors"):
        Blend.read(written)


def test_an_absent_artifact_is_named(tmp_path):
    with pytest.raises(MissingArtifactError, match="absent"):
        Blend.read(tmp_path / "absent.safetensors")


def test_what_holds_no_decoders_is_refused(written):
    fit(series(LEVELS, WAVELENGTHS), "path")[0].write(written)
    tensors, metadata = read_weights(written)
    for name in ("kinds", "wavelengths"):
        rest = {key: value for key, value in metadata.items() if key != name}
        write_weights(written, tensors, rest)
        with pytest.raises(CorruptArtifactError, match=f"holds no decoders: '{name}' is absent"):
            Blend.read(written)
    calibrated = ("residual", "factors", "errors", "judges")
    for name in ("weights", "training", "path/matrix", *calibrated):
        rest = {key: value for key, value in tensors.items() if key != name}
        write_weights(written, rest, metadata)
        part = name.split("/")[-1]
        with pytest.raises(CorruptArtifactError, match=f"holds no decoders: '{part}' is absent"):
            Blend.read(written)
    write_weights(written, tensors, metadata | {"kinds": json.dumps(["oracle"])})
    with pytest.raises(CorruptArtifactError, match="holds no decoders: 'oracle' is absent"):
        Blend.read(written)


@pytest.mark.parametrize("shape", [(LEVELS + 1, WAVELENGTHS), (LEVELS, WAVELENGTHS - 1)])
def test_decoders_of_another_series_are_refused(written, shape):
    blend = Blend.read(written)
    blend.require_series(written, series(LEVELS, WAVELENGTHS))
    with pytest.raises(
        ArtifactError,
        match=f"decoders of 5 levels at 11 wavelengths, but the spectra have {shape[0]} at "
        f"{shape[1]}; run `dvc repro`",
    ):
        blend.require_series(written, series(*shape))


@pytest.mark.parametrize("members", [0, 1])
def test_inner_folds_and_their_features_come_together(members):
    runs = NestedRuns.of(LEVELS, 1, InnerParameters(members=members, levels=None), cpu())
    inner = flat_features(LEVELS, WAVELENGTHS, folds=10) if members == 0 else None
    with pytest.raises(TrainingError, match="inner folds"):
        fit_blend(
            series(LEVELS, WAVELENGTHS),
            flat_features(LEVELS, WAVELENGTHS),
            inner,
            decoder_parameters(kind="path"),
            runs,
        )


@pytest.mark.parametrize("levels", [FEWEST_TO_WEIGH - 1, FEWEST_TO_WEIGH])
@pytest.mark.parametrize("kind", BLENDS)
def test_as_many_steps_are_reported_as_announced(kind, levels):
    reported = []
    runs = NestedRuns.of(levels, 2, InnerParameters(members=1, levels=None), cpu()).with_progress(
        reported.append
    )
    parameters = decoder_parameters(kind=kind)
    features = flat_features(levels, WAVELENGTHS)
    inner = flat_features(levels, WAVELENGTHS, folds=levels * (levels - 1) // 2)
    fit_blend(series(levels, WAVELENGTHS), features, inner, parameters, runs)
    assert sum(reported) == training_steps(BLENDS[kind], parameters, runs)


def test_linear_algebra_has_one_thread_so_that_no_bit_depends_on_the_cores(monkeypatch):
    seen, of = [], blend_module.InnerPredictions.of

    def spy(*arguments):
        seen.extend(pool["num_threads"] for pool in threadpool_info())
        return of(*arguments)

    monkeypatch.setattr(blend_module.InnerPredictions, "of", spy)
    with threadpool_limits(2):
        fit(series(6, WAVELENGTHS))
        assert set(seen) == {1}
        assert max(pool["num_threads"] for pool in threadpool_info()) == 2
