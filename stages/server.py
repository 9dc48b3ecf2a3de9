"""Fork server of stages: what takes long to import is imported once for a run of the pipeline.

Most stages take longer to import torch than to compute. So DVC's run of `metric` starts a server,
which imports what later stages need while metrics are learned. The process of a later stage hands
itself over: it sends its terminal to the server, which forks a process that runs the stage, and
ends as that one ends.

The server forks for stages of the same run alone: of the same folder, environment, interpreter,
session and processor cores, and while no file of what it imported has changed. Otherwise, and
elsewhere than on Linux, a stage runs in the process that was started for it; the bytes are the
same. The server ends when it has waited for some seconds.
"""

import hashlib
import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from stages.paths import DEVICE

STARTING = "metric"
"""Stage that starts a server: the first that imports torch, and often the longest."""

SERVED = ("christoffel", "geodesics", "decoders", "validate")
"""Stages that hand themselves over: those that import torch and follow."""

IMPORTED = (
    "stages.command",
    "geonode.storage.record",
    "geonode.geometry.solved",
    "geonode.evaluation.grid_report",
    "geonode.evaluation.comparison",
    "geonode.evaluation.tables",
)
"""Imported by a server; they start no threads and use no device, which no fork survives."""

KERNELS = ("geonode.compute.kernels.closed_form", "geonode.compute.kernels.perceptron")
"""Imported as well for a GPU; the same holds for them."""

SOCKET = Path("data/stages.sock")  # relative, as the path of a socket has to be short
IDLE = 20.0  # seconds that a server waits for the next stage
PATIENCE = 5.0  # seconds that a stage waits for a server, which may still be importing
LONGEST = 100_000  # bytes of a message
PR_SET_PDEATHSIG = 1  # of prctl(2)


class Request(NamedTuple):
    """Request of a process to run its stage.

    Attributes:
        stage: name of the stage.
        arguments: of its command line.
        dvc_stage: its name for DVC, the only variable of the environment that may differ.
        group: process group, which Ctrl-C interrupts.
    """

    stage: str
    arguments: list[str]
    dvc_stage: str
    group: int


def start_server() -> None:
    """Start a server for the stages after this one."""
    import subprocess

    command = [sys.executable, "-c", "from stages.server import serve; serve()"]
    nowhere = subprocess.DEVNULL
    subprocess.Popen(command, stdin=nowhere, stdout=nowhere, stderr=nowhere, process_group=0)


def handed_over(stage: str) -> int | None:
    """Exit status of a stage that a server has run; None: there is none for this process."""
    request = Request(stage, sys.argv[1:], os.environ["DVC_STAGE"], os.getpgrp())
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server, suppress(OSError):
        server.settimeout(PATIENCE)
        server.connect(str(SOCKET))
        if server.recv(LONGEST).decode() != _context():
            return None
        server.settimeout(None)
        with _interrupted_elsewhere():
            socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2])
            status = server.recv(LONGEST)
        return int(status) if status else None
    return None


def _context() -> str:
    """Digest of what a process has from others, but for its terminal and the name of the stage."""
    environment = {name: value for name, value in os.environ.items() if name != "DVC_STAGE"}
    cores = sorted(os.sched_getaffinity(0))
    place = (sys.executable, sys.flags, str(Path.cwd()), os.getsid(0))
    return hashlib.sha256(repr((place, cores, sorted(environment.items()))).encode()).hexdigest()


@contextmanager
def _interrupted_elsewhere() -> Iterator[None]:
    """Context in which Ctrl-C ends the stage in its other process, and this one waits for that."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def serve() -> None:
    """Run a server; in a process that it forks, run the stage."""
    import runpy
    import time

    began, context = time.time_ns(), _context()  # before torch changes the environment
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with _listener() as listener:
        _import()
        request = _next_request(listener, context, _Code.since(began))
    if request is not None:
        runpy.run_module(f"stages.{request.stage}", run_name="__main__", alter_sys=True)


@contextmanager
def _listener() -> Iterator[socket.socket]:
    """Context with the socket that stages connect to, and no other user."""
    SOCKET.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        before = os.umask(0o077)
        listener.bind(str(SOCKET))
        os.umask(before)
        listener.listen()
        place, server = SOCKET.stat().st_ino, os.getpid()
        try:
            yield listener
        finally:
            with suppress(FileNotFoundError):
                # Not by a process that was forked, and not the socket of a later server.
                if os.getpid() == server and SOCKET.stat().st_ino == place:
                    SOCKET.unlink()


def _import() -> None:
    """Import what stages need. The compiler of kernels also reads all its own files, once."""
    from importlib import import_module
    from importlib.util import find_spec

    for module in IMPORTED:
        import_module(module)
    if json.loads(DEVICE.read_bytes())["device"] == "cuda" and find_spec("triton") is not None:
        for module in KERNELS:
            import_module(module)
        import_module("triton.runtime.cache").triton_key()


class _Code(NamedTuple):
    """Files of all imported modules, and the time before the first import (ns)."""

    files: list[Path]
    began: int

    @classmethod
    def since(cls, began: int) -> "_Code":
        """The files of the modules imported by now; some modules of torch have none."""
        names = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        files = [Path(name) for name in names if name is not None]
        return cls([file for file in files if file.is_file()], began)

    @property
    def has_changed(self) -> bool:
        """Whether a file was written since, or is gone."""
        try:
            return any(file.stat().st_mtime_ns > self.began for file in self.files)
        except FileNotFoundError:
            return True


def _next_request(listener: socket.socket, context: str, code: _Code) -> Request | None:
    """Run stages one after the other until none comes; in a forked process, return its request."""
    listener.settimeout(IDLE)
    while True:
        try:
            client, _ = listener.accept()
        except TimeoutError:
            return None
        with client, suppress(ConnectionError, TimeoutError):  # of a process that was killed
            if code.has_changed:
                return None
            client.settimeout(IDLE)
            client.send(context.encode())
            message, terminal, *_ = socket.recv_fds(client, LONGEST, 3)
            if not message:
                continue
            request, server = Request(*json.loads(message)), os.getpid()
            process = os.fork()
            if process == 0:
                _become(request, terminal, server)
                return request
            for file in terminal:
                os.close(file)
            client.send(str(_status(process, client)).encode())


def _status(process: int, client: socket.socket) -> int:
    """Exit status of a forked process, which is killed if the one it runs for ends before it."""
    import select

    end = os.pidfd_open(process)
    ready, _, _ = select.select([end, client.fileno()], [], [])
    if end not in ready:
        os.kill(process, signal.SIGKILL)
    os.close(end)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return code if code >= 0 else 128 - code  # of a signal, as shells report it


def _become(request: Request, terminal: list[int], server: int) -> None:
    """Turn a forked process into that of a stage."""
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:
        sys.exit(1)
    os.setpgid(0, request.group)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for standard, file in enumerate(terminal):
        os.dup2(file, standard)
        os.close(file)
    sys.stdout.reconfigure(line_buffering=os.isatty(1))  # type: ignore[union-attr]
    os.environ["DVC_STAGE"] = request.dvc_stage
    sys.argv[1:] = request.arguments
