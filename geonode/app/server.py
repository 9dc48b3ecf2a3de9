"""The page: what it answers, and to whom."""

import secrets
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from geonode.app.work import HELP, Desk, Dropped
from geonode.calibration.verdict import NAMES
from geonode.report.page import asset, templates
from geonode.storage.own_folder import PAGE

MOST_BYTES = 2**28
"""Of one form with its files."""

TEXT, POLICY = "text/plain", "Content-Security-Policy"
HEADERS = {
    POLICY: "default-src 'none'; style-src 'unsafe-inline'; frame-src 'self'; "
    "form-action 'self'; frame-ancestors 'self'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Of pages, which run no script, and of files."""
OF_RESULTS = "sandbox allow-scripts allow-downloads; frame-ancestors 'self'"
"""Policy of the page of a calibration, which runs its own scripts, without access to others."""


def guarded(inner: ASGIApp, host: str, secret: str) -> ASGIApp:
    """An application that answers one host, who knows the secret, and forms of its own pages.

    A name that another page resolves to this machine (DNS rebinding) is another host, and a form of
    another page has another origin.
    """

    def refusal(scope: Scope) -> tuple[str, int] | None:
        headers, first = Headers(scope=scope), f"{scope['path']}/".split("/")[1]
        is_form, length = scope["method"] == "POST", headers.get("content-length", "")
        if headers.get("host") != host:
            return f"found another host, expected {host}", 421
        if not secrets.compare_digest(first.encode(), secret.encode()):
            return "found no such page, expected the address that `geonode app` printed", 404
        if is_form and headers.get("origin") != f"http://{host}":
            return "found a form of another page, expected one of this", 403
        if (is_form and not length.isdecimal()) or "transfer-encoding" in headers:
            return "found a form without its size, expected the number of its bytes", 411
        if length and int(length) > MOST_BYTES:
            return f"found {length} bytes, expected files of at most {MOST_BYTES}; go back", 413
        return None

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        refused, more = refusal(scope), True
        while refused and refused[1] == 413 and more:  # a browser reads no answer before
            more = (await receive()).get("more_body", False)
        answering = Response(*refused, media_type=TEXT) if refused else inner
        await answering(scope, receive, send)

    return answer


def application(desk: Desk, host: str, secret: str) -> ASGIApp:
    """Application that serves a desk at a host, `address:port`, below a path that is a secret."""
    root = f"/{secret}/"
    source = files("geonode.app").joinpath("app.html").read_text(encoding="utf-8")
    template = templates().from_string(source)

    def item_of(request: Request) -> Dropped | None:
        number: Any = request.path_params.get("number")
        if number is not None and number not in desk.items:
            raise HTTPException(404, "found no such page")
        return desk.items.get(number)

    async def page(request: Request) -> HTMLResponse:
        about = {"root": root, "items": desk.items.values(), "item": item_of(request)}
        text = template.render(style=asset("page.css"), titles=NAMES, help=HELP, **about)
        return HTMLResponse(text, headers=HEADERS)

    async def submit(request: Request) -> Response:
        item = item_of(request)
        async with request.form() as form:
            if "end" in form:
                desk.ended.set()
                return Response("ended; close this page", media_type=TEXT)
            if item is None or "estimate" in form:
                item = desk.add(item.calibration if item else None)
            if not item.state:
                item.take(form.multi_items())
                first = item.calibrate if "calibrate" in form else item.inspect
                item.state = "waiting"
                desk.thread.submit(item.run, item.estimate if item.by else first)
        return RedirectResponse(f"{root}{item.number}/", 303)

    async def result(request: Request) -> FileResponse:
        item, name = item_of(request), request.path_params["name"]
        if item is None or name not in item.results:
            raise HTTPException(404, "found no such file")
        if name == PAGE and not request.query_params:
            return FileResponse(item.results[name], headers=HEADERS | {POLICY: OF_RESULTS})
        return FileResponse(item.results[name], filename=name, headers=HEADERS)

    routes = [
        *(Route(path, page) for path in ("/", "/{number:int}/")),
        *(Route(path, submit, methods=["POST"]) for path in ("/", "/{number:int}/")),
        Route("/{number:int}/{name}", result),
    ]
    return guarded(Starlette(routes=[Mount(root[:-1], routes=routes)]), host, secret)
