import numpy as np
import pytest

from geonode.errors import TrainingError
from geonode.learning.kinds import KINDS
from geonode.learning.predicted import Decoders
from tests.learning.series import decoder_parameters, flat_features, left_out, run, series

LEVELS, WAVELENGTHS, MEMBERS = 5, 7, 2
SERIES = series(LEVELS, WAVELENGTHS)
PARAMETERS = decoder_parameters(members=MEMBERS)
FEATURES = flat_features(LEVELS, WAVELENGTHS)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_fitted_taken_apart_and_put_together(kind, tmp_path):
    models = run(LEVELS, MEMBERS, scratch=tmp_path / "scratch")
    decoders, history = KINDS[kind].fit(SERIES, FEATURES, PARAMETERS, models)
    assert isinstance(decoders, Decoders)
    assert history.ndim == 3
    assert history.shape[1] == 1
    assert history.shape[2] in (LEVELS + 1, MEMBERS * (LEVELS + 1))
    tensors = {name: tensor.clone() for name, tensor in decoders.tensors().items()}
    again = KINDS[kind].from_tensors(tensors)
    assert type(again) is type(decoders)
    for found, expected in zip(
        left_out(again, SERIES, FEATURES), left_out(decoders, SERIES, FEATURES), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
        assert found.shape == SERIES.signal.shape
        assert np.isfinite(found).all()
    assert not (tmp_path / "scratch").exists()


def test_a_posterior_reads_no_geodesics_and_a_path_decoder_all():
    """Whether the predictions change with the lengths and with the speeds."""
    changed = [FEATURES.copy() for _ in range(2)]
    for column, features in enumerate(changed, start=2):
        features[..., column] **= 1.5
    reads = {}
    for kind, (fit, *_) in KINDS.items():
        said = [
            left_out(fit(SERIES, features, PARAMETERS, run(LEVELS, MEMBERS))[0], SERIES, features)
            for features in (FEATURES, *changed)
        ]
        reads[kind] = tuple(not np.array_equal(said[0], other) for other in said[1:])
    assert reads == {"posterior": (False, False), "path": (True, True)}


def test_a_path_decoder_without_geodesics_is_refused():
    path, _ = KINDS["path"].fit(SERIES, FEATURES, PARAMETERS, run(LEVELS, MEMBERS))
    message = "path decoders: found no features of geodesics, expected some"
    with pytest.raises(TrainingError, match=message):
        left_out(path, SERIES, None)
    with pytest.raises(TrainingError, match=message):
        KINDS["path"].fit(SERIES, None, PARAMETERS, run(LEVELS, MEMBERS))
