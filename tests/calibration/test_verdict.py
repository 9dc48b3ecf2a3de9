import numpy as np
import pytest

from geonode.calibration.verdict import Verdict

LEVELS = np.array([0.0, 10.0, 20.0, 30.0, 40.0])
SIGNS = np.array([1, -1, 1, -1, 1])


def estimates(**errors):
    """Methods that are off by the same everywhere."""
    return {name: LEVELS + SIGNS * error for name, error in errors.items()}


@pytest.mark.parametrize(
    ("errors", "chosen"),
    [
        ({"straight_line": 5.9, "pls": 5.5, "geonode": 5.0}, "straight_line"),  # a fifth at most
        ({"straight_line": 6.1, "pls": 5.9, "geonode": 5.0}, "pls"),
        ({"straight_line": 9.0, "pls": 5.0, "geonode": 2.0}, "geonode"),
        ({"straight_line": 0.45, "pls": 0.1, "geonode": 0.2}, "straight_line"),  # 1% of the range
        ({"straight_line": 0.55, "pls": 0.1, "geonode": 0.2}, "pls"),
    ],
)
def test_the_simplest_of_those_that_are_as_good_is_chosen(errors, chosen):
    assert Verdict.of(LEVELS, estimates(**errors)).chosen.key == chosen


def test_one_large_error_is_not_as_good():
    given = estimates(straight_line=2.0, geonode=2.0)
    given["straight_line"][-1] += 30
    assert Verdict.of(LEVELS, given).chosen.key == "geonode"


def test_methods_are_compared_by_signed_ranks():
    """All of five errors are larger than those of the best: two of 2^5 signs are as extreme."""
    given = estimates(geonode=1.0)
    given["pls"] = LEVELS + SIGNS * np.arange(2, 7)
    verdict = Verdict.of(LEVELS, given)
    of_pls, of_geonode = (
        verdict.p_value(next(one for one in verdict.methods if one.key == key))
        for key in ("pls", "geonode")
    )
    assert (of_pls, of_geonode) == (pytest.approx(2 / 2**5), None)


def test_no_better_than_the_mean_of_the_others_is_said():
    # Means of the others are off by 25, 12.5, 0, 12.5 and 25: their median is 12.5.
    verdict = Verdict.of(LEVELS, estimates(straight_line=14.0, geonode=12.5))
    assert verdict.guess == 12.5
    assert verdict.chosen is None
    assert verdict.sentence("ppb", {"straight_line": "451 nm"}).startswith(
        "None of the methods can be used"
    )
    assert Verdict.of(LEVELS, estimates(straight_line=14.0, geonode=12.4)).chosen.key == "geonode"
    wild = estimates(geonode=1.0)
    wild["geonode"][0] += 1000  # root mean square
    assert Verdict.of(LEVELS, wild).chosen is None


def test_over_decades_a_method_must_tell_the_size_of_a_concentration():
    levels = np.array([0.0, 1e-6, 1e-4, 1e-2, 1.0])
    near, far = levels * 1.3, levels * np.array([1, 1.6, 1.6, 1.6, 1.001])
    verdict = Verdict.of(levels, {"pls": far, "geonode": near})
    assert (verdict.best.key, verdict.chosen.key) == ("geonode", "geonode")
    none = Verdict.of(levels, {"pls": far})
    assert none.chosen is None
    assert "to within half of their size" in none.sentence("M", {})


def test_the_sentence_names_method_wavelength_and_errors():
    verdict = Verdict.of(LEVELS, estimates(straight_line=2.0, geonode=1.8))
    assert verdict.sentence("ppb", {"straight_line": "451 nm"}) == (
        "Use a straight line at 451 nm: median error 2 ppb (5 % of the range), as good here as "
        "geonode with 1.8 ppb (4.5 % of the range)."
    )
