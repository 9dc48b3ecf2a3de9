import numpy as np
import pytest

from geonode.ties import EQUAL, first_largest, first_smallest


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ([3.0, 1.0 + 0.5 * EQUAL, 1.0], 1),  # equal to the smallest: the first of the two
        ([3.0, 1.0 + 2 * EQUAL, 1.0], 2),
        ([-1.0 + 0.5e-9, -1.0], 0),
        ([np.inf, 5.0, np.inf], 1),
        ([np.inf, np.inf], 0),
        ([-np.inf, 2.0], 0),
        ([0.0, 0.0], 0),
    ],
)
def test_the_first_of_equal_numbers_is_the_smallest(values, place):
    assert first_smallest(np.array(values)) == place
    assert first_largest(-np.array(values)) == place


def test_rows_are_decided_one_by_one_and_a_size_may_be_given():
    rows = np.array([[2.0, 1.0, 1.0], [0.3, 0.3 + 1e-12, 0.2]])
    assert first_smallest(rows).tolist() == [1, 2]
    # Logarithms near zero, whose difference is that of their numbers relative to their size.
    assert first_smallest(np.array([1e-10, -1e-10]), size=1.0) == 0
    assert first_smallest(np.array([1e-10, -1e-10])) == 1
