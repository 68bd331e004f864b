"""Counts of neighboring rows: equal to a plain loop, and sequences that are cut add up to the whole."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

import flyingsquid as fs
from flyingsquid.exceptions import IncompatibleError, ModelFileError, VotesError
from flyingsquid.files.state import State, read_state, write_state
from flyingsquid.moments import SequenceMoments, sequences
from flyingsquid.votes.arguments import read_lengths, starts_of
from tests.support.strategies import vote_matrices


def count_by_loop(codes: np.ndarray, lengths: list[int], n_classes: int) -> tuple[np.ndarray, ...]:
    m = codes.shape[1]
    counts = np.zeros((n_classes, n_classes, m, m), np.int64)
    first, second = np.zeros((m, n_classes), np.int64), np.zeros((m, n_classes), np.int64)
    start = 0
    for length in lengths:
        for t in range(start, start + length - 1):
            for i in range(m):
                if codes[t, i] >= 0:
                    first[i, codes[t, i]] += 1
                if codes[t + 1, i] >= 0:
                    second[i, codes[t + 1, i]] += 1
                for j in range(m):
                    if codes[t, i] >= 0 and codes[t + 1, j] >= 0:
                        counts[codes[t, i], codes[t + 1, j], i, j] += 1
        start += length
    return counts, first, second


def random_lengths(rng: np.random.Generator, n: int, longest: int) -> list[int]:
    lengths = []
    while n:
        lengths.append(min(n, int(rng.integers(1, longest + 1))))
        n -= lengths[-1]
    return lengths


def as_sparse(codes: np.ndarray, n_classes: int = 2) -> fs.Votes:
    return fs.Votes.from_sparse(csr_array(codes + 1), classes=range(n_classes))


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("m", [1, 2, 4])
@pytest.mark.parametrize("longest", [1, 3, 60, 1000])
def test_counts_equal_a_loop_over_rows(n_classes, m, longest):
    rng = np.random.default_rng(m)
    codes = rng.integers(-4, n_classes, (150, m), dtype=np.int8)
    lengths = random_lengths(rng, 150, longest)
    expected, first, second = count_by_loop(codes, lengths, n_classes)
    breaks = starts_of(np.array(lengths))[1:]
    flat = expected.transpose(0, 2, 1, 3).reshape(n_classes * m, -1)
    for kernel in (sequences._by_joint_histogram, sequences._by_product):
        np.testing.assert_array_equal(kernel(codes, n_classes, breaks), flat)
    moments = SequenceMoments.of(fs.Votes(codes, tuple(range(n_classes))), lengths)
    np.testing.assert_array_equal(moments.lagged, expected)
    np.testing.assert_array_equal(moments.first, first)
    np.testing.assert_array_equal(moments.second, second)
    assert moments.n_pairs == 150 - len(lengths)
    assert moments.rows == fs.Moments.of(fs.Votes(codes, tuple(range(n_classes))))
    votes = np.maximum(codes, -1)
    assert SequenceMoments.of(as_sparse(votes, n_classes), lengths) == SequenceMoments.of(
        fs.Votes(votes, tuple(range(n_classes))), lengths
    )


def test_kernels_work_in_chunks():
    rng = np.random.default_rng(0)
    codes = rng.integers(-1, 2, (500, 4), dtype=np.int8)
    lengths = random_lengths(rng, 500, 20)
    once = count_by_loop(codes, lengths, 2)[0].transpose(0, 2, 1, 3).reshape(8, 8)
    times = 1_400  # 700,000 rows are several chunks for every kernel
    many, breaks = np.tile(codes, (times, 1)), starts_of(np.tile(lengths, times))[1:]
    for counts in (
        sequences._by_product(many, 2, breaks),
        sequences._by_joint_histogram(many, 2, breaks),
        sequences._by_sparse_product(as_sparse(many).codes, 2, breaks),
    ):
        np.testing.assert_array_equal(counts, times * once)
    breaks = starts_of(np.array(lengths))[1:]
    np.testing.assert_array_equal(sequences._by_product(codes, 2, breaks, buffer_bytes=100), once)


@pytest.mark.parametrize("m", [3, 12])
def test_the_kernel_is_chosen_by_size(m):
    codes = np.random.default_rng(0).integers(-1, 2, (3_000, m), dtype=np.int8)
    a, b = SequenceMoments.of(codes, [1_000, 2_000]), SequenceMoments.of(as_sparse(codes), [1_000, 2_000])
    assert a == b
    assert a.is_exact


@given(vote_matrices(n_sources=3), st.data())
def test_the_parts_of_a_cut_sequence_add_up_to_the_whole(codes, data):
    votes = fs.Votes(codes, (0, 1))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(codes) - 1)))) if len(codes) > 1 else []
    edges = [0, *cuts, len(codes)]
    parts = []
    for a, b in itertools.pairwise(edges):
        kind = as_sparse if data.draw(st.booleans()) else lambda x: fs.Votes(x, (0, 1))
        previous = None if a == 0 else votes[[a - 1]]
        parts.append(SequenceMoments.of(kind(codes[a:b]), previous=previous))
    whole = SequenceMoments.of(votes)
    assert sum(parts) == whole
    if len(parts) > 1:
        assert whole - parts[-1] == sum(parts[:-1])


@given(vote_matrices(), vote_matrices())
def test_whole_sequences_add_up(a, b):
    both = SequenceMoments.of(fs.Votes(np.concatenate([a, b]), (0, 1)), [len(a), len(b)])
    parts = [SequenceMoments.of(fs.Votes(x, (0, 1))) for x in (a, b)]
    assert both == parts[0] + parts[1] == parts[1] + parts[0]
    assert both - parts[1] == parts[0]


def test_the_row_before_may_be_flat_or_named():
    votes = fs.Votes.from_classes([[0, 1], [1, 1], [1, 0]], names=["x", "y"])
    whole = SequenceMoments.of(votes)
    for previous in ([0, 1], {"y": 1, "x": 0}, votes[[0]]):
        rest = SequenceMoments.of(votes[1:], previous=previous)
        assert SequenceMoments.of(votes[:1]) + rest == whole
    with pytest.raises(VotesError, match="2 rows with 2 sources"):
        SequenceMoments.of(votes[2:], previous=votes[:2])
    with pytest.raises(VotesError, match="`previous`"):
        SequenceMoments.of(votes[2:], previous=[0, 1, 1])


def test_named_sources_and_classes_are_aligned():
    codes = np.random.default_rng(0).integers(-4, 2, (50, 3), dtype=np.int8)
    a = SequenceMoments.of(fs.Votes(codes, ("no", "yes"), ("x", "y", "z")))
    b = SequenceMoments.of(fs.Votes(codes[:, [2, 0, 1]], ("no", "yes"), ("z", "x", "y")))
    assert a + b == a + a
    swapped = np.where(codes >= 0, 1 - codes, codes).astype(np.int8)
    assert a + SequenceMoments.of(fs.Votes(swapped, ("yes", "no"))) == a + a
    with pytest.raises(IncompatibleError, match="sources differ"):
        a + SequenceMoments.of(fs.Votes(codes, ("no", "yes"), ("x", "y", "q")))
    with pytest.raises(TypeError):
        a + a.rows


def test_what_is_no_part_cannot_be_subtracted():
    a, b = SequenceMoments.of([[0, 1], [1, 1], [1, 0]]), SequenceMoments.of([[1, 1], [0, 1]])
    assert a.rows - b.rows  # as rows they are a part, as sequences not
    with pytest.raises(IncompatibleError, match="Cannot subtract"):
        a - b


def test_counts_cannot_be_changed_and_copies_neither():
    moments = SequenceMoments.of([[0, 1], [1, 1]])
    for copied in (moments, pickle.loads(pickle.dumps(moments)), copy.deepcopy(moments)):  # our own bytes
        assert copied == moments
        assert not copied.lagged.flags.writeable
        assert not copied.first.flags.writeable
    assert moments != moments.rows
    assert (moments == 3) is False


def test_a_file_holds_everything(tmp_path):
    votes = fs.Votes.from_classes([["a", "?"], ["b", "a"], ["a", "a"]], reasons={"?": "failed"})
    moments = SequenceMoments.of(votes, [2, 1])
    moments.save(tmp_path / "c.fsq")
    assert fs.load(tmp_path / "c.fsq") == moments


@pytest.mark.parametrize("how", ["absent", "shape", "type", "negative", "pairs", "no pairs"])
def test_files_that_count_nothing_real_are_refused(tmp_path, how):
    SequenceMoments.of([[0, 1], [1, 1], [1, 0]]).save(tmp_path / "c.fsq")
    state = read_state(tmp_path / "c.fsq")
    arrays, meta = dict(state.arrays), dict(state.meta)
    if how == "absent":
        del arrays["first"]
    elif how == "shape":
        arrays["second"] = arrays["second"][:-1]
    elif how == "type":
        arrays["lagged"] = arrays["lagged"].astype(np.int32)
    elif how == "negative":
        arrays["lagged"] = -arrays["lagged"]
    elif how == "pairs":
        meta["n_pairs"] = 1
    else:
        meta["n_pairs"] = "2"
    write_state(tmp_path / "c.fsq", State(state.kind, meta, arrays))
    with pytest.raises(ModelFileError):
        fs.load(tmp_path / "c.fsq")


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([3, 3], "the number of rows, 5; got a sum of 6"),
        ([5, 0], "`lengths` .*got 0 at position 1"),
        ([6, -1], "`lengths` .*got -1 at position 1"),
        ([2.5, 2.5], "`lengths` must be integers"),
        (["2", "3"], "`lengths` must be integers"),
        ([True, False], "`lengths` must be integers"),
        (5, r"`lengths` must be a list.*of shape \(\)"),
        ([], r"`lengths` must be a list.*of shape \(0,\)"),
        ([[2, 3]], r"`lengths` .*shape \(1, 2\)"),
        ([[2], [3, 4]], "`lengths` must be a list of integers"),
        ([0, 1, 1, 0, 1], "If these are gold labels"),
        (["a", "b", "a", "a", "a"], "If these are gold labels"),
        (np.ma.masked_array([2, 3], [True, False]), "`lengths` must be integers"),
    ],
)
def test_bad_lengths_are_refused(lengths, message):
    with pytest.raises(VotesError, match=message):
        read_lengths(lengths, 5)


def test_lengths_of_any_integer_type():
    for lengths in ([2, 3], (2, 3), np.array([2, 3], np.uint8), np.array([2, 3], np.int32)):
        np.testing.assert_array_equal(read_lengths(lengths, 5), [2, 3])
    np.testing.assert_array_equal(read_lengths([1, 1, 1], 3), [1, 1, 1])
    np.testing.assert_array_equal(read_lengths(None, 5), [5])
