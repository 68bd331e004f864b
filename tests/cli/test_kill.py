"""Killed at any moment, ``label`` leaves what was there, or the new file whole."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from tests.support.cli_files import simulate, write_wide

pytestmark = [pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX"), pytest.mark.system]
LABEL = ["label", "votes.csv", "-o", "labels.csv", "--report", "report.html", "--force", "--quiet"]
# The process says when it has read its code, so that a random moment falls into the work, not the start.
CODE = """
import sys
import flyingsquid.cli.label, flyingsquid.cli.labeling, flyingsquid.models, flyingsquid.reports
from flyingsquid.cli.main import main
print("ready", flush=True)
main(sys.argv[1:])
"""
OLD = "id,label\nold,ham\n"


@pytest.fixture
def folder(tmp_path):
    write_wide(tmp_path / "votes.csv", simulate(20_000)[0])
    return tmp_path


def start(folder, words=LABEL) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def wait(process) -> tuple[int, str]:
    _, said = process.communicate()
    return process.returncode, said


def whole_run(folder) -> tuple[float, dict[str, bytes]]:
    """Seconds of a run, and what it leaves."""
    process, begun = start(folder), time.monotonic()
    assert wait(process) == (0, "")
    took = time.monotonic() - begun
    return took, {name: (folder / name).read_bytes() for name in ("labels.csv", "report.html")}


def kill_at_random(folder, times: int) -> tuple[int, int]:
    """Kill runs at random moments; how many left the old labels, and how many the new ones."""
    rng = random.Random(0)
    took, wanted = whole_run(folder)
    old = new = 0
    for _ in range(times):
        (folder / "labels.csv").write_text(OLD)
        (folder / "report.html").unlink(missing_ok=True)
        process = start(folder)
        time.sleep(rng.uniform(0, 1.1 * took))
        process.kill()
        wait(process)
        labels = (folder / "labels.csv").read_bytes()
        assert labels in (OLD.encode(), wanted["labels.csv"])
        if (folder / "report.html").exists():
            assert (folder / "report.html").read_bytes() == wanted["report.html"]
        old, new = old + (labels == OLD.encode()), new + (labels != OLD.encode())
    # What a killed run leaves is hidden, and in nobody's way.
    left = {name for name in os.listdir(folder) if not name.startswith(".flyingsquid-")}
    assert left <= {"votes.csv", "labels.csv", "report.html"}
    return old, new


def test_killed_at_a_few_moments(folder):
    kill_at_random(folder, 3)


@pytest.mark.slow
def test_killed_at_thirty_moments(folder):
    old, new = kill_at_random(folder, 30)
    assert old
    assert new


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_by_a_signal_nothing_is_left_behind(number, folder):
    (folder / "labels.csv").write_text(OLD)
    process = start(folder)
    while not any(name.startswith(".flyingsquid-") for name in os.listdir(folder)):
        assert process.poll() is None, "it ended before it could be stopped"
        time.sleep(0.001)
    process.send_signal(number)
    code, said = wait(process)
    if code == 0:  # the signal came in the very last moment
        return
    assert code == 128 + number
    assert said == f"Stopped by {number.name}; no file was left incomplete.\n"
    assert not [name for name in os.listdir(folder) if name.startswith(".flyingsquid-")]
    labels = (folder / "labels.csv").read_text()
    assert labels == OLD or len(labels.splitlines()) == 20_001


def test_a_closed_pipe_is_no_error(folder):
    # More than any pipe takes in before somebody reads.
    words = ["label", "votes.csv", "-o", "-", "--quiet", "--output-format", "jsonl"]
    process = start(folder, words)
    assert process.stdout is not None
    assert process.stdout.readline().startswith('{"id"')
    process.stdout.close()
    assert process.stderr is not None
    said = process.stderr.read()
    assert (process.wait(), said) == (141, "")
    process.stderr.close()
