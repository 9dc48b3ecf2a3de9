import numpy as np
import pytest
import torch

from geonode.learning.decoders import KINDS, Decoders
from geonode.learning.folds import leave_two_out
from tests.learning.series import decoder_parameters, flat_features, left_out, predict, run, series

LEVELS, WAVELENGTHS, MEMBERS = 5, 7, 2
SERIES = series(LEVELS, WAVELENGTHS)
PARAMETERS = decoder_parameters(members=MEMBERS)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_fitted_taken_apart_and_put_together(kind, tmp_path):
    models = run(LEVELS, MEMBERS, scratch=tmp_path / "scratch")
    features = flat_features(LEVELS, WAVELENGTHS)
    decoders, history = KINDS[kind].fit(SERIES, features, PARAMETERS, models)
    assert isinstance(decoders, Decoders)
    assert history.ndim == 3
    assert history.shape[1] == 1
    assert history.shape[2] in (LEVELS + 1, MEMBERS * (LEVELS + 1))
    tensors = {name: tensor.clone() for name, tensor in decoders.tensors().items()}
    again = KINDS[kind].from_tensors(tensors)
    assert type(again) is type(decoders)
    for found, expected in zip(
        left_out(again, SERIES, features), left_out(decoders, SERIES, features), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
        assert found.shape == SERIES.signal.shape
        assert np.isfinite(found).all()
    assert not (tmp_path / "scratch").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_fitted_inside_the_folds_of_four_levels(kind):
    """With two levels left out there are two to train on."""
    measured, folds = series(4, WAVELENGTHS), leave_two_out(4, None)
    features = flat_features(4, WAVELENGTHS, folds=len(folds))
    decoders, _ = KINDS[kind].fit(measured, features, PARAMETERS, run(folds, MEMBERS))
    for fold in folds:
        for target in fold.left_out:
            for part in predict(decoders, fold, target, measured, features):
                assert part.shape == (WAVELENGTHS,)
                assert np.isfinite(part).all()


def test_kinds_read_the_features_that_they_are_named_after():
    """Lengths alone, the chart alone, or all; or none."""
    plain = flat_features(LEVELS, WAVELENGTHS)
    lengths = plain.copy()
    lengths[..., 2] **= 1.5
    speeds = plain.copy()
    speeds[..., 3] **= 1.5
    block = decoder_parameters(evidence_margin=None)
    reads = {}
    for kind, (fit, *_) in KINDS.items():
        said = [
            left_out(fit(SERIES, features, block, run(LEVELS))[0], SERIES, features)[0]
            for features in (plain, lengths, speeds)
        ]
        reads[kind] = tuple(not np.array_equal(said[0], other) for other in said[1:])
    assert reads == {
        "path": (True, True),
        "scores": (True, True),
        "process_constant": (True, False),
        "process_linear": (True, False),
        "evidence_process": (False, False),
        "mean": (False, False),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_that_is_written_down_needs_all_of_its_tensors(kind):
    decoders, _ = KINDS[kind].fit(
        SERIES, flat_features(LEVELS, WAVELENGTHS), PARAMETERS, run(LEVELS, MEMBERS)
    )
    if decoders.tensors():
        with pytest.raises(KeyError):
            KINDS[kind].from_tensors({"other": torch.zeros(1)})
