"""A directory of parquet files is read as one file of votes."""

from __future__ import annotations

import numpy as np
import pytest

import flyingsquid as fs
from flyingsquid.exceptions import VoteFileError
from flyingsquid.files import open_votes

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytestmark = pytest.mark.extra

SAMPLE = fs.datasets.simulate(1_000, [0.9, 0.8, 0.8, 0.7], coverage=0.8, random_state=0)
CODES = np.asarray(SAMPLE.votes.codes)


def table(codes, kind=np.int8):
    return pa.table({f"s{j}": codes[:, j].astype(kind) for j in range(codes.shape[1])})


@pytest.fixture
def folder(tmp_path):
    for part, (start, stop) in {"a": (0, 300), "b/c": (300, 300), "b/d": (300, 1_000)}.items():
        path = tmp_path / f"{part}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(table(CODES[start:stop]), path, row_group_size=128)
    (tmp_path / "_metadata.parquet").write_bytes(b"not read")
    (tmp_path / "_SUCCESS").touch()
    return tmp_path


def test_parts_are_read_one_after_the_other(folder):
    file = open_votes(folder, item=False)
    assert (file.format, file.n_items, file.source_names) == ("parquet", 1_000, ("s0", "s1", "s2", "s3"))
    assert file.describe() == "1,000 items, 4 sources, classes 0/1, -1 = abstain, wide form"
    np.testing.assert_array_equal(file.read().votes.codes, CODES)
    np.testing.assert_array_equal(np.concatenate([chunk.ids for chunk in file]), np.arange(1_000))


def test_a_fit_over_a_folder_is_a_fit_in_memory(folder):
    model = fs.LabelModel(method="triplet")
    chunks = fs.VoteChunks(open_votes(folder, item=False))
    by_parts = np.concatenate(list(model.fit(chunks).predict_proba(chunks)))
    names = [f"s{j}" for j in range(4)]
    whole = fs.Votes.from_classes(CODES, names=names)
    np.testing.assert_allclose(by_parts, model.fit(whole).predict_proba(whole), atol=1e-12)


def test_values_of_all_parts_count(tmp_path):
    pq.write_table(table(np.zeros((5, 3))), tmp_path / "a.parquet")
    pq.write_table(table(np.full((5, 3), 2)), tmp_path / "b.parquet")
    assert open_votes(tmp_path, item=False).classes == (0, 1, 2)


def test_parts_that_differ_are_refused_by_name(tmp_path):
    pq.write_table(table(CODES[:9]), tmp_path / "a.parquet")
    pq.write_table(table(CODES[:9], np.int64), tmp_path / "b.parquet")
    with pytest.raises(VoteFileError, match=r"a\.parquet") as caught:
        open_votes(tmp_path)
    assert caught.value.path == str(tmp_path / "b.parquet")


def test_a_damaged_part_is_named(tmp_path):
    pq.write_table(table(CODES[:9]), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(VoteFileError, match=r"b\.parquet"):
        open_votes(tmp_path)


def test_an_empty_directory_is_refused(tmp_path):
    with pytest.raises(VoteFileError, match="no parquet files"):
        open_votes(tmp_path, format="parquet")
    (tmp_path / ".hidden.parquet").touch()
    with pytest.raises(VoteFileError, match="contains no"):
        open_votes(tmp_path)


def test_classes_at_both_ends_of_a_byte(tmp_path):
    """128 - -128 is 0 in a byte, and was: the votes then passed for their own codes."""
    votes = np.array([[-128, 127, -1], [127, 127, -128]])
    pq.write_table(table(votes), tmp_path / "a.parquet")
    file = open_votes(tmp_path / "a.parquet", item=False, classes=(-128, 127))
    np.testing.assert_array_equal(file.read().votes.codes, [[0, 1, -1], [1, 1, 0]])
