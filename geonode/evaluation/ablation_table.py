"""Tables of the ablation: all scores, and paired comparisons of predictors."""

import csv
import io
from dataclasses import asdict, fields

import numpy as np

from geonode.evaluation.ablation import (
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
from geonode.evaluation.baselines import BASELINES
from geonode.evaluation.paired import PairedTest, paired_test

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
