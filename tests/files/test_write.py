"""Votes come back from every format as they went in; files appear whole or not at all."""

from __future__ import annotations

import errno
import gc
import json
import os
import resource
import signal
import stat
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from flyingsquid.exceptions import OptionError, VoteFileError
from flyingsquid.files import LabelWriter, open_votes, outputs, write_votes
from flyingsquid.votes import Votes
from tests.support.strategies import examples

HAS_PYARROW = find_spec("pyarrow") is not None
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
    with pytest.raises(VoteFileError, match="implies no format"):
        write_votes(tmp_path / "v.xls", votes)
    with pytest.raises(VoteFileError, match="not compressed again"):
        write_votes(tmp_path / "v.npz.gz", votes)
    with pytest.raises(VoteFileError, match="No such file"):
        write_votes(tmp_path / "absent" / "v.csv", votes)
    for options in ({"ids": [1]}, {"gold": [5, 0]}, {"gold": [0]}, {"form": "tall"}):
        with pytest.raises(OptionError):
            write_votes(tmp_path / "v.csv", votes, **options)
    with pytest.raises(OptionError, match="`form`"):
        write_votes(tmp_path / "v.npz", votes, form="long")
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------------- labels


def write_labels(path, n=3, **options):
    with LabelWriter(path, classes=("ham", "spam"), **options) as out:
        for at in range(n):
            out.write([f"i{at}"], [at % 2], [[0.25, 0.75]], [2])


def test_labels_in_every_format_of_the_core(tmp_path):
    write_labels(tmp_path / "l.csv")
    assert (tmp_path / "l.csv").read_text().splitlines()[:2] == [
        "id,label,p_ham,p_spam,n_votes",
        "i0,ham,0.25,0.75,2",
    ]
    write_labels(tmp_path / "l.jsonl", n=1)
    assert json.loads((tmp_path / "l.jsonl").read_text()) == {
        "id": "i0", "label": "ham", "probabilities": {"ham": 0.25, "spam": 0.75}, "n_votes": 2,
    }  # fmt: skip
    write_labels(tmp_path / "l.npz")
    with np.load(tmp_path / "l.npz") as found:
        assert found["ids"].tolist() == ["i0", "i1", "i2"]
        assert found["labels"].tolist() == [0, 1, 0]
        assert found["probabilities"].shape == (3, 2)


@pytest.mark.extra
@pytest.mark.parametrize("name", ["l.parquet", "l.arrow"])
def test_columnar_labels(tmp_path, name):
    pytest.importorskip("pyarrow")
    import pyarrow.feather
    import pyarrow.parquet

    write_labels(tmp_path / name)
    read = pyarrow.parquet.read_table if name == "l.parquet" else pyarrow.feather.read_table
    assert read(tmp_path / name).to_pydict() == {
        "id": ["i0", "i1", "i2"], "label": ["ham", "spam", "ham"], "p_ham": [0.25] * 3, "p_spam": [0.75] * 3,
        "n_votes": [2] * 3,
    }  # fmt: skip


def test_labels_that_do_not_fit(tmp_path):
    with (
        pytest.raises(OptionError, match="must"),
        LabelWriter(tmp_path / "l.csv", classes=(0, 1)) as out,
    ):
        out.write(["a"], [0, 1], [[1, 0]], [1])
    with (
        pytest.raises(OptionError, match="`labels`"),
        LabelWriter(tmp_path / "l.csv", classes=(0, 1)) as out,
    ):
        out.write(["a"], [2], [[1, 0]], [1])
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------------- whole or not at all


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


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_full_disk_at_the_last_moment(tmp_path, monkeypatch, step):
    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(outputs.os, step, fail)
    with pytest.raises(VoteFileError, match="No space left on device") as caught:
        write_labels(tmp_path / "l.csv")
    assert str(caught.value).startswith(str(tmp_path / "l.csv"))
    assert not list(tmp_path.iterdir())


# NumPy 1.26 forgets the zip file that it could not write; Python then complains of it, and goes on.
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


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no such device here")
def test_a_device_that_is_full():
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
    for more, expected in (([], "id,label,p_0,p_1,n_votes\na,0,1.0,0.0,1\n"), (["fail"], "")):
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
