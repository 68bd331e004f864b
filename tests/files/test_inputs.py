"""Damaged, foreign and hostile files: one clear line each, and little memory."""

from __future__ import annotations

import gzip
import os

import numpy as np
import pytest

from flyingsquid.exceptions import VoteFileError
from flyingsquid.files import open_votes, write_votes
from flyingsquid.files.columns import require_distinct
from flyingsquid.files.inputs import open_input, text_blocks
from flyingsquid.votes import Votes
from tests.fuzz.run import fuzz
from tests.support.vote_files import assert_refused

HUGE = r"64 bits; got 9\d* \(row 1, source 'b'\)"


@pytest.mark.parametrize(
    ("name", "content", "line", "match"),
    [
        ("v.csv", b"", None, "empty"),
        ("v.csv", b"\n\n", None, "blank lines"),
        ("v.csv", b"id,a,b\n", None, "no rows"),
        ("v.csv", b"a,b\n0,1\n1\n", 3, "1 cell,.*2"),
        ("v.csv", b'a,b\n"x\ny",x\n\nx,y,z\n', 5, "3 cells"),
        ("v.csv", b'a,b\n0,"1\n', 2, "quote"),
        ("v.csv", b"a,b\nx,y\n\xe9,x\n", 3, "Byte 8 is not UTF-8"),
        ("v.csv", "a,b\nx,y\n".encode("utf-16"), None, "UTF-16"),
        ("v.csv", "a,b\nx,y\n".encode("utf-32"), None, "UTF-32"),
        ("v.csv", b"\0\0\xfe\xff" + "a,b\n".encode("utf-32-be"), None, "UTF-32"),
        ("v.jsonl", b'{"a": "x"}\n{"a": "\\ud83d\\ude00", "b": "\\ud83d"}\n', 2, "Column 29: .*ud83d"),
        ("v.jsonl", b'{"a": "x", "b": "\\\\ud83d\\udc00"}\n', 1, "Column 25: .*udc00"),
        ("v.json", b'[{"a": "x",\n "b": "\\uDC00"}]', None, "Column 8: .*uDC00"),
        ("v.csv", b"a,b\nx,y\n\0,x\n", 3, "NUL"),
        ("v.csv", b"a,a\n0,1\n", None, "'a'"),
        ("v.csv", b"id,a\nx,0\ny,1\nx,1\n", None, "'x'.*row 3"),
        ("v.csv", b"id,a\nx,0\n,1\n", None, "Row 1.*identifier"),
        ("v.csv", b"a,b\n0," + b"9" * 200_000 + b"\n", 2, "field larger"),
        ("v.csv", b"a,b\n0," + b"9" * 5_000 + b"\n", None, "64 bits"),
        ("v.csv", b"label\n0\n1\n", None, "vote columns"),
        ("v.jsonl", b'{"a": 1}\n{"a": 0', 2, "truncated"),
        ("v.jsonl", b'{"a": 1}\n{"a" 0}\n', 2, "JSON"),
        ("v.jsonl", b"[" * 100_000 + b"\n", 1, "nested too deeply|JSON"),
        ("v.jsonl", b'{"a": ' + b"9" * 5_000 + b"}\n", 1, "JSON"),
        ("v.jsonl", b'{"a": ' + b"9" * 40 + b', "b": 1}\n', None, "64 bits"),
        ("v.jsonl", b'{"a": [1], "b": 0}\n', 1, "'a'"),
        ("v.jsonl", b'{"a": 1, "b": "x"}\n', None, "one type"),
        ("v.jsonl", b'{"a": 1, "b": true}\n', None, "one type"),
        ("v.jsonl", b'{"a": 1e999, "b": 1}\n', 1, "1e999"),
        ("v.jsonl", b'{"a": 1, "b": 0}\n[1, 0]\n', 2, "object"),
        ("v.jsonl", b'{"a": 1, "b": 0}\n7\n', 2, "got 7"),
        ("v.json", b"[7]", None, "Record 1.*got 7"),
        ("v.csv", b"a,b\n0,1\n1,99999999999999999999\n", None, HUGE),
        ("v.csv", b"a,b\n0,1\n1,9223372036854775808\n", None, HUGE),
        ("v.jsonl", b'{"a": 0, "b": 1}\n{"a": 1, "b": 99999999999999999999}\n', None, HUGE),
        ("v.jsonl", b"[0, 1, 0]\n\n[1, 0]\n", 3, "2 votes.*3"),
        ("v.jsonl", b"[0, 1]\n[1, 0, 0]\n", 2, "3 votes.*2"),
        ("v.jsonl", b'{"votes": [0, 1]}\n{"votes": [1]}\n', 2, "1 vote.*2"),
        ("v.jsonl", b'{"votes": [0, 1]}\n{"votes": {"a": 1}}\n', 2, "a list"),
        ("v.jsonl", b'{"id": 7, "votes": {}}\n', None, "no votes"),
        ("v.json", b"[[0, 1], [1]]", None, "Record 2.*1 vote.*2"),
        ("v.jsonl", b"[0, 1]\n[[1], 0]\n", 2, "'source 0'"),
        ("v.jsonl", b'{"a": 1, "b": 0}\n{"a": 0, "b": 1, "a": 1}', 2, "key 'a'"),
        ("v.jsonl", b'{"votes": {"b": 0, "b": 1}}\n', 1, "key 'b'"),
        ("v.json", b'[{"a": 1, "b": 0, "b": 1}]', None, "key 'b'"),
        ("v.json", b'{"1": {"weak_labels": [0, 1]}, "2": {"weak_labels": [0]}}', None, "'2'.*1 weak labels"),
        ("v.json", b'{"1": {"weak_labels": [0, "x"]}}', None, "got 'x'.*source 1"),
        ("v.json", b'{"1": {"weak_labels": [0, 1', None, "JSON"),
        ("v.npy", b"\x93NUMPY", None, "damaged, truncated"),
        ("v.npz", b"PK\x03\x04 and so on", None, "damaged, truncated"),
        ("v.csv.gz", gzip.compress(b"a,b\n" + b"0,1\n" * 9_999, mtime=0)[:-20], None, "truncated"),
        ("v.csv.gz", b"\x1f\x8b\x08\x00 nonsense", None, "truncated"),
    ],
)  # fmt: skip
def test_one_clear_line(tmp_path, name, content, line, match):
    path = tmp_path / name
    path.write_bytes(content)
    assert_refused(path, match, line=line)


def test_files_that_are_not_there_or_no_files(tmp_path):
    assert_refused(tmp_path / "absent.csv", "No such file")
    assert_refused(tmp_path, "contains no")
    with pytest.raises(VoteFileError, match="NUL"):
        open_votes("v\0.csv")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may read anything")
def test_a_file_that_may_not_be_read(tmp_path):
    path = tmp_path / "v.csv"
    path.write_text("a,b\n0,1\n")
    path.chmod(0)
    assert_refused(path, "Permission denied")


def test_a_line_without_an_end(tmp_path):
    path = tmp_path / "v.csv"
    path.write_bytes(b"a,b\n" + b"x" * (1 << 23))
    with pytest.raises(VoteFileError) as caught:
        list(text_blocks(open_input(path), longest_line=1 << 21))
    assert caught.value.line == 2


@pytest.mark.slow
def test_a_hundred_thousand_columns(tmp_path):
    m = 100_000
    path = tmp_path / "v.csv"
    lines = [
        ",".join(f"s{j}" for j in range(m)),
        ",".join(["0", "1"] * (m // 2)),
        ",".join(["1", ""] * (m // 2)),
    ]
    path.write_text("\n".join(lines))
    file = open_votes(path)
    assert file.read().votes.shape == (2, m)
    assert file.describe() == "2 items, 100,000 sources, classes 0/1, blank = abstain, wide form"


def test_equal_hashes_are_no_duplicates(tmp_path):
    path = tmp_path / "v.jsonl"
    assert hash(-1) == hash(-2)
    path.write_text('{"id": -1, "a": 0}\n{"id": -2, "a": 1}\n')
    assert list(open_votes(path).read().ids) == [-1, -2]


def test_identifiers_are_compared_across_blocks():
    ids = [f"i{k}" for k in range(1_000)]
    require_distinct(lambda: [ids, ["i1000"]])
    with pytest.raises(VoteFileError, match="'i7' occurs again in row 1,001"):
        require_distinct(lambda: [ids, ["i7"]])
    require_distinct(lambda: [np.arange(5), np.arange(5, 9)])
    require_distinct(lambda: [np.arange(5, 9), np.arange(5)])
    with pytest.raises(VoteFileError, match="unique; 4 occurs again in row 6"):
        require_distinct(lambda: [np.arange(5), np.arange(4, 9)])


@pytest.mark.slow
def test_a_short_fuzz_run_finds_nothing(tmp_path):
    outcome = fuzz(tmp_path, most=12_000, seed=1)  # half a minute on one core
    assert outcome.findings == []
    assert outcome.files > 50


def test_a_parquet_file_that_is_wrong_about_its_rows(tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "v.parquet"
    write_votes(path, Votes(np.tile(np.array([[0, 1, -1], [1, 1, 0]], np.int8), (20, 1)), (0, 1)))
    data = path.read_bytes()
    footer = int.from_bytes(data[-8:-4], "little")
    wrong = 0
    for at in range(len(data) - 8 - footer, len(data) - 8):
        path.write_bytes(data[:at] + bytes([data[at] ^ 2]) + data[at + 1 :])
        try:
            says = pq.ParquetFile(path).metadata.num_rows
        except (OSError, pa.ArrowException):
            continue
        if says != 40:
            wrong += 1
            with pytest.raises(VoteFileError, match=r"declares .* rows"):
                open_votes(path)
    assert wrong


def test_a_cell_of_many_digits_is_read_in_one_go(tmp_path):
    """Not digit by digit from every digit on, which took a minute for 56,000 of them."""
    path = tmp_path / "v.csv"
    rows = [f"{i},ham,spam,ham" for i in range(20)]
    path.write_text("\n".join(["id,a,b,c", *rows, f"20,{'9' * 130_000}x,ham,ham"]), "utf-8")
    assert open_votes(path, item="id").n_sources == 3


@pytest.mark.parametrize("text", ["{}", "[{}]", "[{}, {}]"])
@pytest.mark.parametrize("name", ["votes.json", "votes.jsonl"])
def test_records_without_fields_are_refused(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(VoteFileError):
        open_votes(path)
