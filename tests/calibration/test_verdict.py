import numpy as np
import pytest

from geonode.calibration.verdict import Verdict

LEVELS = np.array([0.0, 10.0, 20.0, 30.0, 40.0])
SIGNS = np.array([1, -1, 1, -1, 1])


def estimates(**errors):
    """Methods that are off by the same everywhere."""
    return {name: LEVELS + SIGNS * error for name, error in errors.items()}


def test_methods_are_compared_by_signed_ranks():
    """All of five errors are larger than those of the best: two of 2^5 signs are as extreme."""
    given = estimates(geonode=1.0)
    given["pls"] = LEVELS + SIGNS * np.arange(2, 7)
    verdict = Verdict.of(LEVELS, given)
    of_geonode, of_pls = (verdict.beside_best(verdict.by_key(key)) for key in ("geonode", "pls"))
    assert of_geonode == "the best"
    assert of_pls.startswith("could be as good (p = ")
    assert float(of_pls[22:-1]) == pytest.approx(2 / 2**5, rel=0.02)


def test_no_better_than_the_mean_of_the_others_is_said():
    # Means of the others are off by 25, 12.5, 0, 12.5 and 25: their median is 12.5, and between the
    # ends their mean is 25 / 3.
    verdict = Verdict.of(LEVELS, estimates(straight_line=8.4, combined=8.4))
    assert verdict.guess == 12.5
    assert verdict.chosen is None
    said = verdict.sentence("ppb", {"straight_line": "451 nm"})
    assert said.startswith("None of the methods can be used")
    near = estimates(straight_line=8.4, combined=8.3)
    near["combined"][0] += 1000  # an end alone turns no verdict
    assert Verdict.of(LEVELS, near).chosen.key == "combined"
    one_can = Verdict.of(LEVELS, estimates(straight_line=8.3, combined=8.4))
    assert one_can.sentence("ppb", {}).startswith("The combination of all methods cannot be used")


def test_over_decades_a_method_must_tell_the_size_of_a_concentration():
    levels = np.array([0.0, 1e-6, 1e-4, 1e-2, 1.0])
    near, far = levels * 1.3, levels * np.array([1, 1.6, 1.6, 1.6, 1.001])
    verdict = Verdict.of(levels, {"pls": far, "geonode": near, "combined": near})
    assert (verdict.best.key, verdict.chosen.key) == ("geonode", "combined")
    none = Verdict.of(levels, {"pls": far, "combined": far})
    assert (none.best.key, none.chosen) == ("pls", None)
    assert "to within half of their size" in none.sentence("M", {})


def test_the_sentence_names_methods_wavelength_and_errors():
    """Errors of a line count 6 / 5, and 3 / 2: (3.5 / 3.6)^8 = 0.798 of (1 + 0.798)."""
    verdict = Verdict.of(LEVELS, estimates(straight_line=2.0, geonode=3.5, combined=2.2))
    assert verdict.sentence("ppb", {"straight_line": "451 nm"}) == (
        "Use combined: mostly geonode (56%) and straight line (44%): RMSEP 2.2 ppb (5.5 % of the "
        "range), median error 2.2 ppb. The best single method, by these same errors, is a straight "
        "line at 451 nm with RMSEP 2 ppb (5 % of the range)."
    )
