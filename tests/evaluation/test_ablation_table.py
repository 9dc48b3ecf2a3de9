import csv
import io
import math

import numpy as np
import pytest
from scipy.stats import ttest_rel, wilcoxon

from geonode.evaluation.ablation import (
    BLEND,
    FLAT,
    LEARNED,
    MEASURED,
    PATH,
    PATH_FLAT,
    SIMULATED,
    AblationRow,
)
from geonode.evaluation.ablation_table import BEST, paired_csv, paired_test, rows_csv


def row(series, predictor, rmse, seed=0, origin=MEASURED):
    return AblationRow(origin, series, seed, predictor, rmse, None, None)


def pairs(rows):
    found = csv.DictReader(io.StringIO(paired_csv(rows)))
    return {(line["first"], line["second"]): line for line in found}


def test_rows_are_written_as_they_are_and_no_interval_is_an_empty_cell():
    rows = [
        AblationRow(SIMULATED, "a, b", 2, BLEND, 0.1 + 0.2, 0.75, 1.0),
        row("c", LEARNED, 1 / 3),
    ]
    assert rows_csv(rows).splitlines() == [
        "origin,series,seed,predictor,rmse,interior90,ends90",
        'simulated,"a, b",2,blend,0.30000000000000004,0.75,1.0',
        "measured,c,0,posterior,0.3333333333333333,,",
    ]


def test_errors_of_seeds_are_averaged_geometrically_before_series_are_compared():
    rows = [
        *(row("a", PATH, 1.0, 0), row("a", PATH, 4.0, 1), row("a", PATH_FLAT, 8.0)),  # 2 of 8
        *(row("b", PATH, 2.0, 0), row("b", PATH, 8.0, 1), row("b", PATH_FLAT, 4.0)),  # 4 of 4
    ]
    found = pairs(rows)
    assert list(found) == [(PATH, PATH_FLAT)]
    line = found[PATH, PATH_FLAT]
    assert (line["series"], line["better"]) == ("2", "1")
    assert float(line["ratio"]) == pytest.approx(0.5)  # of 1 / 4 and 1
    assert float(line["worst"]) == pytest.approx(1.0)


def test_the_best_baseline_is_picked_for_every_series():
    rows = [
        *(row("a", LEARNED, 1.0), row("a", "linear", 2.0), row("a", "pchip", 4.0)),
        *(row("b", LEARNED, 1.0), row("b", "linear", 8.0), row("b", "pchip", 2.0)),
    ]
    found = pairs(rows)
    assert set(found) == {(LEARNED, BEST), (LEARNED, "linear"), (LEARNED, "pchip")}
    ratios = {second: float(line["ratio"]) for (_, second), line in found.items()}
    assert ratios == pytest.approx({BEST: 1 / 2, "linear": 1 / 4, "pchip": 8**-0.5})


def test_a_question_is_answered_by_the_series_that_have_both_answers():
    rows = [row(name, LEARNED, 1.0) for name in "abc"]
    rows += [row("b", FLAT, 2.0), row("c", FLAT, 8.0)]
    line = pairs(rows)[LEARNED, FLAT]
    assert line["series"] == "2"
    assert float(line["ratio"]) == pytest.approx(1 / 4)


def test_simulated_series_are_compared_apart_from_measured_ones():
    rows = [row(name, LEARNED, 1.0) for name in "ab"] + [row(name, FLAT, 2.0) for name in "ab"]
    rows += [row(name, LEARNED, 1.0, origin=SIMULATED) for name in "abc"]
    rows += [row(name, FLAT, 4.0, origin=SIMULATED) for name in "abc"]
    lines = list(csv.DictReader(io.StringIO(paired_csv(rows))))
    found = [(line["origin"], line["series"], float(line["ratio"])) for line in lines]
    assert found == [(MEASURED, "2", pytest.approx(1 / 2)), (SIMULATED, "3", pytest.approx(1 / 4))]


def test_of_one_series_nothing_is_concluded():
    assert pairs([row("a", LEARNED, 1.0), row("a", FLAT, 2.0)]) == {}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("count", "shift"), [(2, 0.4), (3, -0.3), (12, 0.0), (40, 0.5)])
def test_of_the_logarithms_it_is_what_scipy_says(count, shift):
    generator = np.random.default_rng(count)
    errors, others = np.exp(generator.normal(0, 0.7, (2, count)))
    errors *= math.exp(shift)
    found = paired_test(errors, others)
    # Of two columns of logarithms, which scipy takes from each other itself.
    columns = np.log(errors), np.log(others)
    interval = ttest_rel(*columns).confidence_interval(0.95)
    assert found.series == count
    assert (found.low, found.high) == pytest.approx((np.exp(interval.low), np.exp(interval.high)))
    assert found.p == pytest.approx(wilcoxon(*columns).pvalue)
    # Student's statistic is the effect times the root of the number.
    assert found.effect == pytest.approx(ttest_rel(*columns).statistic / count**0.5)
    assert found.ratio == pytest.approx(np.prod(errors / others) ** (1 / count))
    assert found.better == sum(a < b for a, b in zip(errors, others, strict=True))
    assert found.worst == pytest.approx(max(a / b for a, b in zip(errors, others, strict=True)))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("count", [2, 7])
def test_equal_errors_say_nothing(count):
    errors = np.linspace(0.1, 3, count)
    found = paired_test(errors, errors.copy())
    assert (found.ratio, found.low, found.high) == (1, 1, 1)
    assert math.isnan(found.p)
    assert math.isnan(found.effect)
    assert (found.series, found.better, found.worst) == (count, 0, 1)
