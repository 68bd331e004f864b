"""A server of judges that fail in known ways, and a client for it.

As a script, it asks the server about all items; tests kill it before it ends.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.request import Request, urlopen

from flyingsquid.judges import Judge, answers, ask_judges

N_ITEMS = 200
JUDGES = ("strict", "mild", "tired")
CLASSES = ("ham", "spam")
CONCURRENCY = 24
TIMEOUT = 2.0

TEXTS = {
    "refusal": "I'm sorry, but I can't judge that.",
    "nonsense": "As the wind blows, so does the leaf.",
    "abstain": "Verdict: unsure",
}


def plan(judge: str, item: int) -> str:
    """Return the outcome of a judge on an item: at given rates, and the same in every run."""
    at = JUDGES.index(judge)
    if item % 100 == 2 + at:
        return "hangs"
    if item % 100 == 50 + at:
        return "hangs once"
    return {
        0: "500", 1: "500 once", 4: "refusal", 5: "nonsense", 6: "abstain", 7: "400", 8: "429 once",
    }.get((item * 7 + at * 3) % 20, "verdict")  # fmt: skip


def verdict(judge: str, item: int) -> str:
    return CLASSES[(item + (item % (5 + JUDGES.index(judge)) == 0)) % 2]


def expected(judge: str, item: int) -> Any:
    what = plan(judge, item)
    if what in ("500", "400", "hangs"):
        return "failed"
    reasons = {"refusal": "refused", "nonsense": "unparseable", "abstain": "abstained"}
    return reasons.get(what, verdict(judge, item))


class FakeServer(ThreadingHTTPServer):
    """Answers POSTs of {"run", "judge", "item"}; ``log`` has (run, judge, item) for each, in order."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, delay: float = 0.0) -> None:
        self.log: list[tuple[str, str, int]] = []
        self.seen: Counter[tuple[str, int]] = Counter()
        self.lock = threading.Lock()
        self.released = threading.Event()
        self.delay = delay
        super().__init__(("127.0.0.1", 0), _Handler)
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"

    def close(self) -> None:
        self.released.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed or gave up."""


class _Handler(BaseHTTPRequestHandler):
    server: FakeServer

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        judge, item = asked["judge"], asked["item"]
        with self.server.lock:
            self.server.log.append((asked["run"], judge, item))
            first = not self.server.seen[judge, item]
            self.server.seen[judge, item] += 1
        what = plan(judge, item)
        self.server.released.wait(self.server.delay)
        if what == "hangs" or (what == "hangs once" and first):
            self.server.released.wait(60)
            return
        if what in ("500", "400") or (what in ("500 once", "429 once") and first):
            self.send_response(int(what[:3]))
            self.send_header("Retry-After" if what.startswith("429") else "X-Nothing", "0.02")
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(TEXTS.get(what, f"Let me see. Verdict: {verdict(judge, item).title()}").encode())

    def log_message(self, format: str, *args: Any) -> None:
        pass


def panel(url: str, run: str) -> list[Judge]:
    parse = answers.pattern(
        r"Verdict: (\w+)", then=answers.class_name({"ham": "ham", "spam": "spam", "unsure": None})
    )

    def judge(name: str) -> Judge:
        # Both ways to run out of time: the client's own timeout, and ours.
        own = None if name == "tired" else TIMEOUT

        def ask(item: dict[str, Any]) -> str:
            body = json.dumps({"run": run, "judge": name, "item": item["number"]}).encode()
            with urlopen(Request(url, body), timeout=60 if own else TIMEOUT) as response:
                return response.read().decode()

        return Judge(name, ask, parse=parse, retries=1, backoff=0.02, timeout=own, version="v1")

    return [judge(name) for name in JUDGES]


ITEMS = [{"number": i, "text": f"comment {i}"} for i in range(N_ITEMS)]


def ask_all(url: str, run: str, cache: str | None = None) -> Any:
    return ask_judges(panel(url, run), ITEMS, cache=cache, concurrency=CONCURRENCY, classes=CLASSES)


if __name__ == "__main__":
    ask_all(*sys.argv[1:4])
