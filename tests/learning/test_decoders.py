import numpy as np
import pytest
import torch

from geonode.devices.device import Device
from geonode.errors import CorruptArtifactError
from geonode.learning.decoders import KINDS, Decoders, read_decoders
from geonode.progress import silent
from geonode.storage.weights import write_weights
from tests.learning.series import decoder_parameters, flat_features, spectra

CPU = Device("cpu", "test", torch.float32, torch.float64)
LEVELS, WAVELENGTHS = 5, 7
SIGNAL, FEATURES = spectra(LEVELS, WAVELENGTHS), flat_features(LEVELS, WAVELENGTHS)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_written_read_and_predicts(kind, tmp_path):
    parameters = decoder_parameters(kind=kind)
    decoders, history = KINDS[kind](SIGNAL, FEATURES, parameters, CPU, tmp_path / "scratch", silent)
    assert isinstance(decoders, Decoders)
    assert history.shape[1:] == (1, LEVELS + 1)
    decoders.write(tmp_path / "decoders.safetensors")
    again = read_decoders(tmp_path / "decoders.safetensors")
    assert type(again) is type(decoders)
    again.require_series(tmp_path, LEVELS, WAVELENGTHS)
    for found, expected in zip(
        again.left_out(SIGNAL, FEATURES), decoders.left_out(SIGNAL, FEATURES), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
        assert found.shape == SIGNAL.shape
        assert np.isfinite(found).all()


def test_decoders_of_no_known_kind_are_refused(tmp_path):
    write_weights(tmp_path / "other.safetensors", {"a": torch.zeros(1)}, {"kind": "oracle"})
    with pytest.raises(CorruptArtifactError, match=r"decoders of kind oracle, not of .*dvc repro"):
        read_decoders(tmp_path / "other.safetensors")
