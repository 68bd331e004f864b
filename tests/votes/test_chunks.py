"""Votes in chunks: the same counts, the same fit, the same labels, in memory that does not grow."""

from __future__ import annotations

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flyingsquid as fs
from flyingsquid._limits import use_limits
from flyingsquid.exceptions import IncompatibleError, OptionError, VotesError
from flyingsquid.moments import ChunkCounts, RowCounts, count_chunks
from flyingsquid.moments.chunk_counts import RowTotal, most_rows
from flyingsquid.votes import as_chunks
from tests.support.errors import mentions
from tests.support.strategies import examples, vote_matrices


def sample(n=6_000, m=6, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    accuracies = rng.uniform(0.6, 0.9, m)
    votes = fs.datasets.simulate(n, accuracies, coverage=0.8, random_state=rng).votes.codes
    if n_classes == 2:
        return np.asarray(votes)
    truth = rng.integers(0, n_classes, n)
    right = rng.random((n, m)) < accuracies
    wrong = (truth[:, None] + rng.integers(1, n_classes, (n, m))) % n_classes
    said = np.where(right, truth[:, None], wrong)
    return np.where(rng.random((n, m)) < 0.8, said, -1).astype(np.int8)


def cut(votes, cuts):
    return np.split(votes, sorted(cuts))


cuts = st.lists(st.integers(0, 40), max_size=5)


@examples(60)
@given(vote_matrices(), cuts)
def test_counts_of_chunks_are_the_counts_of_the_whole(votes, places):
    chunks = fs.VoteChunks(cut(votes, places), classes=range(int(max(2, votes.max() + 1))))
    assert fs.Moments.of(chunks) == fs.Moments.of(votes)


@examples(60)
@given(vote_matrices(), cuts, st.integers(1, 30))
def test_row_counts_do_not_depend_on_where_the_rows_were_cut(votes, places, most):
    whole = fs.Votes.from_classes(votes)
    parts = [whole[a:b] for a, b in zip([0, *sorted(places)], [*sorted(places), None], strict=True)]
    expected = RowCounts.of(whole, most=most)
    assert sum(RowCounts.of(part, most=most) for part in parts) == expected
    assert sum(RowCounts.of(part, most=most) for part in reversed(parts)) == expected
    total = RowTotal()
    for part in parts:
        total.add(RowCounts.of(part, most=most))
    assert total.result == expected
    distinct = whole.distinct()
    assert expected.is_complete == (len(distinct.counts) <= most)
    if expected.is_complete:
        assert expected.votes.codes.tolist() == distinct.votes.codes.tolist()
        assert expected.counts.tolist() == distinct.counts.tolist()


def test_row_counts_match_named_sources_and_classes():
    a = fs.Votes.from_classes([["x", "y"], ["y", "y"]], names=["p", "q"])
    b = fs.Votes.from_classes([["y", "x"]], names=["q", "p"], classes=["y", "x"])
    total = RowCounts.of(a) + RowCounts.of(b)
    assert total.votes.names == ("p", "q")
    assert total.counts.sum() == 3
    assert total == RowCounts.of(
        fs.Votes.from_classes([["x", "y"], ["y", "y"], ["x", "y"]], names=["p", "q"])
    )
    with pytest.raises(IncompatibleError, match="sources differ"):
        RowCounts.of(a) + RowCounts.of(fs.Votes.from_classes([["x", "y"]], names=["p", "z"]))
    with pytest.raises(IncompatibleError, match="Cannot add row counts"):
        RowCounts.of(a) + RowCounts.of(a, most=1)


def test_sparse_rows_are_counted_too():
    votes = fs.Votes.from_long(list("aabbcc"), list("uvuvuv"), [0, 1, 0, 1, 1, 1])
    assert RowCounts.of(votes) == RowCounts.of(votes.to_dense())


def test_rows_that_were_given_up_say_so():
    rows = RowCounts.of(fs.Votes.from_classes(sample(500)), most=3)
    assert repr(rows) == "RowCounts(500 items, more than 3 distinct rows)"
    with pytest.raises(IncompatibleError, match=mentions("3 distinct rows", 500)):
        _ = rows.votes


SOURCES = {
    "list": lambda votes: fs.VoteChunks(cut(votes, [10, 700, 700, 4_000])),
    "function": lambda votes: fs.VoteChunks(lambda: iter(cut(votes, [1_000]))),
    "array": fs.VoteChunks,
    "iterator": lambda votes: iter(cut(votes, [2_000])),
    "objects": lambda votes: fs.VoteChunks([SimpleNamespace(votes=part) for part in cut(votes, [5])]),
}


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("source", SOURCES)
def test_the_default_fits_chunks_as_it_fits_the_whole(source, n_classes):
    votes = sample(n_classes=n_classes)
    whole = fs.LabelModel().fit(votes)
    model = fs.LabelModel().fit(SOURCES[source](votes))
    assert model.diagnostics_.method == whole.diagnostics_.method
    assert "distinct rows" in model.diagnostics_.reason
    np.testing.assert_allclose(model.accuracies_, whole.accuracies_, atol=1e-9)
    np.testing.assert_allclose(model.predict_proba(votes), whole.predict_proba(votes), atol=1e-9)
    assert model.moments_ == whole.moments_


@pytest.mark.parametrize("method", ["triplet", "covariance", "agreement", "em", "weighted", "auto"])
def test_every_method_fits_chunks_as_it_fits_the_whole(method):
    votes = sample()
    votes[:, 1] = np.where(np.random.default_rng(1).random(len(votes)) < 0.5, votes[:, 0], votes[:, 1])
    whole = fs.LabelModel(method=method).fit(votes)
    model = fs.LabelModel(method=method).fit(fs.VoteChunks(cut(votes, [100, 3_000])))
    np.testing.assert_allclose(model.predict_proba(votes), whole.predict_proba(votes), atol=1e-9)


def test_weights_have_their_say_in_the_choice_of_many_classes():
    """A row that counts three times is the row three times, in what auto decides too."""
    votes = fs.Votes.from_classes(sample(3_000, n_classes=3), classes=range(3))
    rows = votes.distinct()
    a = fs.LabelModel().fit(votes)
    b = fs.LabelModel().fit(rows.votes, sample_weight=rows.counts)
    assert a.diagnostics_.method == b.diagnostics_.method
    np.testing.assert_allclose(a.accuracies_, b.accuracies_, atol=1e-9)


@pytest.fixture
def few_rows_kept():
    with use_limits(distinct_rows=50):
        yield


def test_too_many_distinct_rows_leave_the_counts(few_rows_kept):
    votes = sample()
    model = fs.LabelModel().fit(fs.VoteChunks(cut(votes, [2_000])))
    by_counts = fs.LabelModel().fit_moments(fs.Moments.of(votes))
    np.testing.assert_array_equal(model.accuracies_, by_counts.accuracies_)
    assert model.diagnostics_.method == by_counts.diagnostics_.method
    assert "from counts, because there are more than 50 distinct rows" in model.diagnostics_.reason
    with pytest.raises(OptionError, match="needs the votes themselves"):
        fs.LabelModel(method="em").fit(fs.VoteChunks(votes))


def test_a_graph_and_a_learned_graph():
    rng = np.random.default_rng(0)
    alike = fs.DependencyGraph(6, source_edges=[(0, 1)])
    votes = fs.datasets.simulate_graph(8_000, alike, 0.75, random_state=rng).votes.codes
    parts = cut(votes, [3_000])
    for graph in (alike, "learn"):
        whole, model = fs.LabelModel(graph).fit(votes), fs.LabelModel(graph).fit(fs.VoteChunks(parts))
        assert model.graph_ == whole.graph_
        assert model.moments_ == whole.moments_
        np.testing.assert_allclose(model.predict_proba(votes), whole.predict_proba(votes), atol=1e-9)


def test_a_learned_graph_of_too_many_rows_reads_twice(few_rows_kept):
    alike = fs.DependencyGraph(6, source_edges=[(0, 1)])
    votes = fs.datasets.simulate_graph(8_000, alike, 0.75, random_state=0).votes.codes
    model = fs.LabelModel("learn", method="covariance", class_balance="uniform")
    assert model.fit(fs.VoteChunks([votes])).graph_ == alike
    with pytest.raises(VotesError, match="can be read again"):
        model.fit(iter([votes]))


def test_labels_come_chunk_by_chunk():
    votes = sample()
    parts = cut(votes, [0, 100, 4_000])
    for model in (fs.LabelModel().fit(votes), fs.MajorityVote().fit(fs.VoteChunks(parts))):
        expected = model.predict_proba(votes)
        answers = list(model.predict_proba(fs.VoteChunks(parts)))
        assert [len(part) for part in answers] == [0, 100, 3_900, 2_000]
        np.testing.assert_array_equal(np.concatenate(answers), expected)
        out = np.empty((len(votes), 2), np.float32)
        assert model.predict_proba(fs.VoteChunks(parts), out=out) is out
        np.testing.assert_array_equal(out, expected.astype(np.float32))
        np.testing.assert_array_equal(model.predict_proba(votes, dtype=np.float32), out)
        hard = np.concatenate(list(model.predict(fs.VoteChunks(parts))))
        np.testing.assert_array_equal(hard, model.predict(votes))


def test_majority_vote_counts_chunks_as_the_whole():
    votes = sample()
    whole = fs.MajorityVote().fit(votes).summary().to_dict()
    assert fs.MajorityVote().fit(fs.VoteChunks(cut(votes, [99]))).summary().to_dict() == whole


def test_wrong_output_arrays_are_refused():
    votes = sample(100)
    model = fs.MajorityVote().fit(votes)
    for out in (np.empty((99, 2)), np.empty((101, 2)), np.empty((100, 3))):
        with pytest.raises(VotesError, match="`out` must"):
            model.predict_proba(fs.VoteChunks([votes[:50], votes[50:]]), out=out)
    for wrong in ({"out": np.empty((100, 2), np.int8)}, {"dtype": "int8"}, {"dtype": "x"}, {"out": [1]}):
        with pytest.raises(OptionError):
            model.predict_proba(votes, **wrong)


def test_an_iterator_is_read_once():
    chunks = fs.VoteChunks(iter([sample(100)]))
    assert repr(chunks) == "VoteChunks(list_iterator, to be read once)"
    fs.MajorityVote().fit(chunks)
    with pytest.raises(VotesError, match="can be read again"):
        fs.MajorityVote().fit(chunks)


def test_bad_chunks_are_named():
    good = sample(100)
    bad = good.copy()
    bad[3, 2] = 7
    with pytest.raises(VotesError, match=r"chunk 1: row 3, source 2: .*got 7"):
        fs.Moments.of(fs.VoteChunks([good, bad]))
    with pytest.raises(IncompatibleError, match="sources"):
        fs.Moments.of(fs.VoteChunks([good, good[:, :4]]))
    named = [
        fs.Votes.from_classes([[0, 1]], names=list("ab")),
        fs.Votes.from_classes([[0, 1]], names=list("ac")),
    ]
    with pytest.raises(IncompatibleError, match="chunk 1: The sources differ"):
        fs.Moments.of(fs.VoteChunks(named))
    with pytest.raises(VotesError, match=r"chunk 0: .*got 6"):
        fs.Moments.of(fs.VoteChunks([good], names=["a", "b"]))
    for nothing in ([], [good[:0]]):
        with pytest.raises(VotesError, match="all chunks are empty"):
            fs.LabelModel().fit(fs.VoteChunks(nothing))
        with pytest.raises(VotesError, match="all chunks are empty"):
            fs.MajorityVote().fit(fs.VoteChunks(nothing))
    with pytest.raises(VotesError, match="`chunks` must be"):
        fs.VoteChunks(3)
    with pytest.raises(VotesError, match="shape"):
        fs.VoteChunks(np.zeros((2, 2, 2), np.int8))


def test_names_and_classes_are_declared_once():
    chunks = fs.VoteChunks([[["b", None]], [["a", "b"]]], classes=["a", "b"], names=["p", "q"])
    model = fs.MajorityVote().fit(chunks)
    assert model.source_names_ == ("p", "q")
    assert list(model.classes_) == ["a", "b"]
    assert [part.tolist() for part in model.predict(chunks)] == [["b"], ["a"]]


def test_what_needs_votes_in_memory_says_so():
    votes = sample(200)
    chunks = fs.VoteChunks([votes])
    model = fs.LabelModel().fit(votes)
    with pytest.raises(VotesError, match="got chunks"):
        model.score(chunks, np.zeros(200))
    with pytest.raises(OptionError, match=mentions("`sample_weight`", "VoteChunks")):
        fs.LabelModel().fit(chunks, sample_weight=np.ones(200))
    with pytest.raises(VotesError, match=mentions("`sample_weight`", "VoteChunks")):
        fs.Moments.of(chunks, sample_weight=np.ones(200))
    with pytest.raises(OptionError, match="`class_balance` must"):
        fs.LabelModel(method="em", class_balance="estimate").fit(fs.VoteChunks([sample(500, n_classes=3)]))


def test_gathered_parts_add_up_to_the_whole():
    votes = fs.Votes.from_classes(sample())
    total = sum(ChunkCounts.of(votes[start : start + 1_000]) for start in range(0, 6_000, 1_000))
    whole = count_chunks(fs.VoteChunks([votes]))
    assert total.rows == whole.rows
    assert total.moments == whole.moments


def test_tables_and_lists_are_no_chunks():
    assert as_chunks([[0, 1]]) is None
    assert as_chunks(sample(10)) is None
    assert as_chunks(fs.Votes.from_classes([[0, 1]])) is None
    assert as_chunks(part for part in [sample(10)]) is not None


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_items(tmp_path):
    """Three times the items in a mapped file, about the same peak, in fit and in labels."""
    peaks = []
    for times in (
        3,
        9,
    ):  # more than two whole chunks in both: the labels of one exist next to those of the next
        path = tmp_path / f"{times}.npy"
        np.save(path, np.tile(sample(50_000, m=8), (8 * times, 1)))
        mapped = np.load(path, mmap_mode="r")
        chunks = fs.VoteChunks(mapped)
        fs.LabelModel().fit(fs.VoteChunks(mapped[:1_000]))  # what is imported on first use is not counted
        out = np.lib.format.open_memmap(tmp_path / "out.npy", "w+", np.float32, (len(mapped), 2))
        tracemalloc.start()
        fs.LabelModel().fit(chunks).predict_proba(chunks, out=out)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def test_a_mapped_array_is_read_without_a_copy(tmp_path):
    np.save(tmp_path / "votes.npy", sample(100_000, m=30))
    mapped = np.load(tmp_path / "votes.npy", mmap_mode="r")
    model = fs.LabelModel(method="triplet").fit(mapped[:2_000])
    tracemalloc.start()
    model.fit(mapped)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # The buffer of zeros and ones is bounded, and nothing else is of the size of the votes.
    assert peak < 80e6
    np.testing.assert_array_equal(model.accuracies_, model.fit(np.array(mapped)).accuracies_)


def test_how_many_rows_are_kept():
    assert most_rows(3) == most_rows(100) == 1 << 18
    assert most_rows(1 << 30) == 1


def test_a_chunk_of_other_sources_is_named():
    votes = np.tile(np.array([[1, 1, 0, 1], [0, 0, 0, 1]], np.int8), (50, 1))
    uneven = fs.VoteChunks([votes, votes[:0], votes[:, :3]])
    message = r"chunk 2: .*got 3 columns after 4"
    for read in (fs.Moments.of, fs.LabelModel().fit, fs.MajorityVote().fit, list):
        with pytest.raises(IncompatibleError, match=message):
            read(uneven)
    model = fs.MajorityVote().fit(votes)
    with pytest.raises(IncompatibleError, match=mentions("chunk 2", "4 sources", 3)):
        list(model.predict_proba(uneven))
    with pytest.raises(VotesError, match=r"chunk 1: row 0, source 0: .*got 7"):
        list(model.predict(fs.VoteChunks([votes, votes * 7])))


def test_an_answer_cannot_be_written_to_what_is_read_only():
    votes = np.tile(np.array([[1, 1, 0], [0, 0, 0]], np.int8), (50, 1))
    model, out = fs.MajorityVote().fit(votes), np.zeros((100, 2))
    out.flags.writeable = False
    for data in (votes, fs.VoteChunks([votes])):
        with pytest.raises(OptionError, match="`out` must be writable"):
            model.predict_proba(data, out=out)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "covariance"}, 'method="covariance" supports two classes'),
        ({"method": "weighted"}, '"estimate" is not supported by method="weighted"'),
        ({"method": "em"}, "`class_balance` must"),
        ({"method": "agreement"}, "`class_balance` must"),
    ],
)
def test_what_a_method_refuses_anyway_is_said_first(options, message):
    votes = np.random.default_rng(0).integers(0, 3, (100, 5))
    with pytest.raises(OptionError, match=message):
        fs.LabelModel(class_balance="estimate", **options).fit(fs.VoteChunks([votes]))


@pytest.mark.parametrize(
    ("options", "has_intervals"),
    [
        ({"method": "agreement"}, False), ({"method": "weighted"}, True), ({"method": "auto"}, True),
        ({"method": "em"}, False), ({"method": "decomposition"}, False),
        ({"method": "one_vs_rest"}, False),
    ],
)  # fmt: skip
def test_which_intervals_many_classes_have_by_chunks(options, has_intervals):
    """The example of the guide."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, (600, 1))
    votes = np.where(rng.random((600, 5)) < 0.7, truth, rng.integers(0, 3, (600, 5)))
    intervals = fs.LabelModel(**options).fit(fs.VoteChunks([votes])).accuracies_interval_
    assert np.isfinite(intervals).all() == has_intervals
    assert np.isnan(intervals).all() != has_intervals


def test_chunks_of_few_possible_rows_are_counted_together():
    """Two chunks have many items per possible row and are pooled; the last one is too small for that."""
    codes = np.random.default_rng(0).integers(-3, 3, (1_000, 4)).astype(np.int8)
    votes = fs.Votes(codes, ("ant", "bee", "cat"), tuple("abcd"))
    total = count_chunks(fs.VoteChunks([votes[:500], votes[500:990], votes[990:]]))
    assert total.moments == fs.Moments.of(votes)
    assert total.rows == RowCounts.of(votes)
    assert count_chunks(fs.VoteChunks([votes]), rows=False).rows is None
