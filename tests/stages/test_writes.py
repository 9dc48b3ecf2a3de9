"""What parameters say never decides where a stage writes."""

import ast
import os
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import pytest
from pydantic import BaseModel
from typer.testing import CliRunner

from geonode.config import Parameters
from stages.generate import app as generate
from tests.stages.conftest import ROOT, small_parameters

# Of these a person writes the text; every other parameter is a number or one of a few words.
FREE_TEXTS = {
    *("preset", "presets", "engine.scheduler", "ablation.folder", "validate.bands"),
    *("spectra.source", "spectra.quantity", "spectra.unit", "spectra.concentration_unit"),
    *("spectra.sheet", "spectra.concentrations"),
}


def may_be_text(annotation: Any) -> bool:
    if get_origin(annotation) is Literal:
        return False
    if get_origin(annotation) is Annotated:
        return may_be_text(get_args(annotation)[0])
    return annotation in (str, Any) or any(map(may_be_text, get_args(annotation)))


def texts(block: type[BaseModel], above: str = ""):
    for name, field in block.model_fields.items():
        key = above + (field.alias or name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from texts(field.annotation, f"{key}.")
        elif may_be_text(field.annotation):
            yield key


def test_texts_that_could_name_a_path_are_known():
    assert set(texts(Parameters)) == FREE_TEXTS


NOT_WRITTEN = {
    "Path(block.folder)",  # series that the ablation reads
    "Path(parameters.spectra.source)",  # what is read, and its name on the report
    "Path(folder)",  # of temporary files, where a benchmark runs all stages
    "Path(inspect.getfile(run))",  # what a stage is called
    "Path(__file__)",  # of the code that is read
}
CONSTANTS = {
    name.id
    for node in ast.parse((ROOT / "stages/paths.py").read_text(encoding="utf-8")).body
    if isinstance(node, ast.Assign)
    for name in node.targets
    if isinstance(name, ast.Name)
}
WRITERS = {
    *("write_text", "write_metrics", "write_document", "write_series", "write_grids", "write"),
    *("save_figure", "solve_all", "open_engine"),
}


def path_arguments(tree: ast.Module):
    """Every first or second argument of a call that writes which is no text or object."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func).split(".")[-1]
            if called in WRITERS:
                place = 1 if called in ("save_figure", "open_engine") else 0
                yield node.args[place]


# `make prior` writes a file of the package, where its user says.
STAGES = sorted(set((ROOT / "stages").glob("*.py")) - {ROOT / "stages/prior.py"})


@pytest.mark.parametrize("file", STAGES, ids=lambda file: file.stem)
def test_stages_write_to_the_paths_of_the_project_alone(file):
    tree = ast.parse(file.read_text(encoding="utf-8"))
    # What a variable is called that is made of the paths of the project.
    known = CONSTANTS | {
        node.targets[0].id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and {n.id for n in ast.walk(node.value) if isinstance(n, ast.Name)} <= CONSTANTS
        and not isinstance(node.value, ast.Constant)
    }
    known |= {  # and a variable of a loop over one of them
        node.target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.For)
        and isinstance(node.iter, ast.Name)
        and node.iter.id in CONSTANTS
        and isinstance(node.target, ast.Name)
    }
    for argument in path_arguments(tree):
        names = {node.id for node in ast.walk(argument) if isinstance(node, ast.Name)}
        assert names, ast.unparse(argument)
        assert names <= known, ast.unparse(argument)
        assert ".." not in ast.unparse(argument)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Path" and node.args:
            constant = isinstance(node.args[0], ast.Constant)
            assert constant or ast.unparse(node) in NOT_WRITTEN, ast.unparse(node)


class Watch:
    """What this process writes below a folder, by the events that Python audits."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.written: set[Path] = set()
        sys.addaudithook(self.heard)

    def heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.folder is None:
            return
        if event == "open":
            flags = arguments[2] if isinstance(arguments[2], int) else 0
            paths = arguments[:1] if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) else ()
        elif event in ("os.rename", "os.link", "os.symlink"):
            paths = arguments[:2]
        elif event in ("os.mkdir", "os.remove", "os.rmdir", "os.truncate", "shutil.rmtree"):
            paths = arguments[:1]
        else:
            return
        for path in paths:
            if isinstance(path, str | bytes | os.PathLike):
                found = Path(os.fsdecode(path)).absolute()
                if found.parent.resolve().is_relative_to(self.folder):
                    self.written.add(found.parent.resolve() / found.name)


WATCH = Watch()

STAGES = (
    *("probe", "generate", "spectra", "metric", "christoffel", "geodesics", "decoders"),
    *("validate", "report"),
)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["up", "absolute", "link"])
def test_nothing_is_written_outside_whatever_the_parameters_say(tmp_path, monkeypatch, how):
    project, outside = tmp_path / "project", tmp_path / "outside"
    project.mkdir()
    outside.mkdir()
    levels = (0, 10, 20, 30)
    rows = [[400 + 20 * n, *(level * n % 7 + 0.1 * n for level in levels)] for n in range(6)]
    table = "\n".join(",".join(map(str, row)) for row in [["wavelength_nm", *levels], *rows])
    (outside / "series.csv").write_text(table, encoding="utf-8")
    (project / "link").symlink_to(outside)
    place = {"up": "../outside", "absolute": str(outside), "link": "link"}[how]
    text = small_parameters()
    for found, hostile in {
        "source: data/synthetic.csv": f"source: {place}/series.csv",
        "quantity: absorbance": f"quantity: {place}/quantity",
        'unit: "1"': f"unit: {place}/unit",
        "concentration_unit: ppb": f"concentration_unit: {place}/level",
        '"220-800": [220.0, 800.0]': f'"{place}/band": [220.0, 800.0]',
        "folder: data/series": f"folder: {place}",
        "learning: end_to_end": "learning: flat",
        "kind: blend ": "kind: posterior ",
        "members: 2 ": "members: 0 ",
        "preset: standard ": f"preset: {place}/preset",
        "  standard: {}": f'  "{place}/preset": {{}}',
    }.items():
        assert found in text
        text = text.replace(found, hostile)
    (project / "params.yaml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(project)
    monkeypatch.setattr(WATCH, "folder", tmp_path.resolve())
    monkeypatch.setattr(WATCH, "written", set())
    for name in STAGES:
        module = __import__(f"stages.{name}", fromlist=["app"])
        result = CliRunner().invoke(module.app, [])
        assert result.exit_code == 0, (name, result.output, result.stderr)
    assert project.resolve() / "data/spectra.zarr" in WATCH.written
    assert not [path for path in WATCH.written if not path.is_relative_to(project.resolve())]
    assert [file.name for file in outside.iterdir()] == ["series.csv"]
    assert (outside / "series.csv").read_text(encoding="utf-8") == table


def test_an_output_that_is_a_link_is_replaced_and_not_followed(tmp_path, monkeypatch):
    project, outside = tmp_path / "project", tmp_path / "outside"
    (project / "data").mkdir(parents=True)
    outside.mkdir()
    (outside / "kept.csv").write_text("kept", encoding="utf-8")
    (project / "data/synthetic.csv").symlink_to(outside / "kept.csv")
    (project / "params.yaml").write_text(small_parameters(), encoding="utf-8")
    monkeypatch.chdir(project)
    assert CliRunner().invoke(generate, []).exit_code == 0
    assert (outside / "kept.csv").read_text(encoding="utf-8") == "kept"
    assert not (project / "data/synthetic.csv").is_symlink()
