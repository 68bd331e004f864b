"""Files of ``flyingsquid stream``: nothing foreign is replaced, and one stream at a time writes them."""

from __future__ import annotations

import errno
import io
import json
import os
import signal
import tempfile
from pathlib import Path

import pytest

from flyingsquid.cli import stream as stream_command
from flyingsquid.cli.console import handling_signals
from flyingsquid.cli.stream import Position, open_output
from flyingsquid.cli.stream_lines import Known, Rules, next_lines, read_block
from flyingsquid.exceptions import ModelFileError
from flyingsquid.files import inputs
from flyingsquid.files.outputs import locked
from tests.cli.test_stream import LINES, OPTIONS, parsed, run
from tests.cli.test_stream_resume import Files

FIRST = "".join(LINES.splitlines(keepends=True)[:450])


@pytest.fixture
def files(tmp_path):
    votes = tmp_path / "votes.jsonl"
    votes.write_text(LINES)
    return Files(votes, tmp_path / "labels.jsonl", tmp_path / "run.fsq")


def streamed(files, *more, output=None):
    paths = [files.votes, "-o", output or files.labels, "--checkpoint", files.checkpoint]
    return run(*paths, *OPTIONS, *more, text="")


# ---------------------------------------------------------------------- foreign files


def test_a_foreign_output_is_not_truncated(files, tmp_path):
    """The checkpoint of one output must not cut another file that happens to be longer."""
    assert streamed(files).exit_code == 0
    precious = tmp_path / "precious.dat"
    precious.write_bytes(b"x" * 1_000_000)
    result = streamed(files, output=precious)
    assert result.exit_code == 1
    assert "--output labels.jsonl; got precious.dat" in result.stderr
    assert precious.stat().st_size == 1_000_000


@pytest.mark.parametrize("change", ["first", "tail", "all"])
def test_an_output_with_other_content_is_not_truncated(files, change):
    files.votes.write_text(FIRST)
    streamed(files)
    labels = files.labels.read_bytes()
    other = {
        "first": labels.replace(b'"id": 1,', b'"id": 9,'),
        "tail": labels + b"notes of mine\n",
        "all": b"precious\n" * 9_999,
    }
    files.labels.write_bytes(other[change])
    result = streamed(files)
    assert result.exit_code == 1
    assert "not the output of this stream" in result.stderr
    assert files.labels.read_bytes() == other[change]


def test_a_checkpoint_before_the_first_label_keeps_foreign_files(files):
    """A stream that was killed early has a checkpoint at line 0, which does not depend on the content."""
    files.votes.write_text("")
    assert streamed(files).exit_code == 0
    assert json.loads(run("--checkpoint", files.checkpoint, "--position").stdout)["written"] == 0
    files.labels.write_text("precious\n")
    assert streamed(files).exit_code == 1
    assert files.labels.read_text() == "precious\n"
    files.labels.write_text('{"id": 1, "label": 0}\n{"i')  # labels of a killed run, the last one incomplete
    files.votes.write_text(LINES)
    assert streamed(files).exit_code == 0
    assert files.labels.read_text() == run(*OPTIONS).stdout


def test_output_and_checkpoint_can_be_moved_together(files, tmp_path):
    files.votes.write_text(FIRST)
    streamed(files)
    (tmp_path / "moved").mkdir()
    moved = Files(files.votes, tmp_path / "moved/labels.jsonl", tmp_path / "moved/run.fsq")
    files.labels.rename(moved.labels)
    files.checkpoint.rename(moved.checkpoint)
    files.votes.write_text(LINES)
    assert streamed(moved).exit_code == 0
    assert moved.labels.read_text() == run(*OPTIONS).stdout


# ---------------------------------------------------------------------- existing files


def test_an_existing_output_is_kept_without_force(files):
    files.labels.write_text("earlier labels\n")
    for arguments in ([], ["--checkpoint", files.checkpoint]):
        result = run(files.votes, "-o", files.labels, *OPTIONS, *arguments, text="")
        assert result.exit_code == 1
        assert "File exists" in result.stderr
        assert "--force" in result.stderr
        assert files.labels.read_text() == "earlier labels\n"
        assert not files.checkpoint.exists()
    assert run(files.votes, "-o", files.labels, *OPTIONS, "--force", text="").exit_code == 0
    assert files.labels.read_text() == run(*OPTIONS).stdout


def test_a_misspelled_checkpoint_does_not_start_over(files):
    files.votes.write_text(FIRST)
    streamed(files)
    before = files.labels.read_bytes()
    misspelled = Files(files.votes, files.labels, files.checkpoint.with_name("typo.fsq"))
    for more in ([], ["--continued"], ["--continued", "--force"]):
        result = streamed(misspelled, *more)
        assert result.exit_code == 1
        assert files.labels.read_bytes() == before
        assert not misspelled.checkpoint.exists()
    assert "--continued" in result.stderr


@pytest.mark.parametrize("link", [os.link, os.symlink], ids=["hard link", "symbolic link"])
def test_input_and_output_under_two_names(files, tmp_path, link):
    alias = tmp_path / "alias.jsonl"
    link(files.votes, alias)
    for command in (
        ["-o", alias, "--force"],
        ["-o", files.labels, "--checkpoint", alias],
    ):
        result = run(files.votes, *command, text="")
        assert result.exit_code == 2
        assert "file that is read" in result.stderr
    assert files.votes.read_text() == LINES


# ---------------------------------------------------------------------- one stream at a time


def test_a_second_stream_on_the_same_output_is_refused(files):
    with open_output(str(files.labels), Position(), resumed=False, overwrite=False) as first:
        first.write(b"of the first stream\n")
        first.flush()
        result = run(files.votes, "-o", files.labels, "--force", text="")
        assert result.exit_code == 1
        assert "Another stream writes this file" in result.stderr
        assert files.labels.read_text() == "of the first stream\n"


def test_a_second_stream_on_the_same_checkpoint_is_refused(files):
    with locked(str(files.checkpoint), "In use."):
        result = streamed(files)
        assert result.exit_code == 1
        assert "Another stream uses this checkpoint" in result.stderr
        assert not files.labels.exists()
        with (
            pytest.raises(ModelFileError),
            locked(str(files.checkpoint), "Another stream uses this checkpoint."),
        ):
            pass
    assert streamed(files).exit_code == 0
    assert sorted(path.name for path in files.votes.parent.iterdir()) == [
        "labels.jsonl",
        "run.fsq",
        "votes.jsonl",
    ]


# ---------------------------------------------------------------------- bounded memory


def test_blocks_are_bounded_by_bytes_and_lines_are_cut(monkeypatch):
    monkeypatch.setattr("flyingsquid.cli.stream_lines.LONGEST_LINE", 100)
    monkeypatch.setattr("flyingsquid.cli.stream_lines._BLOCK_BYTES", 250)
    text = b"[1, 0]\n" * 3 + b"[" + b" " * 999 + b"1, 0]\n" + b"[0, 0]\n" * 100
    source, blocks, checksum = io.BytesIO(text), [], 0
    while True:
        block = next_lines(source, 50, checksum, skip_long=True)
        blocks.append(block)
        checksum = block.checksum
        if not block.is_complete:
            break
    assert [len(block.lines) for block in blocks] == [4, 36, 36, 28]
    assert sum(block.n_bytes for block in blocks) == len(text)
    assert max(len(line) for block in blocks for line in block.lines) == 101
    bad = read_block(blocks[0].lines, 1, Known(), Rules()).bad
    assert [(number, "longer than 100 bytes" in reason) for number, reason in bad] == [(4, True)]
    stopped = next_lines(io.BytesIO(text), 50, 0, skip_long=False)  # an endless line is not read on
    assert (len(stopped.lines), stopped.is_complete, stopped.n_bytes) == (4, False, 21 + 101)


def test_labels_do_not_depend_on_where_a_stream_of_long_lines_was_stopped(files, monkeypatch):
    monkeypatch.setattr("flyingsquid.cli.stream_lines._BLOCK_BYTES", 2_000)
    whole = run(*OPTIONS).stdout
    files.votes.write_text(FIRST)
    streamed(files)
    files.votes.write_text(LINES)
    assert streamed(files).exit_code == 0
    assert files.labels.read_text() == whole
    assert len(parsed(whole)) == 1_234


def test_the_cap_of_a_line_is_that_of_files():
    assert stream_command.next_lines.__globals__["LONGEST_LINE"] == inputs.LONGEST_LINE


# ---------------------------------------------------------------------- disks, directories, signals


class FullDisk(io.BytesIO):
    def write(self, data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_names_the_file(files, monkeypatch):
    monkeypatch.setattr(stream_command, "open_output", lambda *_, **__: FullDisk())
    result = run(files.votes, "-o", files.labels, text="")
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {files.labels}: No space left on device")


@pytest.mark.skipif(not hasattr(os, "seteuid"), reason="needs users")
def test_a_directory_that_may_not_be_written():
    """As another user, because root may write everywhere."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "votes.jsonl").write_text(LINES)
        folder.chmod(0o555)
        user = os.geteuid()
        run(*OPTIONS)  # imports everything as the current user
        if user == 0:
            os.seteuid(65534)
        try:
            first = run(folder / "votes.jsonl", "-o", folder / "labels.jsonl", text="")
            second = run(folder / "votes.jsonl", "--checkpoint", folder / "run.fsq", text="")
        finally:
            os.seteuid(user)
            folder.chmod(0o755)
        for result in (first, second):
            assert result.exit_code == 1
            assert "Permission denied" in result.stderr
            assert result.stderr.count("\n") == 1
        assert os.listdir(folder) == ["votes.jsonl"]


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="signals of POSIX")
def test_an_ignored_hangup_stays_ignored():
    """As ``nohup`` asks for."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with handling_signals(lambda *_: None):
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_IGN
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        with handling_signals(lambda *_: None):
            assert signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)
