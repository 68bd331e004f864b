"""Counts: equal to a plain loop, and an algebra that is exact on integers."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

import flyingsquid as fs
from flyingsquid.exceptions import IncompatibleError, VotesError
from flyingsquid.moments import counting
from flyingsquid.votes.grid import pattern_grid
from flyingsquid.votes.patterns import pattern_counts
from tests.support.strategies import vote_matrices


def count_by_loop(codes: np.ndarray, n_classes: int) -> np.ndarray:
    m = codes.shape[1]
    counts = np.zeros((n_classes, n_classes, m, m), np.int64)
    for row in codes:
        for i in range(m):
            for j in range(m):
                if row[i] >= 0 and row[j] >= 0:
                    counts[row[i], row[j], i, j] += 1
    return counts


def by_histogram(codes: np.ndarray, n_classes: int, weights: np.ndarray | None) -> np.ndarray:
    histogram = pattern_counts(codes, n_classes, weights).astype(np.float64)
    return pattern_grid(codes.shape[1], n_classes).pair_counts(histogram)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("m", [1, 2, 5])
def test_counts_equal_a_loop_over_rows(n_classes, m):
    codes = np.random.default_rng(m).integers(-5, n_classes, (150, m), dtype=np.int8)
    expected = count_by_loop(codes, n_classes)
    for kernel in (by_histogram, counting._by_gram):
        np.testing.assert_array_equal(kernel(codes, n_classes, None), expected)
    np.testing.assert_array_equal(counting.count_pairs(codes, n_classes)[0].to_dense().array, expected)


@pytest.mark.parametrize("weights", [None, np.arange(400), np.linspace(0.5, 2, 400)])
def test_dense_votes_that_are_few_are_counted_vote_by_vote(weights):
    rng = np.random.default_rng(0)
    codes = np.where(rng.random((400, 30)) < 0.03, rng.integers(0, 3, (400, 30)), -1).astype(np.int8)
    assert counting._are_few(codes)
    counts = fs.Moments.of(fs.Votes(codes, (0, 1, 2)), sample_weight=weights).pair_counts
    np.testing.assert_allclose(counts, counting._by_gram(codes, 3, weights), rtol=1e-12)
    assert counts.dtype == (np.int64 if weights is None else weights.dtype)


def test_kernels_work_in_chunks():
    codes = np.random.default_rng(0).integers(-1, 2, (500, 6), dtype=np.int8)
    times = 600  # 300,000 rows are several chunks for every kernel
    many, expected = np.tile(codes, (times, 1)), times * count_by_loop(codes, 2)
    sparse = fs.Votes.from_sparse(csr_array(many + 1)).codes
    for counts in (
        counting._by_gram(many, 2, None),
        by_histogram(many, 2, None),
        counting._by_sparse_product(sparse, 2, None),
    ):
        np.testing.assert_array_equal(counts, expected)


@pytest.mark.parametrize("m", [3, 30])
def test_sparse_votes_give_the_same_counts(m):
    codes = np.random.default_rng(0).integers(-1, 2, (200, m), dtype=np.int8)
    assert fs.Moments.of(fs.Votes.from_sparse(csr_array(codes + 1))) == fs.Moments.of(codes)


def test_missing_states_follow_by_subtraction():
    codes = np.random.default_rng(0).integers(-1, 2, (100, 3), dtype=np.int8)
    moments = fs.Moments.of(codes)
    abstain_and_one = moments.vote_counts[1, 1] - moments.pair_counts[:, 1, 0, 1].sum()
    assert abstain_and_one == ((codes[:, 0] == -1) & (codes[:, 1] == 1)).sum()
    np.testing.assert_array_equal(moments.coverage, (codes >= 0).mean(axis=0))


@given(vote_matrices(), vote_matrices(), vote_matrices())
def test_counting_commutes_with_concatenation(a, b, c):
    whole = fs.Moments.of(np.concatenate([a, b, c]))
    parts = [fs.Moments.of(part) for part in (a, b, c)]
    assert whole == sum(parts) == parts[2] + (parts[0] + parts[1])
    assert whole - parts[1] == parts[0] + parts[2]
    assert whole.is_exact


@given(vote_matrices(), st.integers(0, 2**32 - 1))
def test_order_of_rows_does_not_matter(votes, seed):
    order = np.random.default_rng(seed).permutation(len(votes))
    assert fs.Moments.of(votes[order]) == fs.Moments.of(votes)


@pytest.mark.parametrize("n", [10, 300])
def test_an_integer_weight_is_that_many_copies(n):
    rng = np.random.default_rng(0)
    votes, weights = rng.integers(-5, 2, (n, 4), dtype=np.int8), rng.integers(0, 5, n)
    votes = fs.Votes(votes, (0, 1))
    copies = fs.Moments.of(fs.Votes(np.repeat(votes.codes, weights, axis=0), (0, 1)))
    assert fs.Moments.of(votes, sample_weight=weights) == copies
    as_floats = fs.Moments.of(votes, sample_weight=weights.astype(float))
    assert not as_floats.is_exact
    np.testing.assert_allclose(as_floats.pair_counts, copies.pair_counts, rtol=1e-14)
    dense = fs.Votes(np.maximum(votes.codes, -1), (0, 1))
    sparse = fs.Votes.from_sparse(csr_array(dense.codes + 1))
    assert fs.Moments.of(sparse, sample_weight=weights) == fs.Moments.of(dense, sample_weight=weights)


def test_one_number_weighs_every_item():
    votes = [[0, 1], [1, 1]]
    assert fs.Moments.of(votes, sample_weight=3) == sum(fs.Moments.of(votes) for _ in range(3))


def test_float_counts_subtract_up_to_rounding():
    rng = np.random.default_rng(0)
    parts = [fs.Moments.of(rng.integers(-1, 2, (50, 3)), sample_weight=rng.random(50)) for _ in range(3)]
    left = parts[0] + parts[1] + parts[2] - parts[0] - parts[1]
    np.testing.assert_allclose(left.pair_counts, parts[2].pair_counts, atol=1e-12)
    empty = parts[0] + parts[1] - parts[1] - parts[0]
    assert (empty.pair_counts >= 0).all()
    assert empty.n_items >= 0


def test_what_is_no_part_cannot_be_subtracted():
    with pytest.raises(IncompatibleError, match="Cannot subtract"):
        fs.Moments.of([[0, 0]]) - fs.Moments.of([[1, 1]])


def test_a_part_that_only_abstained_is_noticed():
    with pytest.raises(IncompatibleError, match="Cannot subtract"):
        fs.Moments.of([[1, 1, 1]] * 2) - fs.Moments.of([[-1, -1, -1]])
    with pytest.raises(IncompatibleError, match="Cannot subtract"):
        fs.Moments.of([[1, -1], [-1, 1]]) - fs.Moments.of([[-1, -1]])


def test_float_rounding_is_forgiven_and_more_is_not():
    whole = fs.Moments.of([[0, 1]] * 4, sample_weight=np.full(4, 1.0))
    almost = fs.Moments.of([[0, 1]] * 4, sample_weight=np.full(4, 1.0 + 1e-12))
    assert (whole - almost).n_items == 0
    with pytest.raises(IncompatibleError, match="Cannot subtract"):
        whole - fs.Moments.of([[0, 1]] * 4, sample_weight=np.full(4, 1.0 + 1e-6))


def test_copies_are_read_only_too():
    moments = fs.Moments.of([[0, 1]])
    for copied in (pickle.loads(pickle.dumps(moments)), copy.deepcopy(moments)):  # our own bytes
        assert copied == moments
        assert not copied.pair_counts.flags.writeable


def test_more_items_than_can_be_counted_are_refused():
    moments = fs.Moments.of([[0, 1]], sample_weight=2**52)
    with pytest.raises(IncompatibleError, match=r"2\*\*53"):
        moments + moments


def test_known_names_are_adopted():
    named = fs.Moments.of(fs.Votes.from_classes([[0, 1]], names=["x", "y"]))
    plain = fs.Moments.of([[0, 1]])
    assert named + plain == plain + named


def test_chunks_are_bounded_in_rows_and_bytes(monkeypatch):
    """A chunk must stay below 2**24 rows, where float32 stops counting, and below its buffer."""
    assert counting._CHUNK_ROWS < 2**24
    seen = []
    monkeypatch.setattr(
        counting.np,
        "empty",
        lambda shape, dtype=float: seen.append((shape, dtype)) or REAL_EMPTY(shape, dtype),
    )
    counting._by_gram(np.zeros((300, 70), np.int8), 2, None)
    (rows, k, m), dtype = seen[0]
    assert rows * k * m * np.dtype(dtype).itemsize <= counting._BUFFER_BYTES
    counting._by_gram(np.zeros((300, 70), np.int8), 2, None, buffer_bytes=10_000)
    assert seen[1][0][0] == 10_000 // (2 * 70 * 4)


REAL_EMPTY = np.empty


def test_named_sources_are_aligned():
    codes = np.random.default_rng(0).integers(-5, 2, (50, 3), dtype=np.int8)
    a = fs.Moments.of(fs.Votes(codes, (0, 1), ("x", "y", "z")))
    b = fs.Moments.of(fs.Votes(codes[:, [2, 0, 1]], (0, 1), ("z", "x", "y")))
    assert a + b == a + a
    assert (b + a).names == ("z", "x", "y")


def test_classes_are_aligned_by_label():
    a = fs.Moments.of(fs.Votes(np.array([[0, 1]], np.int8), ("ham", "spam")))
    b = fs.Moments.of(fs.Votes(np.array([[1, 0]], np.int8), ("spam", "ham")))
    assert a + b == a + a


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (fs.Votes.from_classes([[0, 1, 1]]), "2 sources with counts of 3"),
        (fs.Votes.from_classes([[0, 2]]), "classes differ: unexpected 2"),
        (fs.Votes.from_signed([[1, -1]]), "classes differ"),
        (fs.Votes.from_classes([[0, 1]], names=["x", "q"]), "sources differ: unexpected 'q'"),
    ],
)
def test_counts_of_other_sources_or_classes_are_refused(other, message):
    ours = fs.Moments.of(fs.Votes.from_classes([[0, 1]], names=["x", "y"]))
    with pytest.raises(IncompatibleError, match=message):
        ours + fs.Moments.of(other)


def test_counts_compare_names_and_classes_too():
    named = fs.Moments.of(fs.Votes.from_classes([[0, 1]], names=["x", "y"]))
    assert named != fs.Moments.of([[0, 1]])
    assert named != "moments"


def test_counts_cannot_be_changed():
    moments = fs.Moments.of([[0, 1]])
    with pytest.raises(ValueError, match="read-only"):
        moments.pair_counts[0, 0, 0, 0] = 5
    with pytest.raises(AttributeError):
        moments.n_items = 3


def test_reasons_survive_counting():
    votes = fs.Votes.from_classes([["a", "no!"], ["b", "a"]], reasons={"no!": "refused"})
    moments = fs.Moments.of(votes) + fs.Moments.of(votes)
    assert {k: v.tolist() for k, v in moments.missing_counts().items()} == {
        "abstained": [0, 0],
        "refused": [0, 2],
        "unparseable": [0, 0],
        "failed": [0, 0],
        "not_asked": [0, 0],
    }


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0], "shape"),
        ([1.0, -1.0], r"`sample_weight` .*got -1.0 at position 1"),
        ([1.0, np.nan], r"`sample_weight` .*got nan at position 1"),
        ([0.0, 0.0], "`sample_weight` must have a sum > 0"),
        ([0.5, 0.5], "`sample_weight` .*number of items"),
        (np.ma.masked_array([1.0, 2.0], [True, False]), "masked"),
        ([[1.0], 2.0], "`sample_weight` .*sequence"),
        ([1e16, 1.0], "2\\*\\*53"),
        (["a", "b"], "must be numbers"),
    ],
)
def test_bad_weights_are_refused(weights, message):
    with pytest.raises(VotesError, match=message):
        fs.Moments.of([[0, 1], [1, 1]], sample_weight=weights)
