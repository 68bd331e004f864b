"""Security and behavior of the HTTP interface."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import threading

import pytest

httpx = pytest.importorskip("httpx")
psutil = pytest.importorskip("psutil")
pytest.importorskip("starlette")

from flyingsquid.studio.server import LARGEST_REQUEST, Broadcast, create_app  # noqa: E402
from tests.studio.support import open_workspace, run_python, write_comments  # noqa: E402

pytestmark = pytest.mark.extra
PORT, TOKEN = 8123, "the token of this test"
COOKIE = {"cookie": f"flyingsquid_studio_{PORT}={TOKEN}"}
JSON = {"content-type": "application/json"}


class Client:
    """Requests to an application, without a network."""

    def __init__(self, app):
        self._app = app

    def __call__(self, method, path, *, host=f"127.0.0.1:{PORT}", headers=COOKIE, content=None):
        async def send():
            transport = httpx.ASGITransport(app=self._app)
            async with httpx.AsyncClient(transport=transport, base_url=f"http://{host}") as client:
                return await client.request(method, path, headers=headers, content=content)

        return asyncio.run(send())

    def post(self, path, body=None):
        return self("POST", path, headers={**COOKIE, **JSON}, content=json.dumps(body or {}))


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    with open_workspace(tmp_path_factory.mktemp("server")) as workspace:
        yield workspace


@pytest.fixture(scope="module")
def client(workspace):
    return Client(create_app(workspace, Broadcast(), token=TOKEN, port=PORT))


PATHS = [
    ("GET", "/"),
    ("GET", "/static/studio.js"),
    ("GET", "/api/state"),
    ("GET", "/api/items"),
    ("GET", "/api/items/3"),
    ("GET", "/api/suggestions"),
    ("GET", "/api/next"),
    ("GET", "/api/events"),
    ("GET", "/api/export/rules.py"),
    ("GET", "/api/export/project.json"),
    ("POST", "/api/actions"),
    ("POST", "/api/undo"),
    ("POST", "/api/redo"),
    ("POST", "/api/preview"),
    ("GET", "/nothing"),
    ("OPTIONS", "/api/state"),
]


@pytest.mark.parametrize(("method", "path"), PATHS)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"cookie": f"flyingsquid_studio_{PORT}=wrong"},
        {"cookie": f"flyingsquid_studio_{PORT}="},
        {"cookie": f"flyingsquid_studio_{PORT + 1}={TOKEN}"},
        {"authorization": f"Bearer {TOKEN}"},
    ],
)
def test_no_request_without_the_token_succeeds(client, workspace, method, path, headers):
    before = workspace.project.to_json()
    assert client(method, path, headers={**JSON, **headers}).status_code == 403
    assert workspace.project.to_json() == before


@pytest.mark.parametrize(("method", "path"), PATHS)
@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1", f"127.0.0.1:{PORT + 1}"]
)
def test_dns_rebinding_is_refused(client, method, path, host):
    assert client(method, path, host=host, headers={**JSON, **COOKIE}).status_code == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", f"https://127.0.0.1:{PORT}", "http://127.0.0.1:1"]
)
def test_other_origins_are_refused(client, origin):
    for method, path in PATHS:
        assert client(method, path, headers={**JSON, **COOKIE, "origin": origin}).status_code == 403
    cross = {**COOKIE, "sec-fetch-site": "cross-site"}
    assert client("GET", "/api/state", headers=cross).status_code == 403


def test_own_origin_is_accepted(client):
    for host in (f"127.0.0.1:{PORT}", f"localhost:{PORT}"):
        assert (
            client("GET", "/api/state", host=host, headers={**COOKIE, "origin": f"http://{host}"}).status_code
            == 200
        )


def test_the_token_becomes_a_strict_cookie(client):
    answer = client("GET", f"/?token={TOKEN.replace(' ', '%20')}", headers={})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert TOKEN not in answer.text
    assert client("GET", "/?token=wrong", headers=COOKIE).status_code == 403
    assert client("GET", f"/api/state?token={TOKEN}", headers={}).status_code == 403


def test_every_answer_has_a_strict_policy(client):
    for method, path in [
        ("GET", "/"),
        ("GET", "/api/state"),
        ("GET", "/nothing"),
        ("GET", "/api/export/rules.py"),
    ]:
        headers = client(method, path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
    assert client("GET", "/api/state").headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py",
        "/static/..%2fserver.py",
        "/static/%2e%2e/server.py",
        "/static/%2e%2e%2f%2e%2e%2fpyproject.toml",
        "/static//etc/passwd",
        "/static/%2fetc%2fpasswd",
        "/static/",
        "/api/export/..%2f..%2fetc%2fpasswd",
        "/api/export/labels.exe",
        "/api/items/-1",
        "/api/items/99999999",
        "/api/items?offset=-1",
        "/api/items?limit=x",
        "/api/items?label=%C2%B2",
        "/api/items?filter=none",
    ],
)
def test_paths_and_parameters_are_checked(client, path):
    answer = client("GET", path)
    assert 400 <= answer.status_code < 500
    assert "root:" not in answer.text


def test_static_files_have_their_types(client):
    assert client("GET", "/").headers["content-type"].startswith("text/html")
    assert client("GET", "/static/studio.js").headers["content-type"].startswith("text/javascript")
    assert client("GET", "/static/studio.css").headers["content-type"].startswith("text/css")


def test_invalid_requests_are_errors_of_the_client(client):
    assert client("POST", "/api/actions", headers={**COOKIE, "content-type": "text/plain"}).status_code == 415
    assert client("POST", "/api/actions").status_code == 415
    for content in ("", "[]", "{", '"text"', "[" * 100_000):
        answer = client("POST", "/api/actions", headers={**COOKIE, **JSON}, content=content)
        assert (answer.status_code, answer.json()["error"]["field"]) == (422, None)
    answer = client.post("/api/preview", {"source": {"kind": "regex", "pattern": "(", "label": 1}})
    assert (answer.status_code, answer.json()["error"]["field"]) == (422, "pattern")
    assert client("GET", "/api/actions").status_code == 405


def test_large_requests_are_refused(client):
    big = "x" * (LARGEST_REQUEST + 1)
    assert client("POST", "/api/actions", headers={**COOKIE, **JSON}, content=big).status_code == 413

    async def parts():  # without a declared length
        for _ in range(20):
            yield big[: LARGEST_REQUEST // 10].encode()

    assert client("POST", "/api/actions", headers={**COOKIE, **JSON}, content=parts()).status_code == 413


def test_changes_answer_with_the_new_state(client, workspace):
    answer = client.post("/api/actions", {"type": "set_enabled", "id": "s1", "enabled": False}).json()
    assert answer["revision"] == answer["state"]["revision"] == workspace.revision
    assert answer["state"]["sources"][0]["enabled"] is False
    assert client.post("/api/undo").json()["state"]["sources"][0]["enabled"] is True
    assert client.post("/api/redo").status_code == 200
    client.post("/api/undo")
    items = client("GET", "/api/items?filter=source&source=s1&limit=3&order=certain").json()
    assert len(items["items"]) == 3
    assert items["sources"] == ["s1", "s2", "s3", "s4"]
    export = client("GET", "/api/export/rules.py")
    assert export.headers["content-disposition"] == 'attachment; filename="rules.py"'


def test_hostile_data_stays_data(tmp_path):
    """Cells with HTML arrive as JSON strings, which the page shows as text; the report escapes them."""
    attack = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"
    write_comments(tmp_path / "comments.csv", 200)
    text = (tmp_path / "comments.csv").read_text().replace("great song", attack)
    (tmp_path / "comments.csv").write_text(text)
    with open_workspace(tmp_path) as workspace:
        client = Client(create_app(workspace, Broadcast(), token=TOKEN, port=PORT))
        rule = {"kind": "keywords", "words": [attack], "label": 1, "name": attack}
        client.post("/api/actions", {"type": "add_source", "source": rule})
        workspace.wait()
        answer = client("GET", "/api/items?search=onerror")
        assert answer.headers["content-type"] == "application/json"
        assert attack in answer.json()["items"][0]["text"]
        report = client("GET", "/api/export/report.html").text
        assert "<img src=x" not in report
        assert "<script>alert" not in report


def test_events_bring_every_revision(workspace):
    async def run():
        broadcast = Broadcast()
        events = broadcast.listen({"revision": 1})
        first = await anext(events)
        thread = threading.Thread(target=broadcast.send, args=({"revision": 2},))
        thread.start()
        second = await anext(events)
        broadcast.send(None)
        rest = [event async for event in events]
        thread.join()
        return first, second, rest

    first, second, rest = asyncio.run(run())
    assert (first, second, rest) == ('data: {"revision": 1}\n\n', 'data: {"revision": 2}\n\n', [])


@pytest.mark.system
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_command_serves_until_interrupted(tmp_path, number):
    data = write_comments(tmp_path / "comments.csv", 100)
    command = ["-u", "-m", "flyingsquid", "studio", str(data), "--classes", "ham,spam"]
    with run_python(*command, stderr=subprocess.PIPE, cwd=tmp_path) as process:
        lines = [process.stdout.readline() for _ in range(3)]
        url = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", "".join(lines))[0]
        with httpx.Client(follow_redirects=True) as client:
            assert client.get(url).status_code == 200
            base = url.partition("?")[0]
            state = client.get(f"{base}api/state").json()
            assert state["classes"] == ["ham", "spam"]
            # Nothing but the lock is written before the first change.
            assert sorted(os.listdir(tmp_path)) == ["comments.csv", "comments.studio.json.lock"]
            rule = {"kind": "keywords", "words": ["song"], "label": 0}
            client.post(f"{base}api/actions", json={"type": "add_source", "source": rule}).raise_for_status()
            assert "comments.studio.json" in os.listdir(tmp_path)
            with client.stream("GET", f"{base}api/events") as events:  # an open page does not delay the end
                next(events.iter_lines())
                process.send_signal(number)
                output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert "Stopped." in output
    assert sorted(os.listdir(tmp_path)) == ["comments.csv", "comments.studio.json"]


@pytest.mark.system
def test_a_killed_server_loses_nothing_and_leaves_no_process(tmp_path):
    data = write_comments(tmp_path / "comments.csv", 100)
    command = ["-u", "-m", "flyingsquid", "studio", str(data), "--classes", "ham,spam"]
    states = []
    for rule in (
        {"kind": "keywords", "words": ["song"], "label": 0},
        {"kind": "regex", "pattern": "free", "label": 1},
    ):
        with run_python(*command, cwd=tmp_path) as process:
            lines = [process.stdout.readline() for _ in range(3)]
            url = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", "".join(lines))[0]
            base = url.partition("?")[0]
            with httpx.Client(follow_redirects=True) as client:
                client.get(url)
                states.append([row["source"] for row in client.get(f"{base}api/state").json()["sources"]])
                action = {"type": "add_source", "source": rule}
                answer = client.post(f"{base}api/actions", json=action).json()
                states.append([row["source"] for row in answer["state"]["sources"]])
            workers = psutil.Process(process.pid).children(recursive=True)
            process.kill()
            _, alive = psutil.wait_procs(workers, timeout=30)
            assert not alive
    assert [len(sources) for sources in states] == [0, 1, 1, 2]
    assert states[1] == states[2]
