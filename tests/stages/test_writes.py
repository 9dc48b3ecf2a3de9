"""What parameters say never decides where a stage writes."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stages.generate import app as generate
from tests.stages.conftest import small_parameters


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
def test_nothing_is_written_outside_whatever_the_parameters_say(tmp_path, monkeypatch):
    project, outside = tmp_path / "project", tmp_path / "outside"
    project.mkdir()
    outside.mkdir()
    levels = (0, 10, 20, 30)
    rows = [[400 + 20 * n, *(level * n % 7 + 0.1 * n for level in levels)] for n in range(6)]
    table = "\n".join(",".join(map(str, row)) for row in [["wavelength_nm", *levels], *rows])
    (outside / "series.csv").write_text(table, encoding="utf-8")
    place, text = "../outside", small_parameters()
    for found, hostile in {
        "source: data/synthetic.csv": f"source: {place}/series.csv",
        "quantity: absorbance": f"quantity: {place}/quantity",
        'unit: "1"': f"unit: {place}/unit",
        "concentration_unit: ppb": f"concentration_unit: {place}/level",
        '"220-800": [220.0, 800.0]': f'"{place}/band": [220.0, 800.0]',
        "folder: data/series": f"folder: {place}",
        "learning: end_to_end": "learning: flat",
        "kind: blend ": "kind: posterior ",
        "members: 1 ": "members: 0 ",
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
