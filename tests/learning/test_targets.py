import numpy as np
import torch

from geonode.learning.batches import Batch, Model
from geonode.learning.folds import Fold
from geonode.learning.targets import training_targets
from tests.learning.series import decoder_parameters, series

VALUES = np.array([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0], [50.0, 60.0, 70.0]])
BATCH = Batch(
    [Model(0, Fold(2, 3, (2,))), Model(4, Fold(1, 3, (1,)))],
    torch.tensor([[0, 1], [0, 2]]),
    torch.tensor([[1, 0], [2, 0]]),
)


def targets(values=VALUES):
    parameters = decoder_parameters(wavelengths=2)
    return training_targets(BATCH, series(3, 3, values), parameters, torch.float64)


def test_signals_are_those_of_the_targets_on_the_scale_of_the_fold():
    # At the first and last wavelength, of levels 1 and 0, and of levels 2 and 0.
    first, second = np.array([[3.0, 5.0], [1.0, 3.0]]), np.array([[50.0, 70.0], [1.0, 3.0]])
    # Of all signals of levels 0 and 1, 1 to 5 with 3 twice, and of levels 0 and 2.
    known = np.array([1, 2, 3, 50, 60, 70])
    expected = np.stack([(first - 3) / (10 / 6) ** 0.5, (second - known.mean()) / known.std()])
    torch.testing.assert_close(targets(), torch.from_numpy(expected))


def test_what_a_fold_leaves_out_may_be_unknown():
    for level, model in ((2, 0), (1, 1)):
        unknown = VALUES.copy()
        unknown[level] = np.nan
        assert torch.equal(targets(unknown)[model], targets()[model])
