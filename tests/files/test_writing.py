"""Votes come back from every format as they were written."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flyingsquid.exceptions import OptionError, VoteFileError, VotesError
from flyingsquid.files import FORMATS, open_votes, write_votes
from flyingsquid.votes import Votes
from tests.support.strategies import examples
from tests.support.vote_files import HAS_PYARROW

COLUMNAR = ["v.parquet", "v.arrow", "v.csv.zst"] if HAS_PYARROW else []
# NUL is refused in text, and csv readers turn a lone carriage return into a line end.
odd_texts = st.text(st.characters(exclude_characters="\0\r", codec="utf-8"), max_size=6)
names_of_sources = st.lists(
    odd_texts.filter(lambda t: t not in ("id", "gold")), min_size=4, max_size=4, unique=True
)
reserved = {
    "na",
    "n/a",
    "#n/a",
    "<na>",
    "nan",
    "null",
    "none",
    "abstain",
    "abstained",
    "",
    "true",
    "false",
    "-1",
}
class_texts = odd_texts.map(lambda t: f"c{t}").filter(lambda t: t.strip().lower() not in reserved)
classes_of_any_kind = st.one_of(
    st.lists(class_texts, min_size=3, max_size=3, unique=True).map(tuple),
    st.just((0, 1, 2)),
    st.just((5, 7, -1)),
)


@st.composite
def tables(draw):
    n = draw(st.integers(1, 12))
    codes = draw(arrays(np.int8, (n, 4), elements=st.integers(-4, 2)))
    ids = draw(st.lists(odd_texts.map(lambda t: f"i{t}"), min_size=n, max_size=n, unique=True))
    gold = draw(arrays(np.int8, n, elements=st.integers(-1, 2)))
    return codes, ids, gold, draw(names_of_sources), draw(classes_of_any_kind)


@pytest.mark.parametrize("name", ["v.csv", "v.tsv", "v.jsonl", "v.npz", "v.csv.gz", *COLUMNAR])
@examples(25)
@given(table=tables())
def test_round_trip(tmp_path_factory, name, table):
    codes, ids, gold, names, classes = table
    path = tmp_path_factory.mktemp("trip") / name
    votes = Votes(codes, classes, tuple(names))
    labels = np.array([*classes, None], object)[gold]
    write_votes(path, votes, ids=ids, gold=labels)
    key = "Y" if name == "v.npz" else "gold"
    options = {"sources": names, "item": "id"} if name.startswith(("v.csv", "v.tsv")) else {}
    file = open_votes(path, gold=key, classes=classes, chunk_rows=5, **options)
    back = file.read()
    # Columns of numbers have no place for a reason.
    keeps_reasons = isinstance(classes[0], str) or name not in ("v.parquet", "v.arrow")
    expected = codes if keeps_reasons else np.maximum(codes, -1)
    np.testing.assert_array_equal(back.votes.codes, expected)
    assert (back.votes.classes, back.votes.names) == (classes, tuple(names))
    assert list(np.asarray(back.ids)) == ids
    assert back.gold.tolist() == labels.tolist()


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_documented_written_and_read(tmp_path, name):
    """A format without a writer of its own would be written as another one under its name."""
    if name in ("parquet", "arrow"):
        pytest.importorskip("pyarrow")
    votes = Votes(np.array([[0, 1], [1, 1], [0, -1]], np.int8), ("a", "b"), ("left", "right"))
    write_votes(tmp_path / "votes", votes, ids=["1", "2", "3"], format=name)
    file = open_votes(tmp_path / "votes", format=name)
    assert (file.format, file.n_items, file.n_sources) == (name, 3, 2)
    assert f'"{name}"' in (open_votes.__doc__ or ""), f"add {name} to the docstring of open_votes"


@pytest.mark.parametrize("name", ["v.npz", "v.parquet", "v.arrow"] if HAS_PYARROW else ["v.npz"])
def test_classes_that_nobody_votes_for_are_kept_where_there_is_a_place(tmp_path, name):
    votes = Votes(np.array([[0, 0], [0, -1]], np.int8), ("b", "a", "c"), ("x", "y"))
    write_votes(tmp_path / name, votes)
    assert open_votes(tmp_path / name).classes == ("b", "a", "c")


@pytest.mark.parametrize(
    "name", ["l.csv", "l.jsonl", "l.npz", *(["l.parquet", "l.arrow"] if HAS_PYARROW else [])]
)
@examples(15)
@given(codes=arrays(np.int8, (6, 5), elements=st.integers(-2, 1)))
def test_sparse_votes_come_back_sparse(tmp_path_factory, name, codes):
    path = tmp_path_factory.mktemp("sparse") / name
    codes = np.vstack([codes, [[0, 1, 0, 1, 0]]]).astype(
        np.int8
    )  # every source votes, and there are two classes
    rows, columns = np.nonzero(codes != -1)
    labels = np.array(["x", "y", "!refused"], object)[codes[rows, columns]]
    votes = Votes.from_long([f"i{r}" for r in rows], [f"s{c}" for c in columns], labels,
                            reasons={"!refused": "refused"})  # fmt: skip
    write_votes(path, votes)
    back = open_votes(path).read().votes
    assert back.is_sparse
    assert set(back.items) == set(votes.items)
    order = np.argsort(back.items.astype(str))
    matched = back[order].matched_to(votes.classes, votes.names).to_dense().codes
    np.testing.assert_array_equal(matched, votes.to_dense().codes)


@pytest.mark.parametrize("name", ["v.npy", "v.json"])
def test_formats_of_codes_keep_codes(tmp_path, name):
    codes = np.array([[0, -1], [1, -3]], np.int8)
    write_votes(tmp_path / name, Votes(codes, ("a", "b"), ("x", "y")))
    file = open_votes(tmp_path / name)
    np.testing.assert_array_equal(file.read().votes.codes, np.maximum(codes, -1))
    assert (file.classes, file.names) == ((0, 1), None)


def test_a_folder_of_wrench(tmp_path):
    votes = Votes(np.array([[0, -1], [1, 1]], np.int8), ("ham", "spam"))
    write_votes(tmp_path / "data", votes, ids=["p", "q"], gold=["spam", None], format="wrench")
    back = open_votes(tmp_path / "data", gold="label").read()
    assert (back.votes.classes, list(back.ids), back.gold.tolist()) == (
        ("ham", "spam"),
        ["p", "q"],
        ["spam", None],
    )
    np.testing.assert_array_equal(back.votes.codes, votes.codes)


@pytest.mark.parametrize("name", ["v.tsv", "v.jsonl", "v.npz", *COLUMNAR])
def test_from_file_to_file(tmp_path, name):
    (tmp_path / "v.csv").write_text(
        "id,a,b,gold\n" + "".join(f"i{k},{'xy'[k % 2]},{'x' * (k % 3 > 0)},y\n" for k in range(20))
    )
    source = open_votes(tmp_path / "v.csv", gold="gold", chunk_rows=6)
    write_votes(tmp_path / name, source)
    back = open_votes(tmp_path / name, gold="Y" if name == "v.npz" else "gold")
    one, other = source.read(), back.read()
    np.testing.assert_array_equal(one.votes.codes, other.votes.codes)
    assert (list(one.ids), one.gold.tolist()) == (list(np.asarray(other.ids)), other.gold.tolist())


def test_what_cannot_be_written(tmp_path):
    votes = Votes(np.zeros((2, 2), np.int8), (0, 1), ("id", "b"))
    with pytest.raises(VoteFileError, match="named 'id'"):
        write_votes(tmp_path / "v.csv", votes, ids=[1, 2])
    with pytest.raises(VoteFileError, match="cannot be inferred"):
        write_votes(tmp_path / "v.xls", votes)
    with pytest.raises(VoteFileError, match="already compressed"):
        write_votes(tmp_path / "v.npz.gz", votes)
    with pytest.raises(VoteFileError, match="No such file"):
        write_votes(tmp_path / "absent" / "v.csv", votes)
    for options, error in (
        ({"ids": [1]}, OptionError), ({"form": "tall"}, OptionError),
        ({"gold": [5, 0]}, VotesError), ({"gold": [0]}, VotesError),
    ):  # fmt: skip
        with pytest.raises(error):
            write_votes(tmp_path / "v.csv", votes, **options)
    with pytest.raises(OptionError, match="`form`"):
        write_votes(tmp_path / "v.npz", votes, form="long")
    assert not list(tmp_path.iterdir())


# NumPy 1.26 forgets the zip file that it could not write; Python then complains of it, and goes on.


@pytest.mark.extra
def test_tables_and_series_of_pandas_are_joined_by_item_identifier(tmp_path):
    pd = pytest.importorskip("pandas")
    ids, labels = ["x", "y", "z"], ["ham", "spam", "ham"]
    votes = Votes.from_frame(pd.DataFrame({"a": labels, "b": labels}, index=ids))
    gold = pd.Series(labels, index=ids)
    data = pd.DataFrame({"text": ids}, index=ids)
    proba = pd.DataFrame([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3]], index=ids)
    for format in ("csv", "label_studio"):
        more = {} if format == "csv" else {"data": data, "probabilities": proba}
        write_votes(tmp_path / "in order", votes, gold=gold, format=format, **more)
        shuffled = {name: table[::-1] for name, table in more.items()}
        write_votes(tmp_path / "shuffled", votes, gold=gold[::-1], format=format, **shuffled)
        assert (tmp_path / "shuffled").read_text() == (tmp_path / "in order").read_text()
        for name in ("in order", "shuffled"):
            (tmp_path / name).unlink()
    with pytest.raises(VotesError, match="identifiers"):
        write_votes(tmp_path / "v.csv", votes, gold=pd.Series(labels))
