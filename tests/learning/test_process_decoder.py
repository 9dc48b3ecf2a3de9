import numpy as np
import pytest
import torch

from geonode.errors import ArtifactError, CorruptArtifactError, MissingArtifactError, TrainingError
from geonode.learning.process import MEANS, fit_process
from geonode.learning.process_decoder import ProcessDecoders, arc_lengths, fit_processes
from geonode.storage.weights import write_weights
from tests.learning.series import flat_features, positions, spectra

LEVELS, WAVELENGTHS = 6, 9
SIGNAL = spectra(LEVELS, WAVELENGTHS)
FEATURES = flat_features(LEVELS, WAVELENGTHS, members=2)
CHART = positions(LEVELS)[0]
BOTH = pytest.mark.parametrize("mean", MEANS)


def test_arc_lengths_of_straight_geodesics_are_the_chart():
    """Members with g = 1 and g = 2: lengths differ by a factor, which scaling takes out."""
    found = arc_lengths(FEATURES)
    np.testing.assert_allclose(found, np.tile(CHART, (LEVELS + 1, 1)), atol=1e-12)


def test_arc_lengths_are_means_over_members_and_wavelengths():
    bent = FEATURES.copy()
    bent[0, 2, :, 3, 2] *= 5.0  # of one member, fold and wavelength
    found = arc_lengths(bent)
    np.testing.assert_allclose(np.delete(found, 2, axis=0), np.tile(CHART, (LEVELS, 1)), atol=1e-12)
    np.testing.assert_allclose(found[2], CHART, atol=1e-12)  # a factor again, for all levels
    bent[0, 2, 0, 3, 2] *= 9.0  # of the first gap alone
    assert arc_lengths(bent)[2, 1] > CHART[1] + 0.1


@BOTH
def test_every_fold_is_predicted_by_the_process_of_the_others(mean):
    predicted, deviation = fit_processes(SIGNAL, FEATURES, mean).left_out(SIGNAL, FEATURES)
    for fold in range(LEVELS):
        training = np.delete(np.arange(LEVELS), fold)
        process, _ = fit_process(CHART[training], SIGNAL[training], mean)
        weights = process.weights(CHART[training], CHART[[fold]])
        np.testing.assert_allclose(predicted[fold], (weights @ SIGNAL[training])[0], atol=1e-7)
        expected = process.deviation(CHART[training], SIGNAL[training], CHART[[fold]])
        np.testing.assert_allclose(deviation[fold], expected[0], rtol=1e-5)


@BOTH
@pytest.mark.parametrize("erased", [-1e6, 40.0])
def test_a_left_out_spectrum_reaches_nothing_of_its_fold(mean, erased):
    decoders = fit_processes(SIGNAL, FEATURES, mean)
    expected = decoders.left_out(SIGNAL, FEATURES)
    for fold in range(LEVELS):
        without = SIGNAL.copy()
        without[fold] = erased
        again = fit_processes(without, FEATURES, mean)
        assert again.processes[fold] == decoders.processes[fold]
        for found, before in zip(again.left_out(without, FEATURES), expected, strict=True):
            np.testing.assert_array_equal(found[fold], before[fold])


@BOTH
def test_written_processes_predict_the_same(mean, tmp_path):
    decoders = fit_processes(SIGNAL, FEATURES, mean)
    decoders.write(tmp_path / "decoders.safetensors")
    again = ProcessDecoders.read(tmp_path / "decoders.safetensors")
    assert again.processes == decoders.processes
    for found, expected in zip(
        again.left_out(SIGNAL, FEATURES), decoders.left_out(SIGNAL, FEATURES), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_what_holds_no_processes_is_refused(tmp_path):
    with pytest.raises(MissingArtifactError):
        ProcessDecoders.read(tmp_path / "absent.safetensors")
    write_weights(tmp_path / "other.safetensors", {"a": torch.zeros(1)}, {"mean": "linear"})
    with pytest.raises(CorruptArtifactError, match="no processes"):
        ProcessDecoders.read(tmp_path / "other.safetensors")


@pytest.mark.parametrize("shape", [(LEVELS + 1, WAVELENGTHS), (LEVELS, 8)])
def test_another_series_is_refused(shape, tmp_path):
    decoders = fit_processes(SIGNAL, FEATURES, "constant")
    decoders.require_series(tmp_path, LEVELS, WAVELENGTHS)
    with pytest.raises(ArtifactError, match=r"6 levels at 9 wavelengths.*dvc repro"):
        decoders.require_series(tmp_path, *shape)


def test_too_few_levels_for_the_mean_are_refused():
    few = flat_features(3, WAVELENGTHS)
    with pytest.raises(TrainingError, match=r"linear mean: found 3 levels, expected 4 or more"):
        fit_processes(spectra(3, WAVELENGTHS), few, "linear")
