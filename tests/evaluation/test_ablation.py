from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from geonode.estimation.series_fit import fit_series
from geonode.evaluation.ablation import (
    BLEND,
    FLAT,
    INITIAL,
    LEARNED,
    PATH,
    PATH_FLAT,
    PATH_SHARED,
    InitialWeights,
    baselines,
    networks,
    posteriors,
    rows_of,
    simulated,
)
from geonode.evaluation.baselines import BASELINES
from geonode.evaluation.comparison import Comparison
from geonode.parameters_file import read_parameters
from geonode.posterior.charts import FAMILIES
from geonode.posterior.draws import Draws
from geonode.posterior.posterior import MetricPosterior
from geonode.posterior.prior import PROBABILITIES, packaged_prior
from geonode.posterior.simulated_series import simulate
from geonode.posterior.smoothers import dictionary
from geonode.spectra.chart import Chart
from tests.learning.series import cpu, series

FILE = Path(__file__).parents[2] / "params.yaml"
DEVICE, SEED = cpu(torch.float64), 7
MEASURED = series(5, 9)
DECADES = np.geomspace(0.1, 1000.0, 5)
OF_DECADES = replace(
    MEASURED, concentrations=DECADES, chart=Chart.of("log", None, DECADES)
)  # whose chart a user would set to logarithmic
TINY = {"epochs": 2, "wavelengths": 5, "members": 2}


def parameters():
    changes = {f"{block}.{key}": n for block in ("metric", "decoders") for key, n in TINY.items()}
    return read_parameters(FILE, changes | {"inner.members": 1}).seeded(SEED)


def numbers_of(prediction, measured):
    """RMSE, and coverage between the ends and at them."""
    squares = (prediction.spectra - measured.signal) ** 2
    if prediction.half_width is None:
        return np.sqrt(squares.mean()), None, None
    held = squares <= prediction.half_width[PROBABILITIES.index(0.9)] ** 2
    return np.sqrt(squares.mean()), held[1:-1].mean(), held[[0, -1]].mean()


def numbers(row):
    return row.rmse, row.interior90, row.ends90


def fitted(measured, learning, kind, inner_members):
    """Blend and features of one choice."""
    own = parameters()
    blocks = (
        own.inner.model_copy(update={"members": inner_members}),
        own.metric.model_copy(update={"learning": learning}),
        own.decoders.model_copy(update={"kind": kind}),
    )
    _, blend, features = fit_series(measured, blocks, DEVICE)
    return blend, features


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
        predicted = weights @ evidence.weights[0].numpy() @ spectra
        errors.append(predicted - measured.signal[level])
    return np.sqrt(np.mean(np.square(errors)))


@pytest.mark.parametrize(
    ("measured", "family"), [(MEASURED, "linear"), (OF_DECADES, "log")], ids=["even", "decades"]
)
def test_posteriors_are_that_of_the_package_and_those_without_one_part(measured, family):
    rows = {row.predictor: row for row in posteriors("one", measured)}
    assert list(rows) == [LEARNED, INITIAL, FLAT]
    assert {(row.series, row.seed) for row in rows.values()} == {("one", 0)}
    blend, _ = fitted(measured, "flat", "posterior", 0)
    expected = numbers_of(blend.left_out(measured, None), measured)
    assert numbers(rows[LEARNED]) == pytest.approx(expected, rel=1e-9)

    initial = left_out_by_weights(measured, lambda evidence: evidence.initial.softmax(-1))
    assert rows[INITIAL].rmse == pytest.approx(initial, rel=1e-6)
    on_chart = dictionary().chart == FAMILIES.index(family)

    def of_one_chart(evidence):
        initial = torch.where(on_chart, evidence.initial, -torch.inf)
        return packaged_prior().rule(evidence._replace(initial=initial))[0]

    assert rows[FLAT].rmse == pytest.approx(left_out_by_weights(measured, of_one_chart), rel=1e-5)
    assert len({row.rmse for row in rows.values()}) == 3
    assert all(0 <= row.interior90 <= 1 and 0 <= row.ends90 <= 1 for row in rows.values())


def test_simulated_series_are_scored_as_measured_ones_are():
    rows = rows_of(partial(simulated, 5, 2, 1), lambda done: None)
    assert [row.series for row in rows] == ["5 levels, 0"] * 3 + ["5 levels, 1"] * 3
    concentrations, spectra = simulate(Draws.of(1, torch.device("cpu")), 2, 5)
    axis, signal = np.arange(float(spectra.shape[2])), spectra[1].numpy()
    one = replace(MEASURED, axis=axis, concentrations=concentrations[1].numpy(), signal=signal)
    learned = left_out_by_weights(one, lambda evidence: packaged_prior().rule(evidence)[0])
    assert rows[3].predictor == LEARNED
    assert rows[3].rmse == pytest.approx(learned, rel=1e-5)
    assert numbers(rows[3])[1:] == (None, None)


def evidence():
    posterior = MetricPosterior.of(DECADES[None], MEASURED.signal[None], packaged_prior())
    return posterior.fitted.evidence(torch.tensor([[0.5, 30.0, 2000.0]], dtype=torch.float64))


def test_initial_weights_expect_their_own_leave_one_out_error():
    found = evidence()
    weights, expected = InitialWeights()(found)
    torch.testing.assert_close(weights.log(), found.initial.log_softmax(-1))
    torch.testing.assert_close(expected, found.total * found.expected)


@pytest.mark.slow
def test_networks_are_scored_with_their_seed_and_the_path_alone_is_that_of_the_blend():
    rows = {row.predictor: row for row in networks("one", MEASURED, parameters(), DEVICE)}
    assert list(rows) == [BLEND, PATH, PATH_FLAT, PATH_SHARED]
    assert {(row.series, row.seed) for row in rows.values()} == {("one", SEED)}
    for predictor, learning, kind, inner in (
        (BLEND, "end_to_end", "blend", 1),
        (PATH, "end_to_end", "path", 0),
        (PATH_SHARED, "shared", "path", 0),
    ):
        blend, features = fitted(MEASURED, learning, kind, inner)
        expected = numbers_of(blend.left_out(MEASURED, features), MEASURED)
        for found, value in zip(numbers(rows[predictor]), expected, strict=True):
            assert found == (value if value is None else pytest.approx(value, rel=1e-6)), predictor
        assert (rows[predictor].ends90 is None) == (kind == "path")
    assert len({row.rmse for row in rows.values()}) == 4


def test_baselines_are_scored_without_seed_and_intervals():
    rows = baselines("one", MEASURED)
    assert {row.predictor: row.rmse for row in rows} == Comparison.of(MEASURED).rmse
    assert {row.predictor for row in rows} == set(BASELINES)
    assert {(row.series, row.seed, *numbers(row)[1:]) for row in rows} == {("one", 0, None, None)}
