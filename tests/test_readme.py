"""What the documentation tells a reader to type is accepted by the software."""

import re
from pathlib import Path

import pytest

from geonode.config import parse_yaml, read_parameters
from geonode.spectra.reading import read_table

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def blocks(page: Path) -> list[str]:
    return re.findall(r"^```\w*\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)


def test_the_example_table_is_read(tmp_path):
    (example,) = [block for block in blocks(ROOT / "README.md") if block.startswith("wavelength")]
    path = tmp_path / "my_spectra.csv"
    path.write_text(example, encoding="utf-8")
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_links_exist(page):
    text = page.read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make (\w+)", "\n".join(blocks(page)), re.M):
        assert f"\n{target}:" in makefile
    for stage in re.findall(r"python -m stages\.(\w+)", text):
        assert (ROOT / "stages" / f"{stage}.py").is_file()
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (page.parent / link).exists(), link
    assert blocks(page) or "```" not in text
