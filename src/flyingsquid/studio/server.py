"""HTTP server of the studio: a Starlette application with token, host and origin checks, and downloads."""

from __future__ import annotations

import asyncio
import hmac
import importlib.util
import json
import socket
import tempfile
from collections.abc import AsyncIterator, Callable
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flyingsquid._values import format_list, option_error
from flyingsquid.exceptions import FlyingSquidError, OptionError
from flyingsquid.files import LabelWriter
from flyingsquid.reports import report
from flyingsquid.studio.browsing import View
from flyingsquid.studio.columns import as_text, gold_labels
from flyingsquid.studio.rules import write_code
from flyingsquid.studio.workspace import Workspace

_MOST_REPORTED = 100_000


def list_exports(workspace: Workspace) -> list[str]:
    """Return the names that :func:`export` supports now."""
    left_out = set() if workspace.view.fit.model is not None else set(_NEED_A_MODEL)
    if importlib.util.find_spec("pyarrow") is None:
        left_out.add("labels.parquet")
    return [name for name in _EXPORTS if name not in left_out]


def export(workspace: Workspace, name: str) -> tuple[bytes, str]:
    """Return the content of a file and its media type. Labels and the model are those of all items."""
    if name not in list_exports(workspace):
        known = format_list(list_exports(workspace))
        raise option_error("name", f"one of {known}", name)
    make, media_type = _EXPORTS[name]
    return make(workspace, workspace.view), media_type


def _rules(workspace: Workspace, view: View) -> bytes:
    items = workspace.items
    sources = [entry.source for entry in view.entries]
    columns = [source["column"] for source in sources if source["kind"] == "column"]
    code = write_code(
        sources,
        view.classes,
        text=items.text,
        values={column: items.values(column) for column in columns},
        features=workspace.features_name,
    )
    return code.encode()


def _labels(ending: str) -> Callable[[Workspace, View], bytes]:
    def make(workspace: Workspace, view: View) -> bytes:
        fit = view.full_fit()
        items = workspace.items
        n_votes = np.sum([column >= 0 for column in view.columns], axis=0)
        ids = [items.identifier(i) for i in range(len(items))]
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / f"labels.{ending}"
            with LabelWriter(path, classes=view.classes, id_name=items.id or "id") as out:
                out.write(ids, fit.labels, np.asarray(fit.proba, np.float64), n_votes)
            return path.read_bytes()

    return make


def _model(_workspace: Workspace, view: View) -> bytes:
    fit = view.full_fit()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "model.fsq"
        if fit.model is not None:
            fit.model.save(path)
        return path.read_bytes()


def _report(workspace: Workspace, view: View) -> bytes:
    fit = view.full_fit()
    items, text = workspace.items, workspace.items.text
    if fit.votes is None:
        raise OptionError("A report needs sources that vote.")
    step = -(-len(items) // _MOST_REPORTED)
    gold = gold_labels(view.gold, view.classes, view.every_item)
    page = report(
        fit.votes[::step] if step > 1 else fit.votes,
        y=None if gold is None else gold[::step],
        model=fit.model,
        data=None if text is None else [as_text(value) for value in items.columns[text][::step]],
        title=items.name,
    )
    return page.encode()


def _project(workspace: Workspace, _view: View) -> bytes:
    return workspace.project.to_json().encode()


# How each file is made, and its media type.
_EXPORTS: dict[str, tuple[Callable[[Workspace, View], bytes], str]] = {
    "rules.py": (_rules, "text/x-python; charset=utf-8"),
    "labels.csv": (_labels("csv"), "text/csv; charset=utf-8"),
    "labels.parquet": (_labels("parquet"), "application/vnd.apache.parquet"),
    "model.fsq": (_model, "application/octet-stream"),
    "report.html": (_report, "text/html; charset=utf-8"),
    "project.json": (_project, "application/json"),
}
_NEED_A_MODEL = ("labels.csv", "labels.parquet", "model.fsq", "report.html")


# ---------------------------------------------------------------------- the server


LARGEST_REQUEST = 1 << 20
"""Bytes of the body of a request; a larger one is refused."""
_TOO_LARGE = f"A request must have at most {LARGEST_REQUEST:,} bytes."
_MOST_ITEMS = 500
_KEEP_ALIVE = 15.0
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_STATIC_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
_FORBIDDEN = (
    "<!DOCTYPE html><title>flyingsquid studio</title><p>Open the address that "
    "<code>flyingsquid studio</code> printed; it contains the token."
)


class Broadcast:
    """Events for all pages, from any thread."""

    def __init__(self) -> None:
        self._queues: set[asyncio.Queue[dict[str, Any] | None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def send(self, event: dict[str, Any] | None) -> None:
        """Send an event to all pages; None ends their connections."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._put, event)

    def _put(self, event: dict[str, Any] | None) -> None:
        for queue in self._queues:
            queue.put_nowait(event)

    async def listen(self, first: dict[str, Any]) -> AsyncIterator[str]:
        """Yield server-sent events, with comments that keep the connection open."""
        self._loop = asyncio.get_running_loop()
        queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._queues.add(queue)
        try:
            yield f"data: {json.dumps(first)}\n\n"
            while True:
                try:
                    event = await asyncio.wait_for(queue.get(), _KEEP_ALIVE)
                except TimeoutError:
                    yield ": keep-alive\n\n"
                    continue
                if event is None:
                    return
                yield f"data: {json.dumps(event)}\n\n"
        finally:
            self._queues.discard(queue)


class Guard:
    """Middleware that accepts only requests from the page itself.

    ``Host`` and ``Origin`` must name this server, which stops other sites and DNS rebinding. Every request
    needs the token, as a cookie that no other site can send.
    """

    def __init__(self, app: ASGIApp, *, token: str, port: int) -> None:
        self._app, self._token = app, token
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self._cookie = f"flyingsquid_studio_{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return
        request = Request(scope)
        answer = self._refuse(request)
        if answer is None:
            await self._app(scope, _limited(receive), _with_headers(send, scope["path"]))
        else:
            await answer(scope, receive, _with_headers(send, scope["path"]))

    def _refuse(self, request: Request) -> Response | None:
        """Return the response if the request is not passed on to the application."""
        return self._refuse_site(request) or self._check_token(request) or self._refuse_body(request)

    def _refuse_site(self, request: Request) -> Response | None:
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if host not in self._hosts:
            return _error(403, "The `Host` header must name this server.")
        # A browser may open the page from a link elsewhere, but no other site may send requests.
        fetched = request.headers.get("sec-fetch-site") in ("cross-site", "same-site")
        if (origin is not None and origin != f"http://{host}") or (fetched and request.url.path != "/"):
            return _error(403, "Requests from other sites are not allowed.")
        return None

    def _check_token(self, request: Request) -> Response | None:
        """Exchange the token of the printed address for a cookie; refuse requests without the cookie."""
        given = request.query_params.get("token")
        if given is not None and request.url.path == "/" and request.method == "GET":
            if not self._is_token(given):
                return HTMLResponse(_FORBIDDEN, 403)
            response = RedirectResponse("/", 303)
            response.set_cookie(self._cookie, self._token, httponly=True, samesite="strict", path="/")
            return response
        if self._is_token(request.cookies.get(self._cookie, "")):
            return None
        if request.url.path.startswith("/api"):
            return _error(403, "The token is missing or invalid. Open the address that the studio printed.")
        return HTMLResponse(_FORBIDDEN, 403)

    def _refuse_body(self, request: Request) -> Response | None:
        if request.method != "POST":
            return None
        kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
        if kind != "application/json":
            return _error(415, "The content type must be application/json.")
        length = request.headers.get("content-length", "")
        if length.isdigit() and int(length) > LARGEST_REQUEST:
            return _error(413, _TOO_LARGE)
        return None

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())


def _limited(receive: Receive) -> Receive:
    """Count the bytes of a body without a declared length."""
    seen = 0

    async def limited() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > LARGEST_REQUEST:
            raise _TooLargeError
        return message

    return limited


class _TooLargeError(Exception):
    """The body of a request is too large."""


def _with_headers(send: Send, path: str) -> Send:
    headers = [
        (b"content-security-policy", _POLICY.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"cross-origin-resource-policy", b"same-origin"),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"cache-control", b"no-store" if path.startswith("/api") else b"no-cache"),
    ]

    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", []), *headers]}
        await send(message)

    return with_headers


def _error(status: int, message: str, field: str | None = None) -> JSONResponse:
    return JSONResponse({"error": {"message": message, "field": field}}, status)


def _answer_error(_request: Request, error: Exception) -> Response:
    """Return the response to an error about the request."""
    if isinstance(error, _TooLargeError):
        return _error(413, _TOO_LARGE)
    return _error(422, str(error), getattr(error, "parameter", None))


async def _body(request: Request) -> dict[str, Any]:
    try:
        found = json.loads(await request.body())
    except (ValueError, RecursionError) as error:
        raise OptionError("The body of the request must be JSON.") from error
    if not isinstance(found, dict):
        raise OptionError("The body of the request must be a JSON object.")
    return found


def _integer(request: Request, name: str, default: int | None, most: int | None = None) -> int | None:
    text = request.query_params.get(name)
    if text is None or text == "":
        return default
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise option_error(name, "an integer >= 0", text)
    return int(text) if most is None else min(int(text), most)


class _Handlers:
    """Handlers of requests; the engine runs in threads, so that the server stays responsive."""

    def __init__(self, workspace: Workspace, broadcast: Broadcast, static: Any) -> None:
        self._workspace, self._broadcast, self._static = workspace, broadcast, static

    async def state(self, _request: Request) -> Response:
        return await self._json(self._state)

    def _state(self) -> dict[str, Any]:
        return self._workspace.state() | {"exports": list_exports(self._workspace)}

    async def _json(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Response:
        def run() -> bytes:
            return json.dumps(function(*arguments, **options), allow_nan=False).encode()

        return Response(await run_in_threadpool(run), media_type="application/json")

    def _changed(self, change: Callable[..., int], *arguments: Any) -> dict[str, Any]:
        revision = change(*arguments)
        return {"revision": revision, "state": self._state()}

    async def actions(self, request: Request) -> Response:
        return await self._json(self._changed, self._workspace.act, await _body(request))

    async def undo(self, _request: Request) -> Response:
        return await self._json(self._changed, self._workspace.undo)

    async def redo(self, _request: Request) -> Response:
        return await self._json(self._changed, self._workspace.redo)

    async def preview(self, request: Request) -> Response:
        return await self._json(self._workspace.preview, (await _body(request)).get("source"))

    async def items(self, request: Request) -> Response:
        query = request.query_params
        indexes = [
            int(each) for each in query.get("indexes", "").split(",") if each.isascii() and each.isdigit()
        ]
        return await self._json(
            self._workspace.list_items,
            query.get("filter", "all"),
            source=query.get("source"),
            label=_integer(request, "label", None),
            search=query.get("search", "")[:1_000],
            order=query.get("order", "index"),
            offset=_integer(request, "offset", 0),
            limit=_integer(request, "limit", 50, _MOST_ITEMS),
            indexes=indexes[:_MOST_ITEMS],
        )

    async def item(self, request: Request) -> Response:
        return await self._json(self._workspace.item, request.path_params["item"])

    async def suggestions(self, _request: Request) -> Response:
        return await self._json(self._workspace.suggestions)

    async def next_items(self, request: Request) -> Response:
        return await self._json(self._workspace.next_items, max(1, _integer(request, "limit", 10, 100) or 10))

    async def events(self, _request: Request) -> Response:
        stream = self._broadcast.listen({"revision": self._workspace.revision})
        return StreamingResponse(stream, media_type="text/event-stream")

    async def export(self, request: Request) -> Response:
        name = request.path_params["name"]
        content, kind = await run_in_threadpool(export, self._workspace, name)
        return Response(
            content, media_type=kind, headers={"content-disposition": f'attachment; filename="{name}"'}
        )

    async def page(self, _request: Request) -> Response:
        return self._file("index.html")

    async def file(self, request: Request) -> Response:
        return self._file(request.path_params["name"])

    def _file(self, name: str) -> Response:
        ending = name[name.rfind(".") :] if "." in name else ""
        known = {each.name for each in self._static.iterdir()}  # the name is looked up, never opened
        if name not in known or ending not in _STATIC_TYPES:
            return _error(404, "No such file.")
        return Response((self._static / name).read_bytes(), media_type=_STATIC_TYPES[ending])


def create_app(workspace: Workspace, broadcast: Broadcast, *, token: str, port: int) -> ASGIApp:
    """Return the ASGI application of a workspace, whose events go to ``broadcast``."""
    handlers = _Handlers(workspace, broadcast, resources.files("flyingsquid.studio") / "static")

    routes = [
        Route("/", handlers.page),
        Route("/static/{name}", handlers.file),
        Route("/api/state", handlers.state),
        Route("/api/actions", handlers.actions, methods=["POST"]),
        Route("/api/undo", handlers.undo, methods=["POST"]),
        Route("/api/redo", handlers.redo, methods=["POST"]),
        Route("/api/preview", handlers.preview, methods=["POST"]),
        Route("/api/items", handlers.items),
        Route("/api/items/{item:int}", handlers.item),
        Route("/api/suggestions", handlers.suggestions),
        Route("/api/next", handlers.next_items),
        Route("/api/events", handlers.events),
        Route("/api/export/{name}", handlers.export),
    ]
    errors = dict.fromkeys((FlyingSquidError, _TooLargeError), _answer_error)
    return Guard(Starlette(routes=routes, exception_handlers=errors), token=token, port=port)


def bind(port: int | None) -> socket.socket:
    """Return a socket on 127.0.0.1, at a free port unless one is given."""
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(("127.0.0.1", port or 0))
        found.listen(128)  # so that the address works as soon as it is printed
    except OSError:
        found.close()
        raise
    return found


def serve(app: ASGIApp, listening: socket.socket, broadcast: Broadcast, on_ready: Callable[[], None]) -> None:
    """Serve until interrupted (Ctrl-C or SIGTERM)."""
    import signal  # noqa: PLC0415

    import uvicorn  # noqa: PLC0415

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
        lifespan="off",
        ws="none",
    )
    server = uvicorn.Server(config)

    def stop(_number: int, _frame: object) -> None:
        server.should_exit = True
        broadcast.send(None)

    async def run() -> None:
        before = [(number, signal.signal(number, stop)) for number in (signal.SIGINT, signal.SIGTERM)]
        try:
            on_ready()
            await server._serve([listening])  # serve() would install handlers that raise the signal again
        finally:
            for number, handler in before:
                signal.signal(number, handler)

    asyncio.run(run())
