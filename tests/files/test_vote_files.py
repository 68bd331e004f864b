"""Files of votes of every text format: classes, columns, notes, chunks, and files of items."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from flyingsquid.exceptions import OptionError, VoteFileError
from flyingsquid.files import open_votes, write_votes
from flyingsquid.files.vote_files import read_records
from flyingsquid.votes import Votes
from tests.support.vote_files import codes, hinted

# ---------------------------------------------------------------------- classes


@pytest.mark.parametrize(
    ("cells", "classes"),
    [
        (["spam", "ham"], ("ham", "spam")),
        (["0", "1"], (0, 1)),
        (["2", "0"], (0, 1, 2)),
        (["1", "5"], (1, 2, 3, 4, 5)),
        (["1.0", "0.0"], (0, 1)),
        (["yes", "no"], ("no", "yes")),
        (["Yes", "Yes"], ("No", "Yes")),
        (["YES", "no"], ("no", "yes")),
        (["TRUE", "false"], (False, True)),
        (["y", "n"], ("n", "y")),
        (["10", "200000"], (10, 200000)),
    ],
)
def test_classes_of_a_csv(made, cells, classes):
    path = made("v.csv", "id,a,b\n" + "".join(f"i{k},{cell},\n" for k, cell in enumerate(cells)))
    file = open_votes(path)
    assert file.classes == classes
    assert [type(c) for c in file.classes] == [type(c) for c in classes]
    assert all(code == -1 for code in file.read().votes.codes[:, 1])


def test_yes_and_no_in_upper_and_lower_case_are_two_classes_in_every_format(made):
    assert codes(made("v.csv", "a,b\nYes,no\nno,yes\n")) == [[1, 0], [0, 1]]
    assert codes(made("v.jsonl", '{"a": "Yes", "b": "no"}\n{"a": "no", "b": "yes"}\n')) == [[1, 0], [0, 1]]


def test_a_text_that_means_no_vote_may_be_declared_a_class(made):
    path = made("v.csv", "a,b\nNA,EU\nEU,\n")
    assert codes(path, classes=["EU", "NA"]) == [[1, 0], [0, -1]]


def test_minus_one_abstains_among_numbers_and_the_doubt_is_said(made):
    path = made("v.csv", "a,b\n-1,0\n1,1\n")
    file = open_votes(path)
    assert (file.classes, codes(path)) == ((0, 1), [[-1, 0], [1, 1]])
    assert ("signed", True) in hinted(file)


def test_signed_votes_by_name(made):
    path = made("v.csv", "a,b\n-1,0\n1,1\n")
    file = open_votes(path, signed=True)
    assert (file.classes, codes(path, signed=True)) == ((-1, 1), [[0, -1], [1, 1]])
    assert ("signed", True) not in hinted(file)
    with pytest.raises(VoteFileError, match="Unknown vote '2'"):
        open_votes(made("w.csv", "a,b\n-1,0\n2,1\n"), signed=True)


def test_three_classes_with_minus_one_are_no_doubt(made):
    path = made("v.csv", "a,b\n-1,0\n2,1\n")
    assert open_votes(path).classes == (0, 1, 2)
    assert ("signed", True) not in hinted(open_votes(path))


def test_declared_classes_keep_their_order_and_become_numbers_where_votes_are(made):
    path = made("v.csv", "a,b\n3,1\n1,\n")
    assert open_votes(path, classes=["3", "2", "1"]).classes == (3, 2, 1)
    assert codes(path, classes=["3", "2", "1"]) == [[0, 2], [2, -1]]
    with pytest.raises(VoteFileError, match=r"'3' \(row 0, source 'a'\)"):
        open_votes(path, classes=[1, 2])


def test_further_values_that_abstain_and_reasons(made):
    path = made("v.csv", "a,b\n9,0\n1,8\n")
    assert codes(path, abstain=9, reasons={8: "refused"}) == [[-1, 0], [1, -2]]
    assert codes(path, abstain=["9", "8"]) == [[-1, 0], [1, -1]]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("a,b\nspam,1\nham,0\n", "one type"),
        ("id,a,b\n1,0.3,1\n2,0.7,0\n3,0.8,0", "score"),
        ("a,b\n-7,1\n0,0\n", "got -7"),
        ("a,b\nspam,\nspam,\n", "Only one class"),
        ("a,b\n,\n,\n", "no votes"),
    ],
)
def test_values_that_cannot_be_classes(made, text, match):
    with pytest.raises(VoteFileError, match=match):
        open_votes(made("v.csv", text))


def test_classes_that_differ_only_in_case_are_noted(made):
    notes = open_votes(made("v.csv", "a,b\nham,Ham\nspam,ham\n")).notes
    assert any("'Ham' and 'ham'" in note.summary for note in notes)


# ---------------------------------------------------------------------- columns


def test_the_identifier_is_found_by_name_or_by_its_values(made):
    named = open_votes(made("a.csv", "Item_ID,a,b\n1,0,1\n0,1,1\n"))
    assert (named.item_name, named.source_names) == ("Item_ID", ("a", "b"))
    assert list(named.read().ids) == ["1", "0"]
    found = open_votes(made("b.csv", "post,a,b\nx1,0,1\nx2,1,1\nx3,0,0\n"))
    assert found.item_name == "post"
    assert ("item", None) in hinted(found)


@pytest.mark.parametrize("text", ["a,b,c\n0,1,1\n1,1,0\n", "a,b\nham,spam\nspam,ham\n"])
def test_votes_are_not_taken_for_identifiers(made, text):
    file = open_votes(made("v.csv", text))
    assert file.item_name is None
    assert file.read().ids.tolist() == [0, 1]


def test_gold_labels_are_never_votes_unless_asked_for(made):
    path = made("v.csv", "id,a,b,label\nx,0,1,1\ny,1,1,0\n")
    file = open_votes(path)
    assert file.source_names == ("a", "b")
    assert file.read().gold is None
    assert ("gold", "label") in hinted(file)
    assert open_votes(path, gold="label").read().gold.tolist() == [1, 0]
    assert open_votes(path, sources=["a", "label"]).source_names == ("a", "label")


def test_a_class_that_only_the_gold_labels_have(made):
    file = open_votes(made("v.csv", "a,b,gold\nx,y,z\ny,y,\n"), gold="gold")
    assert file.classes == ("x", "y", "z")
    assert file.read().gold.tolist() == ["z", None]


def test_columns_that_are_no_sources(made):
    rows = "".join(f"i{k},some text {k},{k % 2},1\n" for k in range(300))
    path = made("v.csv", "id,text,a,b\n" + rows)
    with pytest.raises(VoteFileError, match="'text' has at least 300"):
        open_votes(path)
    assert open_votes(path, ignore=["text"]).source_names == ("a", "b")
    with pytest.raises(VoteFileError, match="named 'c'"):
        open_votes(path, ignore=["c"])


def test_a_csv_without_names(made):
    file = open_votes(made("v.csv", "0,1,-1\n1,1,0\n"))
    assert (file.n_items, file.names, file.source_names[0]) == (2, None, "source 0")
    assert ("header", True) in hinted(file)
    assert open_votes(made("w.csv", "0,1,2\n1,1,0\n"), header=True).source_names == ("0", "1", "2")


def test_other_separators(made):
    assert open_votes(made("v.csv", "a;b\nham;spam\nspam;\n")).source_names == ("a", "b")
    assert open_votes(made("v.tsv", "a\tb\nham\tspam\nspam\t\n")).source_names == ("a", "b")
    assert open_votes(made("noname", "a\tb\nham\tspam\nspam\t\n")).format == "tsv"


def test_quotes_blank_lines_and_a_byte_order_mark(made):
    text = '\ufeffid,"a,1","b\n2"\r\n\r\n"x ""1""",ham,spam\r\ny,spam,\r\n\r\n'
    file = open_votes(made("v.csv", text))
    assert file.source_names == ("a,1", "b\n2")
    assert list(file.read().ids) == ['x "1"', "y"]


# ---------------------------------------------------------------------- JSON


def test_json_lines_flat_nested_and_by_position(made):
    flat = '{"id": 7, "a": "x", "b": null}\n{"id": 8, "b": "y", "c": "x"}\n'
    file = open_votes(made("v.jsonl", flat))
    assert (file.source_names, list(file.read().ids)) == (("a", "b", "c"), [7, 8])
    assert file.read().votes.codes.tolist() == [[0, -1, -1], [-1, 1, 0]]
    nested = '{"id": "p", "text": "long", "votes": {"a": true, "id": false}, "gold": true}\n'
    file = open_votes(made("n.jsonl", nested), gold="gold")
    assert (file.source_names, file.classes, file.item_name) == (("a", "id"), (False, True), "id")
    assert file.read().gold.tolist() == [True]
    assert codes(made("p.jsonl", "[0, 1, null]\n[1, 1, -1]\n")) == [[0, 1, -1], [1, 1, -1]]


def test_a_list_of_records(made):
    assert codes(made("v.json", '[{"a": 0, "b": 1},\n {"a": 1, "b": null}]')) == [[0, 1], [1, -1]]


def test_numeric_strings_stay_strings_in_json(made):
    assert open_votes(made("v.jsonl", '{"a": "0", "b": "1"}\n')).classes == ("0", "1")


def test_wrench_in_a_file_and_in_a_folder(made, tmp_path):
    data = {str(k): {"label": k % 2, "weak_labels": [-1, k % 2, 1], "data": {"text": "x"}} for k in range(4)}
    file = open_votes(made("t.json", json.dumps(data)), gold="label")
    assert (file.classes, file.read().gold.tolist()) == ((0, 1), [0, 1, 0, 1])
    (tmp_path / "youtube").mkdir()
    made("youtube/train.json", json.dumps(data))
    made("youtube/test.json", json.dumps({"9": data["1"]}))
    made("youtube/label.json", '{"0": "ham", "1": "spam"}')
    folder = open_votes(tmp_path / "youtube", gold="label")
    assert (folder.format, folder.classes, folder.n_items) == ("wrench", ("ham", "spam"), 4)
    assert ("part", None) in hinted(folder)
    assert list(open_votes(tmp_path / "youtube", part="test").read().ids) == ["9"]


# ---------------------------------------------------------------------- detection, chunks, standard input


def test_name_and_content_must_agree(made, tmp_path):
    np.save(tmp_path / "L.npy", np.zeros((2, 2), int))
    (tmp_path / "L.npy").rename(tmp_path / "L.csv")
    with pytest.raises(VoteFileError, match="npy") as caught:
        open_votes(tmp_path / "L.csv")
    assert [(hint.parameter, hint.value) for hint in caught.value.hints] == [("format", "npy")]
    assert "\n" not in str(caught.value)
    assert open_votes(tmp_path / "L.csv", format="npy").format == "npy"
    with pytest.raises(VoteFileError, match="not parquet"):
        open_votes(made("v.parquet", "a,b\n0,1\n"))
    with pytest.raises(VoteFileError, match="first line is JSON"):
        open_votes(made("v.csv", '{"a": 1}\n'))
    with pytest.raises(OptionError, match="`format`"):
        open_votes(made("w.csv", "a,b\n0,1\n"), format="xls")


def test_gzip_is_recognised_by_its_bytes(made):
    packed = gzip.compress(b"a,b\n0,1\n1,\n")
    assert codes(made("v.csv.gz", packed)) == [[0, 1], [1, -1]]
    assert codes(made("v.csv", packed)) == [[0, 1], [1, -1]]


@pytest.mark.parametrize("name", ["v.csv", "v.jsonl", "v.npy", "v.npz", "v.json", "l.csv"])
@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_chunks_have_the_same_classes_and_can_be_read_again(tmp_path, name, rows):
    rng = np.random.default_rng(0)
    votes = Votes(rng.integers(-1, 3, (50, 4)).astype(np.int8), (0, 1, 2), ("a", "b", "c", "d"))
    write_votes(tmp_path / name, votes, ids=np.arange(50), form="long" if name == "l.csv" else None)
    file = open_votes(tmp_path / name, chunk_rows=rows)
    for _ in range(2):
        chunks = list(file)
        assert [c.votes.n_items for c in chunks] == [rows] * (50 // rows) + [50 % rows] * (50 % rows > 0)
        assert {c.votes.classes for c in chunks} == {(0, 1, 2)}
        whole = np.concatenate([c.votes.to_dense().codes for c in chunks])
        np.testing.assert_array_equal(whole, votes.codes)
        assert [int(i) for c in chunks for i in c.ids] == list(range(50))


@pytest.mark.system
def test_standard_input_is_read_more_than_once():
    code = (
        "from flyingsquid.files import open_votes; f = open_votes('-');"
        "print(f.format, [sum(c.votes.n_items for c in f) for _ in range(2)], f.path)"
    )
    content = b'{"a":0,"b":1}\n{"a":1,"b":1}\n'
    answer = subprocess.run([sys.executable, "-c", code], input=content, capture_output=True, check=True)
    assert answer.stdout.decode().strip() == "jsonl [2, 2] standard input"


@pytest.mark.parametrize(
    ("name", "start"), [("v.parquet", b"PAR1"), ("v.arrow", b"ARROW1"), ("v.zst", b"\x28\xb5\x2f\xfd")]
)
def test_errors_name_pyarrow_where_it_is_missing(made, monkeypatch, name, start):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(VoteFileError, match=r"pip install 'flyingsquid\[files\]'"):
        open_votes(made(name, start + b" and more"))
    with pytest.raises(VoteFileError, match=r"flyingsquid\[files\]"):
        write_votes(made("v.csv", "").with_name("w.parquet"), Votes(np.zeros((2, 2), np.int8), (0, 1)))


def test_options_that_contradict(made):
    path = made("v.csv", "id,a,b\nx,0,1\n")
    for options in (
        {"form": "tall"}, {"form": "wide", "long": ("a", "b", "c")}, {"long": ("a", "b")}, {"classes": "ab"},
        {"classes": ["x"]}, {"classes": ["0", "1"], "abstain": 0}, {"reasons": {"x": "bored"}},
        {"sources": "a"}, {"duplicates": "best"}, {"chunk_rows": 0}, {"item": True},
        {"signed": True, "classes": [0, 1]}, {"sources": ["id"], "item": "id"},
    ):  # fmt: skip
        with pytest.raises(OptionError) as caught:
            open_votes(path, **options)
        assert caught.value.parameter in options


@pytest.mark.skipif("FLYINGSQUID_DATA" not in os.environ, reason="real data are elsewhere")
def test_real_matrices_are_read_as_they_are():
    from pathlib import Path

    path = Path(os.environ["FLYINGSQUID_DATA"]) / "youtube" / "youtube.npz"
    with np.load(path) as arrays:
        chunk = open_votes(path, part="train", gold="Y_train").read()
        np.testing.assert_array_equal(chunk.votes.codes, arrays["L_train"])
        np.testing.assert_array_equal(chunk.gold_codes, arrays["Y_train"])


def test_classes_that_differ_only_in_case_are_named_in_pairs(made):
    file = open_votes(made("v.csv", "a,b\nApple,ham\nHam,apple\nx,Apple\n"), item=False)
    assert any("'Apple' and 'apple'" in note.summary for note in file.notes)
    file = open_votes(made("w.csv", "a,b\nAbc,ham\nHam,Abd\nABD,x\nHam,x\n"), item=False)
    assert any("'ABD' and 'Abd'" in note.summary for note in file.notes)


def test_the_largest_number_of_64_bits_is_a_class_in_every_format(made):
    for name, text in (
        ("v.csv", "a,b\n0,1\n1,{}\n"),
        ("v.jsonl", '{{"a": 0, "b": 1}}\n{{"a": 1, "b": {}}}\n'),
    ):
        assert open_votes(made(name, text.format(2**63 - 1))).classes == (0, 1, 2**63 - 1)


@pytest.mark.parametrize("blank", ["", "NA", "N/A", "nan", "NULL", "None", " ", "abstain", "<NA>"])
def test_strings_that_mean_no_vote(made, blank):
    path = made("v.csv", f"a,b\nspam,{blank}\nham,spam\n")
    assert codes(path) == [[1, -1], [0, 1]]
    if blank.strip():
        assert any(f"'{blank}' is read as 'no vote'" in note.summary for note in open_votes(path).notes)


ITEMS = [{"id": 1, "text": "Buy now"}, {"id": 2, "text": "Hello"}]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("items.json", json.dumps(ITEMS)),
        ("items.jsonl", "\n".join(json.dumps(item) for item in ITEMS)),
    ],
)
def test_items_from_json(tmp_path, name, text):
    (tmp_path / name).write_text(text, "utf-8")
    assert read_records(tmp_path / name) == ITEMS


@pytest.mark.extra
@pytest.mark.parametrize("kind", ["parquet", "file", "stream"])
def test_items_from_columnar_files(tmp_path, kind):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow.parquet import write_table

    table, path = (
        pyarrow.Table.from_pylist(ITEMS),
        tmp_path / f"items.{'parquet' if kind == 'parquet' else 'arrow'}",
    )
    if kind == "parquet":
        write_table(table, path)
    else:
        writer = pyarrow.ipc.new_file if kind == "file" else pyarrow.ipc.new_stream
        with writer(str(path), table.schema) as file:
            file.write_table(table)
    assert read_records(path) == ITEMS


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("items.json", '{"id": 1}', "list of records"),
        ("items.json", "[[1, 2]]", "Item 1 must be an object"),
        ("items.jsonl", '{"id": 1}\n[2]\n', "Item 2 must be an object"),
    ],
)
def test_files_that_do_not_hold_items_are_refused(tmp_path, name, text, words):
    (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(VoteFileError, match=words):
        read_records(tmp_path / name)


def test_items_are_not_read_from_arrays(tmp_path):
    np.save(tmp_path / "items.npy", np.zeros((2, 3)))
    with pytest.raises(VoteFileError, match="got npy"):
        read_records(tmp_path / "items.npy")


@pytest.mark.parametrize("rows", [None, 2])  # one chunk, and several that are joined
def test_votes_of_a_whole_file_have_the_identifiers_of_the_items(made, rows):
    path = made("v.csv", "id,a,b\nx,spam,ham\ny,ham,\nz,,spam\n")
    chunk = open_votes(path, chunk_rows=rows).read()
    assert chunk.votes.items.tolist() == list(chunk.ids) == ["x", "y", "z"]
    assert open_votes(path, item=False, ignore=["id"], chunk_rows=rows).read().votes.items is None


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_an_unnamed_index_next_to_identifiers_is_left_out(made, name):
    rows = "".join(f"{i},m{i},{'spam' if i % 3 else 'ham'},{'ham' if i % 2 else 'spam'}\n" for i in range(30))
    file = open_votes(made("votes.csv", f"{name},id,links,short\n{rows}"))
    chunk = file.read()
    assert chunk.votes.names == ("links", "short")
    assert list(chunk.ids[:2]) == ["m0", "m1"]
    assert any(repr(name) in str(note) and "not read" in str(note) for note in file.notes)


def test_excel_files_are_refused_by_name(made):
    with pytest.raises(VoteFileError, match="Excel"):
        open_votes(made("votes.xlsx", b"PK\x03\x04"))
