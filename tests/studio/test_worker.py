"""Patterns run in a process that can be killed."""

from __future__ import annotations

import time

import numpy as np
import pytest

from flyingsquid.exceptions import OptionError
from flyingsquid.studio import worker as worker_module
from flyingsquid.studio.worker import Job, Worker
from tests.studio.support import open_workspace

SLOW = {"kind": "regex", "pattern": r"(a+)+$", "ignore_case": True}
FAST = {"kind": "regex", "pattern": "b", "ignore_case": True}


def make_job(source, texts, **options):
    return Job(
        str(source), {**source, "column": "text"}, lambda a, b: texts[a:b], np.full(len(texts), -1, np.int8),
        **options,
    )  # fmt: skip


@pytest.fixture
def worker():
    progress = []
    worker = Worker(lambda job: progress.append((job.key, job.done)))
    worker.progress = progress
    yield worker
    worker.close()


def test_catastrophic_pattern_is_stopped_and_the_next_job_runs(worker):
    texts = ["a" * 40 + "!", "b"]
    slow = worker.submit(make_job(SLOW, texts, seconds=0.5))
    fast = worker.submit(make_job(FAST, texts))
    assert slow.finished.wait(60)
    assert slow.status == "error"
    assert "0.5 seconds" in slow.error
    assert fast.finished.wait(60)
    assert fast.codes.tolist() == [-1, 1]


def test_progress_is_reported_by_chunk(worker):
    n = 2 * worker_module.CHUNK + 1
    job = worker.submit(make_job(FAST, ["ab"] * n))
    assert job.finished.wait(60)
    deadline = time.monotonic() + 10
    while len(worker.progress) < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [done for _, done in worker.progress] == [worker_module.CHUNK, 2 * worker_module.CHUNK, n]
    assert (job.codes == 1).all()


def test_urgent_jobs_go_first_and_canceled_ones_never_run(worker):
    texts = ["ab"] * (4 * worker_module.CHUNK)
    first = worker.submit(make_job(FAST, texts))
    canceled = worker.submit(make_job({**FAST, "pattern": "c"}, texts))
    worker.cancel(canceled)
    urgent = worker.submit(make_job({**FAST, "pattern": "a"}, texts, urgent=True))
    assert urgent.finished.wait(60)
    assert first.finished.wait(60)
    assert canceled.done == 0
    order = [key for key, done in worker.progress if done == len(texts)]
    assert "'a'" in order[0]


def test_missing_values_get_no_vote(worker):
    job = worker.submit(make_job({**FAST, "pattern": ".*"}, [None, "x", ""]))
    assert job.finished.wait(60)
    assert job.codes.tolist() == [-1, 1, 1]


def preview_until_error(workspace, source):
    """Repeat a preview, which answers after a second at most, until it reports an error."""
    for _ in range(100):
        try:
            workspace.preview(source)
        except OptionError as error:
            return error
    pytest.fail("no error")


@pytest.mark.slow
def test_the_server_stays_responsive_while_a_pattern_backtracks(tmp_path):
    lines = "".join(f"{i},{'a' * 40}!,1\n" for i in range(50))
    (tmp_path / "comments.csv").write_text(f"id,text,likes\n{lines}")
    with open_workspace(tmp_path, rules=[]) as workspace:
        workspace.act({"type": "add_source", "source": {**SLOW, "label": 1}})
        start = time.process_time()
        state = workspace.state()
        assert time.process_time() - start < 1
        assert state["sources"][0]["status"] == "working"
        assert preview_until_error(workspace, {**SLOW, "label": 0}).parameter == "pattern"
        workspace.wait()
        row = workspace.state()["sources"][0]
        assert (row["status"], row["coverage"]) == ("error", None)
        workspace.act({"type": "add_source", "source": {**FAST, "pattern": "a", "label": 1}})
        workspace.wait()
        assert workspace.state()["sources"][1]["coverage"] == 1


@pytest.mark.slow
def test_a_process_that_ended_is_started_again(worker):
    assert worker.submit(make_job(FAST, ["b"])).finished.wait(60)
    worker._process.kill()
    worker._process.join()
    job = worker.submit(make_job({**FAST, "pattern": "c"}, ["c"]))
    assert job.finished.wait(60)
    assert (job.status, job.codes.tolist()) == ("ready", [1])


@pytest.mark.slow
def test_a_file_of_functions_that_does_not_end_is_stopped(worker, tmp_path):
    (tmp_path / "rules.py").write_text("while True: pass")
    source = {"kind": "list", "path": str(tmp_path / "rules.py"), "version": 1}
    job = worker.submit(Job("list", source, lambda _a, _b: [], np.zeros(1, np.int8), seconds=0.5))
    assert job.finished.wait(60)
    assert "the file took more than 0.5 seconds" in job.error
