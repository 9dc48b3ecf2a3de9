"""The tables of the ablation: every row, and the questions that they answer."""

import csv
import io
import math
from dataclasses import asdict, fields
from typing import Any, NamedTuple

import numpy as np

from geonode.evaluation.ablation import AUGMENTED, BASELINE, PLAIN, Row
from geonode.evaluation.paired import PairedTest, paired_test

Choice = dict[str, Any]
"""Values of a row's columns."""

BEST_BASELINE: Choice = {"learning": BASELINE}


class Question(NamedTuple):
    """Two rows of every series that differ in one thing.

    Attributes:
        text: what is asked, "first | second".
        first, second: which rows are compared.
    """

    text: str
    first: Choice
    second: Choice


def questions(members: int, largest: int) -> list[Question]:
    """What is asked of the rows.

    Args:
        members: size of an ordinary ensemble.
        largest: size of the largest.
    """
    learned: Choice = {
        "learning": "end_to_end",
        "chart": "evidence",
        "augmentation": PLAIN,
        "members": members,
    }
    blend = learned | {"predictor": "blend"}
    return [
        *_of_geometry(learned),
        *_of_members(learned, members, largest),
        *(
            Question(f"blend | {rival}", blend, blend | {"predictor": rival})
            for rival in ("path", "scores", "blend without mean", "blend_scores", "blend of all")
        ),
        *(
            Question(f"blend | {rival}", blend, blend | {"predictor": rival, "members": 1})
            for rival in ("evidence_process", "process_linear")
        ),
        Question("blend: augmented | as measured", blend | {"augmentation": AUGMENTED}, blend),
        Question("blend: one leaking metric | one a fold", blend | {"learning": "shared"}, blend),
        Question("blend | best baseline, picked afterwards", blend, BEST_BASELINE),
    ]


def _of_geometry(learned: Choice) -> list[Question]:
    flat = learned | {"learning": "flat", "chart": "given"}
    chart = learned | {"learning": "evidence"}
    kinds: dict[str, Choice] = {
        "blend": {"predictor": "blend"},
        "path": {"predictor": "path"},
        "process_linear": {"predictor": "process_linear", "members": 1},
        "process_constant": {"predictor": "process_constant", "members": 1},
    }
    asked = []
    for kind, values in kinds.items():
        asked += [
            Question(f"{kind}: learned chart and metric | flat", learned | values, flat | values),
            Question(f"{kind}: learned chart | flat", chart | values, flat | values),
        ]
        for name in ("end_to_end", "evidence_network", "evidence_by_wavelength", "pullback"):
            text = f"{kind}: {name} | learned chart alone"
            asked.append(Question(text, learned | {"learning": name} | values, chart | values))
    return asked


def _of_members(learned: Choice, members: int, largest: int) -> list[Question]:
    asked = []
    for kind in ("blend", "path"):
        for more, fewer in ((largest, members), (members, 1)):
            first, second = (
                learned | {"predictor": kind, "members": size} for size in (more, fewer)
            )
            asked.append(Question(f"{kind}: {more} members | {fewer}", first, second))
    return asked


def rows_csv(rows: list[Row]) -> str:
    """All rows; numbers to six digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(field.name for field in fields(Row))
    for row in rows:
        writer.writerow(_short(value) for value in asdict(row).values())
    return text.getvalue()


def paired_csv(rows: list[Row], members: int, largest: int) -> str:
    """The answers to all questions, with the errors of several seeds averaged (RMSE, geometric)."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("question", *PairedTest._fields))
    for question in questions(members, largest):
        first, second = (
            best_baseline(rows) if choice == BEST_BASELINE else errors(rows, choice)
            for choice in (question.first, question.second)
        )
        both = sorted(first.keys() & second.keys())
        if len(both) > 1:
            numbers = ([found[name] for name in both] for found in (first, second))
            answer = paired_test(*(np.array(part) for part in numbers))
            writer.writerow((question.text, *(_short(value) for value in answer)))
    return text.getvalue()


def errors(rows: list[Row], choice: Choice) -> dict[str, float]:
    """RMSE by series, the geometric mean over seeds, of the rows that have these values."""
    found: dict[str, list[float]] = {}
    for row in rows:
        if all(getattr(row, column) == value for column, value in choice.items()):
            found.setdefault(row.series, []).append(math.log(row.rmse))
    return {series: math.exp(sum(logs) / len(logs)) for series, logs in found.items()}


def best_baseline(rows: list[Row]) -> dict[str, float]:
    """Smallest RMSE of any baseline, by series."""
    found: dict[str, float] = {}
    for row in rows:
        if row.learning == BASELINE:
            found[row.series] = min(row.rmse, found.get(row.series, math.inf))
    return found


def _short(value: object) -> object:
    return f"{value:.6g}" if isinstance(value, float) else value
