from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

ROOT = Path(__file__).parents[2]

SMALL = {
    "epochs: 300": "epochs: 3",
    "wavelengths: 16": "wavelengths: 8",
    "step: 1.0": "step: 20.0",
    "resolution: 2000": "resolution: 200",
    "time_points: 11": "time_points: 3",
    "repeats: 5": "repeats: 1",
    "concentrations: data/concentrations.csv": "concentrations: null",
}


def small_parameters() -> str:
    """params.yaml of the project, cut down to seconds."""
    text = (ROOT / "params.yaml").read_text(encoding="utf-8")
    for found, smaller in SMALL.items():
        assert found in text
        text = text.replace(found, smaller)
    return text


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty project folder with small parameters, which is the working folder."""
    (tmp_path / "params.yaml").write_text(small_parameters(), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def invoke(name: str, *options: str) -> Result:
    """Result of a stage in the working folder."""
    return CliRunner().invoke(import_module(f"stages.{name}").app, options)


@pytest.fixture
def run(project: Path) -> Callable[..., Result]:
    """Run a stage by name in the project."""
    return invoke


def assert_refused(result: Result, *parts: str) -> None:
    """The command ended with status 2 and one line on stderr that says all the parts."""
    assert result.exit_code == 2, result.output
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    for part in parts:
        assert part in lines[0]
