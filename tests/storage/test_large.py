import numpy as np
import pytest

from geonode.errors import ArtifactError
from geonode.storage.large import batch_size, in_format


@pytest.mark.parametrize(
    ("number", "largest"), [("float16", 65504.0), ("float32", 3.4028234663852886e38)]
)
def test_a_number_beyond_a_format_is_refused_and_named(number, largest):
    assert in_format(np.array([largest, -largest]), number, "x").tolist() == [largest, -largest]
    with pytest.raises(ArtifactError, match=f"map 'mean': found -.*the largest number of {number}"):
        in_format(np.array([0, -1.01 * largest]), number, "map 'mean'")


def test_batches_in_hand_fit_in_the_memory():
    assert batch_size(10**6, 10**4, 1) == 1073
    assert batch_size(10**6, 10**4, 4) == 268
    assert batch_size(10, 7, 1) == 7
    assert batch_size(2**31, 7, 1) == 1
