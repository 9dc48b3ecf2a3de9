"""The pipeline as a user runs it: DVC, in a copy of the project."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.stages.conftest import ROOT, small_parameters

STAGES = [
    "probe",
    "generate",
    "spectra",
    "metric",
    "christoffel",
    "geodesics",
    "decoders",
    "validate",
    "summary",
    "report",
]
FROZEN = ("metrics/ablation", "metrics/benchmark")  # written by stages that DVC does not run


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """A git repository with the project's files and small parameters, reproduced once."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("needs the git repository of the project")
    folder = tmp_path_factory.mktemp("clone")
    for name in listed.stdout.decode().split("\0"):
        made = name.startswith("metrics/") and not name.startswith(FROZEN)
        if (ROOT / name).is_file() and not made and not name.startswith("tests/"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes((ROOT / name).read_bytes())
    (folder / "dvc.lock").unlink(missing_ok=True)
    (folder / "params.yaml").write_text(small_parameters(), encoding="utf-8")
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "small"]):
        git = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org", *command]
        subprocess.run(git, cwd=folder, check=True)
    assert reproduce(folder) == STAGES
    return folder


def repro(folder: Path, *targets: str) -> subprocess.CompletedProcess[str]:
    """Run `dvc repro`, up to some stages if they are given."""
    bin_folder = str(Path(sys.executable).parent)
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([bin_folder, os.environ["PATH"]]),
        "PYTHONPATH": str(folder),
        "DVC_NO_ANALYTICS": "1",
    }
    return subprocess.run(
        [sys.executable, "-m", "dvc", "repro", *targets],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def reproduce(folder: Path, *targets: str) -> list[str]:
    """Stages that `dvc repro` executed without an error."""
    done = repro(folder, *targets)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line.split("'")[1] for line in done.stdout.splitlines() if line.startswith("Running")]


@pytest.mark.slow
def test_scores_and_figures_are_written(clone):
    scores = json.loads((clone / "metrics/validate.json").read_text(encoding="utf-8"))
    assert {"q2", "mean_r2", "pooled_r2", "interior_pooled_r2"} <= set(scores)
    assert {"rmse", "best_baseline"} <= set(scores)
    assert set(scores["calibrations"]) == {"pls", "pcr", "single_wavelength"}
    assert set(scores["published_method"]) == {"q2", "pooled_r2", "interior_pooled_r2", "rmse"}
    assert scores["published_method"]["rmse"] != scores["rmse"]
    assert scores["coverage90"] == scores["coverage"]["90"]["all"]
    assert list(scores["coverage"]) == ["50", "80", "90", "95"]
    weights = json.loads((clone / "metrics/decoders.json").read_text(encoding="utf-8"))["weights"]
    assert list(weights) == [*(f"without {level}" for level in scores["folds"]), "all levels"]
    for of_kinds in weights.values():
        assert set(of_kinds) == {"posterior", "path"}
        assert sum(of_kinds.values()) == pytest.approx(1)
    assert list(scores["folds"]) == ["0", "10", "20", "30", "40", "60"]
    content = (clone / "metrics/plots/folds.png").read_bytes()
    assert content.startswith(b"\x89PNG")


@pytest.mark.slow
def test_runs_are_compared_by_few_numbers(clone):
    summary = json.loads((clone / "metrics/summary.json").read_text(encoding="utf-8"))
    scores = json.loads((clone / "metrics/validate.json").read_text(encoding="utf-8"))
    assert summary["rmse"] == scores["rmse"]
    assert summary["coverage90_ends"] == scores["coverage"]["90"]["ends"]
    *stages, total = summary["seconds"].values()
    assert total == pytest.approx(sum(stages))
    lines = [*summary, *summary["seconds"]]
    assert len(lines) <= 25
    assert set(summary["seconds"]) == set(STAGES) - {"probe", "summary", "report"} | {"total"}


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_typo_costs_no_artifact(clone):
    before = {path: path.stat().st_mtime_ns for path in (clone / "data").rglob("*")}
    parameters = (clone / "params.yaml").read_text(encoding="utf-8")
    wrong = parameters.replace("  learning_rate: 0.01\n", "  learning_rate: O.O1\n")
    assert wrong != parameters
    (clone / "params.yaml").write_text(wrong, encoding="utf-8")
    done = repro(clone)
    (clone / "params.yaml").write_text(parameters, encoding="utf-8")
    assert done.returncode != 0
    assert "decoders.learning_rate: found 'O.O1'" in done.stdout + done.stderr
    after = {path: path.stat().st_mtime_ns for path in (clone / "data").rglob("*")}
    assert {path for path in before if "lock" not in path.name} <= after.keys()


@pytest.mark.slow
def test_only_what_changed_runs_again(clone):
    parameters = (clone / "params.yaml").read_text(encoding="utf-8")
    changed = parameters.replace("  learning_rate: 0.01\n", "  learning_rate: 0.02\n")
    assert changed != parameters
    (clone / "params.yaml").write_text(changed, encoding="utf-8")
    assert reproduce(clone, "decoders") == ["probe", "decoders"]
