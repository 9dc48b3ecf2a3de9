import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from geonode.calibration.methods import INVERSE, estimate_left_out_by
from geonode.compute.profile import profile_of
from geonode.errors import ArtifactError, DeviceError, ParameterError, SpectraError
from geonode.evaluation import panel
from geonode.evaluation.baselines import BASELINES
from geonode.evaluation.comparison import Comparison, left_out_predictions
from geonode.evaluation.estimation import estimate_left_out
from geonode.evaluation.panel import Panel
from geonode.evaluation.panel_table import PanelRow, mean_ratio, table
from geonode.learning.blend import fit_blend
from geonode.learning.context import NestedRuns
from geonode.learning.folds import training_wavelengths
from geonode.learning.metric_learning import learn
from geonode.learning.path_features import path_features
from geonode.parameters_file import read_parameters
from geonode.posterior.prior import PROBABILITIES
from tests.learning import series as small
from tests.learning.series import cpu

ROOT = Path(__file__).parents[2]

TINY = {
    "device": "cpu",
    "inner.members": 1,
    "metric.members": 1,
    "metric.epochs": 3,
    "metric.wavelengths": 5,
    "decoders.members": 1,
    "decoders.epochs": 3,
    "decoders.wavelengths": 5,
}


def tiny(**changes):
    """Parameters of the project, cut down to seconds; dots in keys are double underscores."""
    given = {key.replace("__", "."): value for key, value in changes.items()}
    return read_parameters(ROOT / "params.yaml", TINY | given)


def write_series(file, levels=5, scale=1.0):
    """A wide CSV of smooth spectra at nine wavelengths that are not monotonic in concentration."""
    wavelengths, concentrations = np.linspace(400, 700, 9), np.linspace(1, 40, levels)
    spectra = scale * (0.3 + 0.1 * np.cos(concentrations[:, None] / 20 + wavelengths / 300))
    rows = [["wavelength_nm", *concentrations], *np.column_stack([wavelengths, *spectra])]
    text = "\n".join(",".join(map(str, row)) for row in rows)
    file.write_text(f"{text}\n", encoding="utf-8")


@pytest.fixture
def folder(tmp_path):
    """Two good series."""
    path = tmp_path / "series"
    path.mkdir()
    write_series(path / "a.csv", levels=4)
    write_series(path / "b.csv")
    return path


@pytest.fixture
def scored(monkeypatch):
    """Scoring without any learning, by numbers of many digits; numbers of levels by call."""
    sizes, slow = [], panel.score_part

    def quick(job, report):
        if not job.series.signal.any():
            return slow(job, report)  # which fails
        levels = len(job.series.concentrations)
        if job.part == "baselines":
            errors = {name: levels / 3 + place for place, name in enumerate(BASELINES)}
            return {"best_baseline": "linear", "best_baseline_rmse": levels / 3, "seconds": 0.0,
                    "chosen_baseline_rmse": None, "baseline_rmse": errors}  # fmt: skip
        sizes.append(levels)
        return {"pooled_r2": -levels / 7, "rmse": levels / 6, "levels": levels, "wavelengths": 9,
                "seconds": 1e-17}  # fmt: skip

    monkeypatch.setattr(panel, "score_part", quick)
    return sizes


def run(folder, out, **changes):
    """Score all that is to be scored; the panel as it is then."""
    found = Panel.of(folder, out, tiny(**changes))
    list(found.score())
    return found


# the scores


BY_HAND = {
    "the standard": {},
    "posterior": {"decoders__kind": "posterior"},
    "path with inner folds": {"decoders__kind": "path", "decoders__members": 2},
    "no inner folds": {"inner__members": 0, "decoders__kind": "path"},
}
SLOW = BY_HAND.keys() - {"posterior"}


def estimates_kept(patch):
    """Estimates that the panel makes, which take most of the time."""
    made = []

    def estimate(series, report):
        made.append(estimate_left_out(series, report))
        return made[-1]

    patch.setattr("geonode.evaluation.panel_scores.estimate_left_out", estimate)
    return made


def predicted_by_hand(series, parameters):
    """Left-out predictions of a series, step by step."""
    metric, decoders, inner = parameters.metric, parameters.decoders, parameters.inner
    levels, wavelengths = series.signal.shape
    learned = learn(series, metric, NestedRuns.of(levels, metric.members, inner, cpu())).metrics
    chosen = training_wavelengths(wavelengths, 5)
    features = path_features(learned, series, chosen)
    inside = learned.inner and path_features(learned.inner, series, chosen)
    runs = NestedRuns.of(levels, decoders.members, inner, cpu())
    blend, _ = fit_blend(series, features, inside, decoders, runs)
    return blend.left_out(series, features)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(changes, id=name, marks=[pytest.mark.slow] if name in SLOW else [])
        for name, changes in BY_HAND.items()
    ],
)
def test_the_scores_are_those_of_the_steps_taken_by_hand(changes, folder, tmp_path, monkeypatch):
    parameters, reported, made = tiny(**changes), [], estimates_kept(monkeypatch)
    (folder / "a.csv").unlink()
    found = Panel.of(folder, tmp_path / "out.json", parameters)
    assert list(found.score(reported.append)) == ["b"]
    row, series = found.rows["b"], found.pending["b"].series
    assert sum(reported) == found.pending["b"].steps

    prediction, measured = predicted_by_hand(series, parameters), series.signal
    error = prediction.spectra - measured
    spread = (measured - measured.mean(axis=1, keepdims=True)) ** 2
    from_others = [np.delete(measured, level, 0).mean(axis=0) for level in range(5)]
    rmse = np.sqrt(np.mean(error**2))
    expected = {
        "rmse": rmse,
        "q2": 1 - np.sum(error**2) / np.sum((measured - from_others) ** 2),
        "pooled_r2": 1 - np.sum(error**2) / np.sum(spread),
        "interior_pooled_r2": 1 - np.sum(error[1:-1] ** 2) / np.sum(spread[1:-1]),
        "mean_r2": (1 - np.sum(error**2, axis=1) / np.sum(spread, axis=1)).mean(),
        "skill": 1 - rmse / Comparison.of(series).chosen_rmse,
    }
    for name in INVERSE:
        off = np.abs(estimate_left_out_by(name, series) - series.concentrations)
        expected[f"{name}_error"] = np.median(off) / 39
    line = left_out_predictions(series.chart, series.concentrations, measured)["linear"]
    assert row.baseline_rmse["linear"] == pytest.approx(np.sqrt(np.mean((line - measured) ** 2)))
    (estimated,) = made
    expected["concentration_error"] = np.median(estimated.errors) / 39
    expected["concentration_coverage90"] = estimated.held.mean()
    if prediction.half_width is None:
        assert (row.coverage90, row.coverage90_ends) == (None, None)
    else:
        held = np.abs(error) <= prediction.half_width[PROBABILITIES.index(0.9)]
        expected["coverage90"] = held.mean()
        expected["coverage90_interior"] = held[1:-1].mean()
        expected["coverage90_ends"] = held[[0, -1]].mean()
    assert {name: getattr(row, name) for name in expected} == pytest.approx(expected, rel=1e-9)
    assert list(row.baseline_rmse) == list(BASELINES)
    assert row.best_baseline_rmse == row.baseline_rmse[row.best_baseline]
    assert row.best_baseline_rmse == min(row.baseline_rmse.values())
    assert (row.levels, row.wavelengths, row.error) == (5, 9, None)
    assert row.seconds > 0


# the table as a file


def values_of(out):
    """Values of a JSON or CSV, every one as text or None, baselines by column."""
    if out.suffix == ".csv":
        with out.open(encoding="utf-8", newline="") as file:
            return [
                {key: text or None for key, text in row.items()} for row in csv.DictReader(file)
            ]
    rows = []
    for name, values in json.loads(out.read_text(encoding="utf-8"))["series"].items():
        flat = values | {f"rmse_{key}": value for key, value in values["baseline_rmse"].items()}
        del flat["baseline_rmse"]
        texts = {key: value if value is None else str(value) for key, value in flat.items()}
        rows.append({"series": name} | texts)
    return rows


def test_csv_and_json_hold_the_same(folder, tmp_path, scored):
    write_series(folder / "B, few.csv", levels=3)
    both = []
    for name in ("out.json", "new/out.csv"):
        run(folder, tmp_path / name)
        both.append(values_of(tmp_path / name))
    assert both[0] == both[1]
    assert [row["series"] for row in both[0]] == ["B, few", "a", "b"]
    assert "found 3 concentrations" in both[0][0]["error"]
    for row in both[0]:
        assert {f"rmse_{name}" for name in BASELINES} < set(row)
        assert (
            (row["error"] is None) == (row["rmse"] is not None) == (row["fingerprint"] is not None)
        )


def test_a_json_says_by_what_it_was_made(folder, tmp_path, scored):
    run(folder, tmp_path / "out.json", preset="thorough")
    content = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert content["preset"] == "thorough"
    assert content["environment"]["device"] == "cpu"
    assert {"torch", "python", "geonode"} <= set(content["environment"])
    before = content["parameters_digest"]
    run(folder, tmp_path / "out.json", preset="fast")
    assert json.loads((tmp_path / "out.json").read_bytes())["parameters_digest"] != before


# going on


@pytest.mark.parametrize("name", ["out.json", "out.csv"])
def test_a_second_run_scores_nothing_and_keeps_every_number(folder, tmp_path, scored, name):
    first = run(folder, tmp_path / name).rows
    assert scored == [5, 4]
    again = Panel.of(folder, tmp_path / name, tiny())
    assert (again.pending, again.rows) == ({}, first)
    before = values_of(tmp_path / name)
    again.write()
    assert values_of(tmp_path / name) == before


CHANGES = {
    "parameters": {"metric__epochs": 4},
    "seed": {"decoders__seed": 1},
    "inner": {"inner__levels": 3},
    "preset": {"preset": "fast"},
    "precision": {"precision__training": "float64"},
    "common chart": {"spectra__chart": "log"},
}


def test_changed_parameters_and_another_version_score_all_again(
    folder, tmp_path, scored, monkeypatch
):
    run(folder, tmp_path / "out.json")
    for name, changes in CHANGES.items():
        found = Panel.of(folder, tmp_path / "out.json", tiny(**changes))
        assert (set(found.pending), found.rows) == ({"a", "b"}, {}), name
    monkeypatch.setattr(panel, "__version__", "9.9")
    assert set(Panel.of(folder, tmp_path / "out.json", tiny()).pending) == {"a", "b"}


def test_parameters_of_other_things_score_nothing_again(folder, tmp_path, scored):
    run(folder, tmp_path / "out.json")
    others = {"geodesics__steps": 7, "benchmark__repeats": 2, "device": "cpu", "generate__seed": 1}
    assert not Panel.of(folder, tmp_path / "out.json", tiny(**others)).pending
    moved = folder.rename(tmp_path / "moved")
    assert not Panel.of(moved, tmp_path / "out.json", tiny()).pending


def test_the_device_that_auto_chose_counts(folder, tmp_path, scored, monkeypatch):
    monkeypatch.setattr("geonode.compute.choice._is_present", lambda kind: kind == "cpu")
    run(folder, tmp_path / "out.json", device="auto")
    assert not Panel.of(folder, tmp_path / "out.json", tiny(device="cpu")).pending
    monkeypatch.setattr("geonode.compute.choice._is_present", lambda kind: True)
    monkeypatch.setattr("geonode.compute.choice._name", str)
    of_cpu = profile_of(torch.device("cpu"))
    monkeypatch.setattr("geonode.compute.device.profile_of", lambda place: of_cpu)
    found = Panel.of(folder, tmp_path / "out.json", tiny(device="cuda"))
    assert set(found.pending) == {"a", "b"}


def test_a_changed_file_is_scored_again_and_the_others_are_not(folder, tmp_path, scored):
    out = tmp_path / "out.json"
    run(folder, out)
    write_series(folder / "a.csv", levels=4, scale=1.001)
    assert list(run(folder, out).pending) == ["a"]
    (folder / "b.yaml").write_text("window: [400, 600]\n", encoding="utf-8")
    assert list(run(folder, out).pending) == ["b"]
    write_series(folder / "c.csv", levels=6)
    assert list(run(folder, out).pending) == ["c"]
    assert [row["series"] for row in values_of(out)] == ["a", "b", "c"]
    assert scored == [5, 4, 4, 5, 6]


@pytest.mark.parametrize("change", [b"B,1\nA,14\nC,27\nD,40\n", b"A,1\nB,14\nC,27\nD,41\n"])
def test_the_second_table_counts(tmp_path, scored, change):
    out, levels = tmp_path / "out.json", tmp_path / "levels.csv"
    folder = tmp_path / "series"
    folder.mkdir()
    write_series(folder / "a.csv", levels=4)
    text = (folder / "a.csv").read_text()
    (folder / "a.csv").write_text(text.replace("1.0,14.0,27.0,40.0", "A,B,C,D", 1))
    (folder / "a.yaml").write_text(f"concentrations: {levels}\n")
    levels.write_bytes(b"name,concentration\nA,1\nB,14\nC,27\nD,40\n")
    assert list(run(folder, out).pending) == ["a"]
    assert not run(folder, out).pending
    levels.write_bytes(b"name,concentration\n" + change)
    assert list(run(folder, out).pending) == ["a"]
    levels.unlink()
    assert "levels.csv" in run(folder, out).failed["a"]


def test_every_file_of_a_store_counts_and_its_name(tmp_path, scored, monkeypatch):
    """Two files that swap their names, or a byte that moves to the next, make another series."""
    monkeypatch.setattr(panel, "read_series_csv", lambda own: small.series(4, 9))
    folder, out = tmp_path / "series", tmp_path / "out.json"
    places = [folder / "a.zarr" / name for name in ("c/0", "c/1")]
    places[0].parent.mkdir(parents=True)
    for contents in ((b"1", b"23"), (b"12", b"3"), (b"3", b"12")):
        for place, content in zip(places, contents, strict=True):
            place.write_bytes(content)
        assert list(run(folder, out).pending) == ["a"]
        assert not run(folder, out).pending
    places[1].rename(folder / "a.zarr" / "c" / "2")
    assert list(run(folder, out).pending) == ["a"]


def test_other_code_of_the_same_version_scores_all_again(folder, tmp_path, scored, monkeypatch):
    run(folder, tmp_path / "out.json")
    monkeypatch.setattr(panel, "code_digest", lambda: "edited")
    assert set(Panel.of(folder, tmp_path / "out.json", tiny()).pending) == {"a", "b"}


@pytest.mark.parametrize("name", ["out.json", "out.csv"])
def test_rows_of_other_series_are_not_lost(folder, tmp_path, scored, name):
    out = tmp_path / name
    run(folder, out)
    before = out.read_bytes()
    (folder / "a.csv").rename(folder / "other.csv")
    with pytest.raises(ArtifactError, match=r"1 rows of series that .* has not \(a\).*--out"):
        Panel.of(folder, out, tiny())
    assert out.read_bytes() == before


def test_one_process_at_a_time_has_a_table_open(folder, tmp_path, scored):
    out = tmp_path / "new" / "out.csv"
    with Panel.opened(folder, out, tiny()) as first:
        list(first.score())
        with (
            pytest.raises(ArtifactError, match=r"out\.csv.*being written by another process"),
            Panel.opened(folder, out, tiny()),
        ):
            raise AssertionError("two have it open")
    with Panel.opened(folder, out, tiny()) as again:
        assert set(again.rows) == {"a", "b"}
    assert [path.name for path in out.parent.iterdir()] == ["out.csv"]


def test_a_series_called_like_a_formula_is_known_again(folder, tmp_path, scored):
    (folder / "a.csv").rename(folder / "=a.csv")
    out = tmp_path / "out.csv"
    assert list(run(folder, out).pending) == ["=a", "b"]
    assert not run(folder, out).pending
    assert "'=a" in out.read_text(encoding="utf-8")


def test_what_stops_between_two_series_loses_none(folder, tmp_path, scored, monkeypatch):
    out, quick = tmp_path / "out.json", panel.score_part

    def stops(job, report):
        if len(job.series.concentrations) == 4:
            raise KeyboardInterrupt
        return quick(job, report)

    monkeypatch.setattr(panel, "score_part", stops)
    with pytest.raises(KeyboardInterrupt):
        run(folder, out)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["out.json"]
    assert [row["series"] for row in values_of(out)] == ["b"]
    monkeypatch.setattr(panel, "score_part", quick)
    assert list(run(folder, out).pending) == ["a"]
    assert [row["series"] for row in values_of(out)] == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "found", "damaged"),
    [
        ("out.json", '"rmse": 0.6', '"rmse": "x", "more": 0.6'),
        ("out.json", '"mean": ', '"median": '),
        ("out.csv", ",4,9,", ",four,9,"),
        ("out.csv", ",4,9,", ",4,9,0,"),
    ],
)
def test_a_row_that_this_version_did_not_write_is_scored_again(
    folder, tmp_path, scored, name, found, damaged
):
    (folder / "b.csv").unlink()
    out = tmp_path / name
    run(folder, out)
    text = out.read_text(encoding="utf-8")
    assert found in text
    out.write_text(text.replace(found, damaged), encoding="utf-8")
    assert list(Panel.of(folder, out, tiny()).pending) == ["a"]


# what cannot be scored, and what is refused


def test_a_series_that_cannot_be_scored_stops_no_other(folder, tmp_path, scored):
    out = tmp_path / "out.csv"
    write_series(folder / "few.csv", levels=3)
    (folder / "text.csv").write_text("no table\n", encoding="utf-8")
    (folder / "folder.csv").mkdir()
    write_series(folder / "flat.csv", levels=4, scale=0.0)
    found = run(folder, out)
    assert set(found.failed) == {"few", "text", "folder", "flat"}
    assert "found 3 concentrations" in found.failed["few"]
    assert "found spectra that are zero" in found.failed["flat"]
    assert {row["series"] for row in values_of(out)} == set(found.rows)
    assert scored == [5, 4]
    # Those that failed are tried again, as their reason may be gone.
    write_series(folder / "flat.csv", levels=4)
    again = Panel.of(folder, out, tiny())
    assert (list(again.pending), set(again.failed)) == (["flat"], {"few", "text", "folder"})


def test_a_series_has_the_parameters_beside_its_file(folder, tmp_path):
    (folder / "b.yaml").write_text("{chart: log, window: [450, 650]}\n", encoding="utf-8")
    tasks = Panel.of(folder, tmp_path / "out.json", tiny()).pending
    assert tasks["a"].series.chart.kappa == np.inf
    assert tasks["b"].series.chart.kappa == 0
    np.testing.assert_array_equal(tasks["b"].series.axis, [475, 512.5, 550, 587.5, 625])
    assert len(tasks["a"].series.axis) == 9


def test_what_cannot_begin_is_refused_and_writes_nothing(folder, tmp_path, monkeypatch):
    out = tmp_path / "out.json"
    for name in ("out.txt", "out", "out.JSON", "series"):
        with pytest.raises(ParameterError, match=r"--out.*expected a file \.json or \.csv"):
            Panel.of(folder, tmp_path / name, tiny())
    with pytest.raises(ParameterError, match=r"--out.*every CSV is a series"):
        Panel.of(folder, folder / "../series/out.csv", tiny())
    with pytest.raises(SpectraError, match="no such folder"):
        Panel.of(tmp_path / "absent", out, tiny())
    monkeypatch.setattr("geonode.compute.choice._card", lambda: None)
    with pytest.raises(DeviceError, match="'cuda' is absent"):
        Panel.of(folder, out, tiny(device="cuda"))
    (folder / "a.yaml").write_text("chart: cubic\n", encoding="utf-8")
    with pytest.raises(ParameterError, match=r"a\.yaml: chart: found 'cubic'"):
        Panel.of(folder, out, tiny())
    assert [path.name for path in tmp_path.iterdir()] == ["series"]
    assert {path.name for path in folder.iterdir()} == {"a.csv", "b.csv", "a.yaml"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("out.json", b""),
        ("out.json", b"{}"),
        ("out.json", b"\xff"),
        ("out.csv", b"wavelength,1,2\n400,0,0\n"),
        ("out.csv", b'series,fingerprint\n"open,x\n'),
        ("out.csv", b"series,fingerprint,mine\na,,1\n"),
        ("out.json", b'{"parameters_digest": "", "series": {"a": 1}, "mine": 2}'),
        (
            "out.json",
            b'{"parameters_digest": "", "preset": "", "environment": {}, "series": [1]}',
        ),
    ],
)
def test_a_file_that_is_no_such_table_is_not_replaced(folder, tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ArtifactError, match=f"{name}: found a file that is no table of a panel"):
        Panel.of(folder, tmp_path / name, tiny())
    assert (tmp_path / name).read_bytes() == content


def test_a_folder_in_place_of_the_table_is_refused(folder, tmp_path):
    (tmp_path / "out.json").mkdir()
    with pytest.raises(ArtifactError, match=r"out\.json: cannot be read: Is a directory"):
        Panel.of(folder, tmp_path / "out.json", tiny())


# for people


ROWS = {
    "worse": PanelRow(rmse=4.0, best_baseline="linear", best_baseline_rmse=2.0, levels=12),
    "b": PanelRow(
        rmse=0.5, best_baseline="low_rank_pchip", best_baseline_rmse=4.0, pooled_r2=0.98765
    ),
    "none": PanelRow(error="too few"),
    "perfect baseline": PanelRow(rmse=1.0, best_baseline="mean", best_baseline_rmse=0.0),
}


def test_the_mean_ratio_is_geometric_and_of_those_that_have_one():
    words = "geometric mean of RMSE / RMSE of the best baseline: "
    assert mean_ratio(ROWS) == f"{words}0.5"  # of 2 and 1/8
    assert mean_ratio({"none": ROWS["none"]}) == mean_ratio({}) == f"{words}-"


def test_the_table_is_sorted_and_shows_four_digits():
    header, *lines = table(ROWS)
    assert [line[0] for line in lines] == ["b", "none", "perfect baseline", "worse"]
    assert {len(line) for line in lines} == {len(header)}
    assert " ".join(lines[0]) == "b - - 0.9877 - 0.5 low_rank_pchip 4 0.125 - - - -"
    assert set(lines[1]) == {"none", "-"}
