"""Files appear complete or not at all."""

from __future__ import annotations

import csv
import errno
import gc
import os
import resource
import signal
import stat
import subprocess
import sys
import traceback

import numpy as np
import pytest

from flyingsquid.cli.console import Console
from flyingsquid.exceptions import VoteFileError
from flyingsquid.files import LabelWriter, open_votes, outputs, write_votes
from flyingsquid.votes import Votes
from tests.support.vote_files import HAS_PYARROW, write_labels


def test_a_file_that_is_there_is_not_replaced_unless_forced(tmp_path):
    path = tmp_path / "l.csv"
    path.write_text("old")
    path.chmod(0o640)
    with pytest.raises(VoteFileError, match="`overwrite=True`"):
        write_labels(path)
    assert path.read_text() == "old"
    write_labels(path, overwrite=True)
    assert path.read_text().startswith("id,label")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert [p.name for p in tmp_path.iterdir()] == ["l.csv"]


def test_a_file_that_appears_meanwhile_is_not_replaced(tmp_path):
    path = tmp_path / "l.csv"

    def write():
        with LabelWriter(path, classes=(0, 1)) as out:
            out.write(["a"], [0], [[1, 0]], [1])
            path.write_text("faster")

    with pytest.raises(VoteFileError, match="`overwrite=True`"):
        write()
    assert path.read_text() == "faster"


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("name", ["l.csv", "l.npz", "l.jsonl.gz", *(["l.parquet"] if HAS_PYARROW else [])])
def test_an_interrupted_run_leaves_the_old_file(tmp_path, name, error):
    (tmp_path / name).write_text("old")

    def write():
        with LabelWriter(tmp_path / name, classes=(0, 1), overwrite=True) as out:
            out.write(["a"], [0], [[1, 0]], [1])
            raise error

    with pytest.raises(error):
        write()
    assert (tmp_path / name).read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the unclosed file
def test_an_interrupt_before_any_line_leaves_no_temporary_file(tmp_path):
    """A signal may arrive anywhere: also right after the file was created, before anyone holds it."""
    target, line, interrupted = tmp_path / "l.csv", 0, True
    target.write_text("old")
    while interrupted:
        line += 1
        interrupted = _interrupt_writing_before(line, target)
        assert [path.name for path in tmp_path.iterdir()] == ["l.csv"]
        assert target.read_text() in ("old", "new")
    assert line > 10
    assert target.read_text() == "new"


def _interrupt_writing_before(number, target) -> bool:
    """Write to ``target`` and raise KeyboardInterrupt before a line; return whether that line was run."""
    seen = 0

    def trace(frame, event, _argument):
        nonlocal seen
        if frame.f_code.co_filename != outputs.__file__:
            return None
        seen += event == "line"
        if event == "line" and seen == number:
            raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with outputs.open_atomic(target) as file:
            file.write(b"new")
    except KeyboardInterrupt as stop:
        traceback.clear_frames(stop.__traceback__)
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_at_the_last_moment(tmp_path, monkeypatch, step):
    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(outputs.os, step, fail)
    with pytest.raises(VoteFileError, match="No space left on device") as caught:
        write_labels(tmp_path / "l.csv")
    assert str(caught.value).startswith(str(tmp_path / "l.csv"))
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", ["l.csv", "l.npz", *(["l.parquet"] if HAS_PYARROW else [])])
def test_a_limit_of_the_system_on_the_way(tmp_path, name):
    """The system refuses more than 64 kB in a file, as a full disk would."""
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.getsignal(signal.SIGXFSZ)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    rng = np.random.default_rng(0)

    def write():
        with LabelWriter(tmp_path / name, classes=(0, 1)) as out:
            for _ in range(20):
                out.write(np.arange(5000), np.zeros(5000, int), rng.random((5000, 2)), np.zeros(5000, int))

    try:
        with pytest.raises(VoteFileError, match="File too large"):
            write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    gc.collect()  # so that the complaint comes here
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("format", ["npy", "wrench"])
def test_votes_that_do_not_fit_leave_the_files_before(tmp_path, format):
    path = tmp_path / f"votes.{format}"
    write_votes(path, Votes(np.array([[0, 1, 1]], np.int8), (0, 1)), format=format)
    files = [path] if path.is_file() else sorted(path.iterdir())
    old = [file.read_bytes() for file in files]
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.getsignal(signal.SIGXFSZ)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, before[1]))
    try:
        with pytest.raises(VoteFileError, match="File too large"):
            write_votes(path, Votes(np.ones((5000, 3), np.int8), (0, 1, 2)), format=format, overwrite=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert [file.read_bytes() for file in files] == old
    assert files == ([path] if path.is_file() else sorted(path.iterdir()))


def test_errors_name_the_file(tmp_path):
    def write():
        with outputs.open_atomic(tmp_path / "model.fsq"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match=r"model\.fsq") as caught:
        write()
    assert caught.value.filename == str(tmp_path / "model.fsq")


def test_files_of_killed_processes_are_removed(tmp_path):
    """Except those that another process writes, or may have just created."""
    paths = {name: tmp_path / f".flyingsquid-{name}.tmp" for name in ("killed", "locked", "new")}
    for name, path in paths.items():
        path.write_text("part")
        if name != "new":
            os.utime(path, (0, 0))
    with open(paths["locked"], "r+b") as file:
        assert outputs.try_lock(file)
        write_labels(tmp_path / "l.csv")
    assert {path.name for path in tmp_path.iterdir()} == {
        "l.csv", ".flyingsquid-locked.tmp", ".flyingsquid-new.tmp",
    }  # fmt: skip


def test_closed_standard_streams(tmp_path, monkeypatch):
    """A service may be started without them."""
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    with pytest.raises(VoteFileError, match="standard input: The stream is closed"):
        open_votes("-")
    with pytest.raises(VoteFileError, match="standard output: The stream is closed"):
        write_labels("-")
    with Console().show_spinner("reading"):
        write_labels(tmp_path / "l.csv")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device here")
def test_a_full_device_raises_one_error():
    with pytest.raises(VoteFileError, match="/dev/full: No space left on device"):
        write_labels("/dev/full", format="csv")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_to(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(VoteFileError, match="Permission denied"):
        write_labels(tmp_path / "l.csv")


@pytest.mark.system
def test_standard_output_gets_everything_or_nothing():
    code = """
import sys
from flyingsquid.files import LabelWriter
try:
    with LabelWriter("-", classes=(0, 1)) as out:
        out.write(["a"], [0], [[1.0, 0.0]], [1])
        if len(sys.argv) > 1:
            raise RuntimeError
except RuntimeError:
    pass
"""
    for more, expected in (([], "id,label,p_0,p_1,n_votes,tied\na,0,1.0,0.0,1,false\n"), (["fail"], "")):
        answer = subprocess.run(
            [sys.executable, "-c", code, *more], capture_output=True, text=True, check=True
        )
        assert answer.stdout == expected


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real.csv").write_text("old")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    write_labels(tmp_path / "link.csv", overwrite=True)
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text().startswith("id,label")


FORMULAS = ("=1+1", "+1", "-1", "@x", "\t=1", "plain", "a=b")


def test_formulas_are_escaped_on_request(tmp_path):
    votes = Votes.from_classes([["=cmd", "ok"]] * len(FORMULAS), names=["=a", "b"])
    for escape in (False, True):
        path = tmp_path / f"{escape}.csv"
        write_votes(path, votes, ids=list(FORMULAS), escape_formulas=escape)
        with LabelWriter(tmp_path / f"l{escape}.csv", classes=("=cmd", "ok"), escape_formulas=escape) as out:
            out.write(list(FORMULAS), [0] * 7, [[0.5, 0.5]] * 7, [2] * 7)
        for written in (path, tmp_path / f"l{escape}.csv"):
            cells = [cell for row in csv.reader(written.read_text().splitlines()) for cell in row]
            assert any(cell.startswith(("=", "@", "\t")) for cell in cells) is not escape
            assert ("'=1+1" in cells, "'=cmd" in cells) == (escape, escape)
            assert {"plain", "a=b"} <= set(cells)


@pytest.mark.parametrize("name", ["v.csv", "v.parquet"])
def test_strings_that_utf_8_cannot_encode(tmp_path, name):
    if name == "v.parquet":
        pytest.importorskip("pyarrow")
    votes = Votes.from_classes([["x", "y"], ["y", "x"]])
    with pytest.raises(VoteFileError, match="not valid UTF-8"):
        write_votes(tmp_path / name, votes, ids=["a", "b\ud800"])
    assert not (tmp_path / name).exists()
