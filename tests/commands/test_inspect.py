import json

import pytest
import typer
from typer.testing import CliRunner

from geonode.commands.common import Commands
from geonode.commands.inspect import inspect

TEXT = "wavelength_nm,0,10,20,60\n400,1,2,3,4\n410,5,,7,8\n420,9,8,7,6\n430,5,4,3,2\n"


@pytest.fixture
def run(tmp_path):
    """Inspect a file, in a group of commands as the real one."""
    (tmp_path / "mine.csv").write_text(TEXT, encoding="utf-8")
    app = typer.Typer(cls=Commands)
    app.command()(inspect)

    @app.callback()
    def main(quiet: bool = False, verbose: bool = False):
        """As the options of all commands."""

    return lambda *words: CliRunner().invoke(app, ["inspect", str(tmp_path / "mine.csv"), *words])


def test_a_file_is_described(run):
    result = run()
    assert result.exit_code == 0
    assert "delimiter comma" in result.stdout
    assert "missing: mask" in result.stdout


def test_options_reach_the_reader(run):
    result = run("--window", "420", "440", "--json")
    assert result.exit_code == 2
    assert "window [420, 440] keeps 2 wavelengths" in result.stderr
    found = json.loads(run("--window", "400", "430", "--json").stdout)
    assert (found["wavelengths"], found["masked"]) == (3, [410])
    refused = run("--missing", "refuse")
    assert refused.exit_code == 2
    assert "row 3, column '10': found an empty or NaN cell" in refused.stderr
