"""If ``label`` is killed, the output is the old file or the complete new one."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from tests.support.cli_files import simulate, write_wide
from tests.support.launcher import Launcher

pytestmark = [pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX"), pytest.mark.system]
LABEL = ["label", "votes.csv", "-o", "labels.csv", "--report", "report.html", "--force", "--quiet"]
# The process says when it has read its code, so that a random moment falls into the work, not the start.
CODE = """
import sys
import flyingsquid.cli.label, flyingsquid.cli.inputs, flyingsquid.models, flyingsquid.reports
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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_killed_at_twenty_moments(folder):
    """The labels are the old ones or the new ones, and each is the case after some of the kills."""
    rng, launcher = random.Random(0), Launcher(LABEL, cwd=folder)
    labels, report = folder / "labels.csv", folder / "report.html"
    launcher.start()
    begun = time.monotonic()
    assert launcher.wait() == 0
    took, new_labels, new_report = time.monotonic() - begun, labels.read_bytes(), report.read_bytes()
    found = []
    for number in range(20):
        labels.write_text(OLD)
        report.unlink(missing_ok=True)
        child, begun = launcher.start(), time.monotonic()
        time.sleep((number + rng.random()) / 20 * 1.1 * took)  # spread evenly: labels come early
        with contextlib.suppress(ProcessLookupError):  # it had ended
            os.kill(child, signal.SIGKILL)
        if launcher.wait() == 0:  # the first run may have been slow
            took = min(took, time.monotonic() - begun)
        found.append(labels.read_bytes())
        assert not report.exists() or report.read_bytes() == new_report
    launcher.close()
    assert set(found) == {OLD.encode(), new_labels}
    # What a killed run leaves is hidden.
    left = {name for name in os.listdir(folder) if not name.startswith(".flyingsquid-")}
    assert left <= {"votes.csv", "labels.csv", "report.html"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_no_files_behind(number, folder):
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
