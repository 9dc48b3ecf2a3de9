import math

import pytest

from geonode.wording import difference, listed, number, quantity, share


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.020039, "0.0200"),
        (-0.7683, "−0.768"),
        (9.996, "10.0"),
        (12345.6, "12\u202f300"),
        (3.0, "3"),
        (0.0, "0"),
        (504840, "504\u202f840"),
        (1.26e-7, "1.26 × 10⁻⁷"),
        (-2.5e8, "−2.50 × 10⁸"),
        (None, "undefined"),
        (math.nan, "undefined"),
        (math.inf, "undefined"),
    ],
)
def test_numbers_have_sensible_digits(value, expected):
    assert number(value) == expected


def test_units_shares_signs_and_lists():
    assert [quantity(0.5, unit) for unit in ("ppb", "1")] == ["0.500 ppb", "0.500"]
    assert share(0.921) == "92.1 %"
    assert [difference(one, 2.0) for one in (3.25, 0.75)] == ["+1.25", "−1.25"]
    assert {quantity(None, "ppb"), share(None), difference(None, 2.0)} == {"undefined"}
    assert [listed(["a", "b", "c"]), listed(["a"])] == ["a, b and c", "a"]
