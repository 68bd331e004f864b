"""Files of labels in every format, written on a thread or not."""

from __future__ import annotations

import json

import numpy as np
import pytest

from flyingsquid.exceptions import OptionError, VoteFileError
from flyingsquid.files import LabelWriter
from flyingsquid.files.outputs import ColumnarWriter
from tests.support.vote_files import write_labels


@pytest.mark.extra
@pytest.mark.parametrize("n_writes", [1, 3])
def test_an_error_on_the_thread_is_raised_later(threads, monkeypatch, tmp_path, n_writes):
    pytest.importorskip("pyarrow")
    done = []

    def fail(_, columns):
        done.append(columns)
        raise OSError("no space left")

    monkeypatch.setattr(ColumnarWriter, "encode", fail)

    def write():
        with LabelWriter(tmp_path / "l.parquet", classes=(0, 1)) as out:
            for _ in range(n_writes):
                out.write(["a"], [0], [[1.0, 0.0]], [1])

    with pytest.raises(VoteFileError, match="no space"):
        write()
    assert len(done) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.extra
@pytest.mark.parametrize("name", ["labels.parquet", "labels.arrow"])
def test_arrays_may_be_filled_again_once_write_returns(threads, tmp_path, name):
    pytest.importorskip("pyarrow")
    import pyarrow.feather
    import pyarrow.parquet

    n = 20_000
    ids, codes, cast = np.empty(n, np.int64), np.empty(n, np.int8), np.empty(n, np.int32)
    shares = np.empty((n, 2), np.float32)
    with LabelWriter(tmp_path / name, classes=(3, 5)) as out:
        for part in range(6):
            ids[:], codes[:], cast[:], shares[:] = np.arange(n) + part * n, part % 3 - 1, part, part / 8
            out.write(ids, codes, shares, cast)
    read = pyarrow.parquet.read_table if name.endswith("parquet") else pyarrow.feather.read_table
    table = read(tmp_path / name)
    of = np.repeat(np.arange(6), n)
    assert table["id"].to_pylist() == list(range(6 * n))
    assert table["n_votes"].to_pylist() == of.tolist()
    assert table["p_5"].to_pylist() == (of / 8).tolist()
    assert table["label"].to_pylist() == [(None, 3, 5)[part % 3] for part in of]


@pytest.mark.extra
def test_an_error_of_the_caller_leaves_no_file(threads, tmp_path):
    pytest.importorskip("pyarrow")

    def stop_midway():
        with LabelWriter(tmp_path / "l.parquet", classes=(0, 1)) as out:
            out.write(np.arange(9), np.zeros(9, int), np.full((9, 2), 0.5), np.ones(9, int))
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        stop_midway()
    assert list(tmp_path.iterdir()) == []


def test_labels_in_every_format_of_the_core(tmp_path):
    write_labels(tmp_path / "l.csv")
    assert (tmp_path / "l.csv").read_text().splitlines()[:2] == [
        "id,label,p_ham,p_spam,n_votes,tied",
        "i0,ham,0.25,0.75,2,false",
    ]
    write_labels(tmp_path / "l.jsonl", n=1)
    assert json.loads((tmp_path / "l.jsonl").read_text()) == {
        "id": "i0", "label": "ham", "probabilities": {"ham": 0.25, "spam": 0.75}, "n_votes": 2,
        "tied": False,
    }  # fmt: skip
    write_labels(tmp_path / "l.npz")
    with np.load(tmp_path / "l.npz") as found:
        assert found["ids"].tolist() == ["i0", "i1", "i2"]
        assert found["labels"].tolist() == [0, 1, 0]
        assert found["probabilities"].shape == (3, 2)
        assert found["tied"].tolist() == [False] * 3


def test_tied_items_are_marked(tmp_path):
    with LabelWriter(tmp_path / "l.csv", classes=("a", "b", "c")) as out:
        out.write(
            range(3), [0, 1, 0], [[0.4, 0.4, 0.2], [0.2, 0.5, 0.3], [1 / 3, 1 / 3, 1 - 2 / 3]], [2, 3, 0]
        )
    lines = (tmp_path / "l.csv").read_text().splitlines()
    assert [line.split(",")[-1] for line in lines] == ["tied", "true", "false", "true"]


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
        "n_votes": [2] * 3, "tied": [False] * 3,
    }  # fmt: skip


@pytest.mark.extra
def test_types_of_columnar_labels(tmp_path):
    pytest.importorskip("pyarrow")
    import pyarrow.parquet

    with LabelWriter(tmp_path / "l.parquet", classes=tuple(np.arange(2))) as out:
        out.write(["a", None], [1, -1], np.array([[0.25, 0.75], [0.5, 0.5]], np.float32), [1, 0])
    fields = {field.name: (str(field.type), field.nullable) for field in
              pyarrow.parquet.read_schema(tmp_path / "l.parquet")}  # fmt: skip
    assert fields == {
        "id": ("string", True), "label": ("int8", True), "p_0": ("float", False), "p_1": ("float", False),
        "n_votes": ("int32", False), "tied": ("bool", False),
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
