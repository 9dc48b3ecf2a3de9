import http.client
import re
import socket
import time
from html import unescape
from threading import Thread
from uuid import uuid4

import pytest

pytest.importorskip("starlette")
pytest.importorskip("multipart")
uvicorn = pytest.importorskip("uvicorn")

from geonode.app.server import application  # noqa: E402
from geonode.app.work import Desk  # noqa: E402

SECRET = "secret"


class Served:
    """A page that is served, and what a browser does with it."""

    def __init__(self, folder, listening):
        self.folder, self.desk = folder, Desk(folder)
        self.host = f"127.0.0.1:{listening.getsockname()[1]}"
        self.address = f"http://{self.host}/{SECRET}/"

    def ask(self, method, path, body=b"", **headers):
        """Status and text of an answer, and where it leads."""
        client = http.client.HTTPConnection(self.host, timeout=60)
        headers = {"Host": self.host, "Origin": f"http://{self.host}"} | headers
        sent = {name.replace("_", "-"): value for name, value in headers.items() if value}
        client.request(method, path, body, sent)
        answer = client.getresponse()
        found = answer.status, answer.read().decode("utf-8", "replace"), answer.headers
        client.close()
        return found

    def post(self, path, fields=(), **headers):
        """What follows a form, of texts, and of files by their names."""
        mark, parts = uuid4().hex, []
        for field, value in fields:
            name, content = value if isinstance(value, tuple) else (None, value)
            about = "" if name is None else f'; filename="{name}"'
            parts += [f'--{mark}\r\nContent-Disposition: form-data; name="{field}"{about}\r\n\r\n']
            parts += [content, "\r\n"]
        parts.append(f"--{mark}--\r\n")
        body = b"".join(one if isinstance(one, bytes) else one.encode() for one in parts)
        return self.ask(
            "POST", path, body, Content_Type=f"multipart/form-data; boundary={mark}", **headers
        )

    def page(self, path):
        """Text of a page once nothing is under way on it."""
        for _ in range(600):
            status, text, _ = self.ask("GET", path)
            assert status == 200, text
            if 'http-equiv="refresh"' not in text:
                return text
            time.sleep(0.1)
        raise TimeoutError(text)

    def submit(self, path, *fields):
        """The path and the page that follow a form."""
        status, text, headers = self.post(path, fields)
        assert status == 303, text
        return headers["location"], self.page(headers["location"])


def refused(page):
    """Why a page says that something was not done."""
    found = re.search(r'<li id="refused"[^>]*>(.*?)</li>', page, re.S)
    return found and unescape(found[1])


@pytest.fixture
def served(tmp_path):
    """A page of its own for a test."""
    listening = socket.create_server(("127.0.0.1", 0))
    page = Served(tmp_path / "run", listening)
    served_application = application(page.desk, page.host, SECRET)
    server = uvicorn.Server(uvicorn.Config(served_application, log_level="warning", ws="none"))
    thread = Thread(target=server.run, args=([listening],))
    thread.start()
    yield page
    server.should_exit = True
    page.desk.end()
    thread.join()
