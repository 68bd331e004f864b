"""parquet and arrow: every type of column, statistics, identifiers, damage."""

from __future__ import annotations

import gc
import threading
import tracemalloc

import numpy as np
import pytest

from flyingsquid.exceptions import VoteFileError
from flyingsquid.files import open_votes
from flyingsquid.files.columnar import prefetch

pytestmark = pytest.mark.extra
pa = pytest.importorskip("pyarrow")
feather = pytest.importorskip("pyarrow.feather")
pq = pytest.importorskip("pyarrow.parquet")

LABELS = [0, 1, None, 1, 0, None, 1]
TEXTS = [None if v is None else ["ham", "spam"][v] for v in LABELS]
CODES = [-1 if v is None else v for v in LABELS]
COLUMNS = {
    "int8": pa.array(LABELS, "int8"), "int64": pa.array(LABELS, "int64"), "uint8": pa.array(LABELS, "uint8"),
    "uint64": pa.array(LABELS, "uint64"), "minus one": pa.array(CODES, "int32"),
    "float": pa.array(LABELS, "float64"),
    "float NaN": pa.array([np.nan if v is None else v for v in LABELS], "float32"),
    "bool": pa.array([None if v is None else bool(v) for v in LABELS]), "string": pa.array(TEXTS),
    "large string": pa.array(TEXTS, "large_string"), "dictionary": pa.array(TEXTS).dictionary_encode(),
}  # fmt: skip


def write(path, table, **options):
    if path.suffix == ".parquet":
        pq.write_table(table, path, **options)
    elif path.suffix == ".feather":
        feather.write_feather(table, str(path))
    else:
        with pa.ipc.new_stream(str(path), table.schema) as out:
            out.write_table(table)


@pytest.mark.parametrize("name", ["v.parquet", "v.feather", "v.arrow"])
@pytest.mark.parametrize("kind", COLUMNS)
def test_every_type_of_column(tmp_path, name, kind):
    column = COLUMNS[kind]
    write(tmp_path / name, pa.table({"id": pa.array(list("abcdefg")), "p": column, "q": column}))
    file = open_votes(tmp_path / name, chunk_rows=3)
    chunk = file.read()
    assert chunk.votes.codes.T.tolist() == [CODES, CODES]
    assert (file.item_name, file.n_items, list(np.asarray(chunk.ids))) == ("id", 7, list("abcdefg"))
    assert chunk.votes.codes.dtype == np.int8


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("lowest", [0, 1, 7])
def test_integers_by_statistics_or_by_reading(tmp_path, statistics, lowest):
    rng = np.random.default_rng(0)
    raw = rng.integers(lowest, lowest + 3, (1000, 3))
    raw[rng.random((1000, 3)) < 0.2] = -1
    table = pa.table({f"s{j}": raw[:, j].astype(np.int16) for j in range(3)})
    write(tmp_path / "v.parquet", table, row_group_size=100, write_statistics=statistics)
    file = open_votes(tmp_path / "v.parquet")
    assert file.classes == tuple(range(lowest, lowest + 3))
    np.testing.assert_array_equal(file.read().votes.codes, np.where(raw < 0, -1, raw - lowest))


def test_the_same_classes_as_in_csv(tmp_path):
    raw = [[1, 3, -1], [2, 1, 3], [-1, 1, 1], [1, 1, 2]]
    table = pa.table({f"s{j}": [row[j] for row in raw] for j in range(3)})
    write(tmp_path / "v.parquet", table)
    (tmp_path / "v.csv").write_text("s0,s1,s2\n" + "\n".join(",".join(map(str, row)) for row in raw))
    one, other = open_votes(tmp_path / "v.parquet"), open_votes(tmp_path / "v.csv")
    assert one.classes == other.classes == (1, 2, 3)
    np.testing.assert_array_equal(one.read().votes.codes, other.read().votes.codes)


def test_categories_that_nobody_votes_for_are_no_classes(tmp_path):
    indices = pa.array([0, 2, None], "int8")
    column = pa.DictionaryArray.from_arrays(indices, pa.array(["ham", "never", "spam"]))
    write(tmp_path / "v.feather", pa.table({"a": column, "b": column}))
    assert open_votes(tmp_path / "v.feather").classes == ("ham", "spam")


def test_long_form(tmp_path):
    table = pa.table(
        {"task": ["t9", "t9", "t1"], "worker": [7, 8, 8], "label": ["x", "y", "x"], "text": ["", "", ""]}
    )
    write(tmp_path / "v.parquet", table)
    chunk = open_votes(tmp_path / "v.parquet").read()
    assert (chunk.votes.names, list(chunk.ids)) == (("7", "8"), ["t9", "t1"])
    assert chunk.votes.to_dense().codes.tolist() == [[0, 1], [-1, 0]]


@pytest.mark.parametrize(
    ("columns", "match"),
    [
        ({"id": [1, 2, 1], "a": [0, 1, 1]}, "unique; 1 occurs again"),
        ({"id": ["x", "y", "x"], "a": [0, 1, 1]}, "'x' occurs again in row 3 of the items"),
        ({"id": ["x", None, "z"], "a": [0, 1, 1]}, "Row 1.*identifier"),
        ({"a": [0, 1, 1], "b": [[1], [2], [3]]}, "'b'.*list"),
        ({"a": [0, 1, 1], "b": ["x", "y", "x"]}, "one type"),
        ({"a": [0, 1, 1], "b": [True, False, True]}, "one type"),
        ({"a": [0.0, 0.5, 1.0], "b": [0.0, 1.0, 1.0]}, "score 0.5 .row 1, source 'a'"),
        ({"a": [0, -5, 1], "b": [0, 1, 1]}, "got -5"),
        ({"a": [None, None], "b": [None, None]}, "no votes"),
    ],
)
def test_what_is_refused(tmp_path, columns, match):
    write(tmp_path / "v.parquet", pa.table(columns))
    with pytest.raises(VoteFileError, match=match) as caught:
        open_votes(tmp_path / "v.parquet")
    assert "\n" not in str(caught.value)


def test_two_columns_of_one_name(tmp_path):
    write(tmp_path / "v.parquet", pa.Table.from_arrays([pa.array([0, 1])] * 2, names=["a", "a"]))
    with pytest.raises(VoteFileError, match="unique; 'a'"):
        open_votes(tmp_path / "v.parquet")


def test_a_column_of_free_text_is_not_a_source(tmp_path):
    table = pa.table({"id": np.arange(500), "text": [f"text {i}" for i in range(500)], "a": ["x", "y"] * 250})
    write(tmp_path / "v.parquet", table)
    with pytest.raises(VoteFileError, match="'text' has at least 500") as caught:
        open_votes(tmp_path / "v.parquet")
    assert [(hint.parameter, hint.value) for hint in caught.value.hints] == [
        ("ignore", ["text"]),
        ("sources", None),
        ("long", None),
    ]
    assert open_votes(tmp_path / "v.parquet", ignore=["text"]).source_names == ("a",)


def test_damage_is_one_line(tmp_path):
    for name in ("v.parquet", "v.feather", "v.arrow"):
        write(tmp_path / name, pa.table({"a": [0, 1] * 500, "b": [1, 1] * 500}))
        data = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(data[: len(data) // 2])
        with pytest.raises(VoteFileError) as caught:
            open_votes(tmp_path / name).read()
        assert "\n" not in str(caught.value)
        assert str(tmp_path / name) in str(caught.value)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path):
    """Ten times the rows, the same peak."""
    peaks = []
    for n in (100_000, 1_000_000):
        columns = {f"s{j}": np.random.default_rng(j).integers(-1, 2, n).astype(np.int8) for j in range(6)}
        write(tmp_path / "v.parquet", pa.table({"id": np.arange(n), **columns}), row_group_size=50_000)
        file = open_votes(tmp_path / "v.parquet", chunk_rows=50_000)
        gc.collect()
        tracemalloc.start()
        assert sum(chunk.votes.n_items for chunk in file) == n
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0] + 1_000_000


def test_parts_come_in_order_and_an_error_comes_in_its_place(threads):
    def parts():
        yield from range(3)
        raise VoteFileError("row 7 is damaged")

    reading = prefetch(parts())
    assert [next(reading) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(VoteFileError, match="row 7"):
        next(reading)


def test_whoever_stops_early_leaves_no_thread(threads):
    before = threading.active_count()
    parts = prefetch(iter(range(100)))
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

    reading = prefetch(parts())
    assert next(reading) == 0
    assert second.wait(10)
    assert made == [0, 1]
    reading.close()


@pytest.mark.extra
@pytest.mark.parametrize("kind", ["int8", "uint8", "int16", "int64"])
@pytest.mark.parametrize("classes", [(0, 1), (1, 0), (5, 7), (0, 1, 2)])
def test_codes_of_integers_of_any_width(tmp_path, kind, classes):
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
