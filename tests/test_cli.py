import json
import logging
import re
import subprocess
import sys

import pytest

from geonode import cli, progress
from geonode.commands import common
from geonode.errors import GeonodeError
from tests.commands.calling import call, shell
from tests.stages.conftest import ROOT

PIPELINE = ("geodesic", "verify")
COMMANDS = [command.name for command in cli.app.registered_commands]
LIBRARIES = {"torch", "zarr", "numpy", "scipy", "sklearn", "altair"}


@pytest.fixture
def extra(monkeypatch):
    """Add a command that calls a function; its name is `extra`."""

    def add(function):
        def extra() -> None:
            function()

        monkeypatch.setattr(cli.app, "registered_commands", [*cli.app.registered_commands])
        cli.app.command()(extra)

    return add


def test_help_needs_no_library_and_every_command_has_an_example():
    code = (
        "import sys\nfrom geonode import cli\n"
        f"for words in {[[], *([command] for command in COMMANDS)]}:\n"
        "    cli.app([*words, '--help'], standalone_mode=False)\n"
        f"print(sorted({LIBRARIES} & set(sys.modules)))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    told = " ".join(run.stdout.split())
    assert all(f"Example: geonode {command}" in told for command in COMMANDS)
    assert run.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("words", ["geonode.cli estimate", "stages.spectra"])
def test_help_does_not_need_docstrings(words):
    told = shell(f"python -OO -m {words} --help", cwd=ROOT).stdout
    assert re.search("Estimate the amounts of every|Read, validate and chart", told)


def test_pages_without_docstrings_are_refused_in_one_line(tmp_path):
    words = f"calibrate data/examples/acetophenone.csv --method pls --out {tmp_path / 'made'}"
    found = shell(f"python -OO -m geonode.cli {words}", cwd=ROOT)
    assert (found.returncode, found.stderr.count("\n")) == (2, 1)
    assert "-OO" in found.stderr
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("words", ["geonode.cli --help", "stages.spectra"])
def test_a_closed_standard_output_is_one_line_and_status_1(words):
    done = shell(f"python -m {words} >&-", cwd=ROOT)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("error: standard output: found it closed")


def test_a_closed_stderr_changes_nothing():
    line = "python -m geonode.cli -v inspect data/examples/acetophenone.csv 2>&-"
    done = shell(line, cwd=ROOT)
    assert done.returncode == 0


def test_help_groups_the_commands_and_says_what_the_exit_status_means():
    text = call("--help").stdout
    titles = ["Your spectra", "The pipeline", "This machine"]
    groups = re.split("|".join(titles), text)[1:]
    assert [re.findall(r"^│ (\w+) ", group, re.MULTILINE) for group in groups] == [
        [command for command in COMMANDS if command not in (*PIPELINE, "devices")],
        [*PIPELINE],
        ["devices"],
    ]
    for part in ("0 done;", "1 done, but", "2 could not begin", "130 interrupted"):
        assert part in " ".join(text.split())


def test_the_version_is_that_of_the_package():
    result = call("--version")
    text = (ROOT / "geonode/__init__.py").read_text(encoding="utf-8")
    version = re.search(r'^__version__ = "(.*)"$', text, re.MULTILINE)[1]
    assert (result.exit_code, result.stdout) == (0, f"geonode {version}\n")


@pytest.mark.parametrize("words", [["--quiet", "--verbose", "devices"], ["nothing"], []])
def test_a_line_that_cannot_be_understood_is_status_2(words):
    assert call(*words).exit_code == 2


def test_an_expected_error_is_one_line_and_with_verbose_says_where(extra):
    def fail():
        raise GeonodeError("something is wrong")

    extra(fail)
    for words in (["extra"], ["--quiet", "extra"]):
        result = call(*words)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == "error: something is wrong\n"
    verbose = call("--verbose", "extra").stderr
    assert ", in fail" in verbose
    assert verbose.endswith("\nerror: something is wrong\n")


def test_an_interruption_is_one_line_and_status_130(extra):
    def stop():
        raise KeyboardInterrupt

    extra(stop)
    result = call("extra")
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "error: interrupted\n")


def test_quiet_keeps_results_and_leaves_out_notes(extra):
    def work():
        common.note("half way")
        common.echo_json({"quiet": progress.is_quiet(), "missing": float("nan")})

    extra(work)
    assert call("extra").stderr == "half way\n"
    assert json.loads(call("extra").stdout) == {"quiet": False, "missing": None}
    result = call("--quiet", "extra")
    assert (result.stderr, json.loads(result.stdout)["quiet"]) == ("", True)
    assert not progress.is_quiet()


def test_verbose_shows_the_log(extra):
    def work():
        logging.getLogger("geonode.work").debug("looking\x1b")

    extra(work)
    assert call("extra").stderr == ""
    assert r"geonode.work: looking\x1b" in call("--verbose", "extra").stderr
    assert not logging.getLogger("geonode").handlers
