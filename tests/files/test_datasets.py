"""Directories of the WRENCH benchmark are read completely, or raise an error that names the file."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flyingsquid as fs
from flyingsquid.exceptions import VoteFileError, VotesError
from flyingsquid.files.arrays import items_of

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
