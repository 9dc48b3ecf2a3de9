"""What the documentation tells a reader to type is accepted by the software."""

import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from geonode.calibration.saved import save_calibration
from geonode.parameters_file import parse_yaml, read_parameters
from tests.calibration import beer
from tests.commands.calling import call, write
from tests.estimation.images import image_values, store
from tests.estimation.trained import AXIS, spectra_at, write_model
from tests.reading.tables import read_table
from tests.stages.conftest import small_parameters

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```\w*\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)


(EXAMPLE,) = [block for block in blocks(ROOT / "README.md") if block.startswith("wavelength")]


def test_the_example_table_is_read(tmp_path):
    path = tmp_path / "my_spectra.csv"
    path.write_text(EXAMPLE, encoding="utf-8")
    table = read_table(path)
    assert table.concentrations.tolist() == [0, 10, 20, 30, 40, 60]
    assert [len(scans) for scans in table.scans] == [1, 1, 1, 2, 1, 1]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_parameters_on_command_lines_exist(page):
    text = page.read_text(encoding="utf-8")
    given = re.findall(r"-S ([a-z_.]+)=([^\s`|]+)", text)
    assert given or "-S " not in text
    for key, value in given:
        overrides = {key: parse_yaml(value)}
        if key == "spectra.kappa":
            overrides["spectra.chart"] = "asinh"
        if overrides.get(key) == "asinh":
            overrides["spectra.kappa"] = 1.0
        assert read_parameters(ROOT / "params.yaml", overrides)


def anchors(page: Path) -> set[str]:
    """Names that GitHub gives the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_links_exist(page):
    text = page.read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", "\n".join(blocks(page)), re.M):
        assert f"\n{target}:" in makefile
    for stage in re.findall(r"python -m stages\.(\w+)", text):
        assert (ROOT / "stages" / f"{stage}.py").is_file()
    for link in re.findall(r"\]\(([^):]+)\)", text):
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link
    assert blocks(page) or "```" not in text


@pytest.fixture
def project(tmp_path, monkeypatch, calibrated):
    """A folder with what the pages speak of: a model, tables of spectra, an image, more series."""
    write_model(tmp_path)
    (tmp_path / "params.yaml").write_text(small_parameters(), encoding="utf-8")
    shutil.copy(ROOT / "dvc.yaml", tmp_path)
    save_calibration(tmp_path / "data/calibration.safetensors", calibrated)
    (tmp_path / "data/examples").mkdir()
    for file in (ROOT / "data/examples").glob("*.csv"):
        rows = file.read_text(encoding="utf-8").splitlines()
        few = "\n".join(",".join(row.split(",")[:5]) for row in [rows[0], *rows[1::10]])
        (tmp_path / "data/examples" / file.name).write_text(few, encoding="utf-8")
    (tmp_path / "my_spectra.csv").write_text(EXAMPLE, encoding="utf-8")
    (tmp_path / "DIR").mkdir()
    levels = np.array([0.0, 10.0, 20.0, 40.0, 60.0])
    for name, concentrations in (
        ("unknown.csv", np.array([12.0, 33.0])),
        ("DIR/series.csv", levels),
        ("data/synthetic.csv", levels),
    ):
        header = "wavelength_nm," + ",".join(f"{c:g}" for c in concentrations)
        rows = np.column_stack([AXIS, spectra_at(concentrations).T])
        np.savetxt(tmp_path / name, rows, delimiter=",", header=header, comments="")
    store(tmp_path / "cube.zarr", image_values())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pages", "named"),
    [
        (["README.md", "docs/your-spectra.md"], {"calibrate", "predict", "estimate", "panel"}),
        (["docs/estimate.md"], {"predict", "estimate", "inspect"}),
    ],
)
def test_commands_do_what_is_said_of_them(project, pages, named):
    text = "\n".join(block for page in pages for block in blocks(ROOT / page))
    lines = dict.fromkeys(line.split("  #")[0].strip() for line in text.splitlines())
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("geonode ")]
    assert {command[0] for command in commands} >= named
    written = [project / name for name in re.findall(r"--(?:out|figure) (\S+)", text)]
    for path in written:
        path.unlink(missing_ok=True)
    for command in commands:
        done = call(*command)
        assert done.exit_code == 0, (command, done.output)
    assert all(path.exists() for path in written)


@pytest.mark.slow
def test_the_example_of_the_regressor_runs(project):
    (example,) = [block for block in blocks(ROOT / "README.md") if "import" in block]
    found = {}
    exec(compile(example, "README.md", "exec"), found)
    np.testing.assert_allclose(found["concentrations"], [100], atol=10)
    assert found["intervals"].shape == (1, 2)


def test_the_example_of_a_saved_calibration_runs(project):
    (example,) = [block for block in blocks(ROOT / "docs/api.md") if "load_calibration" in block]
    beer.write_series(project / "my_spectra.csv", 1)
    write(project / "unknown.csv", dict(zip("ab", beer.spectra_at([3, 7]), strict=True)))
    call("calibrate", "my_spectra.csv", status=0)
    found = {}
    exec(compile(example, "api.md", "exec"), found)
    np.testing.assert_allclose(found["concentrations"], [3, 7], atol=0.3)
    assert found["intervals"].shape == (2, 2)
