"""The fork server of stages, with stages that say in which process they run."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stages.server import SOCKET
from tests.stages.conftest import ROOT

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="there is a server on Linux alone"),
    pytest.mark.slow,
]

SAYS = """
import json, os, signal, sys, time

def say(action):
    told = {
        "process": os.getpid(),
        "parent": os.getppid(),
        "group": os.getpgrp(),
        "arguments": sys.argv[1:],
        "stage": os.environ.get("DVC_STAGE"),
        "has torch": "torch" in sys.modules,
    }
    print(json.dumps(told), flush=True)
    if action == "fail":
        sys.exit("error: as asked")
    if action == "raise":
        raise ValueError("as asked")
    if action == "die":
        os.kill(os.getpid(), signal.SIGTERM)
    if action == "wait":
        time.sleep(60)

if __name__ == "__main__":
    try:
        say(sys.argv[-1])
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        sys.exit(130)
"""


class Project:
    """A folder with the stages of the project, two of which only say where they run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT / "stages", folder / "stages")
        for name in ("metric", "validate"):
            (folder / f"stages/{name}.py").write_text(SAYS, encoding="utf-8")
        (folder / "data").mkdir()
        (folder / "data/device.json").write_text('{"device": "cpu"}', encoding="utf-8")

    def start(self, name: str, *arguments: str, **changes: str) -> subprocess.Popen[str]:
        """Start a stage as DVC does, in a process group of its own."""
        own = {"PYTHONPATH": str(ROOT), "DVC_STAGE": name, "PYTEST_CURRENT_TEST": ""}
        environment = {**os.environ, **own, **changes}
        return subprocess.Popen(
            [sys.executable, "-m", "stages", name, *arguments],
            cwd=self.folder,
            env={key: value for key, value in environment.items() if value},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    def serve(self) -> None:
        """Run `metric`, and wait until the server that it starts answers."""
        assert self.start("metric").wait() == 0
        end = time.monotonic() + 60
        while not self.answers():
            assert time.monotonic() < end
            time.sleep(0.1)

    def answers(self) -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
            server.settimeout(30)
            try:
                server.connect(os.path.relpath(self.folder / SOCKET))
                return bool(server.recv(100))
            except OSError:
                return False


def told(process: subprocess.Popen[str]) -> dict:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def is_over(process: int) -> bool:
    """Whether a process ends within seconds."""
    for _ in range(100):
        try:
            state = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2]
        except FileNotFoundError:
            return True
        if state.split()[0] == "Z":
            return True
        time.sleep(0.1)
    return False


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    project = Project(tmp_path_factory.mktemp("served"))
    project.serve()
    return project


def test_a_stage_runs_in_a_fork_of_the_server_with_its_own_terminal_and_arguments(project):
    process = project.start("validate", "--some", "option")
    found = told(process)
    assert found["has torch"]
    assert found["process"] != process.pid != found["parent"]
    assert found["group"] == process.pid  # which is what Ctrl-C interrupts
    assert found["arguments"] == ["--some", "option"]
    assert found["stage"] == "validate"
    assert process.wait() == 0
    assert told(project.start("validate"))["parent"] == found["parent"]


@pytest.mark.parametrize(
    ("action", "status", "message"),
    [("fail", 1, "error: as asked"), ("raise", 1, "ValueError: as asked"), ("die", 143, "")],
)
def test_a_stage_ends_as_it_does_in_the_server(project, action, status, message):
    process = project.start("validate", action)
    assert told(process)["has torch"]
    _, errors = process.communicate()
    assert process.returncode == status
    assert message in errors


def test_ctrl_c_interrupts_the_stage_and_its_process_waits_for_it(project):
    process = project.start("validate", "wait")
    assert told(process)["has torch"]
    os.killpg(process.pid, signal.SIGINT)
    output, _ = process.communicate(timeout=30)
    assert output == "interrupted\n"
    assert process.returncode == 130


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_stage_is_killed_with_the_process_that_handed_it_over(project, number):
    process = project.start("validate", "wait")
    found = told(process)
    process.send_signal(number)
    assert process.wait() == -number
    assert is_over(found["process"])
    assert project.answers()


@pytest.mark.parametrize("changes", [{"OTHER": "1"}, {"DVC_STAGE": ""}])
def test_with_another_environment_or_without_dvc_a_stage_runs_in_its_own_process(project, changes):
    process = project.start("validate", **changes)
    found = told(process)
    assert found["process"] == process.pid
    assert not found["has torch"]


def test_a_stage_whose_server_is_killed_runs_again_in_its_own_process(tmp_path):
    project = Project(tmp_path)
    project.serve()
    process = project.start("validate", "wait")
    first = told(process)
    os.kill(first["parent"], signal.SIGKILL)
    again = told(process)
    assert again["process"] == process.pid
    assert is_over(first["process"])
    process.kill()


def test_a_server_ends_when_its_code_has_changed(tmp_path):
    project = Project(tmp_path)
    project.serve()
    server = told(project.start("validate"))["parent"]
    (tmp_path / "stages/command.py").touch()
    process = project.start("validate")
    assert told(process)["process"] == process.pid
    assert is_over(server)
    assert not (tmp_path / SOCKET).exists()


def test_a_server_ends_when_nothing_comes_and_leaves_a_later_one_alone(tmp_path):
    project, servers = Project(tmp_path), []
    source = tmp_path / "stages/server.py"
    text = source.read_text(encoding="utf-8")
    assert "IDLE = 20.0" in text
    for seconds in (5.0, 5.0, 60.0):
        source.write_text(text.replace("IDLE = 20.0", f"IDLE = {seconds}"), encoding="utf-8")
        project.serve()
        servers.append(told(project.start("validate"))["parent"])
    *earlier, last = servers
    assert all(map(is_over, earlier))
    assert told(project.start("validate"))["parent"] == last
    os.kill(last, signal.SIGKILL)


def test_a_server_takes_its_socket_away(tmp_path):
    project = Project(tmp_path)
    source = tmp_path / "stages/server.py"
    text = source.read_text(encoding="utf-8")
    source.write_text(text.replace("IDLE = 20.0", "IDLE = 0.5"), encoding="utf-8")
    project.serve()
    end = time.monotonic() + 30
    while (tmp_path / SOCKET).exists():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_an_unknown_stage_is_refused(tmp_path):
    process = Project(tmp_path).start("metrik")
    _, errors = process.communicate()
    assert process.returncode == 1
    assert errors.startswith("error: found stage metrik, expected one of probe, generate,")
