"""``flyingsquid stream`` stopped, killed and started again: nothing is lost or doubled."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.cli.stream import Checkpoint, Position, write_checkpoint
from flyingsquid.cli.stream_lines import Known
from tests.cli.test_stream import CODES, LINES, OPTIONS, lines_of, run
from tests.support.launcher import Launcher

COMMAND = [sys.executable, "-m", "flyingsquid", "stream"]


@pytest.fixture(scope="module")
def straight():
    """Return the output of one run over all lines."""
    return run(*OPTIONS).stdout


# ---------------------------------------------------------------------- checkpoints


class Files(NamedTuple):
    votes: Path
    labels: Path
    checkpoint: Path


@pytest.fixture
def files(tmp_path):
    votes = tmp_path / "votes.jsonl"
    votes.write_text(LINES)
    return Files(votes, tmp_path / "labels.jsonl", tmp_path / "checkpoint")


def resumed(files, *more):
    keep = ["-o", files.labels, "--checkpoint", files.checkpoint, "--every", 200]
    return run(files.votes, *keep, *(more or OPTIONS), text="")


@pytest.mark.slow
@pytest.mark.parametrize("cut", [0, 1, 100, 101, 1_233])
@pytest.mark.parametrize("window", [OPTIONS, ["--window", "auto", "--refresh", "70"], ["--decay", "0.99"]])
def test_more_lines_may_be_appended(files, cut, window):
    """An input that ends anywhere and goes on later."""
    options = [*window, "--method", "triplet"]
    whole = "".join(LINES.splitlines(keepends=True)[:cut])
    files.votes.write_text(whole)
    assert resumed(files, *options).exit_code == 0
    assert len(files.labels.read_text().splitlines()) == cut
    files.votes.write_text(LINES)
    assert resumed(files, *options).exit_code == 0
    assert files.labels.read_text() == run(*options).stdout
    assert resumed(files, *options).exit_code == 0  # again, and nothing changes
    assert files.labels.read_text() == run(*options).stdout


def test_a_last_line_without_its_end_is_labeled_and_read_again(files, straight):
    files.votes.write_text("".join(LINES.splitlines(keepends=True)[:200])[:-1])
    assert resumed(files).exit_code == 0
    assert len(files.labels.read_text().splitlines()) == 200
    assert json.loads(run("--checkpoint", files.checkpoint, "--position").stdout)["lines"] == 100
    files.votes.write_text(LINES)
    resumed(files)
    assert files.labels.read_text() == straight


def test_standard_input_goes_on_from_its_start_or_from_the_position(files, straight):
    keep = ["-o", files.labels, "--checkpoint", files.checkpoint, *OPTIONS]
    run(*keep, text="".join(LINES.splitlines(keepends=True)[:650]))
    at = json.loads(run("--checkpoint", files.checkpoint, "--position").stdout)
    assert (at["lines"], at["bytes"]) == (600, len("".join(LINES.splitlines(keepends=True)[:600])))
    assert at["written"] == len("".join(straight.splitlines(keepends=True)[:600]))
    run(*keep, "--continued", text=LINES[at["bytes"] :][: at["bytes"] // 2])
    run(*keep)
    assert files.labels.read_text() == straight


def test_standard_output_repeats_what_came_after_the_checkpoint(files, straight):
    keep = ["--checkpoint", files.checkpoint, *OPTIONS]
    first = run(*keep, text="".join(LINES.splitlines(keepends=True)[:650]))
    again = run(*keep)
    assert again.stdout == "".join(straight.splitlines(keepends=True)[600:])
    assert first.stdout.splitlines()[:600] == straight.splitlines()[:600]


def test_a_bad_line_can_be_mended_or_skipped_later(files, straight):
    lines = LINES.splitlines(keepends=True)
    files.votes.write_text("".join([*lines[:450], "{\n", *lines[451:]]))
    assert resumed(files).exit_code == 1
    assert json.loads(run("--checkpoint", files.checkpoint, "--position").stdout)["lines"] == 400
    files.votes.write_text(LINES)
    assert resumed(files).exit_code == 0
    assert files.labels.read_text() == straight


def test_skipped_lines_are_counted_across_a_resume(files):
    lines = LINES.splitlines(keepends=True)
    files.votes.write_text("".join([*lines[:50], "{\n", *lines[51:300]]))
    resumed(files, *OPTIONS, "--on-error", "skip")
    files.votes.write_text("".join([*lines[:50], "{\n", *lines[51:300], "{\n"]))
    assert resumed(files, *OPTIONS, "--on-error", "skip").stderr.endswith("2 of 301 lines skipped\n")


def test_a_checkpoint_before_the_first_votes(files):
    files.votes.write_text("\n" * 250)
    assert resumed(files).exit_code == 0
    files.votes.write_text("\n" * 250 + LINES)
    assert resumed(files).exit_code == 0
    assert files.labels.read_text() == run(*OPTIONS, text="\n" * 250 + LINES).stdout


def test_sources_and_classes_that_joined_are_kept(files):
    options = ["--block", 2, "--new-sources", "add", "--new-classes", "add"]
    lines = ['{"a": 0, "b": 1}\n', '{"a": 1}\n', '{"c": 1}\n', '{"a": "x"}\n', '{"c": 0}\n', '{"d": 0}\n'] * 2
    for cut in range(len(lines) + 1):
        for path in (files.labels, files.checkpoint):
            path.unlink(missing_ok=True)
        files.votes.write_text("".join(lines[:cut]))
        resumed(files, *options)
        files.votes.write_text("".join(lines))
        assert resumed(files, *options).exit_code == 0
        assert files.labels.read_text() == run(*options, text="".join(lines)).stdout
    assert list(json.loads(files.labels.read_text().splitlines()[-1])["probabilities"]) == ["0", "1", "x"]


def test_changed_input_is_refused(files):
    resumed(files)
    before = files.labels.read_bytes()
    for text, words in ((LINES.replace("1", "0", 1), "differs from"), (LINES[:500], "is shorter than")):
        files.votes.write_text(text)
        result = resumed(files)
        assert (result.exit_code, words in result.stderr) == (1, True)
        assert files.labels.read_bytes() == before


def test_other_options_are_refused(files):
    resumed(files)
    for other in (
        ["--window", "301"],
        ["--block", "50"],
        ["--id", "key"],
        ["--classes", "2"],
        ["--refresh", "9"],
    ):
        result = resumed(files, "--method", "triplet", "--window", "300", *other)
        assert result.exit_code == 1
        assert f"written with {other[0]} " in result.stderr
    assert (
        "--output labels.jsonl; got not set"
        in run(files.votes, "--checkpoint", files.checkpoint, *OPTIONS).stderr
    )


def test_an_output_that_lost_its_labels_is_refused(files):
    resumed(files)
    files.labels.write_text("short")
    assert "labels.jsonl: The file has 5 bytes" in resumed(files).stderr
    files.labels.unlink()
    assert "labels.jsonl: The file does not exist" in resumed(files).stderr


def test_a_damaged_checkpoint_is_refused(files):
    resumed(files)
    good, before = files.checkpoint.read_bytes(), files.labels.read_bytes()
    rng = np.random.default_rng(0)
    damages = [b"", b"nonsense", good[:-1], good + b"x"]
    damages += [good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :] for at in rng.integers(len(good), size=15)]
    for damage in damages:
        files.checkpoint.write_bytes(damage)
        result = resumed(files)
        assert result.exit_code == 1
        assert result.stderr.startswith(f"Error: {files.checkpoint}: ")
        assert result.stderr.count("\n") == 1
        assert files.labels.read_bytes() == before
    fs.LabelModel().fit(CODES).save(files.checkpoint)
    assert "it contains a LabelModel" in resumed(files).stderr


# ---------------------------------------------------------------------- processes


def started(*arguments, **more):
    return subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more,
    )  # fmt: skip


@pytest.mark.system
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_end_it_cleanly(number, files, straight):
    """Lines are waited for when the signal comes; the checkpoint is where the files.labels are."""
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("the signal is ignored, as under nohup")
    keep = ["-o", files.labels, "--checkpoint", files.checkpoint, *OPTIONS]
    process = started(*keep)
    process.stdin.write("".join(LINES.splitlines(keepends=True)[:550]).encode())
    process.stdin.flush()
    wanted = len("".join(straight.splitlines(keepends=True)[:500]))
    until = time.monotonic() + 30
    while (not files.labels.exists() or files.labels.stat().st_size < wanted) and time.monotonic() < until:
        time.sleep(0.02)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    assert f"{number.name} after line 500" in errors.decode()
    assert str(files.checkpoint) in errors.decode()
    assert run(*keep).exit_code == 0
    assert files.labels.read_text() == straight


@pytest.mark.system
def test_a_closed_pipe_is_no_error(tmp_path):
    votes = tmp_path / "votes"
    votes.write_text(LINES * 20)  # more labels than a pipe holds
    command = f"{sys.executable} -m flyingsquid stream {votes} | head -1; echo ${{PIPESTATUS[0]}}"
    answer = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    first, code = answer.stdout.splitlines()
    assert (json.loads(first)["id"], code, answer.stderr) == (1, "141", "")


@pytest.mark.system
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_line_is_answered_at_once_in_blocks_of_one(unbuffered):
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    process = started("--block", 1, "--sources", "a,b", "--classes", "2", env=environment)
    for number in (1, 2):
        process.stdin.write(b'{"a": 1}\n')
        process.stdin.flush()
        assert select.select([process.stdout], [], [], 60)[0], "no answer while the input is open"
        assert json.loads(process.stdout.readline())["id"] == number
    process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.mark.system
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("window", [["--window", "3000"], ["--window", "auto"]], ids=lambda w: w[1])
def test_killed_at_any_moment_it_writes_the_same(tmp_path, window):
    """kill -9, ten times a window, at random moments; then to the end."""
    rng = np.random.default_rng(7)
    votes, labels, checkpoint = tmp_path / "votes", tmp_path / "labels", tmp_path / "checkpoint"
    drift = fs.datasets.simulate_drift(
        16_000, [0.9] * 3 + [0.6] * 2, [0.6] * 5, coverage=0.8, random_state=rng
    )
    votes.write_text(lines_of(np.asarray(drift.votes.codes)))
    options = [*window, "--method", "triplet", "--block", "50", "--every", "500"]
    straight = run(*options[:-2], votes)
    command = ["stream", *options, str(votes), "-o", str(labels), "--checkpoint", str(checkpoint)]
    launcher = Launcher(command)
    # Where the kills come: after some share of the labels has been written, and a moment more.
    shares = np.sort(rng.uniform(0, 0.9, 10))
    for share in shares:
        child = launcher.start()
        while not labels.exists() or labels.stat().st_size < share * len(straight.stdout):
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.005))
        os.kill(child, signal.SIGKILL)
        assert launcher.wait() == -signal.SIGKILL
    launcher.start()
    assert launcher.wait() == 0
    launcher.close()
    assert labels.read_text() == straight.stdout
    assert len(straight.stdout.splitlines()) == 16_000


@pytest.mark.system
def test_the_model_of_a_checkpoint_can_be_looked_at(files):
    """By ``fs.load`` and ``flyingsquid inspect``; before the first votes there is none."""
    drift = fs.datasets.simulate_drift(3_000, [0.9, 0.85, 0.8, 0.7], [0.4, 0.85, 0.8, 0.7], random_state=0)
    files.votes.write_text(lines_of(drift.votes.codes, "abcd"))
    options = ["--window", "auto", "--method", "triplet"]
    assert resumed(files, *options).exit_code == 0
    model = fs.load(files.checkpoint)
    assert model.n_seen_ == 3_000
    inspect = [*COMMAND[:-1], "inspect", files.checkpoint]
    said = subprocess.run(inspect, capture_output=True, text=True, check=True)
    assert "OnlineLabelModel" in said.stdout
    assert len(model.changes()) == 1
    assert str(model.changes()[0]) in said.stdout
    write_checkpoint(str(files.checkpoint), Checkpoint({}, Position(), Known(), None))
    with pytest.raises(fs.exceptions.ModelFileError, match="before the first votes"):
        fs.load(files.checkpoint)
