import csv
import io
import math
from dataclasses import fields

import numpy as np
import pytest
from scipy.stats import ttest_rel, wilcoxon

from geonode.evaluation.ablation import GEOMETRIES, PREDICTORS, Row
from geonode.evaluation.ablation_table import (
    BEST_BASELINE,
    best_baseline,
    errors,
    paired_csv,
    questions,
    rows_csv,
)
from geonode.evaluation.paired import PairedTest

MEMBERS, LARGEST = 4, 16
TRAINED = {"path", "scores", "blend", "blend_scores", "blend without mean", "blend of all"}
LEARNED = {"learning": "end_to_end", "chart": "evidence", "augmentation": "none"}
BLEND = LEARNED | {"predictor": "blend", "members": MEMBERS}


def row(series="one", rmse=1.0, **changes):
    values = {
        "series": series,
        "seed": 0,
        "learning": "end_to_end",
        "chart": "evidence",
        "augmentation": "none",
        "predictor": "blend",
        "members": MEMBERS,
        "pooled_r2": 0.9,
        "interior_pooled_r2": 0.95,
        "mean_r2": 0.8,
        "worst_r2": -0.1,
        "rmse": rmse,
        "interior90": 0.875,
        "ends90": 0.5,
        "seconds": 12.3456789,
    }
    return Row(**(values | changes))


def baseline(series, rmse, predictor="linear"):
    nothing = {"interior90": None, "ends90": None}
    of = {"learning": "baseline", "chart": "given", "members": 1, "predictor": predictor}
    return row(series, rmse, **of, **nothing)


def read(text):
    return list(csv.DictReader(io.StringIO(text)))


def answers(rows, members=MEMBERS, largest=LARGEST):
    return {answer["question"]: answer for answer in read(paired_csv(rows, members, largest))}


# errors


def test_errors_are_geometric_means_over_seeds():
    rows = [
        *(row("one", rmse, seed=seed) for seed, rmse in enumerate((1.0, 2.0, 4.0))),
        *(row("two", rmse, seed=seed) for seed, rmse in enumerate((0.1, 0.9))),
        row("three", 5.0, seed=8),
    ]
    found = errors(rows, BLEND)
    assert found == pytest.approx({"one": 2.0, "two": 0.3, "three": 5.0})
    assert errors(rows, BLEND | {"seed": 1}) == pytest.approx({"one": 2.0, "two": 0.9})


@pytest.mark.parametrize(
    ("column", "other"),
    [
        ("learning", "flat"),
        ("chart", "given"),
        ("augmentation", "all kinds"),
        ("predictor", "path"),
        ("members", 1),
    ],
)
def test_errors_are_those_of_the_rows_that_have_all_values(column, other):
    rows = [row("one", 3.0), row("one", 7.0, **{column: other}), row("two", 9.0, **{column: other})]
    assert errors(rows, BLEND) == pytest.approx({"one": 3.0})
    assert errors(rows, BLEND | {column: other}) == pytest.approx({"one": 7.0, "two": 9.0})
    assert errors(rows, BLEND | {column: "neither"}) == {}


def test_the_best_baseline_is_that_of_every_series():
    rows = [
        baseline("one", 3.0, "linear"),
        baseline("one", 2.0, "mean"),
        baseline("two", 0.5, "linear"),
        baseline("two", 0.7, "mean"),
        row("one", 0.1),
        row("three", 0.1),
    ]
    assert best_baseline(rows) == {"one": 2.0, "two": 0.5}
    assert best_baseline([row()]) == {}


# rows


def test_every_row_is_written_to_six_digits():
    rows = [row("a, b", 1 / 3, seed=2, worst_r2=-1234567.8), baseline("one", 2e-7)]
    first, second = read(rows_csv(rows))
    assert list(first) == [field.name for field in fields(Row)]
    assert first == {
        "series": "a, b",
        "seed": "2",
        "learning": "end_to_end",
        "chart": "evidence",
        "augmentation": "none",
        "predictor": "blend",
        "members": "4",
        "pooled_r2": "0.9",
        "interior_pooled_r2": "0.95",
        "mean_r2": "0.8",
        "worst_r2": "-1.23457e+06",
        "rmse": "0.333333",
        "interior90": "0.875",
        "ends90": "0.5",
        "seconds": "12.3457",
    }
    assert (second["learning"], second["rmse"]) == ("baseline", "2e-07")


def test_what_is_unknown_is_empty():
    unknown = dict.fromkeys(("pooled_r2", "interior_pooled_r2", "mean_r2", "worst_r2"))
    text = rows_csv([row(**unknown, interior90=None, ends90=None)])
    assert text.splitlines()[1] == "one,0,end_to_end,evidence,none,blend,4,,,,,1,,,12.3457"
    assert text.endswith("12.3457\n")
    assert "\r" not in text


# questions


@pytest.mark.parametrize(("members", "largest"), [(4, 16), (1, 2)])
def test_every_question_names_rows_that_an_ablation_makes(members, largest):
    made = {
        (found.learning, found.chart, found.augmentation, predictor, size)
        for found in GEOMETRIES
        for predictor in PREDICTORS
        for size in ({1, members, largest} if predictor in TRAINED else {1})
    }
    columns = ("learning", "chart", "augmentation", "predictor", "members")
    asked = questions(members, largest)
    for question in asked:
        assert question.text.count(" | ") == 1
        for choice in (question.first, question.second):
            if choice == BEST_BASELINE:
                continue
            assert choice.keys() == set(columns)
            assert tuple(choice[column] for column in columns) in made, question.text
    assert len({question.text for question in asked}) == len(asked)


def test_no_question_is_of_rows_with_themselves():
    for question in questions(MEMBERS, LARGEST):
        assert question.first != question.second, question.text


def test_every_geometry_and_predictor_is_asked_for():
    choices = [choice for asked in questions(MEMBERS, LARGEST) for choice in asked[1:]]
    named = {
        key: {choice[key] for choice in choices if key in choice}
        for key in ("learning", "predictor", "members", "augmentation")
    }
    assert named["learning"] == {*(found.learning for found in GEOMETRIES), "baseline"}
    assert set(PREDICTORS) - named["predictor"] == {"mean"}
    assert named["members"] == {1, MEMBERS, LARGEST}
    assert named["augmentation"] == {"none", "all kinds"}


def test_questions_are_of_the_thing_that_they_name():
    asked = {question.text: question[1:] for question in questions(MEMBERS, LARGEST)}
    flat = {"learning": "flat", "chart": "given"}
    chart = {"learning": "evidence"}
    path, process = BLEND | {"predictor": "path"}, {"predictor": "process_linear", "members": 1}
    expected = {
        "path: learned chart and metric | flat": (path, path | flat),
        "path: learned chart | flat": (path | chart, path | flat),
        "path: pullback | learned chart alone": (path | {"learning": "pullback"}, path | chart),
        "process_linear: learned chart | flat": (
            BLEND | chart | process,
            BLEND | flat | process,
        ),
        "blend: 16 members | 4": (BLEND | {"members": 16}, BLEND),
        "blend: 4 members | 1": (BLEND, BLEND | {"members": 1}),
        "blend | path": (BLEND, path),
        "blend | process_linear": (BLEND, BLEND | process),
        "blend: augmented | as measured": (BLEND | {"augmentation": "all kinds"}, BLEND),
        "blend: one leaking metric | one a fold": (BLEND | {"learning": "shared"}, BLEND),
        "blend | best baseline, picked afterwards": (BLEND, {"learning": "baseline"}),
    }
    for text, pair in expected.items():
        assert asked[text] == pair


# answers


def rows_of_three():
    """Three series of two seeds each: the blend, the path, and two baselines."""
    blend, path = {}, {}
    rows = []
    for place, name in enumerate(("one", "two", "three")):
        of_blend, of_path = (0.5 + place, 0.7 + 2 * place), (1.0 + place, 0.4 + place)
        blend[name], path[name] = math.prod(of_blend) ** 0.5, math.prod(of_path) ** 0.5
        for seed in (0, 1):
            rows += [
                row(name, of_blend[seed], seed=seed),
                row(name, of_path[seed], seed=seed, predictor="path"),
            ]
        rows += [baseline(name, 2.0 + place, "mean"), baseline(name, 3.0 - place, "linear")]
    return rows, blend, path


def test_answers_are_tests_of_the_means_over_seeds_in_pairs():
    rows, blend, path = rows_of_three()
    found = answers(rows[::-1])
    assert set(found) == {"blend | path", "blend | best baseline, picked afterwards"}
    best = {"one": 2.0, "two": 2.0, "three": 1.0}
    for answer, others in zip(found.values(), (path, best), strict=True):
        assert list(answer) == ["question", *PairedTest._fields]
        first, second = (np.log([errors[name] for name in blend]) for errors in (blend, others))
        interval = ttest_rel(first, second).confidence_interval(0.95)
        expected = {
            "series": 3,
            "ratio": np.exp((first - second).mean()),
            "low": np.exp(interval.low),
            "high": np.exp(interval.high),
            "p": wilcoxon(first, second).pvalue,
            "effect": ttest_rel(first, second).statistic / 3**0.5,
            "better": (first < second).sum(),
            "worst": np.exp((first - second).max()),
        }
        numbers = {key: float(value) for key, value in answer.items() if key != "question"}
        assert numbers == pytest.approx(expected, rel=5e-6)  # six digits


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_a_question_needs_two_series_that_have_both_rows(kept):
    rows, blend, path = rows_of_three()
    names = ("one", "two", "three")
    left = [r for r in rows if r.predictor != "path" or r.series in names[:kept]]
    found = answers(left)
    assert found["blend | best baseline, picked afterwards"]["series"] == "3"
    assert ("blend | path" in found) == (kept == 2)
    if kept == 2:
        answer = found["blend | path"]
        ratios = [blend[name] / path[name] for name in names[:2]]
        assert answer["series"] == "2"
        assert float(answer["ratio"]) == pytest.approx(math.prod(ratios) ** 0.5, rel=5e-6)


def test_without_rows_there_are_no_answers():
    header = ",".join(("question", *PairedTest._fields))
    assert paired_csv([], MEMBERS, LARGEST) == f"{header}\n"
