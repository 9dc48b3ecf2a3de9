import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from geonode.errors import ArtifactError
from geonode.storage.large import batch_size, in_format


@settings(deadline=None, max_examples=20)
@given(exponent=st.floats(-7, 3.9), digits=st.floats(1, 9.999), sign=st.sampled_from([-1, 1]))
@pytest.mark.parametrize("number", ["float16", "float32", "float64"])
def test_a_number_is_the_nearest_of_its_format(number, exponent, digits, sign):
    values = np.array([sign * digits * 10.0 ** int(exponent), np.nan])
    kept = in_format(values, number, "x")
    assert kept.dtype == number
    assert np.isnan(kept[1])
    for step in (-np.inf, np.inf):
        beside = float(np.nextafter(kept[0], kept.dtype.type(step)))
        assert abs(float(kept[0]) - values[0]) <= abs(beside - values[0])


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
