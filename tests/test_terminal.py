"""What reaches a terminal, and what becomes of a standard output that takes nothing."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from geonode.cli import app
from geonode.config import Parameters
from geonode.terminal import printable
from stages.command import stage
from tests.commands.calling import call, shell
from tests.stages.conftest import ROOT, assert_refused

EVIL = "\x1b]0;owned\x07\x9b31m\u202e\x08"
BODY = "400,1,2,3,4\n410,2,3,4,5\n420,3,4,5,6\n"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A working folder with parameters and a series."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("wavelength_nm,0,1,2,3\n" + BODY, encoding="utf-8")
    (tmp_path / "params.yaml").write_bytes((ROOT / "params.yaml").read_bytes())


ALONE = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)}
"""Environment of a process that does not know of this one."""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("10 µg/L, λ ≤ 3\n°C", "10 µg/L, λ ≤ 3\n°C"),
        ("a\x1b[31m", r"a\x1b[31m"),
        ("a\x07\x00\r", r"a\x07\x00\r"),
        ("\x9b31m", r"\x9b31m"),
        ("a\u202eb\u200f", r"a\u202eb\u200f"),
        ("a\ud800", r"a\ud800"),
        ("a\u2028b", r"a\u2028b"),
        ("10\xa0ppb", "10\xa0ppb"),
    ],
)
def test_a_terminal_is_told_nothing_but_what_it_shows(text, shown):
    assert printable(text) == shown


def dangerous(text):
    return re.findall(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text)


@pytest.mark.parametrize(("before", "after"), [([], []), ([], ["--json"]), (["--verbose"], [])])
@pytest.mark.parametrize("header", [f'"axis{EVIL}","0 {EVIL}","1","2","3"', ""])
def test_no_control_character_of_a_file_or_its_name_reaches_the_terminal(
    tmp_path, header, before, after
):
    path = tmp_path / f"a{EVIL}.csv"
    path.write_text(f"{header}\n{BODY}" if header else "", encoding="utf-8")
    result = call(*before, "inspect", path, *after)
    assert not dangerous(result.stdout + result.stderr)
    assert r"\x1b" in result.stdout + result.stderr or after
    if after and result.exit_code == 0:
        assert json.loads(result.stdout)["levels"] == [0, 1, 2, 3]


@pytest.mark.usefixtures("project")
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("command", ["geonode.cli inspect a.csv", "stages.generate"])
def test_a_full_standard_output_is_one_line(command):
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = shell(f"python -m {command}", env=ALONE, stdout=full)
    expected = "error: standard output: No space left on device; the result was not printed\n"
    assert (done.returncode, done.stderr) == (2, expected)


@pytest.mark.usefixtures("project")
def test_a_reader_that_leaves_is_no_error():
    done = shell("python -m geonode.cli inspect a.csv | true", env=ALONE)
    assert (done.stdout, done.stderr) == ("", "")


@pytest.mark.usefixtures("project")
def test_what_the_terminal_cannot_encode_is_replaced():
    environment = ALONE | {"PYTHONIOENCODING": "cp1252"}
    done = shell("python -m geonode.cli inspect a.csv", env=environment, encoding="cp1252")
    assert (done.returncode, done.stderr) == (0, "")
    assert "?" in done.stdout


LONG = 300 * "a"


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    "words",
    [
        ("calibrate", "a.csv", "--out", LONG),
        ("predict", "--concentration", "1", "--figure", f"{LONG}.png"),
        ("panel", ".", "--out", f"{LONG}.csv"),
        ("verify", LONG),
        ("inspect", f"{LONG}.csv"),
    ],
)
def test_a_name_that_no_disk_takes_is_one_line(words):
    assert_refused(call(*words), "File name too long", LONG)


def failing(fail, *options):
    """Result of a stage that fails."""

    @stage("generate")
    def app(parameters: Parameters) -> str:
        """Fail."""
        return str(fail())

    return CliRunner().invoke(app, options)


@pytest.mark.parametrize("wish", ["", "1"])
def test_an_error_is_red_unless_no_colour_is_wanted(wish):
    done = CliRunner().invoke(app, ["inspect", "absent.csv"], env={"NO_COLOR": wish}, color=True)
    start, end = ("error: ", "\n") if wish else ("\x1b[31merror: ", "\x1b[0m\n")
    assert done.stderr.startswith(start)
    assert done.stderr.endswith(end)


MEMORY = "lower memory_mb in the parameter file, close other programs, or raise `ulimit -v`"


def lose_the_gpu():
    """Raise what torch says when a GPU does not answer."""
    raise RuntimeError("CUDA error: unspecified launch failure\nCompile with TORCH_USE_CUDA_DSA.")


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("fail", "said", "advice"),
    [
        (lambda: torch.empty(10**16), "allocate 40000000000000000 bytes", MEMORY),
        (lambda: np.empty(10**16), "Unable to allocate 71.1 PiB", MEMORY),
        (lambda: bytearray(10**16), "no memory to allocate", MEMORY),
        (lose_the_gpu, "CUDA error: unspecified launch failure; ", "`nvidia-smi`"),
    ],
)
def test_what_the_machine_refuses_is_one_line(fail, said, advice):
    assert_refused(failing(fail), said, advice)
    assert "Traceback" in failing(fail, "--log-level", "debug").stderr


@pytest.mark.usefixtures("project")
def test_a_fault_of_the_program_is_no_line():
    assert isinstance(failing(lambda: 1 / 0).exception, ZeroDivisionError)
