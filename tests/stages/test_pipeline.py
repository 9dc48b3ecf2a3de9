"""The pipeline as a user runs it: DVC, in a copy of the project."""

import csv
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stages.paths import PIPELINE
from tests.stages.conftest import ROOT, small_parameters

GEOMETRY = ("christoffel", "geodesics")
WHO = {f"GIT_{who}_{what}": "test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """A git repository with the project's files and small parameters, reproduced once."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("needs the git repository of the project")
    folder = tmp_path_factory.mktemp("clone")
    for name in listed.stdout.decode().split("\0"):
        if (ROOT / name).is_file() and not name.startswith(("metrics/", "tests/", "dvc.lock")):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
    parameters = small_parameters().replace(
        "  concentrations: null", "  concentrations: data/concentrations.csv"
    )
    (folder / "params.yaml").write_text(parameters, encoding="utf-8")
    commit(folder)
    assert sorted(reproduce(folder)) == sorted([*PIPELINE, "benchmark", "report"])
    commit(folder)
    return folder


@pytest.fixture
def changed(clone):
    """Edit a file of the clone, which is restored afterwards."""
    kept = {}

    def edit(name: str, found: str, other: str) -> None:
        content = (clone / name).read_text(encoding="utf-8")
        kept.setdefault(name, content)
        assert found in content
        (clone / name).write_text(content.replace(found, other, 1), encoding="utf-8")

    yield edit
    for name, content in kept.items():
        (clone / name).write_text(content, encoding="utf-8")


def commit(folder: Path) -> None:
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "small"]):
        subprocess.run(["git", *command], cwd=folder, env=os.environ | WHO, check=True)


def dvc(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of DVC."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | WHO | {"PATH": path, "PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, "-m", "dvc", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def told(folder: Path, *arguments: str) -> Any:
    """What a command of DVC says as JSON."""
    done = dvc(folder, *arguments, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def reproduce(folder: Path, *arguments: str) -> list[str]:
    """Stages that `dvc repro` ran without an error."""
    done = dvc(folder, "repro", *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.split("'")[1] for line in done.stdout.splitlines() if line.startswith("Running")]


def stale(folder: Path) -> set[str]:
    """Stages that `dvc status` reports, without those of changed artifacts alone."""
    return set(told(folder, "status")) - {"probe"}


def test_scores_and_figures_are_written(clone):
    scores = json.loads((clone / "metrics/validate.json").read_text(encoding="utf-8"))
    assert {"q2", "mean_r2", "pooled_r2", "interior_pooled_r2"} <= set(scores)
    assert set(scores["published_method"]) == {"q2", "pooled_r2", "interior_pooled_r2", "rmse"}
    assert scores["published_method"]["rmse"] != scores["rmse"]
    assert scores["coverage90"] == scores["coverage"]["90"]["all"]
    assert list(scores["folds"]) == ["0", "10", "20", "30", "40", "60"]
    weights = json.loads((clone / "metrics/decoders.json").read_text(encoding="utf-8"))["weights"]
    assert list(weights) == [*(f"without {level}" for level in scores["folds"]), "all levels"]
    for of_kinds in weights.values():
        assert set(of_kinds) == {"posterior", "path"}
        assert sum(of_kinds.values()) == pytest.approx(1)
    summary = json.loads((clone / "metrics/summary.json").read_text(encoding="utf-8"))
    assert (summary["rmse"], summary["q2"]) == (scores["rmse"], scores["q2"])
    assert summary["coverage90_ends"] == scores["coverage"]["90"]["ends"]
    assert (clone / "metrics/plots/folds.png").read_bytes().startswith(b"\x89PNG")


def test_predictions_agree_with_their_scores(clone):
    """R2 recomputed from the table of predictions, by numpy, is the reported one."""
    rows = np.genfromtxt(clone / "metrics/plots/predictions.csv", delimiter=",", names=True)
    scores = json.loads((clone / "metrics/validate.json").read_text(encoding="utf-8"))
    for level, fold in scores["folds"].items():
        part = rows[rows["level"] == float(level)]
        error = np.sum((part["measured"] - part["predicted"]) ** 2)
        total = np.sum((part["measured"] - part["measured"].mean()) ** 2)
        assert 1 - error / total == pytest.approx(fold["r2"], abs=1e-3)
    held = np.abs(rows["measured"] - rows["predicted"]) <= rows["90_interval"]
    assert held.mean() == pytest.approx(scores["coverage90"], abs=2 / len(rows))


@pytest.mark.parametrize(
    ("file", "found", "other", "stages"),
    [
        ("params.yaml", "  learning_rate: 0.01\n", "  learning_rate: 0.02\n", {"decoders"}),
        ("params.yaml", "preset: standard", "preset: fast", {"metric", *GEOMETRY, "decoders"}),
        ("params.yaml", "workers: 2", "workers: 3", set()),
        ("geonode/report/page.py", '"""', '"""\n', {"report"}),
        (
            "geonode/posterior/evidence.py",
            '"""',
            '"""\n',
            {"decoders", "validate", "calibrate", "benchmark"},
        ),
        ("data/concentrations.csv", "concentration", "level", {"spectra"}),
    ],
)
def test_status_tells_which_stages_an_edit_reruns(clone, changed, file, found, other, stages):
    assert stale(clone) == set()
    changed(file, found, other)
    assert stale(clone) == stages


def test_a_single_stage_sees_its_parameters_and_params_diff_shows_them(clone, changed):
    assert reproduce(clone, "--single-item", "geodesics") == []
    changed("params.yaml", "time_points: 3", "time_points: 4")
    assert told(clone, "params", "diff") == {
        "params.yaml": {"geodesics.time_points": {"old": 3, "new": 4, "diff": 1}}
    }
    assert reproduce(clone, "--single-item", "geodesics") == ["geodesics"]
    changed("params.yaml", "time_points: 4", "time_points: 3")
    reproduce(clone, "--single-item", "geodesics")  # as the other tests of the clone expect it


def test_experiments_are_compared_by_their_metrics(clone):
    for name, epochs in (("three", 3), ("four", 4)):
        run = ("exp", "run", "--name", name, "-S", f"decoders.epochs={epochs}")
        done = dvc(clone, *run, "-S", "device=cpu")
        assert done.returncode == 0, done.stdout + done.stderr
    found = told(clone, "metrics", "diff", "three", "four")
    assert found.keys() == {"metrics/summary.json"}  # the spectra are the same
    assert found["metrics/summary.json"]["rmse"]["diff"] != 0
    ((_, of_files),) = told(clone, "metrics", "show").items()
    assert sum(len(one["data"]) for one in of_files["data"].values()) <= 40
    page = (ROOT / "docs/your-spectra.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^dvc (exp show .*)$", page, re.M)
    shown = dvc(clone, *shlex.split(command), "--csv").stdout
    assert {"three", "four"} <= {row["Experiment"] for row in csv.DictReader(shown.splitlines())}


def test_a_typo_costs_no_artifact(clone, changed):
    before = {path: path.stat().st_mtime_ns for path in (clone / "data").rglob("*")}
    changed("params.yaml", "  learning_rate: 0.01\n", "  learning_rate: O.O1\n")
    done = dvc(clone, "repro")
    assert done.returncode != 0
    assert "decoders.learning_rate: found 'O.O1'" in done.stdout + done.stderr
    after = {path: path.stat().st_mtime_ns for path in (clone / "data").rglob("*")}
    assert before.keys() <= after.keys()
