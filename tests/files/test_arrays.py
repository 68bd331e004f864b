"""npy, npz, sparse matrices and WRENCH."""

from __future__ import annotations

import io
import json
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array, save_npz

import flyingsquid as fs
from flyingsquid.exceptions import VoteFileError, VotesError
from flyingsquid.files import open_votes
from flyingsquid.files.arrays import items_of
from tests.support.vote_files import assert_refused, codes

MATRIX = np.array([[0, 1, -1], [1, 1, 0]])


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


def test_arrays_as_snorkel_keeps_them(tmp_path):
    matrix = np.array([[-1, 0, 2], [1, 1, -1]])
    np.save(tmp_path / "L.npy", matrix)
    assert codes(tmp_path / "L.npy") == matrix.tolist()
    assert open_votes(tmp_path / "L.npy").names is None
    np.savez(tmp_path / "s.npz", L_train=matrix, L_test=matrix[:1], Y_train=np.array([0, -1]))
    with pytest.raises(VoteFileError) as caught:
        open_votes(tmp_path / "s.npz")
    assert [hint.parameter for hint in caught.value.hints] == ["part"]
    chunk = open_votes(tmp_path / "s.npz", part="train", gold="Y_train").read()
    assert (chunk.votes.codes.tolist(), chunk.gold.tolist()) == (matrix.tolist(), [0, None])
    twice = csr_array((np.array([1, 2]), np.array([0, 0]), np.array([0, 2])), shape=(1, 1))
    for bad, match in (
        (csr_array([[-1, 2]]), "class \\+ 1"),
        (twice, "at most once"),
        (csr_array([[99999]]), "class"),
    ):
        save_npz(tmp_path / "bad.npz", bad)
        with pytest.raises(VoteFileError, match=match):
            open_votes(tmp_path / "bad.npz")
    save_npz(tmp_path / "sparse.npz", csr_array(matrix + 1))
    assert open_votes(tmp_path / "sparse.npz").read().votes.to_dense().codes.tolist() == matrix.tolist()


@pytest.mark.parametrize("matrix", [
    np.array([[np.nan, 0.0], [1.0, 1.0]]), np.array([[True, False], [True, True]]),
    np.array([["", "a"], ["b", "a"]]), np.asfortranarray([[0, 1], [1, -1]]),
    np.array([[18, 0], [7, -1]], np.int64),
])  # fmt: skip
@pytest.mark.parametrize("packed", [False, True])
def test_arrays_of_every_type(tmp_path, matrix, packed):
    path = tmp_path / ("L.npz" if packed else "L.npy")
    np.savez_compressed(path, L=matrix) if packed else np.save(path, matrix)
    file = open_votes(path)
    expected = np.full(matrix.shape, -1)
    for k, label in enumerate(file.classes):
        expected[matrix == label] = k
    np.testing.assert_array_equal(file.read().votes.codes, expected)
    assert (expected >= 0).any()


def test_arrays_of_strings(tmp_path):
    np.save(tmp_path / "L.npy", np.array([[-1, 7], [9, 7]]))
    assert open_votes(tmp_path / "L.npy").classes == (7, 9)


def test_damaged_and_unsuitable_arrays_are_refused(tmp_path):
    path = tmp_path / "v.npy"
    np.save(path, np.array([[{}, 1]], object), allow_pickle=True)
    assert_refused(path, "pickle")
    np.save(path, np.zeros((50, 3), np.int8))
    path.write_bytes(path.read_bytes()[:-5])
    assert_refused(path, "truncated")
    for array, match in (
        (np.zeros(3), "shape"),
        (np.zeros((0, 3)), "empty"),
        (np.zeros((2, 2), complex), "type"),
    ):
        np.save(path, array)
        assert_refused(path, match)


def test_pickles_inside_npz(tmp_path):
    path = tmp_path / "v.npz"
    np.savez(path, L=np.array([[{}, 1]], object))
    assert_refused(path, "pickle")
    np.savez(path, L=np.zeros((2, 2), int), names=np.array([{}, 1], object))
    assert_refused(path, "pickle")


@pytest.mark.slow
def test_a_bomb_takes_no_memory(tmp_path):
    """300 MB of names in 300 kB, and 400 MB of votes in 400 kB."""
    path = tmp_path / "v.npz"
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": "<U1", "fortran_order": False, "shape": (75_000_000,)}
    )
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("names.npy", "w", force_zip64=True) as file,
    ):
        file.write(head.getvalue())
        for _ in range(300):
            file.write(bytes(1_000_000))
    tracemalloc.start()
    assert_refused(path, "unpacks from")
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()


def test_the_limit_of_decoded_bytes_applies_to_npz(tmp_path):
    path = tmp_path / "v.npz"
    np.savez_compressed(path, L=np.tile(np.array([[0, 1, -1, 1]], np.int8), (50_000, 1)))
    with pytest.raises(VoteFileError) as caught:
        open_votes(path, max_decoded_bytes=10_000)
    assert [hint.parameter for hint in caught.value.hints] == ["max_decoded_bytes"]
    assert open_votes(path).n_items == 50_000


def test_sparse_votes_with_declared_classes(tmp_path):
    save_npz(tmp_path / "v.npz", csr_array(np.array([[1, 2, 0], [0, 0, 2]])))
    file = open_votes(tmp_path / "v.npz", classes=[2, 1, 0], chunk_rows=1)
    assert [chunk.votes.to_dense().codes.tolist() for chunk in file] == [[[2, 1, -1]], [[-1, -1, 1]]]
    assert file.read().votes.classes == (2, 1, 0)


SPAM = {
    "0": {"label": 1, "weak_labels": [1, -1, 1], "data": {"text": "win money"}},
    "1": {"label": 0, "weak_labels": [0, 0, -1], "data": {"text": "see you"}},
    "2": {"label": -1, "weak_labels": [-1, -1, -1], "data": {"text": "naïve"}},
}


def write(folder, **files):
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        (folder / f"{name}.json").write_text(text, "utf-8")
    return folder


def test_a_folder_is_read(tmp_path):
    write(tmp_path, train=SPAM, test={"7": SPAM["1"]}, label={"1": "spam", "0": "ham"}, readme={"a": "b"})
    found = fs.datasets.load_wrench(tmp_path)
    assert list(found.splits) == ["train", "test"]
    assert found.class_names == ("ham", "spam")
    train = found.train
    np.testing.assert_array_equal(train.votes.codes, [[1, -1, 1], [0, 0, -1], [-1, -1, -1]])
    assert train.votes.classes == (0, 1)
    assert (len(train), train.y.tolist(), train.ids) == (3, [1, 0, -1], ("0", "1", "2"))
    assert train.texts == ["win money", "see you", "naïve"]
    assert found.test.texts == ["see you"]
    assert found.test is found["test"]
    with pytest.raises(VotesError, match=r"`split` must .*train, test"):
        _ = found.valid


def test_it_goes_into_a_model(tmp_path):
    drawn = fs.datasets.simulate(300, accuracies=[0.9, 0.8, 0.7], coverage=0.7, random_state=0)
    items = {
        str(i): {"label": int(y), "weak_labels": row, "data": {"feature": [0.5]}}
        for i, (y, row) in enumerate(zip(drawn.y, drawn.votes.codes.tolist(), strict=True))
    }
    train = fs.datasets.load_wrench(str(write(tmp_path, train=items))).train
    model = fs.LabelModel().fit(train.votes)
    assert model.score(train.votes, train.y) == fs.LabelModel().fit(drawn.votes).score(drawn.votes, drawn.y)
    with pytest.raises(VotesError, match=r"Item '0' .*'feature'"):
        _ = train.texts


def test_classes_that_nobody_votes_for_are_kept(tmp_path):
    write(tmp_path, train=SPAM, label={"0": "ham", "1": "spam", "2": "ad"})
    assert fs.datasets.load_wrench(tmp_path).train.votes.n_classes == 3
    (tmp_path / "label.json").unlink()
    write(tmp_path, valid={"0": {"label": 3, "weak_labels": [1, 1, 1], "data": {}}})
    found = fs.datasets.load_wrench(tmp_path)
    assert found.class_names == ("0", "1", "2", "3")
    assert found.train.votes.classes == found.valid.votes.classes


def one(**changes):
    return {"train": {**SPAM, "x": {**SPAM["0"], **changes}}}


BAD = {
    "no split": ({"label": {"0": "a", "1": "b"}}, "train.json"),
    "no JSON": ({"train": "{"}, r"train\.json.*JSON"),
    "a list": ({"train": []}, r"train\.json.*items"),
    "nothing": ({"train": {}}, "items"),
    "a key twice": ({"train": '{"a": 1, "a": 2}'}, "'a' occurs twice"),
    "no votes": ({"train": {"0": {"label": 1}}}, "Item '0' has no list 'weak_labels'"),
    "no item": ({"train": {"0": 3}}, "Item '0' has no list"),
    "ragged": (one(weak_labels=[1, 1]), "Item 'x' has 2 weak labels.*3"),
    "a text": (one(weak_labels=[1, "1", 1]), "got '1' .item 'x', source 1"),
    "a number": (one(weak_labels=[1, 0.5, 1]), "got 0.5 .item 'x', source 1"),
    "a truth value": (one(weak_labels=[1, True, 1]), "got True"),
    "below -1": (one(weak_labels=[-2, 1, 1]), "got -2"),
    "a sequence": (one(weak_labels=[[1, 1], [1, 1], [1, 1]]), "SequenceLabelModel"),
    "a label as a string": (one(label="spam"), "got 'spam'"),
    "another width": ({"train": SPAM, "test": {"0": {"weak_labels": [1]}}}, "3 in train, 1 in test"),
    "an unnamed class": (
        {"train": SPAM, "label": {"0": "a", "1": "b"}, "test": one(label=4)["train"]},
        "class 4",
    ),
    "names with gaps": ({"train": SPAM, "label": {"0": "a", "2": "b"}}, "different names"),
    "equal names": ({"train": SPAM, "label": {"0": "a", "1": "a"}}, "different names"),
    "names by name": ({"train": SPAM, "label": {"a": 0, "b": 1}}, "different names"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_folders_are_refused_by_name(case, tmp_path):
    files, text = BAD[case]
    with pytest.raises(VoteFileError, match=text):
        fs.datasets.load_wrench(write(tmp_path, **files))


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(VoteFileError, match="nowhere"):
        fs.datasets.load_wrench(tmp_path / "nowhere")


@given(
    st.integers(1, 4).flatmap(
        lambda m: st.lists(st.lists(st.integers(-1, 5), min_size=m, max_size=m), min_size=1)
    )
)
def test_what_was_written_is_read(rows):
    document = {str(i): {"label": None, "weak_labels": row} for i, row in enumerate(rows)}
    items = items_of(json.loads(json.dumps(document)))
    assert items.weak_labels.tolist() == rows
    assert set(items.labels.tolist()) == {-1}
