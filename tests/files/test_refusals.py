"""Rare contents of files, and errors about them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.sparse import csr_array, save_npz

from flyingsquid.exceptions import VoteFileError
from flyingsquid.files import open_votes
from flyingsquid.files.vote_files import read_records

ITEMS = [{"id": 1, "text": "Buy now"}, {"id": 2, "text": "Hello"}]
MATRIX = np.array([[0, 1, -1], [1, 1, 0]])


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
def test_items_that_are_none(tmp_path, name, text, words):
    (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(VoteFileError, match=words):
        read_records(tmp_path / name)


def test_items_are_not_read_from_arrays(tmp_path):
    np.save(tmp_path / "items.npy", MATRIX)
    with pytest.raises(VoteFileError, match="got npy"):
        read_records(tmp_path / "items.npy")


@pytest.mark.parametrize(
    ("arrays", "options", "words"),
    [
        ({"L": MATRIX, "names": np.array(["a", "b"])}, {}, "2 names for 3 sources"),
        ({"L": MATRIX, "names": np.array([1, 2, 3])}, {}, "'names'"),
        ({"L": MATRIX}, {"part": "valid"}, "'valid' or 'L_valid'"),
        ({"a": MATRIX, "b": MATRIX}, {}, "'L', and 2"),
        ({"L": MATRIX, "ids": np.arange(3)}, {}, "'ids' of 2 entries"),
        ({"L": MATRIX}, {"gold": "Y"}, "'Y' of 2 entries"),
        (
            {"L": MATRIX, "names": np.array(["a", "b", "c"])},
            {"sources": ["d"]},
            "'d'; the sources are",
        ),
    ],
)
def test_archives_whose_parts_do_not_fit(tmp_path, arrays, options, words):
    np.savez(tmp_path / "v.npz", **arrays)
    with pytest.raises(VoteFileError, match=words):
        open_votes(tmp_path / "v.npz", **options).read()


def test_sources_of_an_archive_are_picked_by_name(tmp_path):
    np.savez(tmp_path / "v.npz", L=MATRIX, names=np.array(["a", "b", "c"]))
    chosen = open_votes(tmp_path / "v.npz", sources=["c", "a"]).read().votes
    assert (chosen.names, chosen.codes.tolist()) == (("c", "a"), MATRIX[:, [2, 0]].tolist())
    rest = open_votes(tmp_path / "v.npz", ignore=["b"]).read().votes
    assert (rest.names, rest.codes.tolist()) == (("a", "c"), MATRIX[:, [0, 2]].tolist())


def test_sparse_archives_that_hold_no_votes(tmp_path):
    path = tmp_path / "v.npz"
    save_npz(path, csr_array(MATRIX + 1).tocsc())
    with pytest.raises(VoteFileError, match="csr"):
        open_votes(path)
    save_npz(path, csr_array((MATRIX + 1).astype(float)))
    with pytest.raises(VoteFileError, match="csr"):
        open_votes(path)
    save_npz(path, csr_array(-1 - MATRIX))
    with pytest.raises(VoteFileError, match=r"class \+ 1"):
        open_votes(path)
    twice = csr_array((np.array([1, 2]), np.array([0, 0]), np.array([0, 2])), shape=(1, 2))
    save_npz(path, twice)
    with pytest.raises(VoteFileError, match="at most once"):
        open_votes(path)


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
