"""The notebooks run from the first cell to the last, and the examples of CONTRIBUTING.md run."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn import linear_model

from geonode.calibration.fit import Calibration
from geonode.calibration.methods import CALIBRATIONS, Registered
from geonode.calibration.verdict import NAMES
from geonode.learning.predicted import Decoders
from tests.learning import series as small

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
    assert found["covered"].all()
    assert not found["calibration"].warnings
    assert not found["fits"].any()
    assert found["figure"].to_dict()


GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def block_of(name):
    """The example of CONTRIBUTING.md that defines a name."""
    blocks = re.findall(r"^```python\n(.*?)^```", GUIDE, re.S | re.M)
    (block,) = [block for block in blocks if re.search(rf"^(def|class) {name}\b", block, re.M)]
    return block


def example(name):
    """What the example of CONTRIBUTING.md that defines a name defines."""
    found = {"__name__": name}
    exec(compile(block_of(name), name, "exec"), found)
    return found[name]


WALKS = [
    ("LineDecoders", "learning/line_decoder", "learning/blend", "KINDS", '"line": LineDecoders'),
    ("read_json", "reading/formats/json_file", "reading/files", "FORMATS", '".json": read_json'),
    (
        *("Ridge", "calibration/methods", "calibration/methods", "CALIBRATIONS"),
        '"ridge": Registered("ridge regression", Ridge.fit)',
    ),
]
"""What is defined, in which module of geonode, registered in which one, where and how."""


def change(file, found, other):
    text = file.read_text(encoding="utf-8")
    assert len(re.findall(found, text, re.M | re.S)) == 1
    file.write_text(re.sub(found, other, text, flags=re.M | re.S), encoding="utf-8")


@pytest.mark.slow
def test_the_walks_of_the_guide_pass_make_lint(tmp_path):
    for name in ("geonode", "stages", "research"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("pyproject.toml", "dvc.yaml", "params.yaml", "tests/test_house.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name, module, registry, table, entry in WALKS:
        assert f"`geonode/{module}.py`" in GUIDE
        assert f"`{entry}" in GUIDE
        file = tmp_path / f"geonode/{registry}.py"
        if module == registry:
            code = re.sub(r"^(from|import) .*\n", "", block_of(name), flags=re.M).strip()
            change(file, rf"^(?={table}\b)", f"{code}\n\n\n".replace("\\", r"\\"))
        else:
            (tmp_path / f"geonode/{module}.py").write_text(block_of(name), encoding="utf-8")
            imported = f"from geonode.{module.replace('/', '.')} import {name}\n"
            change(file, r"\A(.*?^)(?=from geonode)", rf"\1{imported}")
        change(file, rf"^({table}\b[^\n]*?= {{.*?),?(\n?}})(?=\n\"\"\")", rf"\1, {entry}\2")
        subprocess.run(["ruff", "check", "-q", "--fix", "--select=I", file], check=True)
        subprocess.run(["ruff", "format", "-q", file], check=True)
    change(tmp_path / "geonode/config.py", r'(?<="posterior", "path")\]', ', "line"]')
    (recipe,) = re.findall(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.M)
    for line in recipe.splitlines():
        done = subprocess.run(
            shlex.split(line),
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"


def test_the_decoder_of_the_guide_predicts_a_straight_line():
    levels, slopes = 5, np.linspace(1, 2, 7)
    line = np.outer(small.series(levels, 7).concentrations, slopes)
    series, run = small.series(levels, 7, line), small.run(levels)
    decoders, history = example("LineDecoders").fit(series, None, small.decoder_parameters(), run)
    assert isinstance(decoders, Decoders)
    assert history.shape == (0, 1, levels + 1)
    folds = run.folds[:-1]
    predicted = decoders.predict_left_out(folds, series, None)
    np.testing.assert_allclose(np.concatenate([one.spectra for one in predicted]), line, atol=1e-9)
    assert all(one.deviation.max() < 1e-9 for one in predicted)


def test_the_calibration_of_the_guide_is_one_of_the_methods(monkeypatch):
    """It is scikit-learn's ridge regression; weights and intervals come by themselves."""
    ridge, random = example("Ridge"), np.random.default_rng(5)
    amounts = random.uniform(0, 10, (12, 2))
    spectra = amounts @ random.uniform(size=(2, 30)) + 0.1 * random.normal(size=(12, 30))
    fit = ridge.fit(amounts[:, 0], spectra)
    largest = np.linalg.norm(spectra - spectra.mean(axis=0), 2) ** 2
    for place in (0, 2, 5):
        expected = linear_model.Ridge(10.0**-place * largest).fit(spectra, amounts[:, 0])
        estimates = fit.estimates(spectra[:4])[:, place]
        np.testing.assert_allclose(estimates, expected.predict(spectra[:4]), rtol=1e-8)
    hat = np.stack([ridge.fit(unit, spectra).estimates(spectra)[:, 2] for unit in np.eye(12)])
    np.testing.assert_allclose(fit.leverages(spectra)[:, 2], np.sum(hat**2, axis=0), rtol=1e-8)
    monkeypatch.setitem(CALIBRATIONS, "ridge", Registered("ridge regression", ridge.fit))
    monkeypatch.setitem(NAMES, "ridge", "ridge regression")
    found = Calibration.fit(spectra, amounts[:, 0], method="ridge")
    values, ends = found.estimate(spectra[:4])
    np.testing.assert_allclose(values, amounts[:4, 0], atol=0.5)
    assert (ends[:, 0] < amounts[:4, 0]).all()
    assert found.verdict.combination.weights["ridge"] > 0


def test_the_reader_of_the_guide_reads_a_file(tmp_path):
    path = tmp_path / "spectra.json"
    path.write_text('{"wavelength_nm": [400, 410], "spectra": {"10 ppb": [1, 2], "0 ppb": [0, 0]}}')
    sheet = example("read_json")(path)
    assert (sheet.names, sheet.axis_unit) == (["10 ppb", "0 ppb"], "nm")
    np.testing.assert_array_equal(sheet.values, [[1, 2], [0, 0]])


def test_the_mixtures_are_what_their_script_makes(tmp_path, monkeypatch):
    folder = ROOT / "data/examples"
    (script,) = re.findall(
        r"^```python\n(.*?)^```", (folder / "README.md").read_text(), re.S | re.M
    )
    monkeypatch.chdir(tmp_path)
    exec(compile(script, "README.md", "exec"), {})
    for name in ("mixtures.csv", "mixtures_test.csv"):
        assert (tmp_path / name).read_text() == (folder / name).read_text()
