import dataclasses

import numpy as np
import pytest
import torch

from geonode.config import InnerParameters
from geonode.errors import TrainingError
from geonode.learning.blend import fit_blend
from geonode.learning.decoders import KINDS
from geonode.learning.early_stopping import WatchedDecoders, smallest_before
from geonode.learning.folds import Fold, leave_one_out, leave_two_out
from geonode.learning.run import Runs
from geonode.learning.trainer import watched_epochs
from tests.learning.series import cpu, decoder_parameters, flat_features, predict, run, series

LEVELS, WAVELENGTHS, MEMBERS, EPOCHS = 4, 9, 2, 25
SERIES = series(LEVELS, WAVELENGTHS)
INNER = leave_two_out(LEVELS, None)
BOTH = pytest.mark.parametrize("kind", ["path", "scores"])


@pytest.mark.parametrize(
    ("errors", "patience", "expected"),
    [
        ([3.0, 2.0, 1.0], 10, 2),
        ([3.0, 2.0, 2.5, 1.0], 20, 3),  # waits two evaluations
        ([3.0, 2.0, 2.5, 1.0], 10, 1),  # does not wait
        ([3.0, 2.0, 2.5, 1.0], 11, 3),
        ([1.0, 1.0, 1.0], 10, 0),
        ([1.0], 10, 0),
    ],
)
def test_the_smallest_error_before_patience_is_lost(errors, patience, expected):
    epochs = [10 * (place + 1) for place in range(len(errors))]
    assert smallest_before(errors, epochs, patience) == expected


def watched_by_hand(errors_of):
    """Decoders of one member that miss every left-out level by a constant, and no sources differ.

    Args:
        errors_of: by inner fold and left-out level: the miss at every evaluation.
    """
    evaluations, target = len(next(iter(errors_of.values()))), 2
    outputs = torch.zeros(evaluations, 1, len(INNER), target, 2, 1)
    for fold in INNER:
        for place, level in enumerate(fold.left_out):
            misses = torch.tensor(errors_of[fold.left_out, level])
            outputs[:, 0, fold.index, place, :, 0] = misses[:, None]
    signal = np.zeros((LEVELS, 3))
    errors = np.zeros((evaluations, len(INNER)))
    epochs = [10 * (place + 1) for place in range(evaluations)]
    return WatchedDecoders(
        epochs, INNER, outputs, errors, lambda fold, error: (np.ones((1, 3)), np.zeros(3)), signal
    )


def test_a_fold_stops_by_the_levels_that_it_trains_on_alone():
    falling, rising = [3.0, 2.0, 1.0, 0.5], [1.0, 2.0, 3.0, 4.0]
    # Whatever is judged by level 0 rises, all else falls.
    errors = {(f.left_out, k): rising if k == 0 else falling for f in INNER for k in f.left_out}
    watched = watched_by_hand(errors)
    outer = leave_one_out(LEVELS)
    # Fold 0 never sees the errors at level 0. In the others they are one of three: mean squares
    # (1 + 9 + 9) / 3, (4 + 4 + 4) / 3 and (9 + 1 + 1) / 3 and (16 + 1/4 + 1/4) / 3, and over all
    # inner folds the rising quarter weighs 3 of 12.
    assert watched.evaluations(outer, 10) == [3, 2, 2, 2, 2]
    stopped = watched.stopped([3, 2, 1, 0, 0])
    fold = INNER[0]
    assert fold.left_out == (0, 1)
    # Inside fold 1, level 0 is predicted as after the evaluation at which fold 1 stops.
    assert stopped.predict(fold, 0).spectra[0].tolist() == [rising[2]] * 3
    assert stopped.predict(fold, 1).spectra[0].tolist() == [falling[3]] * 3


@BOTH
def test_what_is_watched_is_what_decoders_of_so_many_epochs_predict(kind):
    """Of other trainings, each of which ends at one of the evaluations."""
    features = flat_features(LEVELS, WAVELENGTHS, MEMBERS, len(INNER))
    parameters = decoder_parameters(members=MEMBERS, epochs=EPOCHS)
    models = run(INNER, MEMBERS, torch.float64)
    watched = KINDS[kind].watch(SERIES, features, parameters, models)
    assert watched.epochs == watched_epochs(EPOCHS) == [10, 20, 25]
    for place, end in enumerate(watched.epochs):
        ended = dataclasses.replace(models, epochs=(end,) * len(INNER))
        decoders, _ = KINDS[kind].fit(SERIES, features, parameters, ended)
        stopped = watched.stopped([place] * (LEVELS + 1))
        for fold in INNER:
            for target in fold.left_out:
                found = stopped.predict(fold, target)
                spectrum, deviation = predict(decoders, fold, target, SERIES, features)
                np.testing.assert_allclose(found.spectra[0], spectrum, rtol=1e-9, atol=1e-12)
                np.testing.assert_allclose(found.deviation[0], deviation, rtol=1e-9, atol=1e-12)


def blend(patience, inner=1, **changes):
    runs = Runs.of(LEVELS, MEMBERS, InnerParameters(members=inner, levels=None), cpu())
    features = flat_features(LEVELS, WAVELENGTHS, MEMBERS, LEVELS + 1)
    of_inner = flat_features(LEVELS, WAVELENGTHS, inner, len(INNER)) if inner else None
    parameters = decoder_parameters(members=MEMBERS, patience=patience, **changes)
    return fit_blend(SERIES, features, of_inner, parameters, runs)


def test_folds_stop_where_their_inner_folds_err_least():
    changes = {"kind": "path", "epochs": 80, "learning_rate": 0.05, "schedule": "constant"}
    stopped, history = blend(10, **changes)
    whole, full = blend(None, **changes)
    ends = (~history[:, 0].isnan()).sum(0).unflatten(0, (MEMBERS, -1))
    assert torch.equal(ends[0], ends[1])
    assert set(ends[0].tolist()) <= set(watched_epochs(80))
    assert int(ends.min()) < 80
    trained = ~history.isnan()
    torch.testing.assert_close(history[trained], full[trained])
    different = [
        not torch.equal(stopped.decoders["path"].network.weights[0][k], weights)
        for k, weights in enumerate(whole.decoders["path"].network.weights[0])
    ]
    assert different == (ends.flatten() < 80).tolist()


def test_endless_patience_takes_the_smallest_error_of_all():
    watched = watched_by_hand(
        {(f.left_out, k): [3.0, 4.0, 5.0, 1.0] for f in INNER for k in f.left_out}
    )
    assert watched.evaluations(leave_one_out(LEVELS), 10_000) == [3] * (LEVELS + 1)
    assert watched.evaluations([Fold(0, LEVELS, (0,))], 10) == [0]


def test_without_inner_folds_nothing_says_when_to_stop():
    with pytest.raises(TrainingError, match=r"patience: found 10 and inner.members 0"):
        blend(10, inner=0, kind="path")
