"""Tables of the ablation: all scores, and paired comparisons of predictors."""

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Float
from scipy.stats import t, wilcoxon

from geonode.evaluation.ablation import (
    BLEND,
    FLAT,
    INITIAL,
    LEARNED,
    PATH,
    PATH_FLAT,
    PATH_SHARED,
    AblationRow,
)
from geonode.evaluation.baselines import BASELINES

BEST = "best baseline, picked afterwards"

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
"""Pairs of predictors that are compared on all series."""


ROUNDING = 1e-12
"""Largest standard deviation of logarithms that are equal up to rounding."""


class PairedTest(NamedTuple):
    """Errors of one method relative to those of another, series by series.

    Attributes:
        series: number of series.
        ratio: geometric mean of the ratios of their errors; below 1 the first method is better.
        low, high: 95% confidence interval of the ratio, from Student's distribution of the
            logarithms.
        p: p-value of Wilcoxon's two-sided signed-rank test of the logarithms; NaN if all are zero.
        effect: mean over standard deviation of the logarithms (Cohen's d of paired samples); NaN if
            they are all equal.
        better: number of series on which the first method has the smaller error.
        worst: the largest ratio.
    """

    series: int
    ratio: float
    low: float
    high: float
    p: float
    effect: float
    better: int
    worst: float


def rows_csv(rows: list[AblationRow]) -> str:
    """CSV table with one line per predictor and series."""
    return str(pd.DataFrame(rows).to_csv(index=False, lineterminator="\n"))


def paired_csv(rows: list[AblationRow]) -> str:
    """CSV table with one line per pair of `QUESTIONS` scored on several series.

    Errors are geometric means over seeds.
    """
    lines = []
    for origin, part in pd.DataFrame(rows).groupby("origin"):
        logarithms = np.log(part.rmse).groupby([part.series, part.predictor]).mean()
        errors = np.exp(logarithms).unstack()
        if known := [name for name in BASELINES if name in errors]:
            errors[BEST] = errors[known].min(axis=1)
        for first, second in QUESTIONS:
            if first in errors and second in errors:
                pair = errors[[first, second]].dropna()
                if len(pair) > 1:
                    test = paired_test(*pair.to_numpy().T)
                    lines.append((origin, first, second, *test))
    table = pd.DataFrame(lines, columns=["origin", "first", "second", *PairedTest._fields])
    return str(table.to_csv(index=False, lineterminator="\n", na_rep="nan"))


def paired_test(
    errors: Float[np.ndarray, "series"], others: Float[np.ndarray, "series"]
) -> PairedTest:
    """Compare two methods.

    Source: F. Wilcoxon, Individual comparisons by ranking methods, Biometrics Bulletin 1 (1945) 80.

    Args:
        errors: errors of the first method, above zero, on two series or more.
        others: errors of the second method on the same series.
    """
    logarithms = np.log(errors / others)
    count, mean = len(logarithms), float(logarithms.mean())
    deviation = float(logarithms.std(ddof=1))
    half = float(t.ppf(0.975, count - 1)) * deviation / math.sqrt(count)
    return PairedTest(
        series=count,
        ratio=math.exp(mean),
        low=math.exp(mean - half),
        high=math.exp(mean + half),
        p=float(wilcoxon(logarithms).pvalue) if logarithms.any() else math.nan,
        effect=mean / deviation if deviation > ROUNDING else math.nan,
        better=int((logarithms < 0).sum()),
        worst=float(np.exp(logarithms.max())),
    )
