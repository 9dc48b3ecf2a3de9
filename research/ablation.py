"""Ablation: scores with one part of the learning exchanged at a time, and paired comparisons.

`python -m research.ablation` takes the parameters of the pipeline from params.yaml, its device from
data/device.json, and writes metrics/ablation.csv and metrics/ablation_tests.csv.
"""

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import torch
import typer
from jaxtyping import Float
from scipy.stats import t, wilcoxon
from torch import Tensor

from geonode.compute.device import Device
from geonode.compute.processes import processes_for
from geonode.config import Parameters
from geonode.evaluation.baselines import BASELINES
from geonode.evaluation.evaluate import (
    GEONODE,
    PUBLISHED,
    Evaluation,
    Job,
    by_baselines,
    by_model,
    score_rows,
)
from geonode.learning.blend import Blend
from geonode.learning.folds import leave_one_out
from geonode.learning.posterior_decoder import PosteriorDecoders
from geonode.parameters_file import read_parameters
from geonode.posterior.charts import FAMILIES, LOG
from geonode.posterior.evidence import Evidence
from geonode.posterior.prior import packaged_prior
from geonode.posterior.rule import WeightRule
from geonode.posterior.smoothers import dictionary
from geonode.prediction.model import SpectralModel
from geonode.progress import Progress, silent
from geonode.spectra.chart import proposes_log
from geonode.spectra.series import Series
from geonode.storage.document import write_text
from geonode.terminal import OneLineCommand, tell
from research.simulated_sets import Batch
from research.trust import measured, rows_of
from stages.paths import DEVICE, METRICS, PARAMETERS

MEASURED, SIMULATED = "measured", "simulated"
SIMULATED_LEVELS = (4, 5, 6, 8, 12)
SEED = 2000  # of the simulated series, different from those behind the prior

LEARNED, INITIAL, FLAT = "posterior", "posterior, weights not learned", "posterior, flat metric"
BLEND, PATH = "blend", "path, end to end"
PATH_FLAT, PATH_SHARED = "path, flat metric", "path, one leaking metric"
BEST = "best baseline, with hindsight"

COLUMNS = ["origin", "series", "seed", "method", "rmse", "coverage90_interior", "coverage90_ends"]
"""Columns of the table of scores."""

QUESTIONS = (
    (LEARNED, BEST),
    (BLEND, BEST),
    (BLEND, LEARNED),
    (LEARNED, FLAT),
    (LEARNED, INITIAL),
    (PATH, PATH_FLAT),
    (PATH_SHARED, PATH),
    *((LEARNED, baseline) for baseline in BASELINES),
)
"""Pairs of methods that are compared on all series."""


class OtherRule(WeightRule):
    """Rule of weights and expected error by a function of the evidence, without networks."""

    def __init__(self, rule: Callable[[Evidence], tuple[Tensor, Tensor]]) -> None:
        super().__init__(networks=0, width=1)
        self.rule = rule

    def forward(
        self, evidence: Evidence
    ) -> tuple[Float[Tensor, "row smoother"], Float[Tensor, "row"]]:
        """Weights of the smoothers and expected squared error by the function."""
        return self.rule(evidence)


# methods


def rules(levels: Float[np.ndarray, "level"]) -> dict[str, WeightRule]:
    """Rules of the default posterior, without learned weights, and with a flat metric.

    The flat metric is that of the chart a user would set: logarithmic where `geonode inspect`
    proposes it, linear elsewhere.
    """
    rule = packaged_prior().rule
    others = dictionary().chart != (LOG if proposes_log(levels) else FAMILIES.index("linear"))

    def of_errors(found: Evidence) -> tuple[Tensor, Tensor]:
        return torch.softmax(found.initial, dim=-1), found.total * found.expected

    def on_one_chart(found: Evidence) -> tuple[Tensor, Tensor]:
        return rule(found._replace(initial=found.initial.masked_fill(others, -torch.inf)))

    return {LEARNED: rule, INITIAL: OtherRule(of_errors), FLAT: OtherRule(on_one_chart)}


def by_posteriors(series: Series, report: Progress = silent) -> dict[str, Evaluation]:
    """The posterior by each of the `rules`."""
    prior, wavelengths = packaged_prior(), len(series.axis)
    weights = np.ones((len(leave_one_out(len(series.concentrations))), 1))
    found = {}
    for name, rule in rules(series.concentrations).items():
        decoders = PosteriorDecoders(replace(prior, rule=rule))
        blend = Blend({"posterior": decoders}, weights, np.arange(wavelengths))
        found[name] = Evaluation.of(series, blend.left_out(series, None))
    report(1)
    return found


@dataclass(frozen=True)
class Networks:
    """The blend, and the published method with metrics learned, flat and leaking."""

    parameters: Parameters  # the blocks `inner`, `metric` and `decoders`
    seed: int  # seed of metrics and decoders, in place of theirs
    device: Device  # device to train on

    def __call__(self, series: Series, report: Progress = silent) -> dict[str, Evaluation]:
        """Predictions of all of them.

        Raises:
            TrainingError: as `SpectralModel.fit`.
        """
        found = self._trained(series, "end_to_end", "blend")
        of_flat, of_shared = (self._trained(series, one, "path") for one in ("flat", "shared"))
        report(1)
        return {
            BLEND: found[GEONODE],
            PATH: found[PUBLISHED],
            PATH_FLAT: of_flat[PUBLISHED],
            PATH_SHARED: of_shared[PUBLISHED],
        }

    def _trained(self, series: Series, learning: str, kind: str) -> dict[str, Evaluation]:
        inner = self.parameters.inner
        if kind == "path":
            inner = inner.model_copy(update={"members": 0})
        seeded = {"seed": self.seed}
        metric = self.parameters.metric.model_copy(update=seeded | {"learning": learning})
        decoders = self.parameters.decoders.model_copy(update=seeded | {"kind": kind})
        blocks = {"inner": inner, "metric": metric, "decoders": decoders}
        parameters = self.parameters.model_copy(update=blocks)
        return by_model(SpectralModel.fit(series, parameters, self.device))


# tables


def table_of(rows: pd.DataFrame, of_files: Collection[str]) -> pd.DataFrame:
    """Table of scores with one line per method and series, from rows of `score_rows`.

    The `origin` of a series is `MEASURED` if it is one of those of files, else `SIMULATED`.
    """
    table = rows.reindex(columns=COLUMNS)
    table["origin"] = np.where(table["series"].isin(of_files), MEASURED, SIMULATED)
    return table.sort_values(COLUMNS[:4], ignore_index=True)


def comparisons(table: pd.DataFrame) -> pd.DataFrame:
    """Paired comparisons: one line per pair of `QUESTIONS` scored on several series.

    Errors are geometric means over seeds.
    """
    lines = []
    for origin, part in table.groupby("origin"):
        logarithms = np.log(part.rmse).groupby([part.series, part.method]).mean()
        errors = np.exp(logarithms).unstack()
        if known := [name for name in BASELINES if name in errors]:
            errors[BEST] = errors[known].min(axis=1)
        for first, second in QUESTIONS:
            if first in errors and second in errors:
                pair = errors[[first, second]].dropna()
                if len(pair) > 1:
                    head = {"origin": origin, "first": first, "second": second}
                    lines.append(head | paired_test(*pair.to_numpy().T))
    return pd.DataFrame(lines)


def paired_test(
    errors: Float[np.ndarray, "series"], others: Float[np.ndarray, "series"]
) -> dict[str, float]:
    """Compare two methods, series by series.

    Errors are above zero, of the same two series or more.

    Returns:
        Number of `series`; `ratio`, the geometric mean of the ratios of their errors, below 1 if
        the first is better; `low` and `high`, its 95% confidence interval by Student's distribution
        of the logarithms; `p` of Wilcoxon's two-sided signed-rank test of the logarithms, NaN if
        all are zero; `better`, the number of series on which the first has the smaller error;
        `worst`, the largest ratio.

    Source: F. Wilcoxon, Individual comparisons by ranking methods, Biometrics Bulletin 1 (1945) 80.
    """
    logarithms = np.log(errors / others)
    count, mean = len(logarithms), float(logarithms.mean())
    half = float(t.ppf(0.975, count - 1) * logarithms.std(ddof=1)) / math.sqrt(count)
    return {
        "series": count,
        "ratio": math.exp(mean),
        "low": math.exp(mean - half),
        "high": math.exp(mean + half),
        "p": float(wilcoxon(logarithms).pvalue) if logarithms.any() else math.nan,
        "better": int((logarithms < 0).sum()),
        "worst": float(np.exp(logarithms.max())),
    }


# the command

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command(cls=OneLineCommand)
def main(
    folder: Annotated[
        Path, typer.Option(help="Folder of files of spectra, one per series.")
    ] = Path("data/series"),
    seeds: Annotated[
        int, typer.Option(min=1, help="Seeds of metrics and decoders: 0, 1, ...; one run each.")
    ] = 3,
    count: Annotated[
        int,
        typer.Option("--simulated", min=1, help="Simulated series of each of five level counts."),
    ] = 200,
) -> None:
    """Score posterior, blend and published method, whole and in parts, on every series."""
    parameters = read_parameters(PARAMETERS)
    device = Device.read(DEVICE, parameters.memory_mb)
    found, jobs = measured(folder), []
    for levels in SIMULATED_LEVELS:
        simulated = Batch(packaged_prior(), levels, count, 1.0, SEED).simulated()
        names = (f"{levels} levels, {place}" for place in range(count))
        jobs += [Job(*one, by_posteriors) for one in zip(names, simulated, strict=True)]
    jobs += [Job(*one, method) for method in (by_posteriors, by_baselines) for one in found.items()]
    shared = device.shared(processes_for(len(jobs) + len(found) * seeds, device.kind))
    jobs += [
        Job(*one, Networks(parameters, seed, shared), seed)
        for seed in range(seeds)
        for one in found.items()
    ]
    rows = rows_of("ablation", score_rows, jobs, device.kind)
    table = table_of(rows, found)
    for name, one in (("ablation", table), ("ablation_tests", comparisons(table))):
        text = one.to_csv(index=False, lineterminator="\n", na_rep="nan" if "p" in one else "")
        write_text(METRICS / f"{name}.csv", text)
    tell(f"{len(rows)} rows of {len(found)} series -> {METRICS / 'ablation.csv'}")


if __name__ == "__main__":
    app()
