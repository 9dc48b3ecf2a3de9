"""The notebooks run from the first cell to the last, and are kept without results."""

import json
import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def code_cells(notebook):
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_kept_without_results(notebook):
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code_cells(notebook))


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run the cells of a notebook beside the example spectra; the names that they leave behind."""
    shutil.copytree(ROOT / "data/examples", tmp_path / "data/examples")
    (tmp_path / "examples").mkdir()
    monkeypatch.chdir(tmp_path / "examples")
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")

    def names(notebook):
        found = {"__name__": "__main__"}
        for place, cell in enumerate(code_cells(notebook)):
            exec(compile("".join(cell["source"]), f"code cell {place}", "exec"), found)
        return found

    return names


def test_the_notebook_of_acetophenone_estimates_what_was_weighed_in(run):
    found = run(ROOT / "examples/acetophenone.ipynb")
    for _, estimate in found["estimates"].iterrows():
        assert estimate["from"] < 200 < estimate["to"]
        assert estimate["µM"] == pytest.approx(200, rel=0.05)
    assert found["held"].all()
    assert not found["calibration"].warnings
    assert not found["fits"].any()
    assert found["figure"].to_dict()
