import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import ttest_rel, wilcoxon

from geonode.parameters_file import read_parameters
from geonode.posterior.charts import FAMILIES
from geonode.posterior.metric_posterior import MetricPosterior
from geonode.posterior.prior import PROBABILITIES, packaged_prior
from geonode.posterior.smoothers import dictionary
from geonode.prediction.model import SpectralModel
from geonode.spectra.chart import Chart
from research.ablation import (
    BEST,
    COLUMNS,
    FLAT,
    INITIAL,
    LEARNED,
    MEASURED,
    PATH,
    PATH_FLAT,
    by_posteriors,
    comparisons,
    paired_test,
    table_of,
)
from research.simulated_sets import Batch
from tests.learning.series import cpu, series

FILE = Path(__file__).parents[2] / "params.yaml"
SERIES = series(5, 9)
DECADES = np.geomspace(0.1, 1000.0, 5)
OF_DECADES = replace(
    SERIES, amounts=DECADES[:, None], charts=(Chart.of("log", None, DECADES),)
)  # whose chart a user would set to logarithmic


def numbers_of(prediction, measured):
    """RMSE, and coverage between the ends and at them."""
    squares = (prediction.spectra - measured.signal) ** 2
    if prediction.half_width is None:
        return np.sqrt(squares.mean()), None, None
    held = squares <= prediction.half_width[PROBABILITIES.index(0.9)] ** 2
    return np.sqrt(squares.mean()), held[1:-1].mean(), held[[0, -1]].mean()


def numbers(row):
    return row["rmse"], row.get("coverage90_interior"), row.get("coverage90_ends")


def left_out_by_weights(measured, weigh):
    """RMSE of averages over smoothers by weights of the evidence, level by level."""
    prior, errors = packaged_prior(), []
    for level, target in enumerate(measured.concentrations):
        others = np.arange(len(measured.concentrations)) != level
        spectra = measured.signal[others]
        fold = MetricPosterior.of(measured.concentrations[None, others], spectra[None], prior)
        evidence = fold.fitted.evidence(torch.tensor([[target]], dtype=torch.float64))
        with torch.no_grad():
            weights = weigh(evidence)[0].numpy()
        predicted = weights @ evidence.weights[0].T.numpy() @ spectra
        errors.append(predicted - measured.signal[level])
    return np.sqrt(np.mean(np.square(errors)))


@pytest.mark.parametrize(
    ("measured", "family"), [(SERIES, "linear"), (OF_DECADES, "log")], ids=["even", "decades"]
)
def test_posteriors_are_that_of_the_package_and_those_without_one_part(measured, family):
    rows = {name: one.row for name, one in by_posteriors(measured).items()}
    assert list(rows) == [LEARNED, INITIAL, FLAT]
    parameters = read_parameters(FILE, {"preset": "fast"})
    model = SpectralModel.fit(measured, parameters, cpu(torch.float64))
    expected = numbers_of(model.left_out(), measured)
    assert numbers(rows[LEARNED]) == pytest.approx(expected, rel=1e-9)

    initial = left_out_by_weights(measured, lambda evidence: evidence.initial.softmax(-1))
    assert rows[INITIAL]["rmse"] == pytest.approx(initial, rel=1e-6)
    on_chart = dictionary().chart == FAMILIES.index(family)

    def of_one_chart(evidence):
        initial = torch.where(on_chart, evidence.initial, -torch.inf)
        return packaged_prior().rule(evidence._replace(initial=initial))[0]

    flat = left_out_by_weights(measured, of_one_chart)
    assert rows[FLAT]["rmse"] == pytest.approx(flat, rel=1e-5)
    assert len({row["rmse"] for row in rows.values()}) == 3


def test_simulated_series_are_scored_as_measured_ones_are():
    _, one = Batch(packaged_prior(), 5, 2, 1.0, 1).simulated()
    learned = left_out_by_weights(one, lambda evidence: packaged_prior().rule(evidence)[0])
    assert by_posteriors(one)[LEARNED].row["rmse"] == pytest.approx(learned, rel=1e-5)


# paired comparisons

FLAT_ONES = {"a": {}, "b": {FLAT: [2.0]}, "c": {FLAT: [8.0]}}


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        (  # seeds are averaged geometrically before series are compared: 2 of 8, and 4 of 4
            {"a": {PATH: [1.0, 4.0], PATH_FLAT: [8.0]}, "b": {PATH: [2.0, 8.0], PATH_FLAT: [4.0]}},
            {(PATH, PATH_FLAT): 0.5},
        ),
        (  # the best baseline is picked for every series
            {
                "a": {LEARNED: [1.0], "linear": [2.0], "pchip": [4.0]},
                "b": {LEARNED: [1.0], "linear": [8.0], "pchip": [2.0]},
            },
            {(LEARNED, BEST): 0.5, (LEARNED, "linear"): 0.25, (LEARNED, "pchip"): 8**-0.5},
        ),
        (  # only series with both answers count
            {name: {LEARNED: [1.0]} | other for name, other in FLAT_ONES.items()},
            {(LEARNED, FLAT): 0.25},
        ),
    ],
)
def test_methods_are_compared_by_the_geometric_mean_of_ratios(errors, expected):
    rows = [
        dict(zip(COLUMNS[1:], (series, seed, method, error), strict=False))
        for series, methods in errors.items()
        for method, of_seeds in methods.items()
        for seed, error in enumerate(of_seeds)
    ]
    table = table_of(pd.DataFrame(rows), errors)
    found = comparisons(table).set_index(["first", "second"])
    assert found["ratio"].to_dict() == pytest.approx(expected)
    assert set(found["series"]) == {2}


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
    assert found["series"] == count
    assert (found["low"], found["high"]) == pytest.approx(
        (np.exp(interval.low), np.exp(interval.high))
    )
    assert found["p"] == pytest.approx(wilcoxon(*columns).pvalue)
    assert found["ratio"] == pytest.approx(np.prod(errors / others) ** (1 / count))
    assert found["better"] == sum(a < b for a, b in zip(errors, others, strict=True))
    assert found["worst"] == pytest.approx(max(a / b for a, b in zip(errors, others, strict=True)))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("count", [2, 7])
def test_equal_errors_say_nothing(count):
    errors = np.linspace(0.1, 3, count)
    found = paired_test(errors, errors.copy())
    assert (found["ratio"], found["low"], found["high"]) == (1, 1, 1)
    assert math.isnan(found["p"])
    assert (found["series"], found["better"], found["worst"]) == (count, 0, 1)


def test_measured_and_simulated_series_have_their_origin():
    rows = pd.DataFrame({"series": ["4 levels, 0", "dye"], "method": LEARNED, "rmse": [2.0, 1.0]})
    table = table_of(rows, {"dye": SERIES})
    assert [*zip(table["origin"], table["rmse"], strict=True)] == [
        (MEASURED, 1.0),
        ("simulated", 2.0),
    ]
