import numpy as np
import pytest
import torch

from geonode.training.augmentation import Augmentation
from geonode.training.batches import Batch, Model
from geonode.training.folds import Fold
from geonode.training.targets import STREAM, Targets
from tests.training.series import DISTURBANCES, decoder_parameters, series

VALUES = np.array([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0], [50.0, 60.0, 70.0]])
BATCH = Batch(
    [Model(0, Fold(2, 3, (2,))), Model(4, Fold(1, 3, (1,)))],
    torch.tensor([[0, 1], [0, 2]]),
    torch.tensor([[1, 0], [2, 0]]),
)
EVERY = slice(None)
# Of all signals of levels 0 and 1, 1 to 5 with 3 twice, and of levels 0 and 2.
MEANS = (3.0, np.mean([1, 2, 3, 50, 60, 70]))
STDS = ((10 / 6) ** 0.5, np.std([1, 2, 3, 50, 60, 70]))


def targets(values=VALUES, **augmentation):
    levels = dict.fromkeys(DISTURBANCES, 0.0) | augmentation
    parameters = decoder_parameters(wavelengths=2, augmentation=levels, seed=6)
    return Targets(BATCH, series(3, 3, values), parameters, torch.float64)


def test_signals_are_those_of_the_targets_on_the_scale_of_the_fold():
    # At the first and last wavelength, of levels 1 and 0, and of levels 2 and 0.
    first, second = np.array([[3.0, 5.0], [1.0, 3.0]]), np.array([[50.0, 70.0], [1.0, 3.0]])
    expected = np.stack([(first - MEANS[0]) / STDS[0], (second - MEANS[1]) / STDS[1]])
    found = targets()
    assert found.pairs == 2
    for epoch in (0, 7):
        torch.testing.assert_close(found.at(EVERY, epoch), torch.from_numpy(expected))
        assert torch.equal(found.at(slice(1, 2), epoch), found.at(EVERY, epoch)[:, 1:2])


def test_other_scans_are_on_the_scale_of_those_measured():
    """Every model has scans of its own, by seed, member and what is left out."""
    found = targets(offset=0.1, slope=0.2, scatter=0.3)
    measured = series(3, 3, VALUES)
    levels = decoder_parameters(
        augmentation=dict.fromkeys(DISTURBANCES, 0.0)
        | {"offset": 0.1, "slope": 0.2, "scatter": 0.3}
    ).augmentation
    seeds = [(6, STREAM, 0, 2), (6, STREAM, 4, 1)]
    scans = Augmentation(
        VALUES, measured.axis, np.array([0, 2]), levels, seeds, torch.device("cpu"), torch.float64
    )
    for epoch in (0, 3):
        drawn = scans.draw(epoch).numpy()
        signals = (drawn[0][[1, 0]], drawn[1][[2, 0]])
        expected = np.stack(
            [(one - mean) / std for one, mean, std in zip(signals, MEANS, STDS, strict=True)]
        )
        np.testing.assert_allclose(found.at(EVERY, epoch), expected, rtol=1e-12)
        np.testing.assert_array_equal(found.at(slice(0, 1), epoch), found.at(EVERY, epoch)[:, :1])
    assert not torch.allclose(found.at(EVERY, 0), found.at(EVERY, 3))


@pytest.mark.parametrize("augmentation", [{}, dict.fromkeys(DISTURBANCES, 0.1)])
def test_what_a_fold_leaves_out_may_be_unknown(augmentation):
    for level, model in ((2, 0), (1, 1)):
        unknown = VALUES.copy()
        unknown[level] = np.nan
        found = targets(unknown, **augmentation).at(EVERY, 5)[model]
        assert torch.equal(found, targets(**augmentation).at(EVERY, 5)[model])
