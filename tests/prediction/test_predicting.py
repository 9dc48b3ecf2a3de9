import numpy as np
import pytest

from geonode.errors import ParameterError
from geonode.prediction.predicting import MOST_CONCENTRATIONS, requested


def spaced(text):
    return requested([], [text])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0:60:20", [0, 20, 40, 60]),
        ("0:59:20", [0, 20, 40]),
        ("0:0.3:0.1", [0, 0.1, 0.2, 0.3]),
        ("5:5:1", [5]),
        (" 1e-3 : 2e-3 : 5e-4 ", [0.001, 0.0015, 0.002]),
    ],
)
def test_a_range_has_its_steps_and_stop_if_it_lies_on_them(text, expected):
    assert spaced(text).tolist() == expected


def test_what_is_no_range_is_refused():
    no_numbers = "", "0:60", "0:60:1:2", "a:60:1", "0:inf:1", "0:nan:1"
    for text in (*no_numbers, "0:60:0", "60:0:1", "-5:60:1"):
        with pytest.raises(ParameterError, match="expected START:STOP:STEP"):
            spaced(text)


def test_as_many_as_are_allowed_and_no_more():
    assert len(spaced(f"1:{MOST_CONCENTRATIONS}:1")) == MOST_CONCENTRATIONS
    for text in (f"0:{MOST_CONCENTRATIONS}:1", "0:1:1e-40", "0:1e300:1e-300"):
        with pytest.raises(ParameterError, match="at most 100000 concentrations; take a larger"):
            spaced(text)
    with pytest.raises(ParameterError, match="at most 100000 concentrations in all"):
        requested([0.5], [f"1:{MOST_CONCENTRATIONS}:1"])


def test_all_are_ascending_and_there_once():
    found = requested([45.0, 3.0, -0.0, 45.0], ["0:3:1", "2:4:2"])
    assert found.tolist() == [0, 1, 2, 3, 4, 45]
    assert not np.signbit(found).any()
