"""Votes of several functions on a chunk: their classes, and merging of chunks."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flyingsquid as fs
from flyingsquid.exceptions import LabelingError, OptionError, VotesError
from flyingsquid.labeling import ChunkLabels, LabelingFunction, label_chunk


def constant(value, name="f"):
    return LabelingFunction(lambda x: value, name)


def test_classes_of_different_types_are_refused():
    with pytest.raises(LabelingError, match="int by a, c; str by b"):
        fs.apply([constant(1, "a"), constant("spam", "b"), constant(0, "c")], ["x"])


@given(
    st.lists(st.lists(st.sampled_from([-1, 0, 1, 2, None]), min_size=3, max_size=3), min_size=1, max_size=30)
)
def test_codes_and_classes_are_those_of_from_classes(rows):
    functions = [LabelingFunction(lambda x, j=j: x[j], f"f{j}") for j in range(3)]
    votes = fs.apply(functions, rows, chunk=7)
    expected = fs.Votes.from_classes(np.array(rows, object), names=["f0", "f1", "f2"])
    assert (votes.classes, votes.names) == (expected.classes, expected.names)
    np.testing.assert_array_equal(votes.codes, expected.codes)
    assert votes.codes.dtype == expected.codes.dtype


def test_declared_classes_are_kept_in_their_order_and_others_refused():
    functions = [constant("b", "f"), constant("a", "g")]
    votes = fs.apply(functions, ["x"], classes=["b", "c", "a"])
    assert (votes.classes, votes.codes.tolist()) == (("b", "c", "a"), [[0, 2]])
    with pytest.raises(VotesError, match=r"item 0.*'f'.*got 'b'.*classes"):
        fs.apply(functions, ["x"], classes=["a", "c"])
    with pytest.raises(VotesError, match=r"item 3.*'f'.*got -2"):
        fs.apply([LabelingFunction(lambda x: -2 if x == 3 else 0, "f")], range(5))
    with pytest.raises(OptionError, match="`classes` must not contain -1"):
        fs.apply([constant(1)], ["x"], classes=[-1, 1])


def test_a_single_string_needs_declared_classes():
    with pytest.raises(VotesError, match="classes"):
        fs.apply([constant("spam")], ["x"])
    with pytest.raises(LabelingError, match="item 0, function 'f' returned ''"):
        fs.apply([constant("")], ["x"])


@given(st.lists(st.sampled_from(["a", "b", None, "boom"]), max_size=12), st.integers(0, 12))
def test_chunks_add_up_to_the_whole(answers, cut):
    def say(x):
        return x if x != "boom" else 1 / 0

    lf = LabelingFunction(say)
    cut = min(cut, len(answers))
    parts = [
        label_chunk([lf], answers[:cut], on_error="abstain"),
        label_chunk([lf], answers[cut:], first_item=cut, on_error="abstain"),
    ]
    merged = ChunkLabels.merge(pickle.loads(pickle.dumps(parts)))
    whole = label_chunk([lf], answers, on_error="abstain")
    assert merged.to_votes(["a", "b"]).codes.tolist() == whole.to_votes(["a", "b"]).codes.tolist()
    assert merged.failures == whole.failures


def test_merging_nothing_is_refused():
    with pytest.raises(LabelingError, match="`parts` must"):
        ChunkLabels.merge([])
