"""Votes of tables: long form, and wide form on disk."""

from __future__ import annotations

import io

import numpy as np
import pytest

from flyingsquid import SourceInfo, Votes
from flyingsquid.exceptions import OptionError, VoteFileError
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


CALLS = "item,model,prompt,order,repeat,verdict\n" + "".join(
    f"{item},{model},{prompt},{order},{repeat},{'AB'[(item + (model == 'b')) % 2]}\n"
    for item in range(3)
    for model in ("a", "b")
    for prompt in ("plain", "strict")
    for order in ("AB", "BA")
    for repeat in (1, 2)
)


def test_the_calls_of_a_panel_are_recognized_by_their_names(made):
    file = open_votes(made("v.csv", CALLS))
    votes = file.read().votes
    assert votes.structure.judges == ("a/plain", "a/strict", "b/plain", "b/strict")
    assert votes.names[:3] == ("a/plain|AB@1", "a/plain|AB@2", "a/plain|BA@1")
    assert votes.structure[0] == SourceInfo("a/plain", order="AB", repeat="1", prompt="plain", model="a")
    assert [hint.parameter for hint in file.notes[0].hints] == ["ignore", "panel"]
    assert [chunk.votes.structure for chunk in file] == [votes.structure]
    # Only what is left distinguishes the calls.
    named = open_votes(made("v.csv", CALLS), ignore=["order", "repeat"], duplicates="first").read().votes
    assert named.names == ("a/plain", "a/strict", "b/plain", "b/strict")


def test_a_panel_is_read_alike_from_a_file_and_from_a_table(made):
    pandas = pytest.importorskip("pandas")
    path = made("v.csv", CALLS)
    expected = Votes.from_panel(pandas.read_csv(path).astype({"repeat": str}))
    found = open_votes(path).read().votes
    assert found.structure == expected.structure
    np.testing.assert_array_equal(found.to_dense().codes, expected.codes)
    parquet = path.with_suffix(".parquet")
    pytest.importorskip("pyarrow")
    pandas.read_csv(path).to_parquet(parquet)
    assert open_votes(parquet).read().votes.names == expected.names
    assert open_votes(parquet).structure[0].repeat == 1


def test_the_columns_of_a_panel_have_other_names(made):
    path = made("v.csv", "pair,rater,turn,said\n1,a,0,x\n1,a,1,y\n2,a,0,x\n2,a,1,x\n")
    triple = ("pair", "rater", "said")
    with pytest.raises(VoteFileError, match="more than once") as caught:
        open_votes(path, long=triple).read()
    assert "panel" in [hint.parameter for hint in caught.value.hints]
    found = open_votes(path, long=triple, panel={"order": "turn"}).read().votes
    assert (found.names, found.structure.judges) == (("a|0", "a|1"), ("a",))
    same = open_votes(path, long=triple, panel={"judge": "rater", "order": "turn"})
    assert same.structure == found.structure
    with pytest.raises(VoteFileError, match="cannot be inferred"):
        open_votes(path, panel={"judge": "rater", "order": "turn"})
    with pytest.raises(VoteFileError, match="No column is named 'nope'"):
        open_votes(path, long=triple, panel={"order": "nope"})


@pytest.mark.parametrize(
    ("panel", "options"),
    [
        ({"order": "turn"}, {}),
        ({"turn": "order", "judge": "rater"}, {}),
        ({"judge": "rater", "order": "rater"}, {}),
        ("judge", {}),
        ({"judge": "rater"}, {"form": "wide"}),
        ({"judge": "rater"}, {"sources": ["said"]}),
    ],
)
def test_invalid_panels(made, panel, options):
    path = made("v.csv", "item,rater,turn,label\n1,a,0,x\n")
    with pytest.raises(OptionError) as caught:
        open_votes(path, panel=panel, **options)
    assert caught.value.parameter == "panel"


def test_columns_that_describe_items_are_no_part_of_a_panel(made):
    """The prompt that is judged and a running number occur with one item each."""
    rows = [
        f"{i},{judge},Write {i},{3 * i + j},{'xy'[i % 2]}" for i in range(4) for j, judge in enumerate("abc")
    ]
    file = open_votes(made("v.csv", "id,judge,prompt,order,label\n" + "\n".join(rows)))
    assert (file.names, file.structure) == (("a", "b", "c"), None)
    # A single judge column is no panel either.
    rows = [f"{i},{judge},{i % 2}" for i in range(4) for judge in "abc"]
    assert open_votes(made("w.csv", "id,judge,label\n" + "\n".join(rows))).structure is None


def test_a_judge_with_several_models_is_named_by_both(made):
    rows = [f"{i},{judge},{model},{i % 2}" for i in range(3) for judge in "ab" for model in "pq"]
    file = open_votes(made("v.csv", "id,judge,model,label\n" + "\n".join(rows)))
    assert file.names == ("p/a", "q/a", "p/b", "q/b")
    rows = [f"{i},{judge},{model},{i % 2}" for i in range(3) for judge, model in ("ap", "bp", "cq")]
    file = open_votes(made("w.csv", "id,judge,model,label\n" + "\n".join(rows)))
    assert file.names == ("a", "b", "c")
    assert file.structure.families().tolist() == [0, 0, 1]


def test_calls_without_a_judge(made):
    path = made("v.csv", "id,judge,order,label\n1,a,0,x\n2,a,0,x\n2,,1,y\n")
    with pytest.raises(VoteFileError, match="panel cannot be read"):
        open_votes(path)


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


def test_all_columns_that_are_not_votes_are_named(tmp_path):
    rows = [
        f"{i},text {i},{'train' if i % 3 else 'test'},{'ham' if i % 2 else ''},spam,ham" for i in range(30)
    ]
    (tmp_path / "v.csv").write_text("\n".join(["id,text,split,a,b,c", *rows]))
    with pytest.raises(VoteFileError, match=r"'text' has .*'split' has values on every row") as caught:
        open_votes(tmp_path / "v.csv")
    assert caught.value.hints[0].value == ["text", "split"]
    assert "long" in [hint.parameter for hint in caught.value.hints]
    assert open_votes(tmp_path / "v.csv", ignore=["text", "split"]).source_names == ("a", "b", "c")


def test_the_index_that_pandas_writes_is_not_taken_for_gold_labels(made):
    rows = "".join(f"{i},{'ab'[i % 2]},{'ba'[i % 3 % 2]}\n" for i in range(300))
    file = open_votes(made("v.csv", f",one,two\n{rows}"))
    assert file.source_names == ("one", "two")
    assert list(file.read().ids[:3]) == ["0", "1", "2"]
    assert open_votes(made("v.csv", f",one,two\n{rows}"), item=False).source_names == ("one", "two")
