"""Ablation: scores with one part of the learning exchanged at a time, on all series at hand."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from geonode.compute.device import Device
from geonode.config import Parameters
from geonode.estimation.series_fit import fit_series
from geonode.evaluation.comparison import Comparison
from geonode.evaluation.series_scores import coverage
from geonode.learning.blend import Blend, Prediction
from geonode.learning.folds import leave_one_out
from geonode.learning.posterior_decoder import PosteriorDecoders
from geonode.posterior.charts import FAMILIES, LOG
from geonode.posterior.draws import Draws
from geonode.posterior.evidence import Evidence
from geonode.posterior.prior import packaged_prior
from geonode.posterior.rule import WeightRule
from geonode.posterior.rule_learning import left_out
from geonode.posterior.simulated_series import simulate
from geonode.posterior.smoothers import dictionary
from geonode.progress import Progress
from geonode.spectra.inspection import proposes_log
from geonode.spectra.series import Series

MEASURED, SIMULATED = "measured", "simulated"
LEARNED, INITIAL, FLAT = "posterior", "posterior, weights not learned", "posterior, flat metric"
BLEND, PATH = "blend", "path, end to end"
PATH_FLAT, PATH_SHARED = "path, flat metric", "path, one leaking metric"


class InitialWeights(WeightRule):
    """Rule of weights without learning: a softmax of the leave-one-out errors of the smoothers."""

    def __init__(self) -> None:
        super().__init__(networks=0, width=1)

    def forward(
        self, evidence: Evidence
    ) -> tuple[Float[Tensor, "row smoother"], Float[Tensor, "row"]]:
        """Weights and expected error by the leave-one-out error alone."""
        return torch.softmax(evidence.initial, dim=-1), evidence.total * evidence.expected


class OneChart(WeightRule):
    """Rule of weights restricted to the smoothers of one chart.

    Args:
        rule: rule of weights.
        chart: index of the chart.
    """

    def __init__(self, rule: WeightRule, chart: int) -> None:
        super().__init__(networks=0, width=1)
        self.rule = rule
        self.others = dictionary().chart != chart

    def forward(
        self, evidence: Evidence
    ) -> tuple[Float[Tensor, "row smoother"], Float[Tensor, "row"]]:
        """Weights and expected error by the rule, among the smoothers of the chart."""
        initial = evidence.initial.masked_fill(self.others, -torch.inf)
        return self.rule(evidence._replace(initial=initial))


@dataclass(frozen=True)
class AblationRow:
    """Scores of one predictor on one series.

    Attributes:
        origin: `MEASURED` or `SIMULATED`.
        series, predictor: names.
        seed: seed of the networks; 0 without networks.
        rmse: root mean squared error of the left-out spectra.
        interior90, ends90: coverage of the 90% intervals; None without intervals.
    """

    origin: str
    series: str
    seed: int
    predictor: str
    rmse: float
    interior90: float | None
    ends90: float | None


def rows_of(job: Callable[[], list[AblationRow]], report: Progress) -> list[AblationRow]:
    """Rows of `simulated`, `posteriors`, `baselines` or `networks`; `report` is called once."""
    rows = job()
    report(1)
    return rows


def posteriors(name: str, series: Series) -> list[AblationRow]:
    """Score three posteriors: the default, without learned weights, and with a flat metric.

    The flat metric is that of the chart a user would set: logarithmic where `geonode inspect`
    proposes it, linear elsewhere.

    Args:
        name: name of the series.
        series: measured series.
    """
    prior = packaged_prior()
    rows = []
    for predictor, rule in _rules(series.concentrations).items():
        decoders = PosteriorDecoders(replace(prior, rule=rule))
        rows.append(
            _row(name, 0, predictor, series, _alone(decoders, series).left_out(series, None))
        )
    return rows


def simulated(levels: int, count: int, seed: int) -> list[AblationRow]:
    """Score the three posteriors of `posteriors` on simulated series, unseen in learning.

    Args:
        levels: number of levels of every series.
        count: number of series.
        seed: seed of the series.
    """
    found = simulate(Draws.of(seed, torch.device("cpu")), count, levels)
    rows = []
    for place, (concentrations, spectra) in enumerate(zip(*found, strict=True)):
        batch = left_out(concentrations[None], spectra[None])
        for predictor, rule in _rules(concentrations.numpy()).items():
            with torch.no_grad():
                weights, _ = rule(batch.evidence)
            squares = batch.squared_errors(weights).mean() / spectra.shape[1]
            name = f"{levels} levels, {place}"
            rmse = float(squares) ** 0.5
            rows.append(AblationRow(SIMULATED, name, 0, predictor, rmse, None, None))
    return rows


def _rules(levels: np.ndarray) -> dict[str, WeightRule]:
    """Rules of weights by predictor."""
    rule = packaged_prior().rule
    chart = LOG if proposes_log(levels) else FAMILIES.index("linear")
    return {LEARNED: rule, INITIAL: InitialWeights(), FLAT: OneChart(rule, chart)}


def networks(
    name: str, series: Series, parameters: Parameters, device: Device
) -> list[AblationRow]:
    """Score the blend, and the published method with metrics learned, flat and leaking.

    Args:
        name: name of the series.
        series: series on its given chart.
        parameters: the blocks `inner`, `metric` and `decoders`, with the seed.
        device: device to train on.
    """
    seed, rows = parameters.metric.seed, []
    runs: dict[str, tuple[str, str]] = {
        BLEND: ("end_to_end", "blend"),
        PATH_FLAT: ("flat", "path"),
        PATH_SHARED: ("shared", "path"),
    }
    for predictor, (learning, kind) in runs.items():
        metric = parameters.metric.model_copy(update={"learning": learning})
        decoders = parameters.decoders.model_copy(update={"kind": kind})
        inner = parameters.inner
        if kind == "path":
            inner = inner.model_copy(update={"members": 0})
        _, blend, features = fit_series(series, (inner, metric, decoders), device)
        rows.append(_row(name, seed, predictor, series, blend.left_out(series, features)))
        if predictor == BLEND:
            path = blend.only("path").left_out(series, features)
            rows.append(_row(name, seed, PATH, series, path))
    return rows


def baselines(name: str, series: Series) -> list[AblationRow]:
    """Score every baseline.

    Args:
        name: name of the series.
        series: series on its given chart.
    """
    found = Comparison.of(series)
    return [
        AblationRow(MEASURED, name, 0, baseline, rmse, None, None)
        for baseline, rmse in found.rmse.items()
    ]


def _alone(decoders: PosteriorDecoders, series: Series) -> Blend:
    folds = len(leave_one_out(len(series.concentrations)))
    weights, wavelengths = np.ones((folds, 1)), len(series.axis)
    chosen = np.arange(wavelengths)
    return Blend({"posterior": decoders}, weights, None, chosen, wavelengths)


def _row(name: str, seed: int, predictor: str, series: Series, found: Prediction) -> AblationRow:
    rmse = float(np.sqrt(np.mean((found.spectra - series.signal) ** 2)))
    if found.half_width is None:
        return AblationRow(MEASURED, name, seed, predictor, rmse, None, None)
    held = coverage(series.signal, found.spectra, found.half_width)["90"]
    return AblationRow(MEASURED, name, seed, predictor, rmse, held["interior"], held["ends"])
