"""Errors about files: one clear line, exit code 1, and nothing half-written."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from flyingsquid.cli.main import main
from tests.support.cli_files import make_samples, write_csv

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return make_samples(tmp_path)


def refused(*words: object) -> str:
    """The one line of an error; no file may have changed or appeared."""
    before = {path: path.stat().st_mtime_ns for path in Path().iterdir()}
    result = CliRunner().invoke(main, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 1, result.output
    lines = result.output.splitlines()
    assert lines[-1].startswith("Error: "), result.output
    assert "Traceback" not in result.output
    assert sum(line.startswith("Error") for line in lines) == 1
    assert {path: path.stat().st_mtime_ns for path in Path().iterdir()} == before
    return lines[-1]


CUT = gzip.compress(b"id,a,b\n" + b"".join(b"%d,x,y\n" % i for i in range(999)))[:900]
BAD: dict[str, tuple[str, bytes, str]] = {
    "empty": ("v.csv", b"", "empty"),
    "header alone": ("v.csv", b"id,a,b\n", "no rows"),
    "cut off": ("v.csv", b"id,a,b\n1,x,y\n2,x\n", "line 3"),
    "an open quote": ("v.csv", b'id,a,b\n1,"x,y\n2,x,y\n', "quote"),
    "Latin-1": ("v.csv", "id,a,b\n1,é,y\n".encode("latin1"), "UTF-8"),
    "UTF-16": ("v.csv", "id,a,b\n1,x,y\n".encode("utf-16"), "UTF-16"),
    "binary": ("v.csv", b"id,a,b\n1,\0,y\n", "NUL"),
    "duplicate ids": ("v.csv", b"id,a,b\n1,x,y\n1,x,y\n", "unique"),
    "mixed types": ("v.csv", b"id,a,b\n1,x,3\n2,y,4\n", "one type"),
    "scores": ("v.csv", b"id,a,b\n1,0.25,0.5\n", "score"),
    "nobody votes": ("v.csv", b"id,a,b\n1,,\n2,,\n", "no votes"),
    "one class": ("v.csv", b"id,a,b\n1,x,\n2,x,x\n", "Only one class"),
    "cut gzip": ("v.csv.gz", CUT, "truncated"),
    "no npy": ("v.npy", b"\x93NUMPY\x01\x00", "npy"),
    "no npz": ("v.npz", b"PK\x03\x04 and so on", ""),
    "no parquet": ("v.parquet", b"PAR1 and so on", ""),
    "no JSON": ("v.jsonl", b'{"a": 1}\n{"a": \n', "2"),
    "wrong name": ("v.csv", b'{"a": 1, "b": 2}\n', "jsonl"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("command", ["label", "convert", "analyze"])
def test_bad_files_are_refused_in_one_line(command, case, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, content, words = BAD[case]
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    Path(name).write_bytes(content)
    line = refused(command, name, *{"label": ["-o", "out.csv"], "convert": ["out.csv"]}.get(command, []))
    assert words in line
    assert name in line


@pytest.mark.slow
def test_a_hundred_thousand_columns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "v.csv", [f"c{j}" for j in range(100_000)], [["x", "y"] * 50_000] * 2)
    line = refused("label", "v.csv", "-o", "labels.csv", "--no-item")
    assert "100,000" in line


def test_nothing_is_overwritten_unasked_and_that_is_found_out_first(folder):
    for name in ("labels.csv", "report.html", "model.fsq"):
        (folder / name).write_text("precious")
        line = refused(
            "label", "votes.csv", "-o", "labels.csv", "--report", "report.html", "--model", "model.fsq"
        )
        assert line == f"Error: {name}: File exists. Use --force to replace it."
        (folder / name).unlink()
    (folder / "page.html").write_text("precious")
    assert "--force" in refused("report", "votes.csv", "-o", "page.html")
    assert "--force" in refused("convert", "votes.csv", "more.csv")
    assert (folder / "page.html").read_text() == "precious"
    again = ["label", "votes.csv", "-o", "page.html", "--output-format", "csv", "--force", "--quiet"]
    assert CliRunner().invoke(main, again).exit_code == 0
    assert (folder / "page.html").read_text().startswith("id,label")


@pytest.mark.parametrize("words", [
    ["label", "votes.csv", "-o", "votes.csv", "--force"],
    ["label", "votes.csv", "-o", "./votes.csv", "--force"],
    ["label", "votes.csv", "-o", "a.csv", "--report", "a.csv"],
    ["label", "votes.csv", "-o", "spam.fsq", "--with-model", "spam.fsq", "--force"],
    ["report", "votes.csv", "-o", "texts.csv", "--data", "texts.csv", "--force"],
    ["convert", "votes.csv", "votes.csv", "--force"],
    ["label", "nowhere.csv", "-o", "a.csv"],
    ["label", "votes.csv"],
    ["label", "votes.csv", "-o", "a.csv", "--wide", "--long", "a,b,c"],
    ["label", "votes.csv", "-o", "a.csv", "--item", "id", "--no-item"],
    ["label", "votes.csv", "-o", "a.csv", "--long", "a,b"],
    ["label", "votes.csv", "-o", "a.csv", "--sources", "a,,b"],
])  # fmt: skip
def test_wrong_usage_is_exit_code_two(words, folder):
    before = (folder / "votes.csv").read_bytes()
    assert CliRunner().invoke(main, words).exit_code == 2
    assert (folder / "votes.csv").read_bytes() == before
    assert not (folder / "a.csv").exists()


def test_places_that_cannot_be_written_to(folder):
    assert "does not exist" in refused("label", "votes.csv", "-o", "nowhere/labels.csv")
    assert "cannot be inferred" in refused("label", "votes.csv", "-o", "labels.xyz")
    os.mkdir("sub")
    result = CliRunner().invoke(main, ["label", "votes.csv", "-o", "sub"])
    assert result.exit_code == 2


@LINUX
def test_a_full_disk_leaves_nothing(folder):
    assert "No space left" in refused("label", "votes.csv", "-o", "/dev/full", "--output-format", "csv")
    assert "No space left" in refused("convert", "votes.csv", "/dev/full", "--output-format", "csv")


@pytest.mark.system
@LINUX
def test_a_disk_that_is_full_in_the_middle(folder):
    """A limit on the size of files, as a quota would set it."""
    code = (
        "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
        "from flyingsquid.cli.main import main; main(['label', 'votes.csv', '-o', 'labels.csv', '--quiet'])"
    )
    # What measures coverage would write a file, too.
    env = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    command = [sys.executable, "-c", code]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert answer.returncode == 1
    assert answer.stderr == "Error: labels.csv: File too large.\n"
    assert not [name for name in os.listdir() if name.startswith((".flyingsquid", "labels"))]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_unreadable_files(folder):
    os.chmod("votes.csv", 0)
    assert "permission denied" in refused("label", "votes.csv", "-o", "labels.csv").lower()


def test_files_that_do_not_hold_models_are_refused(folder):
    (folder / "damaged.fsq").write_bytes((folder / "spam.fsq").read_bytes()[:500])
    assert "damaged.fsq" in refused("label", "votes.csv", "-o", "a.csv", "--with-model", "damaged.fsq")
    assert "damaged.fsq" in refused("inspect", "damaged.fsq")
    assert refused("label", "votes.csv", "-o", "a.csv", "--with-model", "votes.csv")


def test_gold_labels_of_which_none_is_known(folder):
    rows = [[i, *row, ""] for i, row in enumerate([["x", "y", "x"], ["y", "y", "x"]] * 20)]
    write_csv(folder / "none.csv", ["id", "a", "b", "c", "truth"], rows)
    for words in (
        ["label", "none.csv", "-o", "a.csv"],
        ["report", "none.csv", "-o", "r.html"],
    ):
        assert "gold labels" in refused(*words, "--gold", "truth")
    assert refused("analyze", "none.csv", "--gold", "truth")


def test_two_sources_do_not_suffice_for_a_method_of_three(folder):
    np.save("two.npy", np.array([[0, 1], [1, 1], [0, 0]] * 10, np.int8))
    assert refused("label", "two.npy", "-o", "a.csv", "--method", "triplet")


def test_memory_that_has_no_room(folder, monkeypatch):
    def hungry(*_words, **_options):
        raise MemoryError

    monkeypatch.setattr("flyingsquid.models.label_model.LabelModel.fit", hungry)
    assert "Out of memory" in refused("label", "votes.csv", "-o", "a.csv")


def broken(*_words, **_options):
    raise IndexError("Too many indices\nfor an array")


def test_an_unexpected_error_is_one_line_and_the_traceback_is_a_flag_away(folder, monkeypatch):
    monkeypatch.setattr("flyingsquid.models.label_model.LabelModel.fit", broken)
    words = ["label", "votes.csv", "-o", "a.csv", "--quiet"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 70
    (line,) = result.output.splitlines()
    assert line.startswith("Error: Unexpected IndexError: Too many indices for an array.")
    assert "--debug" in line
    for debugged in (CliRunner().invoke(main, ["--debug", *words]), debug_by_environment(words)):
        assert isinstance(debugged.exception, IndexError)
    assert not (folder / "a.csv").exists()


def debug_by_environment(words):
    return CliRunner(env={"FLYINGSQUID_DEBUG": "1"}).invoke(main, words)


def test_a_wrong_value_of_an_option_is_named_as_the_option(folder):
    words = ["label", "votes.csv", "-o", "a.csv", "--classes", "ham,ham"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 2
    assert "Invalid value for --classes: " in result.output


def test_a_similar_command_is_suggested():
    result = CliRunner().invoke(main, ["labels", "votes.csv"])
    assert result.exit_code == 2
    assert "Did you mean label?" in result.output


def test_an_empty_path_is_refused_before_the_work(folder):
    result = CliRunner().invoke(main, ["label", "votes.csv", "-o", ""])
    assert result.exit_code == 2
    assert "--output must be the path of a file" in result.output
