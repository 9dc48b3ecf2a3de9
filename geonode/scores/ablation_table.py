"""Tables of the ablation: all scores, and paired comparisons of predictors."""

import csv
import io
import math
from dataclasses import asdict, fields
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.stats import t, wilcoxon

from geonode.scores.ablation import (
    BLEND,
    FLAT,
    INITIAL,
    LEARNED,
    MEASURED,
    PATH,
    PATH_FLAT,
    PATH_SHARED,
    SIMULATED,
    AblationRow,
)
from geonode.scores.baselines import BASELINES

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
    text = io.StringIO()
    writer = csv.DictWriter(
        text, [field.name for field in fields(AblationRow)], lineterminator="\n"
    )
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    return text.getvalue()


def paired_csv(rows: list[AblationRow]) -> str:
    """CSV table with one line per pair of `QUESTIONS` scored on several series.

    Errors are geometric means over seeds.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["origin", "first", "second", *PairedTest._fields])
    for origin in (MEASURED, SIMULATED):
        errors = _errors([row for row in rows if row.origin == origin])
        for first, second in QUESTIONS:
            if first in errors and second in errors:
                shared = sorted(errors[first].keys() & errors[second].keys())
                pair = [[errors[which][name] for name in shared] for which in (first, second)]
                if len(shared) > 1:
                    test = paired_test(*(np.array(part) for part in pair))
                    writer.writerow([origin, first, second, *test])
    return text.getvalue()


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


def _errors(rows: list[AblationRow]) -> dict[str, dict[str, float]]:
    """RMSE by predictor and series, including the best baseline of each series."""
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        found.setdefault(row.predictor, {}).setdefault(row.series, []).append(row.rmse)
    errors = {
        predictor: {name: float(np.exp(np.mean(np.log(values)))) for name, values in by.items()}
        for predictor, by in found.items()
    }
    known = [errors[name] for name in BASELINES if name in errors]
    if known:
        errors[BEST] = {name: min(by[name] for by in known) for name in known[0]}
    return errors
