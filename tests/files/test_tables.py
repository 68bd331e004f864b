"""Votes of tables: long form, and wide form on disk."""

from __future__ import annotations

import io

import numpy as np
import pytest

from flyingsquid.exceptions import VoteFileError
from flyingsquid.files import open_votes
from flyingsquid.files.coding import build_coding
from flyingsquid.files.columns import ReadOptions
from flyingsquid.files.inputs import open_input
from flyingsquid.files.tables import DelimitedTable, read_table
from flyingsquid.votes.encode import Convention


def codes_of_sparse(path, **options):
    return open_votes(path, **options).read().votes.to_dense().codes.tolist()


def test_crowd_triples_are_recognised_and_stay_sparse(made):
    file = open_votes(made("v.csv", "task,worker,label\nt9,ann,1\nt9,bob,0\nt1,bob,1\n"))
    chunk = file.read()
    assert (file.form, chunk.votes.is_sparse, list(chunk.ids)) == ("long", True, ["t9", "t1"])
    assert chunk.votes.to_dense().codes.tolist() == [[1, 0], [-1, 1]]
    assert file.describe() == "2 items, 2 sources, classes 0/1, no row = abstain, long form"


def test_other_names_of_triples_and_the_wide_form_by_force(made):
    path = made("v.csv", "q,who,said,truth\n1,a,x,x\n1,b,y,x\n2,a,y,\n")
    file = open_votes(path, long=("q", "who", "said"), gold="truth")
    assert file.read().gold.tolist() == ["x", None]
    wide = open_votes(made("w.csv", "task,worker,label\n1,0,1\n2,1,0\n"), form="wide", gold="label")
    assert wide.source_names == ("worker",)
    with pytest.raises(VoteFileError) as caught:
        open_votes(path, form="long")
    assert [hint.parameter for hint in caught.value.hints] == ["long"]


def test_two_votes_of_one_source_on_one_item(made):
    path = made("v.csv", "task,worker,label\nt,a,1\nt,a,0\nu,a,1\n")
    with pytest.raises(VoteFileError, match="'a' votes more than once on item 't'"):
        open_votes(path).read()
    assert codes_of_sparse(path, duplicates="last") == [[0], [1]]


def test_a_large_csv_goes_to_disk_and_stays_small_in_memory(tmp_path):
    rng = np.random.default_rng(0)
    matrix = rng.integers(-1, 2, (70_000, 3))
    body = io.StringIO()
    np.savetxt(body, np.column_stack([np.arange(70_000) + 10, matrix]), "%d", ",")
    (tmp_path / "v.csv").write_text("id,a,b,c\n" + body.getvalue())
    table = DelimitedTable(open_input(tmp_path / "v.csv"), "csv", None)
    _, spool = read_table(table, ReadOptions(), in_memory=100)
    assert spool._file._rolled
    coding, _ = build_coding(spool.survey(), Convention(None), str)
    chunks = [codes for codes, _, _ in spool.chunks(coding, 10_000)]
    np.testing.assert_array_equal(np.concatenate(chunks), matrix)


def long_form(tmp_path, rows):
    (tmp_path / "v.csv").write_text("item,source,label\n" + "\n".join(rows) + "\n", "utf-8")
    return open_votes(tmp_path / "v.csv").read()


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["1,a,0", ",a,1", "2,b,1"], "item"),
        (["1,a,0", "2,,1", "2,b,1"], "source"),
    ],
)
def test_votes_without_an_item_or_a_source(tmp_path, rows, words):
    with pytest.raises(VoteFileError, match=words):
        long_form(tmp_path, rows)
