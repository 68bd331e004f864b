"""Reading ahead and writing behind change when things are done, and nothing else."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from flyingsquid.exceptions import VoteFileError
from flyingsquid.files import LabelWriter, open_votes
from flyingsquid.files.columnar import ahead
from flyingsquid.files.labels import Behind


@pytest.fixture(params=["1", "3"])
def threads(request, monkeypatch):
    monkeypatch.setenv("FLYINGSQUID_THREADS", request.param)
    return request.param


def test_parts_come_in_order_and_an_error_comes_in_its_place(threads):
    def parts():
        yield from range(3)
        raise VoteFileError("row 7 is damaged")

    reading = ahead(parts())
    assert [next(reading) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(VoteFileError, match="row 7"):
        next(reading)


def test_whoever_stops_early_leaves_no_thread(threads):
    before = threading.active_count()
    parts = ahead(iter(range(100)))
    assert next(parts) == 0
    parts.close()
    assert threading.active_count() == before


def test_one_part_is_made_ahead_and_not_more(monkeypatch):
    monkeypatch.setenv("FLYINGSQUID_THREADS", "2")
    made, second = [], threading.Event()

    def parts():
        for number in range(5):
            made.append(number)
            if number == 1:
                second.set()
            yield number

    reading = ahead(parts())
    assert next(reading) == 0
    assert second.wait(10)
    assert made == [0, 1]
    reading.close()


def test_what_a_call_raises_is_raised_later_and_what_follows_is_not_done(monkeypatch):
    monkeypatch.setenv("FLYINGSQUID_THREADS", "2")
    done = []

    def fail():
        raise OSError("no space left")

    behind = Behind()
    behind.call(fail)
    with pytest.raises(OSError, match="no space"):
        behind.call(done.append, 1)
    behind.finish()
    assert done == []
    last = Behind()
    last.call(fail)
    with pytest.raises(OSError, match="no space"):
        last.finish()


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


@pytest.mark.extra
@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "int64"])
@pytest.mark.parametrize("classes", [(0, 1), (1, 0), (5, 7), (0, 1, 2)])
def test_codes_of_whole_numbers_of_any_width(tmp_path, kind, classes):
    """Also where values are their own codes, which are then not copied."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    rng = np.random.default_rng(0)
    drawn = rng.integers(-1, len(classes), (500, 4))
    columns = {
        f"s{j}": pa.array(
            [None if code < 0 else classes[code] for code in drawn[:, j].tolist()], pa.type_for_alias(kind)
        )
        for j in range(4)
    }
    if kind.startswith("int") and 0 in classes:  # -1 is no class, and means no vote
        columns["s3"] = pa.array([-1 if c < 0 else classes[c] for c in drawn[:, 3].tolist()], kind)
    pyarrow.parquet.write_table(pa.table(columns), tmp_path / "v.parquet")
    votes = open_votes(tmp_path / "v.parquet", item=False, classes=classes).read().votes
    np.testing.assert_array_equal(votes.to_dense().codes, drawn)


@pytest.mark.extra
def test_a_value_outside_the_classes_is_found_where_values_are_codes(tmp_path):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    votes = np.random.default_rng(0).integers(-1, 2, (400, 3)).astype(np.int8)
    votes[271, 2] = 9
    pyarrow.parquet.write_table(
        pa.table({f"s{j}": votes[:, j] for j in range(3)}), tmp_path / "v.parquet", write_statistics=False
    )
    with pytest.raises(VoteFileError, match="9"):
        open_votes(tmp_path / "v.parquet", item=False, classes=(0, 1)).read()
