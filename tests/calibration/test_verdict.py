import numpy as np
import pytest

from geonode.calibration.verdict import Verdict, chosen_without

LEVELS = np.array([0.0, 10.0, 20.0, 30.0, 40.0])
SIGNS = np.array([1, -1, 1, -1, 1])


def estimates(**errors):
    """Methods that are off by the same everywhere."""
    return {name: LEVELS + SIGNS * error for name, error in errors.items()}


@pytest.mark.parametrize(
    ("errors", "chosen"),
    [
        ({"pcr": 5.24, "pls": 5.1, "geonode": 5.0}, "pcr"),  # 5% at most
        ({"pcr": 5.26, "pls": 5.1, "geonode": 5.0}, "pls"),
        ({"straight_line": 4.37, "pls": 5.1, "geonode": 5.0}, "straight_line"),  # counts 6 / 5
        ({"straight_line": 4.38, "pls": 5.1, "geonode": 5.0}, "pls"),
        ({"straight_line": 9.0, "pls": 5.0, "geonode": 2.0}, "geonode"),
        ({"straight_line": 1e-9, "pls": 1e-10, "geonode": 0.0}, "straight_line"),  # rounding
    ],
)
def test_the_simplest_of_those_that_are_as_good_is_chosen(errors, chosen):
    verdict = Verdict.of(LEVELS, estimates(**errors))
    assert verdict.chosen.key == verdict.used.key == chosen


def test_one_large_error_is_not_as_good():
    given = estimates(pls=2.0, geonode=2.0)
    given["pls"][-1] += 3
    assert Verdict.of(LEVELS, given).chosen.key == "geonode"


def test_the_others_choose_without_the_errors_of_a_group():
    """The line fails in the last group of two alone, and PLS everywhere a little."""
    line, pls = np.array([0.1, -0.1, 0.1, 5.0, -5.0]), np.array([0.2, -0.2, 0.2, 4.0, 4.0])
    given = {"pcr": LEVELS + line, "pls": LEVELS + pls}
    groups = np.array([0, 1, 2, 3, 3])
    assert chosen_without(LEVELS, given, groups).tolist() == [1, 1, 1, 0, 0]
    alone = np.arange(5)
    assert chosen_without(LEVELS, given, alone).tolist() == [1, 1, 1, 1, 1]
    never = {
        "pcr": LEVELS + line,
        "pls": LEVELS + 0.4 * line + np.array([0.16, -0.16, 0.16, 0, 0]),
    }  # more than twice as large
    assert chosen_without(LEVELS, never, groups).tolist() == [1, 1, 1, 1, 1]


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
    assert none.used.key == "pls"
    assert "to within half of their size" in none.sentence("M", {})


def test_over_decades_small_errors_of_the_highest_level_are_not_enough():
    """Of errors of 3 everywhere, and of 3% everywhere with 33 at the top."""
    levels = np.array([10.0, 30.0, 100.0, 300.0, 1100.0])
    equal, relative = levels + 3, levels * 1.03
    verdict = Verdict.of(levels, {"pcr": equal, "pls": relative})
    # RMSEP 3 and 15.3, relative 0.145 and 0.03: the products are 0.435 and 0.459.
    assert (verdict.best.key, verdict.chosen.key) == ("pcr", "pcr")
    wider = levels + 4
    assert Verdict.of(levels, {"pcr": wider, "pls": relative}).chosen.key == "pls"


@pytest.mark.parametrize(
    ("errors", "said"),
    [
        (
            {"straight_line": 2.0, "geonode": 2.35},
            "Use a straight line at 451 nm: RMSEP 2 ppb (5 % of the range), median error 2 ppb. A "
            "straight line is simplest; geonode's typical error is no smaller.",
        ),
        (
            {"pcr": 2.08, "geonode": 2.0},
            "Use PCR: RMSEP 2.1 ppb (5.2 % of the range), median error 2.1 ppb. PCR is simplest; "
            "geonode's typical error is smaller by 0.20 % of the range.",
        ),
    ],
)
def test_the_sentence_names_method_wavelength_and_errors(errors, said):
    verdict = Verdict.of(LEVELS, estimates(**errors))
    assert verdict.sentence("ppb", {"straight_line": "451 nm"}) == said
