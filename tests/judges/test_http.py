"""Two hundred items against a server that fails, hangs, refuses and answers nonsense; killed and resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from flyingsquid.judges import ask_judges
from flyingsquid.votes.codes import REASONS
from tests.support import judge_server
from tests.support.judge_server import (
    CONCURRENCY,
    ITEMS,
    JUDGES,
    N_ITEMS,
    FakeServer,
    ask_all,
    expected,
    panel,
    plan,
)

pytestmark = pytest.mark.system

CELLS = [(judge, item) for judge in JUDGES for item in range(N_ITEMS)]
PLANS = Counter((judge, plan(judge, item)) for judge, item in CELLS)
# What one item costs the server in a run that nobody kills; one retry.
REQUESTS = {"500": 2, "hangs": 2, "500 once": 2, "429 once": 2, "hangs once": 2}


@pytest.fixture
def server():
    started = FakeServer()
    yield started
    started.close()


def labels(votes) -> list[list[str]]:
    names = [*votes.classes, *reversed(REASONS)]  # code -1 is the last of them
    return [[names[code] for code in row] for row in votes.to_dense().codes.tolist()]


EXPECTED = [[expected(judge, item) for judge in JUDGES] for item in range(N_ITEMS)]


def kept_in(path: Path) -> set[tuple[str, int]]:
    """The cells with an answer on disk; a torn last line does not count."""
    whole = path.read_bytes().rpartition(b"\n")[0].splitlines()[1:] if path.exists() else []
    lines = map(json.loads, whole)
    return {(line["judge"], line["item"]) for line in lines if "error" not in line}


def test_every_kind_of_trouble_occurs():
    for judge in JUDGES:
        for what in (*REQUESTS, "400", "refusal", "nonsense", "abstain", "verdict"):
            assert PLANS[judge, what] >= 2, (judge, what)


def test_counts_are_exact(server, tmp_path):
    run = ask_all(server.url, "only", str(tmp_path / "answers.jsonl"))
    assert labels(run.votes) == EXPECTED
    wanted = {judge: Counter(row[j] for row in EXPECTED) for j, judge in enumerate(JUDGES)}
    for j, judge in enumerate(JUDGES):
        got = {name: int(column[j]) for name, column in run.counts.items()}
        hanging = PLANS[judge, "hangs"]
        assert got == {
            "answered": wanted[judge]["ham"] + wanted[judge]["spam"],
            **{reason: wanted[judge][reason] for reason in REASONS},
            "asked": N_ITEMS,
            "kept": 0,
            "retries": sum(PLANS[judge, what] for what in REQUESTS),
            "timeouts": 2 * hanging + PLANS[judge, "hangs once"],
        }
        assert sum(got[name] for name in ("answered", *REASONS)) == N_ITEMS
        assert run.first_unparseable[j] == judge_server.TEXTS["nonsense"]
        assert "Error" in run.first_errors[j]
    assert {r: c.tolist() for r, c in run.votes.missing_counts().items()} == {
        reason: run.counts[reason].tolist() for reason in REASONS
    }
    asked = Counter((judge, item) for _, judge, item in server.log)
    assert asked == {cell: REQUESTS.get(plan(*cell), 1) for cell in CELLS}


def test_a_finished_run_asks_only_what_failed(server, tmp_path):
    path = str(tmp_path / "answers.jsonl")
    ask_all(server.url, "first", path)
    server.log.clear()
    server.seen.clear()
    quiet = ask_judges(panel(server.url, "none"), ITEMS, cache=path, ask_again=(), classes=("ham", "spam"))
    assert not server.log
    assert labels(quiet.votes) == EXPECTED
    assert quiet.counts["kept"].tolist() == [N_ITEMS] * 3
    ask_all(server.url, "again", path)
    assert {(judge, item) for _, judge, item in server.log} == {c for c in CELLS if expected(*c) == "failed"}


def killed_after(n_requests: int, server: FakeServer, run: str, path: Path, how: signal.Signals) -> str:
    """Start a run in another process, and end it when the server has seen this many more requests."""
    begin = len(server.log)
    command = [sys.executable, str(Path(judge_server.__file__)), server.url, run, str(path)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        while len(server.log) < begin + n_requests and process.poll() is None:
            time.sleep(0.001)
        process.send_signal(how)
        said = process.communicate(timeout=60)[1]
    finally:
        process.kill()
    assert process.returncode != 0, "it was over before it was killed"
    return said


def test_killed_runs_are_resumed_without_asking_twice(tmp_path):
    server = FakeServer(delay=0.005)
    path = tmp_path / "answers.jsonl"
    kept_after = {}
    try:
        for run, n_requests in {"k1": 1, "k2": 40, "k3": 130, "k4": 200}.items():
            killed_after(n_requests, server, run, path, signal.SIGKILL)
            kept_after[run] = kept_in(path)
        result = ask_all(server.url, "last", str(path))
        log = list(server.log)
    finally:
        server.close()
    assert len(kept_after["k4"]) > len(kept_after["k2"]) > 0
    assert labels(result.votes) == EXPECTED  # as if nobody had been killed
    runs = [*kept_after, "last"]
    asked = {run: Counter((judge, item) for r, judge, item in log if r == run) for run in runs}
    # No answer that was on disk is asked for again, in any later run.
    for at, run in enumerate(runs[:-1]):
        for later in runs[at + 1 :]:
            assert not kept_after[run] & set(asked[later]), (run, later)
    # Cells that answer at once are asked once, and once more for every time that the answer was on its way,
    # or received and not yet on disk, when the process was killed: calls under way, never more than that.
    quick = {cell for cell in CELLS if plan(*cell) in ("verdict", "refusal", "nonsense", "abstain")}
    lost = {run: [c for c in asked[run] if c in quick and c not in kept_after[run]] for run in kept_after}
    assert all(len(cells) <= CONCURRENCY for cells in lost.values())
    times_lost = Counter(cell for cells in lost.values() for cell in cells)
    total = sum(asked.values(), Counter())
    assert {cell: total[cell] for cell in quick} == {cell: 1 + times_lost[cell] for cell in quick}
    assert result.counts["kept"].sum() == len(kept_after["k4"])


def test_an_interrupt_leaves_a_complete_file(tmp_path):
    server = FakeServer(delay=0.005)
    path = tmp_path / "answers.jsonl"
    try:
        said = killed_after(150, server, "first", path, signal.SIGINT)
        assert "KeyboardInterrupt" in said
        assert path.read_bytes().endswith(b"\n")
        kept = kept_in(path)
        assert len(kept) > 50
        result = ask_all(server.url, "second", str(path))
        assert not kept & {(judge, item) for run, judge, item in server.log if run == "second"}
    finally:
        server.close()
    assert labels(result.votes) == EXPECTED
    np.testing.assert_array_equal(result.counts["kept"].sum(), len(kept))
