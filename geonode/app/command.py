"""Command `geonode app`: a page on this machine that calibrates and estimates, in a browser."""

import secrets
import signal
import socket
import webbrowser
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Annotated

import typer

from geonode.commands.common import note
from geonode.errors import GeonodeError
from geonode.terminal import tell


def serve(
    port: Annotated[
        int | None,
        typer.Option(min=1024, max=65535, help="Port on this machine.", show_default="a free one"),
    ] = None,
    no_browser: Annotated[bool, typer.Option(help="Print the address; open no browser.")] = False,
) -> None:
    """Calibrate and estimate in a browser, on a page that this machine serves to itself alone.

    Files stay on this machine, in a temporary folder that is deleted at the end: download what is
    to be kept. The address contains a secret of this run. Ctrl-C, or End on the page, ends it.
    """
    for package in ("multipart", "starlette", "uvicorn"):
        if find_spec(package) is None:
            raise GeonodeError(f'found no package {package}; pip install "geonode-spectra[app]"')
    import uvicorn  # noqa: PLC0415 - only here

    from geonode.app.server import application  # noqa: PLC0415
    from geonode.app.work import Desk  # noqa: PLC0415

    listening = socket.create_server(("127.0.0.1", port or 0))
    for name in {"SIGTERM", "SIGHUP"} & {*dir(signal)}:  # a closed terminal sends the second
        signal.signal(getattr(signal, name), signal.default_int_handler)
    host, secret = f"127.0.0.1:{listening.getsockname()[1]}", secrets.token_urlsafe()
    with listening, TemporaryDirectory(prefix="geonode-") as folder:
        desk = Desk(Path(folder))
        served = application(desk, host, secret)
        config = uvicorn.Config(served, log_level="warning", ws="none", timeout_graceful_shutdown=1)
        server = uvicorn.Server(config)
        thread = Thread(target=server.run, args=([listening],), daemon=True)
        try:
            thread.start()
            tell(f"http://{host}/{secret}/")
            note("Ctrl-C ends it")
            if not no_browser:
                webbrowser.open(f"http://{host}/{secret}/")
            while thread.is_alive() and not desk.ended.wait(0.2):
                pass
        except KeyboardInterrupt:
            note("ended")
        finally:
            server.should_exit = True
            desk.end()
            thread.join()
